#!/usr/bin/python3
"""What lies behind file descriptors (-y)."""
import os
import re
import tempfile
import unittest

import harness

CONF = """
errno(fd) opens(string);
errno uses(fd);
errno closes(fd);
errno pipes(+array(fd, 2)*);
fd gives(fd);
"""
FUNCTIONS = ["-x", "opens+uses+closes+pipes+gives"]


class Descriptors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as cls.folder:
            conf = os.path.join(cls.folder, "conf")
            with open(conf, "w") as file:
                file.write(CONF)
            cls.shown = cls.run_with(conf, ["-y"])
            cls.plain = cls.run_with(conf, [])

    @classmethod
    def run_with(cls, conf, options):
        result = harness.run(options + ["-s", "200", "-F", conf] + FUNCTIONS + ["--", harness.target("descriptors"),
                                                                                cls.folder])
        if result.status != 0:
            raise harness.Failure("status 0 expected\n%s" % result)
        return result

    @staticmethod
    def squeezed(result):
        return [re.sub(r"\) +=", ") =", line) for line in result.lines]

    def setUp(self):
        self.lines = iter(self.squeezed(self.shown))

    def next(self, pattern):
        """The next line; what it must be like."""
        line = next(self.lines)
        match = re.fullmatch(pattern, line)
        self.assertTrue(match, "%s\nis not like\n%s\nin\n%s" % (line, pattern, self.shown))
        return match

    def test_each_kind(self):
        path = re.escape(self.folder + r"/a\<b\>\n")
        fd = self.next(r'opens\("%s"\) = (\d+)<%s>' % (re.escape(self.folder + "/a<b>\\n"), path)).group(1)
        self.next(r"uses\(%s<%s>\) = 0" % (fd, path))
        self.next(r"uses\(%s<%s \(deleted\)>\) = 0" % (fd, path))
        self.next(r"closes\(%s<%s \(deleted\)>\) = 0" % (fd, path))
        self.next(r"uses\(%s\) = -1 EBADF \(Bad file descriptor\)" % fd)
        self.next(r"uses\(-1\) = -1 EBADF \(Bad file descriptor\)")
        self.next(r'opens\("/nonexistent/x"\) = -1 ENOENT \(No such file or directory\)')
        one, inode, other = self.next(r"pipes\(\[ (\d+)<pipe:\[(\d+)\]>, (\d+)<pipe:\[\2\]> \]\) = 0").groups()
        self.next(r"closes\(%s<pipe:\[%s\]>\) = 0" % (one, inode))
        self.next(r"closes\(%s<pipe:\[%s\]>\) = 0" % (other, inode))
        self.next(r"uses\(\d+<anon_inode:\[eventpoll\]>\) = 0")
        server, client = re.search(r"ports (\d+) (\d+)", self.shown.stdout).groups()
        self.next(r"uses\(\d+<TCP:\[127\.0\.0\.1:%s\]>\) = 0" % server)
        self.next(r"uses\(\d+<TCP:\[127\.0\.0\.1:%s->127\.0\.0\.1:%s\]>\) = 0" % (client, server))
        accepted = r"\d+<TCP:\[127\.0\.0\.1:%s->127\.0\.0\.1:%s\]>" % (server, client)
        self.next(r"gives\(%s\) = %s" % (accepted, accepted))
        path = re.escape(self.folder + "/socket")
        self.next(r"uses\(\d+<UNIX:\[%s\]>\) = 0" % path)
        self.next(r"uses\(\d+<UNIX:\[\d+->%s\]>\) = 0" % path)
        self.next(r"gives\(\d+<UNIX:\[%s\]>\) = \d+<UNIX:\[%s\]>" % (path, path))
        self.next(r"\+\+\+ exited \(status 0\) \+\+\+")

    def test_only_numbers_without_it(self):
        expected = [re.sub(r"(\d)<(?:->|\\.|[^\\>])*>", r"\1", line) for line in self.squeezed(self.shown)]
        self.assertEqual(self.squeezed(self.plain), expected)


if __name__ == "__main__":
    unittest.main()
