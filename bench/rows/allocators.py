"""Real programs whose allocator's calls are counted inside the process: from their start to their end, and servers that are
attached to while clients ask them."""
import os
import statistics

from runner import process
from runner.row import RatioAtMost, Row, Side

from . import attach, tracers

UNTRACED, COUNTED = "untraced", "rtrace -c"
LIBC = "@libc.so.*"
ALLOCATOR, COLLATION = ("malloc", "free", "realloc", "calloc"), ("strcoll",)
PYTHON = ("env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-S", "-c")
TOKENS = (*PYTHON, """
import io, tokenize
text = open(tokenize.__file__.replace("tokenize", "argparse")).read()
for i in range(%d): list(tokenize.generate_tokens(io.StringIO(text).readline))""")
SORTED = (*PYTHON, """
import random
for i in range(%d): sorted(str(random.random()) for j in range(20000))""")
SHORT_TEXTS = (*PYTHON, "for i in range(%d): [str(j) for j in range(100)]")
PERL = ("/usr/bin/perl", "-e")
WORDS = (*PERL, """
use Getopt::Long;
open my $file, "<", $INC{"Getopt/Long.pm"}; my @lines = <$file>;
for (1..%d) {
  my %%count;
  for (@lines) { $count{lc $1}++ while /(\\w+)/g }
  my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %%count;
}""")
SHORT_STRINGS = (*PERL, "for my $i (1..%d) { my @a = map { 'x' x (40 + $_) } 1..100 }")
RUBY = ("/usr/bin/ruby", "-e", "%d.times { |i| (0...100).map { |j| ('x' * (j %% 7 + 30)) + j.to_s } }")
PHP = ("env", "USE_ZEND_ALLOC=0", "/usr/bin/php", "-n", "-r",
       "for ($i = 0; $i < %d; ++$i) { $all = []; for ($j = 0; $j < 100; ++$j) $all[] = str_repeat('x', 40 + $j); }")


class Calls:
    """How many there are a second of the program's own time, told once both sides have been measured."""

    def __init__(self, functions):
        self.functions, self.calls, self.untraced_ms = functions, 0, []

    def options(self):
        return ["-c"] + [word for name in self.functions for word in ("-x", name + LIBC)]

    def per_second(self):
        return 1e3 * self.calls / statistics.median(self.untraced_ms) if self.calls and self.untraced_ms else 0

    def told(self, besides=""):
        each = ("%.2f million calls a second" % (self.per_second() / 1e6)) if self.per_second() else "calls"
        return "Untraced it makes %s of libc's %s.%s" % (each, ", ".join(self.functions), besides)

    def count(self, context, least):
        self.calls = tracers.total_calls(context)
        if self.calls < least:
            raise process.Failure("its table shows %d calls" % self.calls)


def program(name, title, words, rounds, limit=0, functions=ALLOCATOR, file=None):
    """From its start to its end. With a limit its calls are looked at: it is for programs that make very many, as busy ones
    do. The last word says how often, or `file` is the last and makes a file of the context and of that number."""
    calls = Calls(functions)

    def run(context, command):
        count = rounds // 20 if context.quick else rounds
        last = [file(context, count)] if file else [words[-1] % count]
        ran = process.run([*command, *(words if file else words[:-1]), *last], context.one_core)
        return (ran.cpu if context.clock == "cpu" else ran.wall) / 1e6, count

    def untraced(context):
        calls.untraced_ms.append(run(context, [])[0])
        return calls.untraced_ms[-1]

    def counted(context):
        ms, count = run(context, tracers.trampolines(context, *calls.options()))
        calls.count(context, count if file else 100 * count)  # one at least for each text
        if limit and not context.quick and calls.untraced_ms and calls.per_second() < 4e6:
            raise process.Failure("%d calls are fewer than 4 million a second" % calls.calls)
        return ms

    besides = "" if limit else " No target is set for this one."
    return Row(name, title + " (-c)", "ms", (Side(UNTRACED, untraced), Side(COUNTED, counted)),
               (RatioAtMost(COUNTED, UNTRACED, limit),) if limit else (), base=UNTRACED, note=lambda: calls.told(besides))


