#!/usr/bin/python3
"""Programs whose paths lead elsewhere, that are started by another program, or that have another C library: every call is
counted, by the program's own count."""
import contextlib
import os
import re
import shutil
import subprocess
import unittest

import harness
import leaving_test
from hosts import CALLS, Case, Host, attached, count, without_map_files


def may_unshare(*options):
    return subprocess.run(["unshare", *options, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


NAMESPACE = ("-m",) if os.geteuid() == 0 else ("-Urm",)


@unittest.skipUnless(may_unshare(*NAMESPACE), "the kernel forbids unshare(CLONE_NEWNS) here")
class Elsewhere(Case):
    """Processes whose paths lead to other files than ours."""

    def traced(self, host, path):
        number = host.open(path)
        with attached(host, "-x", "plugin_work", "-x", "add") as box:
            host.work(number, 1000)
            later = host.open(path.replace("libplugin_a", "libplugin_b"))
            host.work(later, 2000)
            host.ask("add %d" % CALLS, "sum")
        host.quit()
        for pattern in (r"plugin_work@libplugin_a\.so\(\d+\) += \d+$", r"plugin_work@libplugin_b\.so\(\d+\) += \d+$",
                        r"add@libfixture\.so\("):
            self.assertEqual(count(box.result, pattern), CALLS, box.result)

    def test_another_mount_namespace_where_the_path_leads_to_another_file(self):
        inner, seen = (os.path.join(self.folder, name) for name in ("inner", "seen"))
        for folder in (inner, seen):
            os.mkdir(folder)
        for name in ("libplugin_a.so", "libplugin_b.so"):
            shutil.copy(harness.target(name), inner)
            shutil.copy(harness.target("libstatics.so"), os.path.join(seen, name))  # what we would see there
        script = "mount --bind '%s' '%s' && exec \"$@\"" % (inner, seen)
        for restricted in (False, True):
            with self.subTest(restricted=restricted), contextlib.ExitStack() as stack:
                host = stack.enter_context(Host(["unshare", *NAMESPACE, "sh", "-c", script, "sh"]))
                if restricted:
                    stack.enter_context(without_map_files())
                self.traced(host, os.path.join(seen, "libplugin_a.so"))

    def jail(self):
        jail = os.path.join(self.folder, "jail")
        needed = subprocess.run(["ldd", harness.target("host")], check=True, capture_output=True, text=True).stdout
        paths = re.findall(r"(/\S+) \(0x", needed)
        for path in paths + [harness.target(name) for name in ("host", "libplugin_a.so", "libplugin_b.so")]:
            os.makedirs(jail + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, jail + path)
        return jail

    def test_a_process_in_a_chroot(self):
        jail = self.jail()
        options = [] if os.geteuid() == 0 else ["unshare", "-Ur"]
        for restricted in (False, True):
            with self.subTest(restricted=restricted), contextlib.ExitStack() as stack:
                host = stack.enter_context(Host(options + ["chroot", jail]))
                if restricted:
                    stack.enter_context(without_map_files())
                self.traced(host, harness.target("libplugin_a.so"))

    def test_a_command_that_enters_a_chroot_is_traced_in_it(self):
        jail = self.jail()
        shutil.copy(harness.target("entries"), jail + harness.target("entries"))
        options = [] if os.geteuid() == 0 else ["unshare", "-Ur"]
        result = harness.run(["-F", harness.CONF, "-x", "add", "-e", "add@MAIN", "--", *options, "chroot", jail,
                              harness.target("entries"), "add", "100"])
        self.assertEqual(result.status, 0, result)
        for pattern in (r"add@libfixture\.so\(", r"entries->add\("):
            self.assertEqual(count(result, pattern), 100, result)


class StartedThroughTheLinker(Case):
    """A dynamic linker with a program as its argument: of glibc's and of musl's."""
    KINDS = (("/lib64/ld-linux-x86-64.so.2", ""), ("/lib/ld-musl-x86_64.so.1", "musl/"))

    def test_launched_its_call_sites_and_entries(self):
        for linker, folder in self.KINDS:
            with self.subTest(linker):
                result = harness.run(["-F", harness.CONF, "-e", "add+greet+twice@MAIN", "-x", "add", "--", linker,
                                      harness.target(folder + "calls" if folder else "calls_now")])
                self.assertEqual(result.status, 0, result)
                self.assertEqual([count(result, r"calls(_now)?->%s\(" % name) for name in ("add", "greet", "twice")], [2, 1, 1], result)
                self.assertEqual(count(result, r"add@libfixture\.so\(-?\d+, \d+\) += \d+$"), 2, result)

    def test_attached_and_what_it_opens_later(self):
        for linker, folder in self.KINDS:
            with self.subTest(linker), Host(before=[linker], program=harness.target(folder + "host")) as host:
                with attached(host, "-x", "plugin_work", "-e", "add") as box:
                    host.work(host.open(harness.target(folder + "libworker.so")), 2)
                    host.ask("add %d" % CALLS, "sum")
                host.quit()
                for pattern in (r"plugin_work@libworker\.so\(", r"libworker\.so->add\(", r"host->add\("):
                    self.assertEqual(count(box.result, pattern), CALLS, box.result)


class WithoutASpareByte(unittest.TestCase):
    """Static programs whose text ends where its last page does: there is nothing behind it to work from."""

    def test_launched_attached_killed_and_repaired(self):
        for kind in ("static", "static_pie"):
            with self.subTest(kind), harness.Target([harness.target("waits_full_" + kind), "3"]) as process:
                process.expect("pid ")
                options = ["-F", harness.CONF, "-x", "add"]
                rtrace = harness.Attached(options, [process.pid])
                self.call(process)
                result = rtrace.stop()
                self.assertEqual(count(result, r"add\(\d, 1\) += \d$"), 3, result)
                rtrace = harness.Attached(options, [process.pid])
                leaving_test.kill_both(rtrace)
                self.call(process)
                self.assertEqual(harness.run(["--repair", "-p", str(process.pid)], separate=False).status, 0)
                with open("/proc/%d/maps" % process.pid) as maps:
                    self.assertEqual(re.findall("r-xp.* 0 *$", maps.read(), re.M), [])
                self.assertEqual(self.end_of_vdso(process.pid), bytes(64))
                self.call(process)

    def test_a_child_whose_parent_has_ended_keeps_no_page_of_ours(self):
        for kind in ("static", "static_pie"):
            for _ in range(20):
                result = harness.run(["-F", harness.CONF, "-x", "add", "--", harness.target("orphan_full_" + kind)])
                self.assertEqual(count(result, r"add\(1, 2\) += 3$"), 1, result)
                self.assertEqual(result.stdout, "made code 0\n", result)

    def call(self, process):
        process.go()
        process.expect("done")

    def end_of_vdso(self, pid):
        with open("/proc/%d/maps" % pid) as maps:
            end = int(re.search(r"-([0-9a-f]+) .*\[vdso\]", maps.read()).group(1), 16)
        with open("/proc/%d/mem" % pid, "rb") as memory:
            memory.seek(end - 64)
            return memory.read(64)


class Musl(Case):
    """Programs of another C library, with its dynamic linker."""

    def test_launched_its_call_sites_and_entries(self):
        result = harness.run(["-F", harness.CONF, "-e", "add+greet+twice@MAIN", "-x", "add", "--",
                              harness.target("musl/calls")])
        self.assertEqual(result.status, 0, result)
        self.assertEqual([count(result, r"calls->%s\(" % name) for name in ("add", "greet", "twice")], [2, 1, 1], result)
        self.assertEqual(count(result, r"add@libfixture\.so\(-?\d+, \d+\) += \d+$"), 2, result)

    def test_a_static_program(self):
        result = harness.run(["-F", harness.CONF, "-x", "add+greet+twice", "--", harness.target("musl/calls_static")])
        self.assertEqual(result.status, 0, result)
        self.assertEqual([count(result, r"%s\(" % name) for name in ("add", "greet", "twice")], [2, 1, 1], result)

    def test_attached_and_what_it_opens_later(self):
        with Host(program=harness.target("musl/host")) as host:
            first = host.open(harness.target("musl/libplugin_a.so"))
            with attached(host, "-x", "plugin_work", "-e", "add", "-e", "add@libworker.so") as box:
                host.work(first, 1000)
                second = host.open(harness.target("musl/libworker.so"))
                host.work(second, 2)
                host.ask("add %d" % CALLS, "sum")
            host.quit()
        result = box.result
        for pattern in (r"plugin_work@libplugin_a\.so\(", r"plugin_work@libworker\.so\(", r"libworker\.so->add\(",
                        r"host->add\("):
            self.assertEqual(count(result, pattern), CALLS, result)

    def test_launched_and_what_it_opens_later(self):
        script = "open %s\ncall 0 1 %d\nadd %d\nquit\n" % (harness.target("musl/libworker.so"), CALLS, CALLS)
        result = harness.run(["-F", harness.CONF, "-x", "plugin_work", "-e", "add", "--", harness.target("musl/host")],
                             stdin=script)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(count(result, r"plugin_work@libworker\.so\("), CALLS, result)
        self.assertEqual(count(result, r"libworker\.so->add\("), CALLS, result)
        self.assertEqual(count(result, r"(host->)?add\("), CALLS, result)

    def test_upgraded_and_read_from_memory(self):
        path = self.place("musl/libworker.so", "libworker.so")
        with Host(program=harness.target("musl/host")) as host, without_map_files():
            number = host.open(path)
            self.place("libstatics.so", "libworker.so")
            with attached(host, "-x", "plugin_work", "-e", "add@libworker.so") as box:
                host.work(number, 2)
            host.quit()
        self.assertEqual(count(box.result, r"plugin_work@libworker\.so\("), CALLS, box.result)
        self.assertEqual(count(box.result, r"libworker\.so->add\("), CALLS, box.result)


if __name__ == "__main__":
    unittest.main()
