"""Runs rows, side by side in turn, and writes the results. tools/bench calls it once all is built."""
import argparse
import os
import sys
import tempfile
import time

import rows

from . import machine, process, report
from .context import Context
from .row import NotAvailable


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tools/bench", description="Measures rtrace beside its floor and its peers.")
    parser.add_argument("--list", action="store_true", help="name the rows, and end")
    parser.add_argument("--only", metavar="ROW,ROW", help="these rows only")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, to see that all of it works")
    parser.add_argument("--rounds", type=int, help="how often each side is measured")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="cpu: count the processors' time, which other load on the machine disturbs less")
    parser.add_argument("--long", action="store_true", help="memory-flat with ten million calls, which takes minutes")
    parser.add_argument("--output", metavar="FOLDER", help="where results.json and RESULTS.md are written; default: bench/ "
                        "for a whole run, build/release/bench/ for --quick, --only and --clock=cpu")
    parser.add_argument("--build", metavar="FOLDER", default="build/release", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def chosen(names):
    known = {row.name: row for row in rows.all_rows()}
    if names is None:
        return list(known.values())
    for name in names.split(","):
        if name not in known:
            sys.exit("tools/bench: no row %s; --list names them" % name)
    return [known[name] for name in names.split(",")]


def measure(row, context, rounds):
    """({side: [value for each round]}, {side: why it has none})."""
    values, missing = {}, {}
    for _ in range(row.rounds or rounds):
        for side in row.sides:
            if side.name in missing:
                continue
            try:
                values.setdefault(side.name, []).append(side.measure(context))
            except NotAvailable as reason:
                missing[side.name] = str(reason)
            except process.Failure as reason:
                missing[side.name] = "failed: " + str(reason).strip().splitlines()[0]
                print("tools/bench: %s, %s: %s" % (row.name, side.name, reason), file=sys.stderr)
            if side.name in missing:
                values.pop(side.name, None)
    return values, missing


def write(folder, run, entries):
    os.makedirs(folder, exist_ok=True)
    for name, text in (("RESULTS.md", report.as_markdown(run, entries)), ("results.json", report.as_json(run, entries))):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        print("written: " + os.path.relpath(path), file=sys.stderr)


def main(arguments):
    options = parse(arguments)
    if options.list:
        for row in rows.all_rows():
            print("%-18s %s" % (row.name, row.title))
        return 0
    rounds = options.rounds or (3 if options.quick else 5)
    whole = not (options.quick or options.only or options.clock == "cpu")
    folder = options.output or ("bench" if whole else os.path.join(options.build, "bench"))
    entries, before = [], machine.load()
    selected = chosen(options.only)
    with tempfile.TemporaryDirectory(dir=machine.memory_folder()) as scratch, Context(options, scratch) as context:
        for row in selected:
            started = time.monotonic()
            entry = report.row_as_json(row, measure(row, context, rounds))
            entry["seconds"] = round(time.monotonic() - started, 1)
            entries.append(entry)
            print("\n".join(report.row_as_markdown(entry)), flush=True)
    run = {"machine": machine.describe(), "versions": machine.versions(context.rtrace), "quick": options.quick,
           "clock": options.clock, "rounds": rounds, "load": [before, machine.load()]}
    write(folder, run, entries)
    return 0