def lines(context, count):
    """So many, in no order."""
    path = os.path.join(context.scratch, "lines")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.writelines("line %d\n" % (number * 7919 % count) for number in range(count))
    return path


def mariadb(context):
    """Its pid, and the command line of clients that ask so often."""
    folder = os.path.join(context.scratch, "mariadb")
    tool = context.source(os.pardir, "tools", "mariadb")
    process.run([tool, "start", folder], context.one_core)
    context.at_end(lambda: process.run([tool, "stop", folder], context.all_cores))
    with open(os.path.join(folder, "pid")) as file:
        pid = int(file.read())
    return pid, lambda rounds: ["mariadb-slap", "--no-defaults", "--socket=%s/socket" % folder, "--user=root",
                                "--concurrency=4", "--number-of-queries=%d" % rounds, "--auto-generate-sql",
                                "--auto-generate-sql-load-type=mixed"]


def postgresql(context):
    folder = os.path.join(context.scratch, "postgresql")
    tool = context.source(os.pardir, "tools", "postgresql")
    # The scratch folder is ours alone, the server somebody else's.
    os.chmod(context.scratch, 0o711)
    pid = int(process.run([tool, "start", folder], context.one_core).stdout)
    context.at_end(lambda: process.run([tool, "stop", folder], context.all_cores))
    bench = [os.path.join(process.run([tool, "programs"], context.all_cores).stdout.strip(), "pgbench"), "-h", folder, "-U", "rtrace"]
    process.run([*bench, "-i", "-q", "postgres"], context.all_cores)
    return pid, lambda rounds: [*bench, "-n", "-S", "-c", "4", "-t", str(rounds), "postgres"]


def server(name, title, start, rounds, *options):
    """From the beginning of its clients to their end; it is on one core, they on another."""
    calls = Calls(ALLOCATOR)

    def ask(context):
        pid, clients = context.kept(name, lambda: start(context))
        words = clients(rounds // 20 if context.quick else rounds)
        return pid, lambda: process.run(words, context.two_cores()[:1]).wall / 1e6

    def untraced(context):
        calls.untraced_ms.append(ask(context)[1]())
        return calls.untraced_ms[-1]

    def counted(context):
        pid, clients = ask(context)
        rtrace = attach.Rtrace(context, pid, ["--mechanism=trampoline", *options, *calls.options()])
        try:
            ms = clients()
        finally:
            rtrace.end()
        calls.count(context, rounds // 20)
        return ms

    return Row(name, title + " (-c)", "ms", (Side(UNTRACED, untraced), Side(COUNTED, counted)), base=UNTRACED,
               note=lambda: calls.told(" The clients' time; the server is on a core of its own. No target is set."))


def rows():
    return [
        program("allocator-python3", "python3, PYTHONMALLOC=malloc, makes tokens of argparse.py: its allocator's calls counted",
                TOKENS, 40, 1.3),
        program("allocator-python3-sort", "python3, PYTHONMALLOC=malloc, sorts short texts: its allocator's calls counted",
                SORTED, 120, 1.3),
        program("allocator-python3-dense", "python3, PYTHONMALLOC=malloc, makes short texts: its allocator's calls counted",
                SHORT_TEXTS, 300000),
        program("allocator-perl", "perl counts a file's words: its allocator's calls counted", WORDS, 500, 1.3),
        program("allocator-perl-dense", "perl makes short strings: its allocator's calls counted", SHORT_STRINGS, 150000),
        program("allocator-ruby", "ruby makes strings: its allocator's calls counted", RUBY, 60000),
        program("allocator-php", "php, USE_ZEND_ALLOC=0, makes strings: its allocator's calls counted", PHP, 100000),
        program("strcoll-sort", "sort, LC_ALL=C.UTF-8, of 300 000 lines: its comparisons counted",
                ("env", "LC_ALL=C.UTF-8", "/usr/bin/sort"), 300000, functions=COLLATION, file=lines),
        server("allocator-mariadb", "MariaDB under the load of four clients: its allocator's calls counted", mariadb, 4000),
        server("allocator-postgresql", "PostgreSQL under the load of four clients: its backends' allocator's calls counted",
               postgresql, 10000, "-f"),
    ]
