#!/usr/bin/python3
"""Servers of Debian's with their processes: a PostgreSQL backend that catches errors, nginx reloaded under load."""
import os
import re
import signal
import socket
import subprocess
import threading
import unittest

import counting
import harness
from servers import Cluster, Folder, end


class Server(unittest.TestCase):
    def attach(self, options, pids, command=()):
        rtrace = harness.Attached(["-F", harness.PROGRAMS, *options], pids, command)
        self.addCleanup(rtrace.abandon)
        return rtrace


class PostgreSQL(Server):
    ERRORS = 500
    FUNCTIONS = ("errfinish", "pg_re_throw", "standard_ExecutorRun")
    SCHEMA = """
        CREATE FUNCTION divide(number integer) RETURNS integer LANGUAGE plpgsql AS
          'BEGIN RETURN number / (number - number); END';
        CREATE FUNCTION catch(count integer) RETURNS integer LANGUAGE plpgsql AS '
          DECLARE caught integer := 0;
          BEGIN
            FOR number IN 1..count LOOP
              BEGIN
                PERFORM divide(number) FROM generate_series(1, 1);
              EXCEPTION WHEN division_by_zero THEN caught := caught + 1;
              END;
            END LOOP;
            RETURN caught;
          END';"""

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.remove)
        self.cluster.start()

    def check_log(self):
        self.assertNotIn(harness.state(self.cluster.pid), "ZX", self.cluster.log())
        self.assertNotRegex(self.cluster.log(), "(?i)terminated by signal|crash|reinitializ|PANIC|FATAL:  (?!the database system is starting)")

    def test_500_caught_errors_in_a_backend(self):
        with self.cluster.session() as session:
            session.ask(self.SCHEMA)
            backend = int(session.ask("SELECT pg_backend_pid();")[0])
            options = [word for name in self.FUNCTIONS for word in ("-x", name + "@MAIN")]
            rtrace = self.attach(options, [backend])
            self.assertEqual(session.ask("SELECT catch(%d);" % self.ERRORS), [str(self.ERRORS)])
            self.assertEqual(session.ask("SELECT pg_backend_pid();"), [str(backend)])
            session.finish()
            result = rtrace.end()
        self.assertEqual(result.status, 0, result)
        self.check_log()
        # Each error leaves the executor that runs divide(), and is thrown again by what had called that function. The
        # executor's runs for the two statements return.
        count = self.ERRORS
        self.assertEqual(counting.of_trace(result, self.FUNCTIONS), {
            "errfinish": counting.Counts(count, 0, count), "pg_re_throw": counting.Counts(2 * count, 0, 2 * count),
            "standard_ExecutorRun": counting.Counts(count + 2, 2, count)}, result)

    def test_what_a_client_says_to_it_is_in_its_system_calls(self):
        words = self.cluster.program("psql", "-XAtq", "-d", "postgres", "-c", "SELECT 6*7")
        result = harness.run(["-L", "-S", "-b", "-s", "200", "--", *words], cwd="/")
        self.assertEqual(result.stdout, "42\n", result)
        shown = [re.sub(r"\) +=", ") =", line) for line in result.lines]
        connected = 'connect@SYS(3, { AF_UNIX, "%s" }, 110) = 0' % self.cluster.folder.file(".s.PGSQL.5432")
        asked = 'sendto@SYS(3, "Q\\0\\0\\0\\017SELECT 6*7\\0", 16, MSG_NOSIGNAL, nil, 0) = 16'
        answered = [i for i, line in enumerate(shown) if re.match(r'recvfrom@SYS\(3, "T.*SELECT 1.*", \d+, 0, nil, nil\) = \d+$', line)]
        self.assertTrue(answered, result)
        self.assertLess(shown.index(connected), shown.index(asked), result)
        self.assertLess(shown.index(asked), answered[0], result)

    def test_a_backend_goes_on_after_the_detach(self):
        with self.cluster.session() as session:
            session.ask(self.SCHEMA)
            backend = int(session.ask("SELECT pg_backend_pid();")[0])
            rtrace = self.attach(["-c", "-x", "errfinish+standard_Executor*+exec_*@MAIN"], [backend])
            self.assertEqual(session.ask("SELECT catch(50);"), ["50"])
            self.assertEqual(rtrace.stop().status, 0)
            self.assertEqual(harness.altered_code(backend), [])
            self.assertEqual(session.ask("SELECT catch(50);"), ["50"])
            self.assertEqual(session.ask("SELECT pg_backend_pid();"), [str(backend)])
        self.check_log()

    def test_the_postmaster_with_the_backends_that_it_forks(self):
        rtrace = self.attach(["-f", "-x", "errfinish@MAIN"], [self.cluster.pid])
        for _ in range(3):
            with self.cluster.session() as session:
                session.ask(self.SCHEMA.replace("CREATE", "CREATE OR REPLACE"))
                self.assertEqual(session.ask("SELECT catch(50);"), ["50"])
                backend = int(session.ask("SELECT pg_backend_pid();")[0])
                session.finish()
            harness.wait_until(lambda pid=backend: not os.path.exists("/proc/%d" % pid), "the backend has ended")
        result = rtrace.stop()
        self.assertEqual(result.status, 0, result)
        self.check_log()
        self.assertEqual(len(re.findall(r"(?m)^\[pid +\d+\] errfinish\(", result.trace)), 150, result)


