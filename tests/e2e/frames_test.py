#!/usr/bin/python3
"""Backtraces (-w): compared with what the traced program itself knows of its stack, and with gdb."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import harness
from hosts import Host, attached

FRAME = re.compile(r" > (\S+?)\((.*?)\+0x([0-9a-f]+)\) \[0x([0-9a-f]+)\]$")
EXIT = "+++ exited (status 0) +++"


class Frame:
    def __init__(self, line):
        match = FRAME.match(line)
        self.line = line
        self.object, self.symbol = (match.group(1), match.group(2)) if match else ("?", "")
        self.offset, self.address = (int(match.group(3), 16), int(match.group(4), 16)) if match else (0, 0)
        self.source = None

    def __repr__(self):
        return self.line + (" at " + self.source if self.source else "")


def calls_of(lines):
    """[(the call's line, its frames)]; each backtrace ends with an empty line."""
    calls, pending = [], None
    for line in lines:
        if line.startswith(" > "):
            pending = pending or []
            pending.append(Frame(line))
        elif line.startswith("\t") and pending:
            pending[-1].source = line[1:]
        elif not line and pending:
            calls[-1] = (calls[-1][0], pending)
            pending = None
        else:
            if pending:
                raise harness.Failure("a backtrace without an empty line behind it, before: " + line)
            calls.append((line, []))
    return calls


def known_stacks(text):
    return [[int(word, 16) for word in line.split()[1:]] for line in text.splitlines() if line.startswith("stack")]


class Shapes(unittest.TestCase):
    def trace(self, program, shape, *words, filters=("-e", "twice"), most=300):
        result = harness.run(["-w", str(most), *filters, "--", harness.target(program), shape] + list(words))
        self.assertEqual(result.status, 0, result)
        stacks = known_stacks(result.stdout)
        calls = [call for call in calls_of(result.lines) if "twice" in call[0] and "unfinished" not in call[0]]
        self.assertTrue(stacks)
        self.assertEqual(len(calls), len(stacks), result)
        return list(zip([frames for _, frames in calls], stacks))

    def check(self, frames, stack):
        """The first frame is in the caller of twice(), which the program does not know; the rest it does."""
        self.assertEqual([hex(frame.address) for frame in frames[1:len(stack) + 1]], [hex(a) for a in stack], frames)

    def ends_at(self, frames, symbol):
        self.assertEqual(frames[-1].symbol, symbol, frames)

    def check_all(self, program, shape, *words, **options):
        pairs = self.trace(program, shape, *words, **options)
        for frames, stack in pairs:
            self.check(frames, stack)
        return [frames for frames, _ in pairs]

    def test_frames_of_every_shape(self):
        for program in ("frames", "frames_no_pie"):
            frames, = self.check_all(program, "shapes")
            self.assertEqual([frame.symbol for frame in frames[:4]],
                             ["leaf", "with_alloca", "with_alignment", "with_much"])
            self.assertTrue(all(frame.object == program for frame in frames[:4]), frames)
            self.ends_at(frames, "_start")
            self.assertIn("libc.so.6", {frame.object for frame in frames})

    def test_the_first_frame_is_the_return_address(self):
        result = harness.run(["-i", "-w", "1", "-e", "twice", "--", harness.target("frames"), "shapes"])
        (line, frames), _ = calls_of(result.lines)
        self.assertEqual(len(frames), 1)
        self.assertTrue(line.startswith("[0x%x] " % frames[0].address), (line, frames))

    def test_as_many_as_were_asked_for(self):
        for most in (1, 2, 5):
            (frames, _), = self.trace("frames", "shapes", most=most)
            self.assertEqual(len(frames), most)

    def test_recursion(self):
        frames, = self.check_all("frames", "recursion", "100")
        self.assertEqual([frame.symbol for frame in frames[1:102]], ["descend_to"] * 101)
        self.ends_at(frames, "_start")

    def test_a_callback_out_of_the_c_library(self):
        for frames, stack in self.trace("frames", "qsort"):
            # leaf's caller, compare's caller in the C library, what that calls for itself, and sorted's frames.
            addresses = [frame.address for frame in frames]
            self.assertEqual(addresses[1:3], stack[:2], frames)
            self.assertEqual(frames[1].symbol, "compare")
            self.assertEqual(frames[2].object, "libc.so.6")
            self.assertIn(stack[2], addresses[3:])
            within = addresses.index(stack[2])
            self.assertTrue(all(frame.object == "libc.so.6" for frame in frames[2:within - 1]), frames)
            self.assertEqual(frames[within - 1].symbol, "sorted")
            self.ends_at(frames, "_start")

    def test_through_a_signal_handler(self):
        for shape in ("signal", "altstack"):
            frames, = self.check_all("frames", shape)
            self.assertEqual([frame.symbol for frame in frames[:2]], ["leaf", "on_fault"])
            self.assertTrue(frames[2].line.split("+")[0].endswith("(__restore_rt"), frames)
            self.assertEqual(frames[3].symbol, "faulting")
            self.ends_at(frames, "_start")

    def test_threads(self):
        result = harness.run(["-w", "50", "-e", "twice", "--", harness.target("frames"), "threads"])
        self.assertEqual(result.status, 0, result)
        stacks = {tuple(stack) for stack in known_stacks(result.stdout)}
        calls = [frames for _, frames in calls_of(result.lines) if frames]
        self.assertEqual(len(calls), 3)
        for frames in calls:
            self.assertEqual([frame.symbol for frame in frames[:3]], ["leaf", "with_alloca", "in_thread"])
            self.assertIn(tuple(frame.address for frame in frames[1:3]), stacks)
            self.assertEqual([frame.symbol for frame in frames[-2:]], ["start_thread", frames[-1].symbol])
            self.assertTrue(frames[-1].symbol.lstrip("_").startswith("clone"), frames)

    def test_a_stripped_program(self):
        frames, = self.check_all("frames_stripped", "shapes")
        self.assertEqual({frame.symbol for frame in frames[:4]}, {""})
        base = {frame.address - frame.offset for frame in frames[:4]}
        self.assertEqual(len(base), 1)
        self.assertEqual(base.pop() % 4096, 0)

    def test_static_programs(self):
        for program in ("frames_static", "frames_static_pie"):
            frames, = self.check_all(program, "shapes", filters=("-x", "twice"))
            self.ends_at(frames, "_start")
            frames, = self.check_all(program, "signal", filters=("-x", "twice"))

    def test_debug_frame_serves_where_eh_frame_is_missing(self):
        frames, = self.check_all("frames_debug_frame", "shapes")
        self.assertEqual(frames[3].symbol, "with_much")

    def test_musl(self):
        frames, = self.check_all("musl/frames", "shapes")
        # Its C library has no call frame information: that the stack goes on is said.
        self.assertEqual(frames[-1].line, " > ?")
        self.assertEqual(frames[-2].object, "libc.so")
        frames, = self.check_all("musl/frames", "signal")
        self.assertEqual(frames[3].symbol, "faulting")

    def test_source_lines(self):
        (frames, _), = self.trace("frames", "shapes")
        with open(os.path.join(harness.HERE, "targets", "frames.c")) as file:
            source = file.read().splitlines()
        for frame, text in zip(frames, ("twice(value)", "leaf(value)", "with_alloca(value)", "with_alignment(a)")):
            path, _, number = frame.source.rpartition(":")
            self.assertTrue(path.endswith("targets/frames.c"), frame.source)
            # The call itself is on that line: the address looked up is inside it, not behind it.
            self.assertIn(text, source[int(number) - 1])
        (frames, _), = self.trace("frames_stripped", "shapes")
        self.assertIsNone(frames[0].source)

    def test_a_deleted_program_is_walked_from_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "frames")
            shutil.copy(harness.target("frames"), copy)
            with harness.without_capabilities("sys_admin", "checkpoint_restore"):
                with harness.Target([copy, "shapes", "0", "wait"]) as target:
                    target.expect("ready")
                    os.unlink(copy)
                    tracer = harness.Attached(["-w", "20", "-l", "libfixture.so"], [target.pid])
                    target.go()
                    rest, status = target.finish()
                    self.assertEqual(status, 0)
                    calls = [frames for _, frames in calls_of(tracer.end().lines) if frames]
                    self.check(calls[0], known_stacks(rest)[0])


class Lines(unittest.TestCase):
    def test_an_interrupted_call_has_its_frames_when_it_is_complete(self):
        result = harness.run(["-F", harness.CONF, "-w", "1", "-x", "outer+middle+inner", "--",
                              harness.target("entries"), "nested"])
        text = "\n".join(line for line in result.lines if not line.startswith("\t"))
        text = re.sub(r"(?m)^ > .*?\((\w+)\+.*", r" > \1", re.sub(r"\) +=", ") =", text.replace("@libfixture.so", "")))
        self.assertEqual(text, "outer(1 <unfinished ...>\nmiddle(2 <unfinished ...>\n"
                               "inner(3) = 4\n > middle\n\n"
                               "<... middle resumed> ) = 5\n > outer\n\n"
                               "<... outer resumed> ) = 6\n > main\n\n" + EXIT)

    def test_a_call_that_is_open_at_the_end_has_them_too(self):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "trace")
            words = [harness.RTRACE, "-o", output, "-w", "2", "-e", "getc", "--", harness.target("frames"), "shapes", "0",
                     "wait"]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=harness.environment())
            try:
                harness.wait_until(lambda: "getc(" in harness.read_text(output), "the call is shown")
                process.send_signal(signal.SIGTERM)
                # The command runs on without rtrace, which waits for it to give its exit status.
                harness.wait_until(lambda: "unfinished" in harness.read_text(output), "the line is closed")
                process.stdin.write(b"go\n")
                process.stdin.close()
                process.wait(harness.PATIENCE)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            lines = harness.read_text(output).splitlines()
        self.assertRegex(lines[0], r"getc\(.* <unfinished \.\.\.>$")
        self.assertEqual(Frame(lines[1]).symbol, "main", lines)

    def test_code_made_at_run_time_is_an_address_and_the_end(self):
        with Host() as host:
            number = host.open(harness.target("libplugin_a.so"))
            with attached(host, "-w", "9", "-x", "plugin_work") as box:
                host.work(number, 1000, verb="jit")
            host.quit()
        calls = calls_of(box.result.lines)
        self.assertTrue(calls)
        for line, frames in calls:
            self.assertRegex(line, r"plugin_work@libplugin_a\.so\(\d+\) += \?$")
            self.assertEqual(len(frames), 1, frames)
            self.assertRegex(frames[0].line, r"^ > \? \[0x[0-9a-f]+\]$")

    def test_an_sdt_probe_has_the_function_that_it_is_in(self):
        result = harness.run(["-w", "9", "-x", "sdt:marks:point", "--", harness.target("marks")], stdin="work 2\n")
        calls = [call for call in calls_of(result.lines) if call[0].startswith("sdt:")]
        self.assertEqual([line for line, _ in calls], ["sdt:marks:point(0)", "sdt:marks:point(1)"], result)
        for _, frames in calls:
            self.assertEqual(frames[0].object, "marks", frames)
            self.assertEqual(frames[-1].symbol, "_start", frames)

    def test_a_part_of_a_function_has_the_callers_of_the_function(self):
        result = harness.run(["-w", "3", "-x", "plugin_work.cold", "-x", "plugin_work", "--", harness.target("loads"), "3",
                              harness.target("libcold.so"), "3"])
        parts = [frames for line, frames in calls_of(result.lines) if line.startswith("plugin_work.cold")]
        whole = [frames for line, frames in calls_of(result.lines) if "plugin_work@" in line and frames]
        self.assertEqual(len(parts), 1, result)
        self.assertIn([frame.address for frame in parts[0]], [[frame.address for frame in frames] for frames in whole])

    def test_names_of_cplusplus(self):
        plain = harness.run(["-w", "1", "-e", "*total*", "--", harness.target("shop")])
        self.assertIn("(main+0x", plain.lines[1])
        demangled = harness.run(["-C", "-w", "9", "-x", "leaf(int)", "--", harness.target("frames_cxx")])
        frames = calls_of(demangled.lines)[0][1]
        self.assertEqual([frame.symbol for frame in frames[:2]], ["shop::Till::add(int)", "shop::Cart<int>::fill(int, int)"])
        mangled = harness.run(["-w", "9", "-x", "leaf(int)", "--", harness.target("frames_cxx")])
        self.assertEqual(calls_of(mangled.lines)[0][1][0].symbol, "_ZN4shop4Till3addEi")

    def test_without_w_there_are_none(self):
        result = harness.run(["-e", "twice", "--", harness.target("frames"), "shapes"])
        self.assertEqual(len(result.lines), 2, result)

    def test_a_table_has_none(self):
        result = harness.run(["-c", "-w", "3", "-e", "twice", "--", harness.target("frames"), "shapes"])
        self.assertNotIn(" > ", result.trace)


