#!/usr/bin/python3
"""Objects come, go, and are replaced on disk; programs change their own code: every call is counted, by the program's own
count."""
import contextlib
import os
import re
import shutil
import unittest

import harness
from hosts import CALLS, Case, Host, attached, count, sum_of, without_map_files


class Upgraded(Case):
    """Between the loading and the attach the file on disk becomes another one."""

    def replaced(self, options, change):
        path = self.place("libplugin_a.so", "libupgraded.so")
        with Host() as host:
            number = host.open(path)
            change(path)
            with attached(host, *options) as box:
                host.work(number, 1000)
            host.work(number, 1000)
            host.quit()
        self.assert_calls(box.result, CALLS, 1000, r"libplugin_a\.so")
        self.assertNotIn("left out", box.result.stderr)
        return box.result

    def upgrade(self, _):
        self.place("libstatics.so", "libupgraded.so")

    def test_a_library_replaced_by_another_version_is_traced_as_it_is_mapped(self):
        self.replaced(("-x", "plugin_work"), self.upgrade)

    def test_the_same_from_its_image_in_memory_and_explain_says_so(self):
        with without_map_files():
            result = self.replaced(("--explain", "-x", "plugin_work"), self.upgrade)
        self.assertRegex(result.stderr, r"libupgraded\.so: .*deleted.*; its image in memory serves: .*no file to compare")

    def test_a_deleted_library(self):
        self.replaced(("-x", "plugin_work"), os.unlink)

    def test_a_deleted_library_from_its_image_in_memory(self):
        with without_map_files():
            result = self.replaced(("--explain", "-x", "plugin_work"), os.unlink)
        self.assertRegex(result.stderr, r"libupgraded\.so: its file was deleted; its image in memory serves")

    def test_static_functions_of_an_object_read_from_memory_have_no_names_and_that_is_said(self):
        path = self.place("libstatics.so", "libupgraded.so")
        with Host() as host, without_map_files():
            host.open(path)
            os.unlink(path)
            with attached(host, "-x", "garbage_collect@libstatics.so") as box:
                host.ask("call 0 1 5", "sum")
        self.assertRegex(box.result.stderr, r"garbage_collect.*libstatics\.so could be read from memory only")

    def call_sites(self, library, options, expected):
        path = self.place(library, "libupgraded.so")
        with Host() as host:
            number = host.open(path)
            self.place("libstatics.so", "libupgraded.so")
            with attached(host, *options) as box:
                host.work(number, 2)
            host.quit()
        self.assertEqual(count(box.result, expected), CALLS, box.result)
        self.assertEqual(len(box.result.lines), CALLS, box.result)

    LINKS = ("libworker.so", "libworker_noplt.so")

    def test_its_own_call_sites_are_those_of_the_mapped_image(self):
        for library in self.LINKS:
            with self.subTest(library=library):
                self.call_sites(library, ("-e", "add@" + library), r"%s->add\(\d+, 1\) += \d+$" % library)

    def test_its_own_call_sites_from_memory(self):
        with without_map_files():
            self.test_its_own_call_sites_are_those_of_the_mapped_image()

    def test_a_deleted_executable(self):
        for restricted in (False, True):
            with self.subTest(restricted=restricted):
                program = os.path.join(self.folder, "gone")
                shutil.copy(harness.target("host"), program)
                with Host(program=program) as host, contextlib.ExitStack() as stack:
                    os.unlink(program)
                    if restricted:
                        stack.enter_context(without_map_files())
                    with attached(host, "-e", "add@MAIN") as box:
                        self.assertEqual(host.ask("add %d" % CALLS, "sum"), sum_of(1, CALLS, 1))
                    host.quit()
                self.assertEqual(count(box.result, r"gone->add\(\d+, 1\) += \d+$"), CALLS, box.result)

    def test_debian_s_zlib_under_python_is_upgraded(self):
        real = os.path.realpath("/lib/x86_64-linux-gnu/libz.so.1")
        path = os.path.join(self.folder, "libz.so.1")
        shutil.copy(real, path)
        code = ("import sys, zlib\nprint('pid', flush=True)\n"
                "for line in sys.stdin:\n    print('done', sum(zlib.crc32(b'x' * i) & 1 for i in range(40)), flush=True)\n")
        with harness.Target(["env", "LD_LIBRARY_PATH=" + self.folder, "/usr/bin/python3", "-S", "-c", code]) as process:
            process.expect("pid")
            with open("/proc/%d/maps" % process.pid) as maps:
                if path not in maps.read():
                    self.skipTest("this python3 has zlib built in")
            shutil.copy(harness.target("libstatics.so"), path + ".new")
            os.rename(path + ".new", path)
            for restricted in (False, True):
                with contextlib.ExitStack() as stack, self.subTest(restricted=restricted):
                    if restricted:
                        stack.enter_context(without_map_files())
                    rtrace = harness.Attached(["-x", "crc32@libz.so.1"], [process.pid])
                    process.go()
                    process.expect("done")
                    result = rtrace.stop()
                    self.assertEqual(count(result, r"crc32@libz\.so\.1\("), 40, result)


