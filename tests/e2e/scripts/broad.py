"""Something of most of what python3 can do; it ends with status 7."""
import argparse, array, ast, asyncio, base64, binascii, bisect, bz2, cmath, collections, concurrent.futures
import configparser, contextlib, copy, csv, ctypes, curses, dataclasses, datetime, decimal, dis, email.message
import enum, fnmatch, fractions, functools, gc, glob, grp, hashlib, heapq, inspect, io, itertools, json
import locale, logging, lzma, math, mmap, multiprocessing, os, pathlib, pickle, pwd, queue, random, re
import readline, resource, select, shutil, signal, socket, sqlite3, ssl, statistics, string, struct
import subprocess, sys, tempfile, termios, textwrap, threading, time, traceback, typing, unicodedata
import urllib.parse, uuid, weakref, xml.etree.ElementTree as ET, zlib
print(json.dumps({"a": [1, 2.5, None, True], "b": "ü"}), json.loads('{"x":[1,{"y":null}]}'))
print(re.sub(r"o(.)?", lambda m: (m.group(1) or "").upper(), "hello world"), re.findall(r"\w+", "a b c"))
print(len(zlib.decompress(zlib.compress(b"hello" * 1000))), len(bz2.decompress(bz2.compress(b"x" * 10000))), len(lzma.decompress(lzma.compress(b"y" * 10000))))
print(hashlib.sha256(b"x").hexdigest(), hashlib.md5(b"y").hexdigest(), hashlib.blake2b(b"z").hexdigest()[:10], hashlib.new("sha512", b"q").hexdigest()[:9])
db = sqlite3.connect(":memory:"); db.execute("create table t(a,b)")
db.executemany("insert into t values(?,?)", [(i, str(i)) for i in range(100)])
print(db.execute("select sum(a), max(b) from t").fetchall())
db.create_function("f", 1, lambda x: x * 2); print(db.execute("select f(21)").fetchone())
try: db.execute("syntax error")
except sqlite3.Error as e: print(type(e).__name__, e)
for code in ("1/0", "[][1]", "{}['k']", "int('z')", "undefined", "1+*", "'a'+1", "open('/nonexistent')", "len(5)", "float('x')", "(lambda a,b:0)(1)", "import_x", "b'\\xff'.decode()"):
    try: eval(code)
    except Exception as e: print(type(e).__name__, e)
print("%d %s %f %x %r %c %e %g %-10s| %+d %010.3f %%" % (1, "two", 3.0, 255, [1], "c", 1e10, 1e-5, "left", 5, 3.14159))
print("{:>10} {:08.3f} {!r:^12} {:,}".format("x", 3.14159, "q", 1234567), f"{2**100:x} {1/3:.20f}")
cb = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
libc = ctypes.CDLL(None); a = (ctypes.c_int * 5)(5, 3, 1, 4, 2); libc.qsort(a, 5, 4, cb); print(list(a))
buf = ctypes.create_string_buffer(200); libc.snprintf(buf, 200, b"%d %d %d %d %d %d %d %d %s", 1, 2, 3, 4, 5, 6, 7, 8, b"nine"); print(buf.value)
print(struct.pack("<iHqd", 1, 2, 3, 4.0), struct.unpack("<H", b"\1\2"), array.array("d", [1, 2]).tobytes())
print(decimal.Decimal("1.1") + decimal.Decimal("2.2"), fractions.Fraction(1, 3) + 1, 2**300, pow(3, 1000, 7), math.gcd(12, 18), cmath.sqrt(-1))
ts = [threading.Thread(target=lambda: [sum(range(100)) for _ in range(100)]) for _ in range(4)]; [t.start() for t in ts]; [t.join() for t in ts]
q = queue.Queue(); th = threading.Thread(target=lambda: [q.put(i) for i in range(5)]); th.start(); print([q.get() for _ in range(5)]); th.join()
with concurrent.futures.ThreadPoolExecutor(3) as ex: print(list(ex.map(lambda x: x * x, range(6))))
async def co(n): await asyncio.sleep(0); return n * 2
async def top(): return await asyncio.gather(*[co(i) for i in range(5)])
print(asyncio.run(top()))
def gen():
    try:
        for i in range(3):
            x = yield i
    finally: print("closed")
