"""What a side may ask for: the programs, the cores, how long to measure, and by which clock."""
import contextlib
import json
import os
import re
import shutil
import sys

from . import process
from .row import NotAvailable


class Context:
    """Used by `with`: what it keeps for its rows goes at its end."""

    def __init__(self, options, scratch):
        self.build, self.scratch = os.path.abspath(options.build), scratch
        self.quick, self.long, self.clock = options.quick, options.long, options.clock
        self.rtrace = os.path.join(self.build, "src", "rtrace")
        cores = sorted(os.sched_getaffinity(0))
        # The last one: the first is where most interrupts go.
        self.one_core = [cores[-1]]
        self.all_cores = cores
        self.ends, self.things = contextlib.ExitStack(), {}

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return self.ends.__exit__(*failure)

    def kept(self, name, make):
        """What `make` gave when it was asked for first."""
        if name not in self.things:
            self.things[name] = make()
        return self.things[name]

    def at_end(self, end):
        """Its failure is told, and costs no results."""
        def finish():
            try:
                end()
            except process.Failure as failure:
                print("tools/bench: %s" % failure, file=sys.stderr)
        self.ends.callback(finish)

    def two_cores(self):
        if len(self.all_cores) < 2:
            raise NotAvailable("there is one core only")
        return [self.all_cores[0], self.all_cores[-1]]

    def target(self, name):
        return os.path.join(self.build, "bench", "bin", name)

    def source(self, *path):
        return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *path)

    def output(self):
        """A file for a trace, the same each time."""
        return os.path.join(self.scratch, "trace")

    def peer(self, name):
        if shutil.which(name) is None:
            raise NotAvailable("%s is not installed" % name)
        return name

    def floor(self, name, *arguments, cores=None):
        """What a floor program says: nanoseconds of one unit."""
        done = process.run([self.target("floor_" + name), *arguments], cores or self.one_core)
        answer = json.loads(done.stdout)
        return answer["cpu_ns" if self.clock == "cpu" else "ns"]

    def ns_per_call(self, tracer, function, calls, cores, threads=1, proof=None):
        """What a call of targets/caller costs under a tracer's command line ([]: untraced), from the beginning of the
        calls until the tracer has gone: what it has put off until then counts. The costs of attaching, of ending and of
        what else there is once go away by the difference to a run of a tenth of the calls. `proof` is asked, with their number, whether the tracer has seen them."""
        few, many = self.caller_run(tracer, function, calls // 10, cores, threads), self.caller_run(
            tracer, function, calls, cores, threads)
        if proof:
            proof(self, calls * threads)
        return (many - few) / ((calls - calls // 10) * threads)

    def caller_run(self, tracer, function, calls, cores, threads):
        words = [*tracer, self.target("caller"), function, str(calls), str(threads)]
        return self.caller_time(process.run(words, cores))

    def ns_in_process(self, tracer, function, bursts, cores, proof):
        """What a call adds to the time of targets/caller's own thread, where the tracer reads what there is while the thread
        does something else."""
        calls = bursts * 1000

        def took(words):
            ran = process.run([*words, self.target("caller"), function, str(calls), "1", "bursts"], cores)
            return int(re.search(r"^bursts (\d+)$", ran.stdout, re.M).group(1))

        traced = took(tracer)
        proof(self, calls)
        return (traced - took([])) / calls

    def caller_time(self, ran):
        """From the beginning of caller's calls to the end of all."""
        if self.clock == "cpu":
            return ran.cpu
        return ran.ended - int(re.search(r"^begin (\d+)$", ran.stdout, re.M).group(1))
