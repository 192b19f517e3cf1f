"""The trace of --json: every line is read, held against the schema, and sorted by type."""
import functools
import json
import os

import jsonschema

import harness

SCHEMA = os.path.join(harness.SOURCE, "schema", "rtrace-trace.schema.json")


@functools.lru_cache(maxsize=None)
def schema():
    with open(SCHEMA) as file:
        found = json.load(file)
    jsonschema.Draft7Validator.check_schema(found)
    return found


@functools.lru_cache(maxsize=None)
def validator(kind):
    """Of the lines of one type: what is wrong is said of that type alone."""
    if {"$ref": "#/definitions/" + kind} not in schema()["oneOf"]:
        raise harness.Failure("the schema knows no line of type " + kind)
    return jsonschema.Draft7Validator({"definitions": schema()["definitions"], "$ref": "#/definitions/" + kind})


def refuse_duplicates(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise harness.Failure("a member stands twice: %s" % names)
    return dict(pairs)


def refuse_constant(word):
    raise harness.Failure("%s is no JSON" % word)


class Lines:
    """The objects of a trace, all of them valid."""

    def __init__(self, text):
        if text and not text.endswith("\n"):
            raise harness.Failure("the last line is not whole: %r" % text[-200:])
        self.all = []
        for line in text.split("\n")[:-1]:
            if any(c < " " or "\x7f" <= c <= "\x9f" for c in line):
                raise harness.Failure("a control character in %r" % line[:1000])
            found = json.loads(line, object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant)
            error = next(validator(found["type"]).iter_errors(found), None)
            if error is not None:
                raise harness.Failure("%s\n%s: %s" % (line[:1000], list(error.absolute_path), error.message[:1000]))
            self.all.append(found)
        starts = [i for i, line in enumerate(self.all) if line["type"] == "start"]
        if self.all and starts != [0]:
            raise harness.Failure("start stands at %s" % starts)

    def of(self, kind):
        return [line for line in self.all if line["type"] == kind]

    @property
    def calls(self):
        return self.of("call")

    @property
    def start(self):
        return self.all[0]

    def named(self, name):
        return [call for call in self.calls if call["name"] == name]


def trace(*arguments, status=0, **how):
    """rtrace --json with these arguments, to its end."""
    result = harness.run(["--json", *arguments], **how)
    if result.status != status:
        raise harness.Failure(str(result))
    return Lines(result.trace)


def nested_wrong(calls):
    """A call that cannot be where its depth says, of lines in the order in which calls end: what follows a call in its
    thread is its caller, a later call of that caller, or something inside such a one. Of programs that do not jump."""
    last = {}
    for call in calls:
        inside = last.setdefault((call["pid"], call["tid"]), [])
        while inside and inside[-1]["depth"] > call["depth"]:
            child = inside.pop()
            if child["depth"] != call["depth"] + 1 or child["ts"] < call["ts"]:
                return call
        inside.append(call)
    return None
