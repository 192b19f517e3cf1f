#!/usr/bin/python3
"""cmake --install and the Debian package put everything where a distribution expects it."""
import glob
import os
import subprocess
import tempfile
import unittest

BUILD = os.environ["RTRACE_BUILD"]
FILES = [
    "bin/rtrace",
    "share/man/man1/rtrace.1",
    "share/man/man5/rtrace.conf.5",
    "share/rtrace/conf/libc.so.conf",
    "share/rtrace/conf/python3.conf",
    "share/rtrace/rtrace-trace.schema.json",
    "share/bash-completion/completions/rtrace",
    "share/zsh/site-functions/_rtrace",
    "share/fish/vendor_completions.d/rtrace.fish",
    "share/doc/rtrace/README.md",
    "share/doc/rtrace/CHANGELOG.md",
    "share/doc/rtrace/copyright",
]


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("%s: status %d\n%s" % (" ".join(words), done.returncode, done.stdout))
    return done.stdout


class Install(unittest.TestCase):
    def check_tree(self, prefix):
        for name in FILES:
            self.assertTrue(os.path.isfile(os.path.join(prefix, name)), name)
        self.assertTrue(run(os.path.join(prefix, "bin/rtrace"), "--version").startswith("rtrace "))

    def test_install_into_a_prefix(self):
        with tempfile.TemporaryDirectory() as prefix:
            run(os.environ["RTRACE_CMAKE"], "--install", BUILD, "--prefix", prefix)
            self.check_tree(prefix)

    def test_the_package_unpacks_and_its_program_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            run(os.environ["RTRACE_CPACK"], "-G", "DEB", "-B", folder, "--config",
                os.path.join(BUILD, "CPackConfig.cmake"))
            package, = glob.glob(os.path.join(folder, "rtrace_*_amd64.deb"))
            fields = run("dpkg-deb", "--field", package)
            self.assertIn("Package: rtrace\n", fields)
            self.assertRegex(fields, r"(?m)^Depends: libc-bin, coreutils$")
            run("dpkg-deb", "-x", package, os.path.join(folder, "root"))
            self.check_tree(os.path.join(folder, "root", "usr"))
            listing = run("dpkg-deb", "--contents", package)
            for line in listing.splitlines():
                self.assertRegex(line, r"^\S+ root/root ")


if __name__ == "__main__":
    unittest.main()
