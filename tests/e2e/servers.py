"""Servers of Debian's, each a private one on a unix socket in a folder of its own, and ended by its pid."""
import os
import shutil
import signal
import subprocess
import tempfile

import harness


class Folder:
    """A temporary folder with a short path: a socket's name has 107 bytes at most (unix(7))."""

    def __init__(self):
        self.path = tempfile.mkdtemp(dir="/tmp", prefix="rtrace-")

    def file(self, name):
        return os.path.join(self.path, name)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def end(process, number=signal.SIGTERM):
    """Ends a process of the test's own that may have ended already."""
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(harness.PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Cluster:
    """A database cluster (tools/postgresql). `launcher` is what starts the server."""
    TOOL = os.path.join(harness.SOURCE, "tools", "postgresql")

    def __init__(self, launcher=()):
        self.folder = Folder()
        self.pid, self.launcher = None, list(launcher)
        self.programs = self.tool("programs").strip()

    def tool(self, *words):
        """It bounds its own waits."""
        return subprocess.run([self.TOOL, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def start(self):
        self.pid = int(self.tool("start", self.folder.path, *self.launcher))

    def program(self, name, *words):
        """A client of this server."""
        return [os.path.join(self.programs, name), "-h", self.folder.path, "-U", "rtrace", *words]

    def session(self):
        return Session(self.program("psql", "-XAtq", "-d", "postgres"))

    def log(self):
        return harness.read_text(self.folder.file("log"))

    def stop(self):
        if os.path.exists(self.folder.file("data")):
            self.tool("stop", self.folder.path)

    def remove(self):
        try:
            self.stop()
        finally:
            self.folder.remove()


class Session(harness.Target):
    def ask(self, statement):
        """The lines of the answer."""
        self.process.stdin.write(statement + "\n\\echo -- answered\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "-- answered\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise harness.Failure("the session has ended: " + "\n".join(lines))
