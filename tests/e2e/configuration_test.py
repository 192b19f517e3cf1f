#!/usr/bin/python3
"""Where prototypes come from: which file wins, ltrace's own files, and what is said about mistakes.

spot_find() of libspot.so returns 105, which each file calls by another name: the name says whose file was used.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
# /etc and /usr/share as a machine has them where ltrace is installed, for one command: nothing of this is seen outside.
INSTALLED = """
mount -t tmpfs none /etc && mount -t tmpfs none /usr/share && cp -r "$1"/etc/. /etc && cp -r "$1"/share/. /usr/share || exit 125
shift
exec "$@"
"""


def may_mount():
    done = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


class Places(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.home = self.path("home")
        self.environment = {"HOME": self.home, "XDG_CONFIG_HOME": ""}

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def names(self, name, place):
        """A file that calls the result FROM_PLACE."""
        return self.write(name, "enum(FROM_%s=105) spot_find(string, addr);\n" % place)

    def run_rtrace(self, words, rtrace=None, front=()):
        env = {**harness.environment(), **self.environment}
        env = {name: value for name, value in env.items() if value is not None}
        done = subprocess.run([*front, rtrace or harness.RTRACE, *harness.by_mechanism(words)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                              timeout=harness.PATIENCE, check=False)
        return harness.Result(done.returncode, "", done.stdout, done.stderr)

    def line(self, options=(), program="spotter_bare", **others):
        result = self.run_rtrace([*options, "-x", "spot_find", "--", harness.target(program)], **others)
        self.assertEqual(result.status, 0, result)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 2, result)
        return re.sub(r"0x[0-9a-f]{6,}", "ADDR", re.sub(r"\) += ", ") = ", lines[0].partition("(")[2]))


class Order(Places):
    def test_each_place_in_its_turn(self):
        """All files are there at first; the one that won is taken away, until debug information is left."""
        self.environment["XDG_CONFIG_HOME"] = self.path("xdg")
        # rtrace finds what comes with it beside itself.
        rtrace = self.path("prefix/bin/rtrace")
        os.makedirs(os.path.dirname(rtrace))
        shutil.copy(harness.RTRACE, rtrace)
        places = [("first.conf", "FIRST_F"), ("second.conf", "SECOND_F"), ("xdg/rtrace/libspot.so.toml", None),
                  ("xdg/rtrace/libspot.so.conf", "XDG"), ("home/.ltrace.conf", "HOME"),
                  ("prefix/share/rtrace/conf/libspot.so.conf", "SHIPPED")]
        for name, place in places:
            if place:
                self.names(name, place)
            else:
                self.write(name, '[functions]\nspot_find = "enum(FROM_TOML=105)(string, addr)"\n')
        for name, place in places:
            # A -F file that is not there is an error: what is taken away is what it says.
            options = ["-F", self.path("first.conf") + ":" + self.path("second.conf")]
            self.assertEqual(self.line(options, rtrace=rtrace), '"home", ADDR) = FROM_%s' % (place or "TOML"))
            with open(self.path(name), "w"):
                pass
        self.assertEqual(self.line(rtrace=rtrace), '"home", { 1, 2 }) = 105')

    def test_that_what_comes_with_rtrace_is_not_there_is_said(self):
        rtrace = self.path("prefix/bin/rtrace")
        os.makedirs(os.path.dirname(rtrace))
        shutil.copy(harness.RTRACE, rtrace)
        words = ["-x", "spot_find", "--", harness.target("spotter_bare")]
        self.assertRegex(self.run_rtrace(words, rtrace=rtrace).stderr,
                         r"(?m)^rtrace: the prototypes that come with rtrace are not beside it .*%s\)"
                         % re.escape(self.path("prefix/bin/conf")))
        for folder in ("prefix/share/rtrace/conf", "prefix/bin/conf"):
            os.makedirs(self.path(folder))
            self.assertNotIn("beside it", self.run_rtrace(words, rtrace=rtrace).stderr)
            os.rmdir(self.path(folder))

    def test_the_folder_in_the_home_where_the_environment_names_none(self):
        self.names("home/.config/rtrace/libspot.so.conf", "CONFIG")
        self.names("home/.ltrace.conf", "HOME")
        for setting in ("", "relative/path", None):
            with self.subTest(XDG_CONFIG_HOME=setting):
                self.environment["XDG_CONFIG_HOME"] = setting
                self.assertEqual(self.line(), '"home", ADDR) = FROM_CONFIG')
        self.environment["XDG_CONFIG_HOME"] = self.path("xdg")
        self.assertEqual(self.line(), '"home", ADDR) = FROM_HOME')

    def test_a_folder_of_files_by_F(self):
        self.names("mine/libother.so.conf", "OTHER")
        self.assertEqual(self.line(["-F", self.path("mine")]), '"home", ADDR) = FROM_OTHER')
        self.names("mine/libspot.so.conf", "NAMED")
        self.assertEqual(self.line(["-F", self.path("mine")]), '"home", ADDR) = FROM_NAMED')

    def test_a_file_may_import_what_comes_with_rtrace(self):
        path = self.write("mine.conf", 'import "libsqlite3.so";\nint spot_find(string, datatype*);\n')
        self.assertEqual(self.line(["-F", path]), '"home", SQLITE_INTEGER) = 105')  # the struct begins with a 1

    @unittest.skipUnless(may_mount(), "needs a mount namespace of its own")
    def test_ltraces_files_rank_behind_debug_information(self):
        self.names("etc/ltrace.conf", "ETC")
        for library in ("spot", "spot_bare"):
            self.names("share/ltrace/lib%s.so.conf" % library, "SHARE")
        front = [*UNSHARE, "/bin/sh", "-c", INSTALLED, "sh", self.folder]
        self.assertEqual(self.line(front=front), '"home", { 1, 2 }) = 105')
        self.assertEqual(self.line(front=front, program="spotter_both_bare"), '"home", ADDR) = FROM_ETC')
        os.remove(self.path("etc/ltrace.conf"))
        self.assertEqual(self.line(front=front, program="spotter_both_bare"), '"home", ADDR) = FROM_SHARE')
        os.remove(self.path("share/ltrace/libspot_bare.so.conf"))
        self.assertTrue(self.line(front=front, program="spotter_both_bare").startswith('"home", ADDR, '))

    @unittest.skipUnless(may_mount(), "needs a mount namespace of its own")
    def test_a_folder_of_ltraces_has_a_file_for_each_library_with_its_types_apart(self):
        os.makedirs(self.path("etc"))
        self.write("share/ltrace/libspot_bare.so.conf", 'import "libspot.so-types";\nanswer spot_find(string, place*);\n')
        self.write("share/ltrace/libspot.so-types.conf",
                   "typedef answer = enum(FROM_TYPES=105);\ntypedef place = struct(int, hex(int));\n")
        # For another library: not this one's.
        self.names("share/ltrace/libc.so.conf", "LIBC")
        front = [*UNSHARE, "/bin/sh", "-c", INSTALLED, "sh", self.folder]
        self.assertEqual(self.line(front=front, program="spotter_both_bare"), '"home", { 1, 0x2 }) = FROM_TYPES')

    @unittest.skipUnless(may_mount(), "needs a mount namespace of its own")
    def test_the_home_of_who_runs_it_where_the_environment_has_none(self):
        self.names("home/.ltrace.conf", "PASSWD")
        self.write("etc/passwd", "somebody:x:%d:%d::%s:/bin/sh\n" % (0, 0, self.home))
        os.makedirs(self.path("share"))
        self.environment["HOME"] = None
        front = [*UNSHARE, "/bin/sh", "-c", INSTALLED, "sh", self.folder]
        self.assertEqual(self.line(front=front), '"home", ADDR) = FROM_PASSWD')


class LtracesOwn(Places):
    """/etc/ltrace.conf as Debian's package ltrace installs it."""
    FILE = "/etc/ltrace.conf"
    # Of a library that nothing else describes.
    SCRIPT = "import ctypes; ctypes.CDLL('libtinfo.so.6').tgoto(b'%p1%d;%p2%d', 3, 4)"
    EXPECTED = r'^tgoto@libtinfo\.so\.6\("%p1%d;%p2%d", 3, 4\) += "4;3"$'

    def setUp(self):
        super().setUp()
        if not os.path.exists(self.FILE):
            self.skipTest(self.FILE + " is not there: the package ltrace has it")

    def check(self, options, origin):
        result = self.run_rtrace(["--explain", *options, "-x", "tgoto", "--", "/usr/bin/python3", "-SIc", self.SCRIPT])
        self.assertEqual(result.status, 0, result)
        self.assertIn("prototype: %s:" % origin, result.stderr)
        calls = [line for line in result.stderr.splitlines() if line.startswith("tgoto@")]
        self.assertEqual(len(calls), 1, result)
        self.assertRegex(calls[0], self.EXPECTED)
        # A mistake would be told as FILE:LINE: WHAT.
        self.assertNotRegex(result.stderr, r"(?m)^rtrace: \S+:\d+: ")

    def test_by_F(self):
        self.check(["-F", self.FILE], self.FILE)

    def test_where_nothing_else_knows_the_function(self):
        self.check([], self.FILE)


