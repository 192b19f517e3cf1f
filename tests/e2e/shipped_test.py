#!/usr/bin/python3
"""The prototypes that come with rtrace, on programs of Debian's: exact lines, for arguments that the script chose.

What is expected is what the library's manual says that a program passes and gets. Addresses differ from run to run and
stand as ADDR.
"""
import ast
import os
import re
import subprocess
import tempfile
import unittest

import harness
import servers_test

PYTHON = "/usr/bin/python3"


def normal(line):
    """Without addresses, and without the padding before the result."""
    return re.sub(r"0x[0-9a-f]{6,16}\b", "ADDR", re.sub(r"\) += ", ") = ", line))


class Shipped(unittest.TestCase):
    maxDiff = None

    def traced(self, patterns, command, status=0, options=(), **others):
        words = list(options)
        for pattern in patterns.split():
            words += ["-x", pattern]
        self.result = harness.run(words + ["--"] + command, **others)
        self.assertEqual(self.result.status, status, self.result)
        self.assertNotIn(".conf:", self.result.stderr)
        lines = [normal(line) for line in self.result.lines]
        self.assertEqual(lines.pop(), "+++ exited (status %d) +++" % status)
        return lines

    def assert_has(self, lines, *expected):
        for line in expected:
            self.assertIn(line, lines, self.result)

    def python(self, patterns, script, **others):
        # Isolated, without site packages: what is called is what the script calls.
        return self.traced(patterns, [PYTHON, "-SIc", script], **others)


