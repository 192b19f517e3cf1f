#!/usr/bin/python3
"""The man page and the completions name the options that `rtrace --help` names, and no others."""
import os
import re
import shutil
import subprocess
import unittest

ROOT = os.environ["RTRACE_ROOT"]


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def options_in(text):
    """Letters and long names: {"a", "align", ...}. -tt is -t."""
    letters = {match[0] for match in re.findall(r"(?<![\w-])-([A-Za-z])(?:\1)*(?![\w])", text)}
    return letters | set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]+[a-z0-9])", text))


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([os.environ["RTRACE"], "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=True)
        # Only the column of the options: descriptions may mention others.
        cls.known = set()
        for line in done.stdout.splitlines():
            match = re.match(r"\s+(-\S.*?)(?:\s{2,}|$)", line)
            if match:
                cls.known |= options_in(match.group(1))
            cls.known |= set(re.findall(r"\(also -(\w)\)", line))

    def test_there_are_options(self):
        self.assertGreater(len(self.known), 40)

    def test_the_man_page(self):
        text = "\n".join(line for line in read("man", "rtrace.1").splitlines() if line.startswith(".It Fl"))
        found = set()
        for word in re.findall(r"Fl (-?[A-Za-z][a-z0-9-]*)(?=\s|$)", text):
            if word.startswith("-"):
                found.add(word[1:])
            elif len(set(word)) == 1:
                found.add(word[0])
        self.assertEqual(found, self.known)

    def test_bash(self):
        text = re.search(r"if \[\[ \$current == -\* \]\].*?nospace", read("completions", "rtrace.bash"), re.S).group()
        self.assertEqual(options_in(re.search(r"options='(.*?)'", text, re.S).group(1)), self.known)

    def test_zsh(self):
        text = "\n".join(re.findall(r"(?m)^  '(?:\([^)]*\)|\*)?'?(\{[^}]*\}|-[^'\[]*)", read("completions", "_rtrace")))
        self.assertEqual(options_in(re.sub(r"[{},+=]", " ", text)), self.known)

    def test_fish(self):
        text = read("completions", "rtrace.fish")
        found = set(re.findall(r"(?<= -s )(\w)\b", text)) | set(re.findall(r"(?<= -l )([\w-]+)", text))
        self.assertEqual(found, self.known)


class Syntax(unittest.TestCase):
    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_the_man_pages_are_without_warnings(self):
        for page in ("rtrace.1", "rtrace.conf.5"):
            with self.subTest(page=page):
                done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", os.path.join(ROOT, "man", page)],
                                      stdout=subprocess.PIPE, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_shells_can_read_their_completions(self):
        for shell, name in (("bash", "rtrace.bash"), ("zsh", "_rtrace"), ("fish", "rtrace.fish")):
            if shutil.which(shell):
                with self.subTest(shell=shell):
                    subprocess.run([shell, "-n", os.path.join(ROOT, "completions", name)], check=True)


if __name__ == "__main__":
    unittest.main()
