#!/usr/bin/python3
"""What a program must not notice: waits that go on, and its own SIGTRAP."""
import os
import re
import signal
import unittest

import harness


class Waits(unittest.TestCase):
    def test_epoll_poll_semaphores_and_sleeps_are_not_interrupted_by_attach_and_detach(self):
        with harness.Target([harness.target("blocked")]) as process:
            process.expect("pid ")
            for _ in range(10):
                self.assertEqual(harness.Attached(["-x", "add"], [process.pid]).stop().status, 0)
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
            process.go()
            # 10 + n: the n-th way of waiting came back too early.
            self.assertEqual(process.finish()[1], 0)
            result = rtrace.end()
            self.assertEqual((result.status, result.trace.count("add@")), (0, 1), result)


class Sigtrap(unittest.TestCase):
    def traced(self, way):
        return self.run_so([], way).trace.count("--- SIGTRAP")

    def run_so(self, options, way):
        result = harness.run(["-F", harness.CONF] + options + ["-x", "add", "--", harness.target("sigtrap"), way, "50"])
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.trace.count("add@libfixture.so("), 50)
        return result

    def test_a_handler_of_the_program_s_own_runs_for_its_traps_and_no_others(self):
        self.assertEqual(self.traced("handler"), 100)

    def test_handlers_that_have_it_blocked_call_what_is_traced(self):
        for way, calls in (("own", 12), ("full", 12), ("masked", 12), ("nested", 16), ("late", 10), ("once", 3)):
            for mechanism in ("breakpoint", "trampoline", "auto"):
                options = ["-F", harness.CONF, "--mechanism=" + mechanism, "-x", "add"]
                words = [harness.target("trap_handlers"), way, "4"]
                with self.subTest(way=way, mechanism=mechanism):
                    result = harness.run(options + ["--", *words])
                    self.assertEqual((result.status, result.trace.count("add@libfixture.so(")), (0, calls), result)
                    with harness.Target([*words, "later"]) as process:
                        process.expect("pid ")
                        rtrace = harness.Attached(options, [process.pid])
                        process.go()
                        self.assertEqual(process.finish()[1], 0)
                        self.assertEqual(rtrace.end().status, 0)

    def test_a_program_that_steps_itself_comes_to_an_end(self):
        for mechanism, count in (("breakpoint", 5), ("trampoline", 5), ("auto", 20000)):
            for options in ([], ["-c"]):
                with self.subTest(mechanism=mechanism, options=options):
                    result = harness.run([*options, "-F", harness.CONF, "--mechanism=" + mechanism, "-x", "add", "--",
                                          harness.target("steps"), str(count)])
                    self.assertEqual(result.status, 0, result)
                    calls = (harness.Summary(result.trace).total["calls"] if options else
                             result.trace.count("add@libfixture.so("))
                    self.assertEqual(calls, count + 2)

    def test_interpreters_handlers_of_it(self):
        ruby = "trap('TRAP') { $stdout.write('.') }; 3.times { Process.kill('TRAP', $$); sleep 0.01 }; puts 'end'"
        for words in (["/usr/bin/perl", "-e", "$|=1; $SIG{TRAP} = sub { print '.' }; kill 'TRAP', $$ for 1..3; print \"end\\n\""],
                      ["/bin/bash", "-c", "trap 'echo -n .' TRAP; for i in 1 2 3; do kill -TRAP $$; done; echo end"],
                      ["/usr/bin/python3", "-c", "import os, signal, sys\n"
                       "signal.signal(signal.SIGTRAP, lambda *_: sys.stdout.write('.'))\nr, w = os.pipe()\n"
                       "os.set_blocking(w, False)\nsignal.set_wakeup_fd(w)\n"
                       "for _ in range(3): os.kill(os.getpid(), signal.SIGTRAP)\nprint('end')"],
                      ["/usr/bin/ruby", "-e", ruby]):
            for options in (["-x", "nothing_is_called_so"], ["-x", "write@libc*"], []):
                with self.subTest(words=words[0], options=options):
                    result = harness.run([*options, "-o", "/dev/null", "--", *words])
                    self.assertEqual((result.status, result.stdout), (0, "...end\n"), result)

    def test_a_handler_that_serves_once(self):
        script = ("use POSIX; $| = 1; for (1..3) { sigaction(SIGTRAP, POSIX::SigAction->new(sub { print '.' }, POSIX::SigSet->new,"
                  " SA_RESETHAND)); getppid() for 1..50; kill 'TRAP', $$ } print \"end\\n\"")
        result = harness.run(["-x", "getppid@libc.so.*", "-o", "/dev/null", "--", "/usr/bin/perl", "-e", script])
        self.assertEqual((result.status, result.stdout), (0, "...end\n"), result)

    def test_a_program_that_ignores_it_goes_on_ignoring_it(self):
        for way in ("ignored", "sigset"):
            self.traced(way)

    def test_a_program_that_blocks_it_keeps_it_blocked(self):
        self.assertEqual(self.traced("blocked"), 0)

    def test_a_program_that_blocks_it_around_a_handler_that_blocks_all_has_it_blocked_behind_that(self):
        self.run_so([], "around")

    def test_a_program_that_blocks_all_signals_finds_them_blocked(self):
        self.assertEqual(self.traced("all"), 0)

    def test_a_thread_that_blocked_them_before_the_attach_has_them_blocked_behind_it(self):
        script = ("import signal, sys\nsignal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())\n"
                  "print('blocks', flush=True)\nsys.stdin.readline()")
        with harness.Target(["/usr/bin/python3", "-c", script]) as process:
            process.expect("blocks")

            def signals(key):
                return re.search(r"^%s:\s+(\S+)" % key, harness.read_text("/proc/%d/status" % process.pid), re.M).group(1)
            before = signals("SigBlk")
            for sent in (False, True):
                attached = harness.Attached(["-x", "qsort"], [process.pid])
                self.assertNotEqual(signals("SigBlk"), before, "it is open, for rtrace's death")
                if sent:
                    os.kill(process.pid, signal.SIGTRAP)
                    harness.wait_until(lambda: signals("ShdPnd") == "0000000000000010", "it waits")
                self.assertEqual(attached.stop().status, 0)
                self.assertEqual(signals("SigBlk"), before)
            self.assertEqual(signals("ShdPnd"), "0000000000000010")

    def test_unblocking_them_is_no_blocking(self):
        self.run_so([], "unblocks")

    def test_what_it_calls_for_that_is_shown(self):
        for options, shown in ((["-x", "sigprocmask"], " sigprocmask@libc.so.6("), (["-e", "sigprocmask"], "sigtrap->sigprocmask("),
                               (["-S"], " rt_sigprocmask@SYS(")):
            with self.subTest(options):
                result = self.run_so(options, "all")
                made = int(result.stdout.split()[0])
                self.assertGreater(made, 50)
                count = (" " + result.trace.replace("\n", "\n ")).count(shown)
                self.assertGreaterEqual(count, made) if options == ["-S"] else self.assertEqual(count, made)

    def test_what_is_blocked_stays_so_behind_what_the_c_library_blocks_itself(self):
        for way in ("spawns", "nested", "partial"):
            for options in (["-x", "madvise+getuid+getgid+getppid+sigprocmask"], ["-f", "-x", "madvise+getuid"],
                            ["-x", "getppid+madvise"], ["-S"], []):
                with self.subTest(way=way, options=options):
                    result = harness.run(["-F", harness.CONF] + options + ["-x", "add", "--", harness.target("sigtrap"), way, "5"])
                    self.assertEqual((result.status, result.trace.count("add@libfixture.so(")), (0, 5), result)

    def test_no_probe_of_ours_is_met_there_that_takes_its_handler_away(self):
        result = harness.run(["-F", harness.CONF, "-x", "getppid", "-x", "add", "--", harness.target("sigtrap"), "caught", "5"])
        self.assertEqual((result.status, result.trace.count("add@libfixture.so("), result.trace.count("--- SIGTRAP")),
                         (0, 5, 4), result)
        self.assertNotIn("while they block SIGTRAP", result.trace + result.stderr)

    def test_what_it_is_told_of_the_last_action_is_true(self):
        for options in ([], ["-S"], ["-x", "signal+sigset+sigignore+sigaction@libc.so.*"], ["-e", "signal"]):
            with self.subTest(options):
                self.run_so(options, "turns")
        with harness.Target([harness.target("sigtrap"), "turns", "50", "later"]) as process:
            process.expect("pid ")
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
            process.go()
            self.assertEqual((process.finish()[1], rtrace.end().status), (0, 0))

    def test_a_program_that_does_nothing_about_it_never_gets_one(self):
        self.assertEqual(self.traced("default"), 0)


