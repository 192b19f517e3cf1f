#!/usr/bin/python3
"""Debian's interpreters and tools where they leave functions without a return, switch stacks, fork, or are large.

The scripts (scripts/) count what they call, and the trace is compared with that: see counting.py.
"""
import os
import re
import subprocess
import tempfile
import unittest

import counting
import harness

SCRIPTS = os.path.join(harness.HERE, "scripts")


def script(name):
    return os.path.join(SCRIPTS, name)


class Ruby(counting.Counted):
    def run_both(self, name, count):
        # Without gems: what those call while the interpreter starts nobody counts.
        self.attached(["/usr/bin/ruby", "--disable-gems", script(name), str(count)])

    def test_3000_raises_and_throws_over_traced_frames(self):
        self.functions = ("rb_ary_each", "rb_make_exception", "rb_catch_obj", "rb_raise", "rb_exc_raise")
        self.run_both("raises.rb", 3000)

    def test_fibers_that_yield_and_are_resumed_inside_traced_calls(self):
        self.functions = ("rb_ary_each", "rb_fiber_resume_kw", "rb_fiber_yield_kw")
        self.run_both("fibers.rb", 200)


class Perl(counting.Counted):
    functions = ("Perl_die_sv", "Perl_die", "Perl_die_unwind")

    def test_3000_dies(self):
        self.attached(["/usr/bin/perl", script("dies.pl"), "1000"])

    def test_from_the_start(self):
        self.launched(["/usr/bin/perl", script("dies.pl"), "200"])


class Lua(counting.Counted):
    functions = ("lua_error", "luaL_error", "luaL_argerror", "lua_pcallk", "lua_resume", "lua_yieldk")

    def test_2000_errors_and_coroutines(self):
        self.attached(["/usr/bin/lua5.4", script("errors.lua"), "1000"])


class Python(counting.Counted):
    def test_greenlets_with_five_calls_of_qsort_open_at_one_stack_pointer(self):
        self.functions = ("qsort@libc.so.6",)
        self.attached(["/usr/bin/python3", script("greenlets.py"), "100"])

    def options(self, kind="-x"):
        return ["-f"] + super().options(kind)

    def test_multiprocessing_by_fork_and_by_spawn(self):
        self.functions = ("labs@libc.so.6",)
        for method in ("fork", "spawn", "forkserver"):
            words = ["/usr/bin/python3", script("workers.py"), method, "50"]
            with self.subTest(method=method, mode="attached"):
                self.attached(words)
            with self.subTest(method=method, mode="launched"):
                self.launched(words)


class Node(unittest.TestCase):
    """Threads that block signals, code that is made as it runs, and a program of 100 MB."""
    HOT = ["-x", "malloc@libc.so.*", "-x", "free@libc.so.*", "-x", "memcpy@libc.so.*"]
    DEFLATES = 50

    def test_by_trampolines_it_prints_the_same_and_every_deflate_is_there(self):
        words = ["node", script("deflates.js"), str(self.DEFLATES)]
        plain = subprocess.run(words, capture_output=True, text=True, check=True)
        result = harness.run(["-c", "--mechanism=trampoline", "-x", "deflate", *self.HOT, "--", *words])
        self.assertEqual((result.status, result.stdout), (0, plain.stdout), result)
        self.assertNotRegex(result.stderr, r"(malloc|free|memcpy)\S*: a breakpoint", result)
        calls = harness.Summary(result.trace).calls()
        deflates = sum(count for name, count in calls.items() if name.partition("@")[0] == "deflate")
        self.assertGreaterEqual(deflates, self.DEFLATES, result)
        for name in ("malloc", "free", "memcpy"):
            self.assertGreater(calls[name + "@libc.so.6"], 1000, result)

    def test_attached_to_and_left_it_goes_on(self):
        with harness.Target(["node", script("deflates.js")]) as process:
            def answer():
                process.go()
                return process.process.stdout.readline()

            first = answer()
            for _ in range(3):
                rtrace = harness.Attached(["-c", "--mechanism=trampoline", *self.HOT], [process.pid])
                self.assertEqual([answer() for _ in range(3)], [first] * 3)
                result = rtrace.stop()
                self.assertEqual(result.status, 0, result)
                self.assertGreater(harness.Summary(result.trace).calls()["malloc@libc.so.6"], 300, result)
                harness.wait_until(lambda: not harness.altered_code(process.pid), "its code is as it was")
            self.assertEqual(answer(), first)
            process.process.kill()


class Xz(unittest.TestCase):
    def test_two_threads_compress_to_the_same_bytes_and_every_call_of_lzma_code_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            plain, counts = os.path.join(folder, "text"), os.path.join(folder, "counts")
            with open(plain, "w") as file:
                file.writelines("%d %d\n" % (i, i * i) for i in range(60000))
            words = ["xz", "-T2", "-0", "--block-size=100000", "-k", "-f", plain]
            subprocess.run(words, check=True, timeout=harness.PATIENCE)
            with open(plain + ".xz", "rb") as file:
                expected = file.read()
            result = harness.run(["-x", "lzma_code@liblzma.so.5", "--", "env", "LZMA_COUNTS=" + counts,
                                  "LD_PRELOAD=" + harness.target("liblzma_counter.so")] + words)
            self.assertEqual(result.status, 0, result)
            with open(plain + ".xz", "rb") as file:
                self.assertTrue(file.read() == expected, "other bytes than without rtrace")
            lines = [line for line in result.lines if "lzma_" in line]
            counted = counting.of_program(harness.read_text(counts))
        self.assertGreater(counted["lzma_code"].entered, 100)
        result.trace = "\n".join(lines)
        self.assertEqual(counting.of_trace(result, list(counted)), counted, result)


class Clang(unittest.TestCase):
    """A library of 35 000 functions, with a breakpoint in each."""
    SOURCE = "int next(int number) { return number + 1; }\n"
    OPTIONS = ["-c", "--mechanism=breakpoint", "-x", "@libLLVM-14.so.1"]

    def words(self, folder, name):
        return ["clang", "-c", "-x", "c", "-", "-o", os.path.join(folder, name)]

    def test_the_object_file_is_the_same_launched_and_attached(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(self.words(folder, "plain.o"), input=self.SOURCE, text=True, check=True)
            result = harness.run([*self.OPTIONS, "--"] + self.words(folder, "launched.o"), stdin=self.SOURCE)
            self.assertEqual(result.status, 0, result)
            with harness.Target(self.words(folder, "attached.o")) as process:
                rtrace = harness.Attached(self.OPTIONS, [process.pid])
                self.assertEqual(process.process.communicate(self.SOURCE, harness.PATIENCE)[0], "")
                self.assertEqual(process.process.returncode, 0)
                attached = rtrace.end()
            self.assertGreater(int(re.search(r"(\d+) probes armed", attached.stderr).group(1)), 30000)
            for one in (result, attached):
                calls = harness.Summary(one.trace).calls()
                self.assertEqual([count for name, count in calls.items()
                                  if name.startswith("_ZN4llvm6legacy11PassManager3runERNS_6ModuleE@libLLVM")], [1], one)
            objects = []
            for name in ("plain.o", "launched.o", "attached.o"):
                with open(os.path.join(folder, name), "rb") as file:
                    objects.append(file.read())
            self.assertTrue(objects[0] == objects[1] == objects[2], "other bytes than without rtrace")


if __name__ == "__main__":
    unittest.main()