class Mistakes(Places):
    def test_each_is_told_with_its_place_and_the_rest_counts(self):
        path = self.write("mine.conf", "# first\nint spot_find(strin, addr);\nint other(int\n"
                                       "enum(FROM_MINE=105) spot_find(string, addr);\nimport \"absent\";\n")
        result = self.run_rtrace(["-F", path, "-x", "spot_find", "--", harness.target("spotter_bare")])
        self.assertEqual(result.status, 0, result)
        lines = result.stderr.splitlines()
        self.assertEqual(lines[:3], [
            "rtrace: %s:2: unknown type 'strin', expected a type or the name of a typedef" % path,
            "rtrace: %s:3: unexpected end of line, expected ',' or ')'" % path,
            'rtrace: %s:5: cannot import "absent", expected a prototype file of that name' % path])
        self.assertRegex(lines[3], r'\("home", 0x[0-9a-f]+\) += FROM_MINE$')

    def test_in_toml_too(self):
        path = self.write("mine.toml", '[functions]\nbad = "int(strin)"\nspot_find = "enum(FROM_MINE=105)(string, addr)"\n'
                                       '[surprise]\n')
        result = self.run_rtrace(["-F", path, "-x", "spot_find", "--", harness.target("spotter_bare")])
        lines = result.stderr.splitlines()
        self.assertEqual(sorted(lines[:2]), [
            "rtrace: %s:2: unknown type 'strin', expected a type or the name of a typedef" % path,
            "rtrace: %s:4: unknown key 'surprise', expected import, library, types or functions" % path], result)
        self.assertIn("= FROM_MINE", lines[2])

    def test_they_never_go_into_the_trace(self):
        path = self.write("mine.conf", "int spot_find(strin, addr);\n")
        output = self.path("trace")
        result = self.run_rtrace(["-F", path, "-o", output, "-x", "spot_find", "--", harness.target("spotter_bare")])
        self.assertIn("mine.conf:1: ", result.stderr)
        self.assertNotIn("mine.conf", harness.read_text(output))

    def test_a_file_that_cannot_be_read_stops_it(self):
        for path in (self.path("absent.conf"), self.path("absent")):
            with self.subTest(path=path):
                result = self.run_rtrace(["-F", path, "-x", "spot_find", "--", harness.target("spotter_bare")])
                self.assertEqual((result.status, result.stdout), (1, ""))
                self.assertEqual(result.stderr, "rtrace: -F %s: No such file or directory\n" % path)

    def test_a_pipe_is_no_prototype_file_and_is_not_waited_for(self):
        path = self.path("pipe.conf")
        os.mkfifo(path)
        result = self.run_rtrace(["-F", path, "-x", "spot_find", "--", harness.target("spotter_bare")])
        self.assertEqual(result.status, 1, result)
        self.assertEqual(result.stderr, "rtrace: cannot read prototypes from %s: a pipe or a socket, and no file\n" % path)

    def test_of_what_is_no_prototype_file_the_first_and_how_many_more(self):
        path = self.write("none.conf", "".join("no prototype %d\n" % number for number in range(1000)))
        result = self.run_rtrace(["-F", path, "-x", "spot_find", "--", harness.target("spotter_bare")])
        told = [line for line in result.stderr.splitlines() if line.startswith("rtrace: %s:" % path)]
        self.assertEqual((result.status, len(told)), (0, 50), result)
        self.assertIn("rtrace: ... and 950 more of these\n", result.stderr)

    def test_of_a_users_library_file_when_it_is_first_asked(self):
        path = self.write("home/.config/rtrace/libspot.so.conf", "int spot_find(strin);\n")
        result = self.run_rtrace(["-x", "spot_find", "--", harness.target("spotter_bare")])
        self.assertEqual(result.stderr.splitlines()[0],
                         "rtrace: %s:1: unknown type 'strin', expected a type or the name of a typedef" % path)
        result = self.run_rtrace(["-x", "main", "--", harness.target("entries"), "add", "1"])
        self.assertNotIn("libspot", result.stderr)