class WhatRtraceHasMapped(unittest.TestCase):
    def test_is_in_no_core_where_it_is_large(self):
        with harness.Target([harness.target("catches")]) as process:
            process.expect("pid ")
            rtrace = harness.Attached(["--mechanism=trampoline", "-F", harness.CONF, "-x", "add"], [process.pid])
            flags = re.findall(r"/memfd:.*\n(?:[^/\n]*\n)*?VmFlags: (.*)", harness.read_text("/proc/%d/smaps" % process.pid))
            self.assertEqual(rtrace.stop().status, 0)
            self.assertEqual(["dd" in one.split() for one in flags], [True], flags)

    def test_is_told_of_where_addresses_are_limited(self):
        script = ("import os, resource\nos.getuid()\nresource.setrlimit(resource.RLIMIT_%s,"
                  " (1 << 40, resource.getrlimit(resource.RLIMIT_%s)[1]))")
        for limit in ("AS", "FSIZE"):
            words = ["/usr/bin/python3", "-c", script % (limit, limit)]
            for mechanism in ("breakpoint", "trampoline"):
                with self.subTest(limit=limit, mechanism=mechanism):
                    result = harness.run(["--mechanism=" + mechanism, "-x", "getuid@libc.so.*", "--"] + words, separate=False)
                    self.assertEqual(result.status, 0, result)
                    told = "(python3) limits its address space" in result.stderr
                    self.assertEqual(told, (limit, mechanism) == ("AS", "trampoline"), result)


if __name__ == "__main__":
    unittest.main()
