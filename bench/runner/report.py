"""The results as Markdown and JSON."""
import json

from . import samples
from .row import AddsAtMost, AddsTimes, AtMost, RatioAtLeast, RatioAtMost


def number(value):
    if value is None:
        return "-"
    size = abs(value)
    return "%.0f" % value if size >= 1000 else "%.1f" % value if size >= 100 else "%.2f" % value if size >= 1 else "%.3f" % value


def judge(target, values):
    """(what was found, whether it holds); (None, None) where a side is missing."""
    if isinstance(target, AtMost):
        found = samples.summary(values[target.side])["median"] if values.get(target.side) else None
    elif any(not values.get(side) for side in (target.above, target.below, getattr(target, "base", target.above))):
        return None, None
    elif isinstance(target, AddsTimes):
        found = samples.added_ratio(values[target.above], values[target.below], values[target.base])
    else:
        how = samples.difference if isinstance(target, AddsAtMost) else samples.ratio
        found = how(values[target.above], values[target.below])
    if found is None:
        return None, None
    return found, found >= target.limit if isinstance(target, (AddsTimes, RatioAtLeast)) else found <= target.limit


def sign(target):
    return {RatioAtMost: "x", RatioAtLeast: "x", AddsTimes: "x"}.get(type(target), "")


def row_as_json(row, result):
    values, missing = result
    sides = []
    for side in row.sides:
        if values.get(side.name):
            entry = dict(samples.summary(values[side.name]), name=side.name, values=values[side.name])
            if row.base and values.get(row.base) and side.name != row.base:
                entry["ratio"] = samples.ratio(values[side.name], values[row.base])
            sides.append(entry)
        else:
            sides.append({"name": side.name, "not_available": missing.get(side.name, "not measured")})
    targets = []
    for target in row.targets:
        found, holds = judge(target, values)
        targets.append({"text": target.text(), "found": found, "holds": holds, "unit": sign(target) or row.unit})
    return {"name": row.name, "title": row.title, "unit": row.unit, "base": row.base, "sides": sides,
            "note": row.note() if callable(row.note) else row.note, "targets": targets}


def row_as_markdown(entry):
    base = entry["base"]
    lines = ["### %s: %s" % (entry["name"], entry["title"]), ""]
    if entry["note"]:
        lines += [entry["note"], ""]
    lines += ["| side | median, %s | p25 - p75 | %s |" % (entry["unit"], "x " + base if base else "samples"), "|---|---|---|---|"]
    for side in entry["sides"]:
        if "not_available" in side:
            lines.append("| %s | not available: %s | | |" % (side["name"], side["not_available"]))
            continue
        last = number(side["ratio"]) if side.get("ratio") is not None else "" if base else str(side["samples"])
        lines.append("| %s | %s | %s - %s | %s |" % (side["name"], number(side["median"]), number(side["p25"]),
                                                   number(side["p75"]), last))
    if entry["targets"]:
        lines.append("")
    for target in entry["targets"]:
        verdict = "not measured" if target["holds"] is None else "holds" if target["holds"] else "**does not hold**"
        lines.append("- %s: %s%s" % (target["text"], verdict,
                                     " (%s %s)" % (number(target["found"]), target["unit"]) if target["found"] is not None else ""))
    return lines + [""]


def as_json(run, entries):
    return json.dumps(dict(run, rows=entries), indent=1) + "\n"


def as_markdown(run, entries):
    machine = run["machine"]
    lines = ["# Results", "",
             "Written by `tools/bench%s`; how to read it is in the section on benches of README.md." % (
                 " --quick" if run["quick"] else ""), "",
             "- machine: %s, %d cores, %d MB, Linux %s" % (machine["cpu"], machine["cores"], machine["memory_mb"],
                                                         machine["kernel"]),
             "- load average when it began: %.2f, when it ended: %.2f%s" % (
                 run["load"][0], run["load"][1],
                 "; other work disturbed these figures" if run["load"][0] > 0.5 else ""),
             "- clock: %s; %d rounds, in each of which the sides of a row take turns" % (
                 "the wall's" if run["clock"] == "wall" else "time of the processors, all processes of a side together",
                 run["rounds"]),
             "- versions: " + ", ".join("%s %s" % pair for pair in run["versions"].items()), ""]
    for entry in entries:
        lines += row_as_markdown(entry)
    return "\n".join(lines)