class ComingAndGoing(Case):
    def test_closed_and_opened_again_between_and_during_attachings(self):
        with Host() as host:
            first = host.open(harness.target("libplugin_a.so"))
            with attached(host, "-x", "plugin_work") as box:
                host.work(first, 1000)
                host.ask("close %d" % first, "closed")
                second = host.open(harness.target("libplugin_a.so"), "lazy")
                host.work(second, 1000)
                host.ask("close %d" % second, "closed")
            third = host.open(harness.target("libplugin_a.so"))
            with attached(host, "-x", "plugin_work") as again:
                host.work(third, 1000)
            host.quit()
        self.assert_calls(box.result, 2 * CALLS, 1000)
        self.assert_calls(again.result, CALLS, 1000)

    def test_what_the_link_map_does_not_show_is_passed_by(self):
        """As in the middle of a dlopen, which an attach may meet: what it has written there stands in code of no object."""
        for mechanism in ("breakpoint", "trampoline"):
            with self.subTest(mechanism=mechanism), Host() as host:
                first = host.open(harness.target("libplugin_a.so"))
                with attached(host, "--mechanism=" + mechanism, "-x", "plugin_work") as box:
                    host.work(first, 1000)
                    host.ask("hide %d" % first, "hidden")
                    other = host.open(harness.target("libstatics.so"))
                    host.work(first, 1000)
                    host.ask("show %d" % first, "shown")
                    host.ask("close %d" % other, "closed")
                    host.work(first, 1000)
                self.assertEqual(harness.altered_code(host.pid), [])
                host.work(first, 1000)
                host.quit()
                self.assert_calls(box.result, {"breakpoint": 2, "trampoline": 3}[mechanism] * CALLS, 1000)

    def test_replaced_on_disk_and_opened_again_at_the_same_address(self):
        path = self.place("libplugin_a.so", "libturns.so")
        expected = []
        with Host() as host:
            with attached(host, "-x", "plugin_work") as box:
                for turn in range(10):
                    self.place("libplugin_b.so" if turn % 2 else "libplugin_a.so", "libturns.so")
                    adds = 2000 if turn % 2 else 1000
                    number = host.open(path, "lazy" if turn % 3 else "open")
                    host.work(number, adds, 3)
                    host.ask("close %d" % number, "closed")
                    expected += [(i, i + adds) for i in range(1, 4)]
            host.quit()
        seen = [tuple(map(int, re.match(r"plugin_work@\S+\((\d+)\) += (\d+)$", line).groups()))
                for line in box.result.lines]
        self.assertEqual(seen, expected, box.result)

    def test_two_libraries_that_take_turns_at_one_address_attached(self):
        turns = 100
        with Host() as host:
            with attached(host, "--explain", "-x", "plugin_work") as box:
                for turn in range(turns):
                    for name, adds in (("libplugin_a.so", 1000), ("libplugin_b.so", 2000)):
                        number = host.open(harness.target(name), "lazy" if turn % 2 else "open")
                        host.work(number, adds, 1)
                        host.ask("close %d" % number, "closed")
            host.quit()
        for name, adds in (("libplugin_a.so", 1000), ("libplugin_b.so", 2000)):
            self.assertEqual(count(box.result, r"plugin_work@%s\(1\) += %d$" % (re.escape(name), 1 + adds)), turns)
        self.assertEqual(len(box.result.lines), 2 * turns, box.result)
        addresses = re.findall(r"plugin_work@libplugin_[ab]\.so at (0x[0-9a-f]+): breakpoint", box.result.stderr)
        self.assertEqual((len(addresses), len(set(addresses))), (2 * turns, 1), "they did not share an address")

    def test_threads_that_open_and_close_all_the_time(self):
        rounds = int(os.environ.get("RTRACE_ROUNDS", "40"))
        words = [harness.target("openers"), str(rounds)]
        for name, adds in (("a", 1000), ("b", 2000)):
            words += [harness.target("libplugin_%s.so" % name), str(adds)]
        launched = harness.run(["-F", harness.CONF, "-x", "plugin_work", "--"] + words)
        self.assertEqual(launched.status, 0, launched)
        with harness.Target(words + ["wait"]) as process:
            process.expect("ready")
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "plugin_work"], [process.pid])
            process.go()
            self.assertEqual(process.finish()[1], 0)
            results = [launched, rtrace.end()]
        for result in results:
            for name in ("a", "b"):
                # Two threads for each library, five calls in each round.
                entries = count(result, r"(\[pid +\d+\] )?plugin_work@libplugin_%s\.so\(" % name)
                self.assertEqual(entries, 2 * 5 * rounds, result)

    def test_a_library_with_a_dependency_lazy_and_now(self):
        for how in ("lazy", "open"):
            with self.subTest(how=how), Host() as host:
                with attached(host, "-x", "plugin_work@libwith_dependency.so", "-x", "add",
                              "-e", "add+helper@libwith_dependency.so") as box:
                    number = host.open(harness.target("libwith_dependency.so"), how)
                    host.work(number, 2)
                host.quit()
                result = box.result
                for pattern in (r"plugin_work@libwith_dependency\.so\(", r"libwith_dependency\.so->helper\(",
                                r"libwith_dependency\.so->add\(", r"add@libfixture\.so\("):
                    self.assertEqual(count(result, pattern), CALLS, result)

    def test_namespaces_of_dlmopen(self):
        with Host() as host:
            before = host.open(harness.target("libplugin_a.so"), "ns")
            with attached(host, "-x", "plugin_work", "-x", "add", "-e", "helper@libworker.so") as box:
                host.work(before, 1000)
                after = host.open(harness.target("libplugin_a.so"), "ns")
                host.work(after, 1000)
                worker = host.open(harness.target("libworker.so"), "ns")
                host.work(worker, 2)
                usual = host.open(harness.target("libplugin_a.so"))
                host.work(usual, 1000)
                host.ask("close %d" % after, "closed")
                again = host.open(harness.target("libplugin_b.so"), "ns")
                host.work(again, 2000)
            host.quit()
        result = box.result
        self.assertEqual(count(result, r"plugin_work@libplugin_a\.so\(\d+\) += \d+$"), 3 * CALLS, result)
        self.assertEqual(count(result, r"plugin_work@libplugin_b\.so\(\d+\) += \d+$"), CALLS, result)
        self.assertEqual(count(result, r"plugin_work@libworker\.so\("), CALLS, result)
        self.assertEqual(count(result, r"libworker\.so->helper\("), CALLS, result)
        self.assertEqual(count(result, r"add@libfixture\.so\("), CALLS, result)

    def test_what_constructors_do_and_open(self):
        env = ["env", "WORKER_OPENS=" + harness.target("libplugin_a.so")]
        words = [harness.target("loads"), "2", harness.target("libworker_at_load.so"), "2"]
        result = harness.run(["-F", harness.CONF, "-x", "plugin_work", "-x", "add",
                              "-e", "add@libworker_at_load.so", "--"] + env + words)
        self.assertEqual(result.status, 0, result)
        # Ten calls of the constructor and one of the program, in each of two rounds; and ten of the other library.
        # The other library stays: its handle was never closed. So does the worker's constructor run twice.
        self.assertEqual(count(result, r"plugin_work@libworker_at_load\.so\("), 22, result)
        self.assertEqual(count(result, r"libworker_at_load\.so->add\("), 22, result)
        self.assertEqual(count(result, r"add@libfixture\.so\("), 22, result)
        self.assertEqual(count(result, r"plugin_work@libplugin_a\.so\("), 20, result)

    def waiting(self, variable, library, also=()):
        """Attached while a thread is inside dlopen, held up by a FIFO; the calls after it."""
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        env = {variable: fifo}
        env.update(also)
        with Host(env=env) as host:
            host.tell("open " + harness.target(library))
            # The open for writing succeeds when the other end is open.
            write = harness.wait_until(lambda: self.try_open(fifo), "the thread waits inside dlopen")
            with attached(host, "-x", "plugin_work", "-x", "add") as box:
                os.write(write, b"x")
                os.close(write)
                host.target.expect("opened 0")
                host.work(0, 2)
            host.quit()
        return box.result

    @staticmethod
    def try_open(fifo):
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    def test_attached_while_a_constructor_waits_inside_dlopen(self):
        result = self.waiting("WORKER_WAITS", "libworker_at_load.so")
        self.assertEqual(count(result, r"plugin_work@libworker_at_load\.so\(\d+"), 10 + CALLS, result)
        self.assertEqual(count(result, r"add@libfixture\.so\("), 10 + CALLS, result)

    def test_attached_while_the_link_map_is_being_changed(self):
        result = self.waiting("AUDIT_WAITS", "libwith_dependency.so", {"LD_AUDIT": harness.target("libaudit.so")})
        self.assertEqual(count(result, r"plugin_work@libwith_dependency\.so\("), CALLS, result)
        self.assertEqual(count(result, r"add@libfixture\.so\("), CALLS, result)