g = gen(); print(next(g), g.send(1)); g.close()
print(subprocess.run(["cat"], input=b"piped", stdout=subprocess.PIPE).stdout, subprocess.run("exit 3", shell=True).returncode, os.popen("echo sub").read())
sys.stdout.flush(); pid = os.fork()
if pid == 0: os.write(1, b"child\n"); os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
with multiprocessing.get_context("fork").Pool(2) as p: print(p.map(math.factorial, [5, 6, 7]))
got = []; signal.signal(signal.SIGUSR1, lambda *a: got.append(1)); os.kill(os.getpid(), signal.SIGUSR1); print(got)
s1, s2 = socket.socketpair(); s1.sendall(b"hi"); print(s2.recv(10)); srv = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(srv.getsockname()); d, _ = srv.accept(); d.sendall(b"tcp"); print(c.recv(9))
print(select.select([c], [], [], 0)[0])
@dataclasses.dataclass(order=True)
class P: x: int; y: str = "z"
print(P(1), P(1) < P(2), dataclasses.asdict(P(3)), pickle.loads(pickle.dumps(P(4))), copy.deepcopy([P(5)]))
class M(type):
    def __new__(m, n, b, d): return super().__new__(m, n, b, dict(d, extra=1))
class K(metaclass=M):
    __slots__ = ("v", "__weakref__")
    def __init__(self, v): self.v = v
    def __getattr__(self, n): return n
    def __del__(self): pass
k = K(1); w = weakref.ref(k); print(k.extra, k.foo, w() is k); del k; gc.collect(); print(w())
print(ET.tostring(ET.fromstring("<a><b c='d'>e</b></a>")), list(csv.reader(io.StringIO("a,\"b,c\"\n"))))
print(datetime.datetime(2024, 2, 29).isoformat(), datetime.timedelta(days=1.5), time.strftime("%A", time.gmtime(0)), unicodedata.normalize("NFD", "ä"), "ß".upper(), "İ".lower())
match [1, [2, {"k": 3}]]:
    case [a, [b, {"k": kk}]]: print(a, b, kk)
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
print(deep(900))
try: deep(10**6)
except RecursionError as e: print("deep", e)
def f(a, b=2, *c, d, e=5, **kw): return a, b, c, d, e, kw
print(f(1, d=4), f(1, 2, 3, d=4, z=6), functools.partial(f, 1, d=2)(), functools.reduce(lambda x, y: x + y, range(10)))
print(sorted([3, 1, 2], key=lambda x: -x), heapq.nsmallest(2, [3, 1, 2]), bisect.bisect([1, 2, 3], 2), collections.Counter("hello").most_common(2), list(itertools.permutations("abc", 2))[:3])
exec(compile("x = [i for i in range(3)]; print(x)", "s", "exec")); print(len(list(dis.get_instructions(deep))), ast.dump(ast.parse("1+1"))[:20])
mm = mmap.mmap(-1, 4096); mm[0:3] = b"abc"; print(mm[0:3])
print(ssl.create_default_context() is not None, pwd.getpwuid(os.getuid()).pw_name, resource.getrlimit(resource.RLIMIT_CORE)[0] is not None)
import faulthandler; faulthandler.enable()
with contextlib.suppress(KeyError): {}["x"]
print(logging.getLogger("x").getEffectiveLevel(), uuid.uuid5(uuid.NAMESPACE_DNS, "x"), urllib.parse.quote("ä /"), base64.b64encode(b"abc"), binascii.crc32(b"x"))
try: raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
except* ValueError as e: print(e.exceptions)
except* TypeError as e: print(e.exceptions)
sys.exit(7)