class Libraries(Shipped):
    def test_zlib(self):
        lines = self.python(
            "deflateInit2_ deflate deflateEnd crc32",
            "import zlib; print(len(zlib.compress(b'hello ' * 100, 9)), zlib.ZLIB_VERSION); zlib.crc32(b'hello')")
        length, version = self.result.stdout.split()
        self.assertEqual(lines, [
            'deflateInit2_@libz.so.1(ADDR, Z_BEST_COMPRESSION, Z_DEFLATED, 15, 8, Z_DEFAULT_STRATEGY, "%s", 112) = Z_OK'
            % version,
            "deflate@libz.so.1({ ADDR, 600, 0, ADDR, 32768, 0, nil } -> { ADDR, 0, 600, ADDR, %d, %s, nil }, Z_FINISH)"
            " = Z_STREAM_END" % (32768 - int(length), length),
            "deflateEnd@libz.so.1({ ADDR, 0, 600, ADDR, %d, %s, nil }) = Z_OK" % (32768 - int(length), length),
            'crc32@libz.so.1(0, "hello", 5) = ADDR'])
        self.assertIn("= 0x3610a686", self.result.lines[3])  # of "hello", by any CRC-32

    def test_liblzma(self):
        lines = self.python("lzma_easy_encoder lzma_code", "import lzma; print(len(lzma.compress(b'x' * 50)))")
        self.assertEqual(lines[0], "lzma_easy_encoder@liblzma.so.5({ nil, 0, 0, nil, 0, 0 }, 0x6, LZMA_CHECK_CRC64)"
                                   " = LZMA_OK")
        self.assertRegex(lines[1], r"^lzma_code@liblzma\.so\.5\(\{ ADDR, 50, 0, ADDR, 32768, 0 \} -> "
                                   r"\{ ADDR, 0, 50, ADDR, \d+, \d+ \}, LZMA_RUN\) = LZMA_OK$")
        self.assertRegex(lines[2], r"-> \{ nil, 0, 50, ADDR, \d+, %s \}, LZMA_FINISH\) = LZMA_STREAM_END$"
                         % self.result.stdout.strip())

    def test_sqlite(self):
        script = """
import sqlite3
connection = sqlite3.connect(":memory:")
print(connection.execute("SELECT ?, ?, ?", ("one", 2, 2.5)).fetchall())
try:
    connection.execute("SELECT missing")
except sqlite3.OperationalError:
    pass
"""
        lines = self.python("sqlite3_open_v2 sqlite3_prepare_v2 sqlite3_step sqlite3_bind_*t* sqlite3_bind_double "
                            "sqlite3_column_text sqlite3_column_double sqlite3_errmsg", script, options=["-L"])
        self.assertEqual([line.replace("@libsqlite3.so.0", "") for line in lines if "parameter" not in line], [
            'sqlite3_open_v2(":memory:", ADDR, SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE, nil) = SQLITE_OK',
            'sqlite3_prepare_v2(ADDR, "SELECT ?, ?, ?", 15, ADDR, "") = SQLITE_OK',
            'sqlite3_bind_text(ADDR, 1, "one", 3, SQLITE_TRANSIENT) = SQLITE_OK',
            "sqlite3_bind_int64(ADDR, 2, 2) = SQLITE_OK",
            "sqlite3_bind_double(ADDR, 3, 2.500000) = SQLITE_OK",
            "sqlite3_step(ADDR) = SQLITE_ROW",
            'sqlite3_column_text(ADDR, 0) = "one"',
            "sqlite3_column_double(ADDR, 2) = 2.500000",
            "sqlite3_step(ADDR) = SQLITE_DONE",
            'sqlite3_prepare_v2(ADDR, "SELECT missing", 15, nil, "") = SQLITE_ERROR',
            'sqlite3_errmsg(ADDR) = "no such column: missing"'])

    def test_libssl(self):
        lines = self.python(
            "SSL_CTX_set_cipher_list SSL_CTX_set_verify SSL_CTX_load_verify_locations SSL_CTX_ctrl",
            "import ssl; c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.set_ciphers('ECDHE+AESGCM');"
            "c.minimum_version = ssl.TLSVersion.TLSv1_2; c.check_hostname = False; c.verify_mode = ssl.CERT_NONE")
        self.assert_has(
            lines,
            'SSL_CTX_set_cipher_list@libssl.so.3(ADDR, "ECDHE+AESGCM") = 1',
            "SSL_CTX_set_verify@libssl.so.3(ADDR, SSL_VERIFY_PEER|SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil) = <void>",
            "SSL_CTX_set_verify@libssl.so.3(ADDR, SSL_VERIFY_NONE, nil) = <void>",
            "SSL_CTX_ctrl@libssl.so.3(ADDR, SSL_CTRL_SET_MIN_PROTO_VERSION, 771, 0) = 1")

    def test_libcrypto_digests(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"digest me\n")
            file.flush()
            lines = self.traced("EVP_DigestUpdate EVP_DigestFinal_ex", ["openssl", "dgst", "-sha256", file.name])
        self.assertEqual(lines, ['EVP_DigestUpdate@libcrypto.so.3(ADDR, "digest me\\n", 10) = 1',
                                 "EVP_DigestFinal_ex@libcrypto.so.3(ADDR, ADDR, 32) = 1"])

    def test_a_negative_length_is_up_to_the_end_of_the_text(self):
        lines = self.python("BIO_new_mem_buf PyUnicode_FromWideChar", """
import ctypes
crypto = ctypes.CDLL("libcrypto.so.3")
crypto.BIO_new_mem_buf(b"all of this", -1)
crypto.BIO_new_mem_buf(b"part of this", 4)
ctypes.pythonapi.PyUnicode_FromWideChar(ctypes.c_wchar_p("wide"), ctypes.c_ssize_t(-1))
""")
        self.assert_has(lines, 'BIO_new_mem_buf@libcrypto.so.3("all of this", -1) = ADDR',
                        'BIO_new_mem_buf@libcrypto.so.3("part", 4) = ADDR')
        self.assertTrue([line for line in lines if line.startswith('PyUnicode_FromWideChar("wide", -1) = ')], lines)

    def test_libcrypto_shows_the_random_bytes_that_it_gave(self):
        line, = self.traced("RAND_bytes", ["openssl", "rand", "-hex", "8"])
        shown = re.fullmatch(r'RAND_bytes@libcrypto\.so\.3\((".*"), 8\) = 1', line)
        self.assertTrue(shown, line)
        self.assertEqual(ast.literal_eval("b" + shown.group(1)).hex(), self.result.stdout.strip())

    def test_libcurl(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "page"), "w") as file:
                file.write("hello")
            with harness.Target([PYTHON, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory",
                                 folder]) as server:
                url = "http://127.0.0.1:%s/page" % server.expect(r"Serving HTTP on \S+ port (\d+)").group(1)
                lines = self.traced(
                    "curl_global_init curl_easy_setopt curl_easy_getinfo curl_easy_perform curl_slist_append",
                    ["curl", "-qs", "--noproxy", "*", "-A", "tester/1", "-H", "X-Kind: test", "-w", "%{http_code} %{scheme}", url],
                    options=["-s", "80"])
        self.assertEqual(self.result.stdout, "hello200 HTTP")
        self.assert_has(
            lines,
            "curl_global_init@libcurl.so.4(CURL_GLOBAL_ALL) = CURLE_OK",
            'curl_easy_setopt@libcurl.so.4(ADDR, CURLOPT_URL, "%s") = CURLE_OK' % url,
            'curl_easy_setopt@libcurl.so.4(ADDR, CURLOPT_USERAGENT, "tester/1") = CURLE_OK',
            "curl_easy_setopt@libcurl.so.4(ADDR, CURLOPT_TCP_KEEPALIVE, 1) = CURLE_OK",
            "curl_easy_setopt@libcurl.so.4(ADDR, CURLOPT_BUFFERSIZE, 0x19000) = CURLE_OK",
            'curl_slist_append@libcurl.so.4(nil, "X-Kind: test") = { "X-Kind: test", nil }',
            "curl_easy_getinfo@libcurl.so.4(ADDR, CURLINFO_RESPONSE_CODE, 200) = CURLE_OK",
            'curl_easy_getinfo@libcurl.so.4(ADDR, CURLINFO_SCHEME, "HTTP") = CURLE_OK')

    def test_libmariadb_never_shows_a_password(self):
        script = ("import MySQLdb\n"
                  "try: MySQLdb.connect(unix_socket='/nonexistent/s', user='u', passwd='secret', db='d')\n"
                  "except MySQLdb.OperationalError: pass\n")
        lines = self.traced("mysql_real_connect mysql_error", [PYTHON, "-c", script], options=["-s", "80"])
        self.assert_has(
            lines,
            'mysql_real_connect@libmariadb.so.3(ADDR, nil, "u", "d", 0, "/nonexistent/s", 0) = nil',
            'mysql_error@libmariadb.so.3(ADDR) = "Can\'t connect to local server through socket \'/nonexistent/s\' (2)"')
        self.assertNotIn("secret", self.result.trace)

    def test_libstdcxx(self):
        lines = self.traced("__cxa_throw __cxa_allocate_exception _Znwm", [harness.target("flow_throws"), "throws", "1"])
        # std::runtime_error is a pointer to its class and one to its text; the text is counted, with a head of 24 bytes.
        self.assert_has(lines, "__cxa_allocate_exception@libstdc++.so.6(16) = ADDR", "_Znwm@libstdc++.so.6(26) = ADDR")
        self.assertEqual({line.partition(" <")[0] for line in lines if line.startswith("__cxa_throw")},
                         {'__cxa_throw@libstdc++.so.6(ADDR, { "%s" }, ADDR' % name
                          for name in ("St13runtime_error", "St11logic_error")})


