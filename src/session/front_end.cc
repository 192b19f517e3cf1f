#include "front_end.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <map>

#include "engine.h"
#include "repair_command.h"
#include "reporter.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/base/text.h"
#include "rtrace/mech/heal.h"
#include "rtrace/mech/repair.h"
#include "rtrace/session/permission.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kTwice = 2'000'000'000;       // two interrupts within this mean "let go"
constexpr uint64_t kEngineLook = 1'000'000'000;  // ns

// nohup(1) has SIGHUP ignored. A shell has SIGINT and SIGQUIT ignored by what it runs in the background,
// which is told by them all the same that it may leave.
sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGCHLD}) sigaddset(&set, signal);
  struct sigaction on_hangup {};
  sigaction(SIGHUP, nullptr, &on_hangup);
  if (on_hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

// Of a child nothing would be told where SIGCHLD is ignored (wait(2)).
InheritedSignals take_signals(const sigset_t& handled) {
  InheritedSignals before;
  before.on_pipe = ::signal(SIGPIPE, SIG_IGN);
  before.on_child = ::signal(SIGCHLD, SIG_DFL);
  before.on_file_size = ::signal(SIGXFSZ, SIG_IGN);  // the write says it
  sigprocmask(SIG_BLOCK, &handled, &before.mask);
  return before;
}

// The kernel takes all at once; by hand, and by what exit(3) calls, it would be longer, and touch pages for
// nothing. Sanitizers see it done by hand.
void end_at_once([[maybe_unused]] int status) {
#if defined(__SANITIZE_ADDRESS__)
  return;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return;
#endif
#endif
  _exit(status);
}

// Where memory is short the kernel is to take it from us (proc(5), oom_score_adj): what is traced is as a
// rule the larger one. Whoever may not have it so goes on without.
void offer_to_oom_killer(pid_t pid) {
  const UniqueFd file(open(fmt::format("/proc/{}/oom_score_adj", pid).c_str(), O_WRONLY | O_CLOEXEC));
  if (file) (void)write_all(file.get(), "1000");
}

}  // namespace

FrontEnd::FrontEnd(const Options& options) : options_(options), output_(options.output, options.append) {}

void FrontEnd::say(const std::string& line) {
  constexpr int kPatience = 1000;  // ms: once we are asked to end, what nobody reads does not keep us
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (shared_->detach_requested != 0 && poll(&room, 1, kPatience) == 0) return;
  std::string shown = "rtrace: ";
  append_printable(shown, line, options_.text.render.utf8);
  (void)write_all(STDERR_FILENO, shown + "\n");
}

void FrontEnd::start_engine() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error::from_errno(errno, "socketpair");
  event_fd_.reset(eventfd(0, EFD_CLOEXEC));
  unwritable_fd_.reset(eventfd(0, EFD_CLOEXEC));
  if (!event_fd_ || !unwritable_fd_) throw Error::from_errno(errno, "eventfd");
  prepare_output();
  const pid_t self = getpid();
  if (options_.command.empty()) offer_to_oom_killer(self);  // a command would have it from us
  // Blocked until the engine has its handler: we may ask it to end before it has begun.
  sigset_t kick;
  sigemptyset(&kick);
  sigaddset(&kick, SIGUSR1);
  sigprocmask(SIG_BLOCK, &kick, nullptr);
  engine_ = fork();
  if (engine_ < 0) throw Error::from_errno(errno, "fork");
  if (engine_ == 0) {
    close(ends[0]);
    if (options_.ready_fd >= 0) close(options_.ready_fd);
    if (!options_.pids.empty()) offer_to_oom_killer(getpid());
    const bool done = run_engine(options_, *shared_, {ends[1], event_fd_.get(), self});
    // _exit skips what only the front end may end: the output file and its pipe reader.
    _exit(done ? 0 : 1);
  }
  setpgid(engine_, engine_);
  close(ends[1]);
  engine_socket_.reset(ends[0]);
}

bool FrontEnd::launch() {
  Launch launch(options_.command, options_.user, inherited_, engine_);
  const ToEngine request{launch.pid()};
  ToFrontEnd answer;
  const bool asked = send(engine_socket_.get(), &request, sizeof request, MSG_NOSIGNAL) == sizeof request &&
                     recv(engine_socket_.get(), &answer, sizeof answer, 0) == sizeof answer;
  if (!asked || answer.kind != ToFrontEnd::Kind::seized) {
    // It has said why where it could.
    if (asked || shared_->attach_failed == 0)
      say(fmt::format("cannot trace the command: {}",
                      asked ? strerror(answer.error_number) : "the engine is gone"));
    kill(launch.pid(), SIGKILL);
    waitpid(launch.pid(), nullptr, 0);
    return false;
  }
  command_ = launch.pid();
  if (const int error_number = launch.go()) {
    say(fmt::format("cannot run {}: {}", options_.command[0], strerror(error_number)));
    exec_failed_ = true;
  }
  return true;
}

