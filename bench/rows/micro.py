"""rtrace's pure code by itself, by Google Benchmark: bench/micro."""
import json
import os

from runner import process
from runner.row import NotAvailable, Row, Side

BENCHMARKS = (("decode two integers", "decode_two_integers"), ("decode a string of 17 bytes", "decode_string"),
              ("render a line of two integers", "render_two_integers"), ("render a line with a string", "render_string"),
              ("pair an entry with its return", "pair_call"), ("pair at a depth of 1000", "pair_deep_call"),
              ("--where 'arg2 > 1 && dur > 5us'", "where_expression"), ("match a name with a filter", "match_filter"))


def rows():
    def benchmark(name):
        def measure(context):
            program = context.target("micro")
            if not os.path.exists(program):
                raise NotAvailable("built without Google Benchmark")
            done = process.run([program, "--benchmark_filter=^%s$" % name, "--benchmark_format=json",
                                "--benchmark_min_time=%s" % ("0.02" if context.quick else "0.1")], context.one_core)
            return json.loads(done.stdout)["benchmarks"][0]["cpu_time"]
        return measure

    return [Row("micro", "rtrace's pure code, without a traced process", "ns", tuple(
        Side(title, benchmark(name)) for title, name in BENCHMARKS), rounds=3)]