class PostgreSQL(Shipped):
    @classmethod
    def setUpClass(cls):
        cls.cluster = servers_test.Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def test_libpq(self):
        psql = [self.cluster.programs + "/psql", "-XAt", "-h", self.cluster.folder.path, "-U", "rtrace", "-d", "postgres",
                "-c", "SELECT 42 AS answer, NULL"]
        lines = self.traced("PQconnectdbParams PQsendQuery PQexec PQfname PQgetvalue PQntuples PQresultStatus PQgetisnull",
                            psql, options=["-A", "8"])
        self.assertEqual(self.result.stdout, "42|\n")
        self.assertEqual(lines[0], 'PQconnectdbParams@libpq.so.5([ "host", "port", "user", "password", "dbname", '
                                   '"fallback_application_name", "client_encoding" ], ADDR, true) = ADDR')
        self.assertEqual([line for line in lines if re.match("PQ(sendQuery|exec)@", line)],
                         ['PQsendQuery@libpq.so.5(ADDR, "SELECT 42 AS answer, NULL") = true'])
        self.assert_has(lines, "PQresultStatus@libpq.so.5(ADDR) = PGRES_TUPLES_OK",
                        'PQgetvalue@libpq.so.5(ADDR, 0, 0) = "42"', "PQgetisnull@libpq.so.5(ADDR, 0, 1) = true",
                        "PQntuples@libpq.so.5(ADDR) = 1")