void FrontEnd::request_detach() {
  shared_->detach_requested = 1;
  shared_->output.leaving = 1;
  kick_engine();
}

// Once it has ended there is none: kill(0) would be for our whole process group.
void FrontEnd::kick_engine() const {
  if (engine_ > 0) kill(engine_, SIGUSR1);
}

// The engine may be asleep until its tracees do something, which may be never.
void FrontEnd::on_unwritable() {
  uint64_t count = 0;
  (void)!read(unwritable_fd_.get(), &count, sizeof count);
  kick_engine();
}

// ^C belongs to the command while there is one: both are in the terminal's foreground group and it has had
// its own already.
void FrontEnd::on_interrupt(int signal, bool from_terminal) {
  const bool commands_own =
      from_terminal && command_ && !command_status_ && (signal == SIGINT || signal == SIGQUIT);
  const uint64_t time = monotonic_now();
  const bool twice = last_interrupt_ != 0 && time - last_interrupt_ < kTwice;
  last_interrupt_ = time;
  if (commands_own && !twice) return;
  let_go_by_ = signal;
  request_detach();
}

// Whoever heals it traces it meanwhile, and may have been told of its end in our place.
void FrontEnd::look_after_command() {
  if (!command_ || command_status_) return;
  int status = 0;
  const pid_t ended = waitpid(*command_, &status, WNOHANG);
  if (ended == *command_ || (ended < 0 && errno == ECHILD)) command_status_ = status;
}

void FrontEnd::on_child() {
  int status = 0;
  look_after_command();
  if (engine_ > 0 && waitpid(engine_, &status, WNOHANG) == engine_) {
    engine_died_ = !engine_done_ && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    engine_done_ = true;
    engine_ = 0;
    if (!engine_died_) return;
    heal_after_engine(WIFSIGNALED(status));
  }
}

void FrontEnd::on_signal() {
  signalfd_siginfo info{};
  while (read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD)
      on_child();
    else
      on_interrupt(signal, info.ssi_code == SI_KERNEL);
  }
}

// While a command reads the last of the output. ^C from the terminal is for that one.
bool FrontEnd::is_told_to_end() {
  signalfd_siginfo info{};
  bool told = false;
  while (read(signal_fd_.get(), &info, sizeof info) == sizeof info)
    told |= info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL;
  return told;
}

void FrontEnd::on_engine_message() {
  ToFrontEnd message;
  const ssize_t got = recv(engine_socket_.get(), &message, sizeof message, MSG_DONTWAIT);
  if (got == sizeof message && message.kind == ToFrontEnd::Kind::done) engine_done_ = true;
  if (got == 0) engine_socket_.reset();
}

// Until the engine has let go of everything and the command has ended (unless it was let go of).
bool FrontEnd::is_over() const {
  return engine_done_ && (!command_ || command_status_ || shared_->detach_requested != 0);
}

// It reads memory of processes that stand. Where a page would have to come from one of these itself both wait
// for ever, and that engine hears no signal but one.
void FrontEnd::watch_engine() {
  constexpr std::string_view kSwitches = "voluntary_ctxt_switches";
  constexpr unsigned kLooks = 3;
  if (engine_ <= 0 || engine_done_ || kernels_clock() - engine_watch_.looked < kEngineLook) return;
  engine_watch_.looked = kernels_clock();
  if (!std::exchange(engine_watch_.offered, true)) offer_to_oom_killer(engine_);
  const std::string status = tracee::read_file(fmt::format("/proc/{}/status", engine_));
  const std::string switches = status.substr(std::min(status.find(kSwitches), status.size()));
  const bool stands = status.find("State:\tD") != std::string::npos &&
                      std::exchange(engine_watch_.switches, switches) == switches;
  const bool counts =
      stands && (shared_->detach_requested != 0 ||
                 tracee::read_file(fmt::format("/proc/{}/wchan", engine_)) == "handle_userfault");
  engine_watch_.looks = counts ? engine_watch_.looks + 1 : 0;
  if (engine_watch_.looks < kLooks) return;
  engine_watch_.looks = 0;
  say("the engine waits for memory that would have to come from a process that stands for it (userfaultfd, a "
      "file system of its own): it is killed, and that process goes on");
  kill(engine_, SIGKILL);
}