class Manual(Places):
    """The examples of rtrace.conf(5), on real calls."""

    def setUp(self):
        super().setUp()
        with open(os.path.join(harness.SOURCE, "man", "rtrace.conf.5")) as file:
            page = file.read()
        for name, text in re.findall(r'(?m)^\.\\" example: (\S+)\n\.Bd .*\n((?:.*\n)*?)\.Ed$', page):
            self.write(name, text)

    def check(self, name, function, command, expected):
        result = self.run_rtrace(["-F", self.path(name), "-x", function, "--", *command])
        self.assertEqual(result.status, 0, result)
        lines = result.stderr.splitlines()
        self.assertNotIn(name, result.stderr)
        self.assertTrue(any(re.fullmatch(expected, line) for line in lines), result)

    def python(self, script):
        return ["/usr/bin/python3", "-SIc", script]

    def test_values(self):
        self.check("values.conf", "getenv", self.python("import ctypes; ctypes.CDLL(None).getenv(b'LC_ALL')"),
                   r'getenv@libc\.so\.6\("LC_ALL"\) += "C"')
        self.check("values.conf", "inet_addr", self.python("import ctypes; ctypes.CDLL(None).inet_addr(b'1.2.3.4')"),
                   r'inet_addr@libc\.so\.6\("1\.2\.3\.4"\) += 0x4030201')

    def test_directions(self):
        self.check("directions.conf", "inet_pton", self.python("import socket; socket.inet_pton(2, '127.0.0.1')"),
                   r'inet_pton@libc\.so\.6\(2, "127\.0\.0\.1", 0x100007f\) += 1')

    def test_types(self):
        system = os.uname()
        self.check("types.conf", "uname", ["uname", "-s"], r'uname@libc\.so\.6\(\{ "Linux", "%s", "%s" \}\) += 0'
                   % (re.escape(system.nodename), re.escape(system.release)))
        self.check("types.conf", "access", self.python("import os; os.access('/nonexistent', os.R_OK | os.X_OK)"),
                   r'access@libc\.so\.6\("/nonexistent", R_OK\|X_OK\) += -1 ENOENT.*')

    def test_imports(self):
        self.check("common.conf", "clock_gettime", self.python("import time; time.clock_gettime(0)"),
                   r"clock_gettime@libc\.so\.6\(CLOCK_REALTIME, \{ \d+, \d+ \}\) += 0")

    def test_lengths(self):
        self.check("lengths.conf", "execv", self.python("import os; os.execv('/bin/true', ['true', 'one', 'two'])"),
                   r'execv@libc\.so\.6\("/bin/true", \[ "true", "one", "two" \].*')
        self.check("lengths.conf", "fread", self.python(
            "import ctypes; c = ctypes.CDLL(None); c.fopen.restype = ctypes.c_void_p; b = ctypes.create_string_buffer(8);"
            "c.fread(b, 1, 5, ctypes.c_void_p(c.fopen(b'/proc/sys/kernel/ostype', b'r')))"),
                   r'fread@libc\.so\.6\("Linux", 1, 5, 0x[0-9a-f]+\) += 5')


if __name__ == "__main__":
    unittest.main()