class Nginx(Server):
    CONFIGURATION = """
        daemon off; %(user)s worker_processes 2; pid %(folder)s/pid; error_log %(folder)s/errors;
        events { worker_connections 64; }
        http {
          access_log off; client_body_temp_path %(folder)s/body; proxy_temp_path %(folder)s/proxy;
          fastcgi_temp_path %(folder)s/fastcgi; uwsgi_temp_path %(folder)s/uwsgi; scgi_temp_path %(folder)s/scgi;
          server { listen unix:%(folder)s/socket; location / { return 200 "here\\n"; } }
        }"""
    FUNCTION = "ngx_http_process_request"

    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.remove)
        self.addCleanup(self.end_master)
        with open(self.folder.file("conf"), "w") as file:
            file.write(self.CONFIGURATION % {"folder": self.folder.path, "user": "user root;" if os.geteuid() == 0 else ""})
        self.words = ["/usr/sbin/nginx", "-p", self.folder.path, "-c", self.folder.file("conf")]
        self.answers, self.failures, self.enough = [], [], threading.Event()

    def master(self):
        return int(harness.wait_until(lambda: harness.read_text(self.folder.file("pid")).strip(), "nginx has started"))

    def end_master(self):
        """However the test ended: nginx takes its pid file away when it ends."""
        pid = harness.read_text(self.folder.file("pid")).strip()
        if pid and self.folder.path in harness.read_text("/proc/%s/cmdline" % pid):
            os.kill(int(pid), signal.SIGTERM)
            harness.wait_until(lambda: not harness.read_text(self.folder.file("pid")), "nginx has ended")

    def workers(self):
        """Those of now: {pid}."""
        with open("/proc/%d/task/%d/children" % (self.master(), self.master())) as file:
            return set(map(int, file.read().split()))

    def request(self):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(harness.PATIENCE)
            connection.connect(self.folder.file("socket"))
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        return answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"here\n")

    def load(self):
        try:
            while not self.enough.is_set():
                self.answers.append(self.request())
        except OSError as problem:
            self.failures.append(problem)

    def reload_under_load(self, times=3):
        threads = [threading.Thread(target=self.load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(times):
                answered, before = len(self.answers), self.workers()
                os.kill(self.master(), signal.SIGHUP)
                harness.wait_until(lambda old=before: len(self.workers()) == 2 and not old & self.workers(),
                                   "two new workers have taken over")
                harness.wait_until(lambda then=answered: self.failures or len(self.answers) > then + 100,
                                   "requests are answered")
        finally:
            self.enough.set()
            for thread in threads:
                thread.join()
        self.assertEqual(self.failures, [])
        self.assertTrue(all(self.answers))

    def check(self, result):
        self.assertEqual(result.status, 0, result)
        self.assertNotRegex(harness.read_text(self.folder.file("errors")), r"\[(emerg|alert|crit)\]")
        found = counting.of_trace(result, [self.FUNCTION])[self.FUNCTION]
        self.assertEqual(found, counting.Counts(len(self.answers), len(self.answers), 0), result)

    def options(self):
        return ["-f", "-x", self.FUNCTION + "@MAIN"]

    def test_reloaded_under_load_attached(self):
        nginx = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(end, nginx)
        harness.wait_until(lambda: len(self.workers()) == 2, "nginx has two workers")
        rtrace = self.attach(self.options(), [nginx.pid, *self.workers()])
        self.reload_under_load()
        # Not by a detach: a request is answered before the function returns that has processed it.
        end(nginx, signal.SIGQUIT)
        self.assertEqual(nginx.returncode, 0)
        self.check(rtrace.end())

    def test_reloaded_under_load_from_the_start(self):
        rtrace = self.attach(self.options(), [], ["--"] + self.words)
        harness.wait_until(lambda: os.path.exists(self.folder.file("socket")) and len(self.workers()) == 2,
                           "nginx has two workers")
        self.reload_under_load()
        os.kill(self.master(), signal.SIGQUIT)
        result = rtrace.end()
        self.check(result)


if __name__ == "__main__":
    unittest.main()