GDB = """
import gdb
gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set backtrace past-main on")
gdb.execute("set breakpoint pending on")
gdb.execute("break __libc_start_main")
gdb.execute("run")
gdb.execute("break *%(function)s")
for _ in range(%(calls)d):
    gdb.execute("continue")
    frame, addresses = gdb.newest_frame(), []
    while frame is not None and frame.is_valid():
        if frame.type() != gdb.INLINE_FRAME:
            addresses.append(hex(frame.pc()))
        frame = frame.older()
    print("STACK", *addresses[1:], flush=True)
gdb.execute("kill")
"""


class Gdb(unittest.TestCase):
    """The first calls of a function in real programs: both see the same frames. Without address randomization the same
    objects lie at the same places."""
    CALLS = 3

    def gdb_stacks(self, function, command):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(GDB % {"function": function, "calls": self.CALLS})
            script.flush()
            done = subprocess.run(["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-x", script.name,
                                   "--args"] + command,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=harness.PATIENCE, env=self.environment(),
                                  check=False)
        stacks = [[int(word, 16) for word in line.split()[1:]]
                  for line in done.stdout.splitlines() if line.startswith("STACK")]
        self.assertEqual(len(stacks), self.CALLS, done.stdout[-4000:])
        return stacks

    @staticmethod
    def environment():
        return dict(harness.environment(), PYTHONHASHSEED="0", PERL_HASH_SEED="0")

    def rtrace_stacks(self, function, command):
        with tempfile.NamedTemporaryFile("r") as output:
            done = subprocess.run(["setarch", "-R", harness.RTRACE, "-o", output.name, "-w", "100", "-x", function, "--"]
                                  + command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=harness.PATIENCE,
                                  env=self.environment(), check=False)
            lines = output.read().splitlines()
        # A call inside another ends first: the order is not that of the entries.
        stacks = [frames for _, frames in calls_of(lines) if frames]
        self.assertTrue(stacks, done.stdout[-4000:])
        return stacks

    @staticmethod
    def same(theirs, ours):
        """Address by address; an object may lie somewhere else, but then all of it."""
        moved = {}
        return len(theirs) == len(ours) and all(
            moved.setdefault(frame.object, address - frame.address) == address - frame.address
            for address, frame in zip(theirs, ours)) and all(distance % 4096 == 0 for distance in moved.values())

    def check(self, function, command):
        theirs, ours = self.gdb_stacks(function, command), self.rtrace_stacks(function, command)
        for stack in theirs:
            self.assertGreater(len(stack), 3)
            self.assertTrue(any(self.same(stack, frames) for frames in ours), (list(map(hex, stack)), ours[:4]))

    def test_python(self):
        self.check("PyDict_New", [sys.executable, "-c", "import json; json.dumps({'a': [1]}, indent=1)"])

    def test_perl(self):
        self.check("Perl_newSVpvn", ["perl", "-e", "my @a = sort { $a <=> $b } (3, 1, 2); print sprintf('%d', $a[0])"])

    def test_sort(self):
        self.check("sigaddset", ["sort", "/dev/null"])


if __name__ == "__main__":
    unittest.main()