class BroughtByTheEnvironment(Case):
    def run_with(self, setting, *options):
        result = harness.run(["-F", harness.CONF, *options, "--", "env", setting, harness.target("entries"), "add", "100"])
        self.assertEqual(result.status, 0, result)
        return result

    def test_preload(self):
        result = self.run_with("LD_PRELOAD=" + harness.target("libpreload.so"), "-x", "add", "-e", "add@MAIN")
        for pattern in (r"add@libpreload\.so\(", r"(<\.\.\. )?add@libfixture\.so\(", r"entries->add\("):
            self.assertEqual(count(result, pattern), 100, result)

    def test_audit(self):
        result = self.run_with("LD_AUDIT=" + harness.target("libaudit.so"), "-x", "add", "-e", "add@MAIN")
        for pattern in (r"add@libfixture\.so\(", r"entries->add\("):
            self.assertEqual(count(result, pattern), 100, result)

    def test_audit_attached(self):
        with Host(env={"LD_AUDIT": harness.target("libaudit.so")}) as host:
            with attached(host, "-x", "add", "-e", "add@MAIN", "-x", "plugin_work") as box:
                host.ask("add %d" % CALLS, "sum")
                host.work(host.open(harness.target("libplugin_a.so")), 1000)
            host.quit()
        for pattern in (r"add@libfixture\.so\(", r"host->add\(", r"plugin_work@libplugin_a\.so\("):
            self.assertEqual(count(box.result, pattern), CALLS, box.result)


