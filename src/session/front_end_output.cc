// The front end's output: what the engine has published is written by a thread of its own, for a reader that
// stalls must not keep the front end from its signals.
#include <malloc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <limits>
#include <system_error>

#include "front_end.h"
#include "reporter.h"
#include "rtrace/sink/json_summary.h"
#include "rtrace/sink/select_sink.h"
#include "rtrace/sink/summary_table.h"
#include "terminal.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kReaderPatience = 1'000'000'000;  // ns
constexpr std::chrono::milliseconds kLook(2);
// A program that ends within that time needs no thread.
constexpr uint64_t kBeforeWriting = 5'000'000;  // ns

// Files, /dev/null. A pipe's or a terminal's reader may be slow, or gone to lunch.
bool never_blocks(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || (S_ISCHR(status.st_mode) && isatty(fd) == 0));
}

}  // namespace

uint64_t kernels_clock() {
  timespec time{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void FrontEnd::prepare_output() {
  shared_->output.reader_waits = 1;
  reader_.emplace(shared_->output, event_fd_.get(), [this](Channel channel, std::string_view bytes) {
    if (channel == Channel::output) {
      if (output_.write(bytes)) return true;
      shared_->output.reader_gone = 1;
      const uint64_t one = 1;
      (void)!write(unwritable_fd_.get(), &one, sizeof one);
      return false;
    }
    const int fd = channel == Channel::ready ? options_.ready_fd : STDERR_FILENO;
    (void)write_all(fd, bytes);
    if (channel == Channel::ready) close(fd);
    return true;
  });
}

// Why there can be no thread for it; empty where there is one.
std::string FrontEnd::start_writer() {
  // An arena of its own would cost start-up more than the writer ever allocates.
  mallopt(M_ARENA_MAX, 1);
  try {
    writer_ = std::thread([this] { reader_->run(); });
    return {};
  } catch (const std::system_error& error) {
    return error.code().message();
  }
}

void FrontEnd::begin_writing() {
  const std::string failure = start_writer();
  if (failure.empty()) return;
  say(fmt::format("cannot start the thread that writes the output: {}; all run on untraced", failure));
  cannot_write_ = true;
  request_detach();
}

// The engine has called for the reader.
void FrontEnd::on_output() {
  writing_is_due_ = kernels_clock() + (options_.ready_fd >= 0 ? 0 : kBeforeWriting);
}

bool FrontEnd::awaits_output() const {
  return !writing_is_due_ && !writer_.joinable() && !cannot_write_;
}

// ms until the writer is to be started; -1: there is nothing to wait for.
int FrontEnd::time_to_writing() const {
  if (!writing_is_due_ || writer_.joinable() || cannot_write_) return -1;
  const uint64_t now = kernels_clock();
  return *writing_is_due_ <= now ? 0 : static_cast<int>((*writing_is_due_ - now) / 1'000'000 + 1);
}

bool FrontEnd::can_finish_at_once() const {
  return options_.ready_fd < 0 && never_blocks(output_.fd()) && never_blocks(STDERR_FILENO);
}

// False where a reader takes nothing any more: what is left is given up, for somebody asked us to end.
bool FrontEnd::write_the_rest(std::string last) {
  reader_->stop(std::move(last));
  if (!writer_.joinable() && can_finish_at_once()) {
    reader_->run();
    return true;
  }
  if (!writer_.joinable() && (cannot_write_ || !start_writer().empty())) {
    // Nothing is traced any more: whoever waits for a reader may be ended.
    sigprocmask(SIG_SETMASK, &inherited_.mask, nullptr);
    reader_->run();
    return true;
  }
  uint64_t seen = ~uint64_t{0};
  for (uint64_t since = monotonic_now(); !reader_->finishes_within(kLook);) {
    on_signal();  // ^C is for us now
    const uint64_t tail = shared_->output.tail;
    if (tail != seen) since = monotonic_now();
    seen = tail;
    if (shared_->detach_requested == 0 || monotonic_now() - since <= kReaderPatience) continue;
    const uint64_t left = shared_->output.head - tail;
    const uint64_t calls = shared_->output.lost_calls;
    say(fmt::format("nobody reads the output; {} bytes of it are lost{}", left,
                    calls == 0 ? "" : fmt::format(", and {} calls before that", calls)));
    writer_.detach();
    return false;
  }
  writer_.join();
  return true;
}

std::string FrontEnd::tables() const {
  const sink::SummaryTable& table = shared_->summary;
  if (options_.json)
    return sink::render_summary_json(
        table, options_.summary ? sink::JsonRows::all : sink::JsonRows::those_of_histograms);
  std::string text;
  if (options_.summary && options_.ltrace_compat) {
    text = sink::render_ltrace_summary(table);
  } else if (options_.summary) {
    const auto share = options_.raw_times ? sink::ShareShown::contained : sink::ShareShown::subtracted;
    // A file has all columns, whoever reads it.
    const size_t width = terminal_width_of(options_.output).value_or(std::numeric_limits<unsigned>::max());
    text = sink::render_summary(table, options_.sort, share, width);
  }
  const std::string selecting = sink::selecting_options(options_.slower > 0, !options_.where.empty());
  return text + sink::render_histograms(table, options_.histograms, terminal_width(), selecting);
}

// False as write_the_rest() says it.
bool FrontEnd::finish_output() {
  const bool has_traced = !exec_failed_ && shared_->nothing_traced == 0;
  if (!write_the_rest(has_traced ? tables() : std::string())) return false;
  if (const uint64_t lost = shared_->output.lost_calls; lost > 0 && output_.error_number() == 0)
    say(fmt::format("{} calls lost at the end: nobody was reading the output", lost));
  if (output_.error_number() != 0)
    say(output_.error_number() == EPIPE
            ? "nobody reads the output any more; detached"
            : fmt::format("cannot write the output: {}; detached", strerror(output_.error_number())));
  return true;
}

}  // namespace rtrace::session
