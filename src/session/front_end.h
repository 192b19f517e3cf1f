// The process that the user sees: it owns the terminal, the user's signals, the output and the launched
// command. It never touches a tracee while the engine lives.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rtrace/base/unique_fd.h"
#include "rtrace/mech/remains.h"
#include "rtrace/session/options.h"
#include "rtrace/session/shared_state.h"

namespace rtrace::session {

// Monotonic, ns. A few looks are cheaper as system calls: the first one without costs two faults, for the
// vdso's code and its data.
uint64_t kernels_clock();

// All of it, whatever it takes; 0 or the errno.
int write_all(int fd, std::string_view bytes);

// Where the trace goes (-o), opened before anything is traced.
class OutputFile {
 public:
  // Throws Error.
  OutputFile(const std::string& target, bool append);
  ~OutputFile() { close({}); }
  // Waits for the end of the command that reads it (-o '|COMMAND'), for as long as it is not `told` to give
  // up by what it asks for after each signal (a signalfd). Nothing may be written behind it. Answers why that
  // command did not read, where it could not be run or died of a signal; else nothing.
  struct Interrupts {
    int fd = -1;
    std::function<bool()> told = {};
  };
  std::string close(const Interrupts& interrupts);
  // False where nobody reads it any more; `error_number` then says why.
  bool write(std::string_view bytes);
  bool is_stderr() const { return fd_ == 2; }
  int error_number() const { return error_number_; }
  int fd() const { return fd_; }

 private:
  int fd_ = 2;
  UniqueFd owned_;
  pid_t pipe_reader_ = 0;
  std::atomic<int> error_number_ = 0;
};

// -u: who the command becomes.
struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};  // beside it
};

// What rtrace found when it was started, of what it has changed for itself: the command gets it back.
struct InheritedSignals {
  sigset_t mask{};
  void (*on_pipe)(int) = SIG_DFL;
  void (*on_child)(int) = SIG_DFL;
  void (*on_file_size)(int) = SIG_DFL;
};

// What the launched command's child reads, in our memory, until its exec.
struct LaunchOrder {
  std::string path;
  std::vector<char*> argv{}, shell_argv{};  // the second for a script without #!
  std::optional<Identity> identity{};
  InheritedSignals signals{};
  pid_t tracer = 0;
  int gate[2]{}, failure[2]{};
};

// The launched command between its start and its exec. Stays where it is and lives until the exec.
class Launch {
 public:
  // Starts a child that waits for go(). Signal dispositions and mask become those that rtrace was started
  // with. No thread may have been made before. Throws Error where the command or the user does not exist.
  Launch(const std::vector<std::string>& command, const std::string& user, const InheritedSignals& signals,
         pid_t tracer);
  pid_t pid() const { return pid_; }
  // Lets it exec; the errno of a failed exec, or 0. It has left our memory then.
  int go();

  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

 private:
  LaunchOrder order_;
  pid_t pid_ = 0;
  UniqueFd gate_, failure_;
};

class FrontEnd {
 public:
  explicit FrontEnd(const Options& options);
  // The exit status, where the process does not end here: with that, or by the command's signal.
  int run();

 private:
  void start_engine();
  bool launch();
  bool is_over() const;
  void loop();
  void on_signal();
  bool is_told_to_end();
  void on_interrupt(int signal, bool from_terminal);
  void look_after_command();
  void on_child();
  void on_engine_message();
  void watch_engine();
  void on_unwritable();
  void request_detach();
  void kick_engine() const;
  void heal_after_engine(bool killed);
  void say(const std::string& line);
  int exit_status() const;
  // --- front_end_output.cc
  void prepare_output();
  std::string start_writer();
  void begin_writing();
  void on_output();
  bool awaits_output() const;
  int time_to_writing() const;
  bool can_finish_at_once() const;
  bool write_the_rest(std::string last);
  std::string tables() const;
  bool finish_output();

  const Options& options_;
  SharedState shared_;
  OutputFile output_;
  UniqueFd engine_socket_, event_fd_, signal_fd_;
  UniqueFd unwritable_fd_;  // the writer tells the loop that the output takes nothing more
  InheritedSignals inherited_;
  pid_t engine_ = 0;
  std::optional<pid_t> command_;
  std::optional<int> command_status_;
  bool engine_done_ = false;
  bool engine_died_ = false;
  bool exec_failed_ = false;
  struct {
    uint64_t looked = 0;   // monotonic ns
    unsigned looks = 0;    // in a row that found it asleep where no signal reaches it
    std::string switches;  // then
    bool offered = false;  // to the kernel's OOM killer
  } engine_watch_;
  uint64_t last_interrupt_ = 0;
  int let_go_by_ = 0;  // the signal that has told us to let go of the command
  std::optional<RingReader> reader_;
  std::thread writer_;                      // once there is something to write
  std::optional<uint64_t> writing_is_due_;  // ns of CLOCK_MONOTONIC
  bool cannot_write_ = false;               // there can be no thread for it
};

}  // namespace rtrace::session