class MadeCode(Case):
    """Callers that lie in no file: a breakpoint cannot stand where they go on, a wrapper returns to them by itself."""

    def traced(self, verb, *options):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            with attached(host, "--mechanism=breakpoint", "--explain", "-x", "plugin_work", *options) as box:
                host.work(number, 1000, verb=verb)
            host.work(number, 1000, verb=verb)
            host.quit()
        return box.result

    def assert_unseen(self, result, calls):
        self.assertEqual(count(result, r"plugin_work@libplugin_a\.so\(\d+\) += \?$"), calls, result)
        self.assertEqual(count(result, r"plugin_work"), calls, result)

    def test_in_anonymous_memory_the_entry_is_shown_and_the_reason_why_no_return_is(self):
        result = self.traced("jit")
        self.assert_unseen(result, CALLS)
        self.assertRegex(result.stderr, r"return address 0x[0-9a-f]+: it lies in memory without a file \(JIT code\)")

    def test_what_would_be_printed_at_the_return_is_printed_at_the_entry(self):
        path = os.path.join(self.folder, "late.conf")
        with open(path, "w") as file:
            file.write("int plugin_work(+int);\n")
        self.assert_unseen(self.traced("jit", "-F", path), CALLS)

    def test_in_shared_memory_too(self):
        result = self.traced("jitshared")
        self.assert_unseen(result, CALLS)
        self.assertRegex(result.stderr, r"return address 0x[0-9a-f]+: it lies in a shared mapping")

    def test_another_process_that_runs_the_same_shared_page_is_unharmed(self):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            host.work(number, 1000, verb="jitshared")
            with attached(host, "--mechanism=breakpoint", "-x", "plugin_work") as box:
                host.work(number, 1000, verb="jitshared")
                host.work(number, 1000, verb="sibling")
                host.work(number, 1000, verb="jitshared")
            host.quit()
        self.assert_unseen(box.result, 2 * CALLS)