void FrontEnd::loop() {
  engine_watch_.looked = kernels_clock();
  while (!is_over()) {
    pollfd fds[] = {{signal_fd_.get(), POLLIN, 0},
                    {unwritable_fd_.get(), POLLIN, 0},
                    {engine_socket_.get(), POLLIN, 0},  // -1 once it is closed, which poll passes over
                    {awaits_output() ? event_fd_.get() : -1, POLLIN, 0}};
    const int until_writing = time_to_writing();
    const int until_look = static_cast<int>(kEngineLook / 1'000'000);
    if (poll(fds, std::size(fds), until_writing < 0 ? until_look : std::min(until_writing, until_look)) < 0 &&
        errno != EINTR)
      throw Error::from_errno(errno, "poll");
    watch_engine();
    if (fds[2].revents != 0 && engine_socket_) on_engine_message();
    if (fds[0].revents != 0) on_signal();
    if (fds[1].revents != 0) on_unwritable();
    if (is_over()) break;  // what there is to write is written behind it
    if (fds[3].revents != 0) on_output();
    if (time_to_writing() == 0) begin_writing();
  }
  if (engine_ > 0) {
    int status = 0;
    waitpid(engine_, &status, 0);
    engine_ = 0;
  }
}

// Every process that the engine had a hand in, children included that nobody was told of.
void FrontEnd::heal_after_engine(bool killed) {
  std::map<pid_t, std::vector<mech::ForeignBytes>> known;
  for (auto& [pid, bytes] : mech::known_bytes(shared_->patches)) known.emplace(pid, std::move(bytes));
  // At once, before anything is looked for: a thread that blocks SIGTRAP would die of the next int3.
  size_t places = mech::heal(shared_->patches, mech::Standing::but_stand_ins);
  const auto others = [this] { return mech::find_sessions({shared_->patches.session}); };
  const auto outcomes = mech::repair_all(std::move(known), others, {});
  places += mech::heal(shared_->patches, mech::Standing::all);  // of whom may not be traced by us
  look_after_command();
  if (!killed && outcomes.empty()) return;  // it has said why, and there was nothing yet
  std::map<std::string, std::vector<pid_t>> stays;
  for (const auto& [pid, outcome] : outcomes) {
    places += outcome.repaired.places;
    // One that may not be traced by us, or has ended: what can be written without is written above.
    if (!outcome.failure.empty()) {
      RTRACE_LOG(session, 1, "{}: {}", pid, outcome.failure);
      const std::string closed = why_memory_is_closed(standing_of(pid));
      if (!closed.empty()) say(fmt::format("the breakpoints in process {} stay: {}", pid, closed));
    }
    const std::string& why = outcome.repaired.left.empty() ? outcome.repaired.kept : outcome.repaired.left;
    if (!why.empty()) stays[why].push_back(pid);
  }
  for (const auto& [why, pids] : stays) say(describe_staying_pages(pids, why));
  say(fmt::format("the tracing engine {} (at: {}); {} place{} in the code of {} process{} put back, all "
                  "traced processes run on untraced{}",
                  killed ? "was killed" : "has ended", name_of(static_cast<Moment>(shared_->moment.load())),
                  places, places == 1 ? "" : "s", outcomes.size(), outcomes.size() == 1 ? "" : "es",
                  shared_->wrapping != 0 ? "; calls by trampoline of the last moments are lost" : "") +
      (command_ && !command_status_ ? "; the command is waited for" : ""));
}

int FrontEnd::exit_status() const {
  if (exec_failed_ || engine_died_ || output_.error_number() != 0) return 1;
  if (command_status_ && options_.ltrace_compat) return 0;
  if (command_status_) {
    if (WIFEXITED(*command_status_)) return WEXITSTATUS(*command_status_);
    const int signal = WTERMSIG(*command_status_);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);  // the command's own core, if any, must not be overwritten by ours
    ::signal(signal, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    raise(signal);
    return 128 + signal;
  }
  if (command_ && let_go_by_ != 0 && !options_.ltrace_compat) return 128 + let_go_by_;
  return shared_->attach_failed != 0 ? 1 : 0;
}

int FrontEnd::run() {
  if (options_.ready_fd >= 0) fcntl(options_.ready_fd, F_SETFD, FD_CLOEXEC);
  const sigset_t handled = handled_signals();
  inherited_ = take_signals(handled);
  start_engine();
  signal_fd_.reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd_) throw Error::from_errno(errno, "signalfd");
  bool launched = true;
  if (!options_.command.empty()) {
    try {
      launched = launch();
    } catch (const Error& error) {
      say(error.what());
      launched = false;
    }
    if (!launched) request_detach();
  }
  // The writer's thread is made in there: all forks must be done by then, for the command's child runs
  // ordinary code before its exec.
  loop();
  if (!finish_output()) _exit(1);  // the writer is stuck in its write
  const std::string unread = output_.close({signal_fd_.get(), [this] { return is_told_to_end(); }});
  if (!unread.empty()) say(fmt::format("the command that was to read the output {}", unread));
  const int status = launched && !cannot_write_ && unread.empty() ? exit_status() : 1;
  end_at_once(status);
  return status;
}

}  // namespace rtrace::session