class Interpreters(Shipped):
    """Debian's python3, perl and php export their C interface from the program itself."""

    def test_python(self):
        lines = self.python("PyObject_Call* PyErr_SetString", "import math\ntry: math.sqrt(-1)\nexcept ValueError: pass")
        self.assert_has(lines, 'PyErr_SetString(ADDR, "math domain error") = <void>')
        calls = [line for line in lines if line.startswith("PyObject_Call")]
        self.assertEqual(calls[0], 'PyObject_CallFunction(ADDR, "(O)") = ADDR')
        for line in calls:  # each with the arguments of its own prototype: never the four of a guess
            self.assertRegex(line, r'^(PyObject_Calloc\(\d+, \d+|PyObject_CallFunction\(ADDR, "[^"]*"|PyObject_CallMethod\(ADDR, "\w+", ("[^"]*"|nil)|'
                                   r"PyObject_CallFunctionObjArgs\(ADDR|PyObject_CallMethodObjArgs\(ADDR, ADDR|"
                                   r"PyObject_CallObject\(ADDR, (ADDR|nil)|"
                                   r"PyObject_Call\(ADDR, ADDR, (ADDR|nil)|PyObject_CallOneArg\(ADDR, ADDR|"
                                   r"PyObject_CallNoArgs\(ADDR)(\)| <)")

    def test_python_shows_types_by_their_names(self):
        lines = self.python("PyType_GenericAlloc", "class Mine(int): pass\nMine(3)")
        self.assert_has(lines, 'PyType_GenericAlloc({ "Mine" }, 1) = ADDR')

    def test_perl(self):
        version = subprocess.run(["/usr/bin/perl", "-e", 'printf "v%vd", $^V'], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        lines = self.traced("Perl_die Perl_newSVpvn", ["/usr/bin/perl", "-e", "eval { my $n = 0; 1 / $n };"])
        self.assert_has(lines, 'Perl_newSVpvn(ADDR, "%s", %d) = ADDR' % (version, len(version)),
                        'Perl_die(ADDR, "Illegal division by zero" <no return ...>')

    def test_php(self):
        lines = self.traced("php_output_write zend_lookup_class_ex php_error_docref*",
                            ["/usr/bin/php", "-n", "-d", "display_errors=0", "-r",
                             "echo strrev('abc'); class_exists('Missing'); fopen('/nonexistent/x', 'r');"])
        # zend_string and the levels of errors by what they mean.
        self.assertEqual(lines, ['php_output_write("cba", 3) = 3', 'zend_lookup_class_ex({ "Missing" }, nil, 0) = nil',
                                 'php_error_docref1(nil, "/nonexistent/x", E_WARNING, "%s: %s") = <void>'])

    def test_php_allocator(self):
        lines = self.traced("_emalloc _estrndup _efree", ["/usr/bin/php", "-n", "-r", ";"])
        for line in lines:
            self.assertRegex(line, r"^(_emalloc\(\d+\) = ADDR|_efree\(ADDR\) = <void>|_estrndup\(\".*|<\.\.\. _estrndup.*)$")
        self.assertGreater(len(lines), 10)

    def ruby(self, patterns, script):
        return self.traced(patterns, ["/usr/bin/ruby", "--disable-gems", "-e", script])

    def test_ruby(self):
        script = "class Pair; def coerce(other) = [1, 2]; end; 1 + Pair.new; begin; 1 / 0; rescue ZeroDivisionError; end"
        lines = self.ruby("rb_funcallv rb_raise rb_intern", script)
        # 1 and 2 as Ruby tags them, and the symbol of an operator, which is its letter.
        self.assert_has(lines, "rb_funcallv@libruby-3.1.so.3.1(0x3, 0x2b, 1, [ 0x5 ]) = 0x7",
                        'rb_raise@libruby-3.1.so.3.1(ADDR, "divided by 0" <no return ...>')
        self.assertRegex(lines[0], r'^rb_intern@libruby-3\.1\.so\.3\.1\("BasicObject"\) = 0x[0-9a-f]+$')

    def test_ruby_shows_objects_of_c_by_the_name_of_their_type(self):
        lines = self.ruby("rb_data_typed_object_wrap", "Random.new(3)")
        self.assert_has(lines, 'rb_data_typed_object_wrap@libruby-3.1.so.3.1(ADDR, nil, { "random/MT" }) = ADDR')


if __name__ == "__main__":
    unittest.main()