class SelfMade(Case):
    """Programs that look at or change their own mappings."""

    def test_a_checksum_of_code_differs_while_traced_and_is_the_old_one_after(self):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            before = host.ask("sum %d" % number, "sum")
            with attached(host, "-x", "plugin_work") as box:
                host.work(number, 1000)
                self.assertNotEqual(host.ask("sum %d" % number, "sum"), before)
                host.work(number, 1000)
            self.assertEqual(host.ask("sum %d" % number, "sum"), before)
            host.quit()
        self.assert_calls(box.result, 2 * CALLS, 1000)

    def test_code_mapped_anew_by_the_program_runs_unharmed_and_the_loss_is_said(self):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            with attached(host, "-x", "plugin_work") as box:
                host.work(number, 1000)
                self.assertEqual(host.ask("remap %d" % number, "remapped"), 0)
                host.work(number, 1000)
            host.work(number, 1000)
            host.quit()
        self.assert_calls(box.result, CALLS, 1000)
        self.assertRegex(box.result.stderr, r"1 probe in libplugin_a\.so was lost: .*mapped anew")

    def test_that_loss_is_said_of_a_process_that_ends_too(self):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "plugin_work"], [host.pid])
            host.work(number, 1000)
            self.assertEqual(host.ask("remap %d" % number, "remapped"), 0)
            host.quit()
        self.assertRegex(rtrace.end().stderr, r"1 probe in libplugin_a\.so was lost: .*mapped anew")

    def test_code_unmapped_by_the_program_costs_nothing_but_its_probes(self):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            with attached(host, "-x", "plugin_work") as box:
                host.work(number, 1000)
                self.assertEqual(host.ask("unmap %d" % number, "unmapped"), 0)
                host.ask("add 5", "sum")
            host.quit("leave")  # the page held its _fini, too
        self.assert_calls(box.result, CALLS, 1000)
        self.assertRegex(box.result.stderr, r"1 probe in libplugin_a\.so was lost")

    def test_an_object_that_is_being_closed_as_the_tracer_leaves_has_lost_nothing(self):
        for left in ("state 2", "hide 0"):  # unmapped and still listed, or not listed any more: the hook comes behind both
            with self.subTest(left), Host() as host:
                number = host.open(harness.target("libplugin_a.so"))
                with attached(host, "-x", "plugin_work") as box:
                    host.work(number, 1000)
                    host.ask(left, "state" if "state" in left else "hidden")
                    self.assertEqual(host.ask("unmap %d" % number, "unmapped"), 0)
                host.quit("leave")
                self.assert_calls(box.result, CALLS, 1000)
                self.assertNotIn("lost", box.result.stderr)

    def test_code_mapped_anew_while_another_object_is_being_closed_is_a_loss(self):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            with attached(host, "-x", "plugin_work") as box:
                host.work(number, 1000)
                host.ask("state 2", "state")
                self.assertEqual(host.ask("remap %d" % number, "remapped"), 0)
            host.quit("leave")
        self.assertRegex(box.result.stderr, r"1 probe in libplugin_a\.so was lost")


if __name__ == "__main__":
    unittest.main()
