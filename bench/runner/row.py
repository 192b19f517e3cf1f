"""A row of the results: what is measured, on which sides, and what must hold between them.

A side measures one sample at a time, so that the sides of a row can take turns; a side that cannot run here raises
NotAvailable, and the reason stands in the results. Rows are made in ../rows, by the functions that are listed there.
"""
import dataclasses
import typing


class NotAvailable(Exception):
    """Why a side cannot be measured on this machine."""


@dataclasses.dataclass(frozen=True)
class Side:
    name: str
    measure: typing.Callable  # (Context) -> number, in the row's unit


@dataclasses.dataclass(frozen=True)
class RatioAtMost:
    above: str
    below: str
    limit: float

    def text(self):
        return "%s <= %g x %s" % (self.above, self.limit, self.below)


@dataclasses.dataclass(frozen=True)
class RatioAtLeast:
    above: str
    below: str
    limit: float

    def text(self):
        return "%s >= %g x %s" % (self.above, self.limit, self.below)


@dataclasses.dataclass(frozen=True)
class AddsAtMost:
    """`above` is no more than `limit` above `below`, in the row's unit."""
    above: str
    below: str
    limit: float

    def text(self):
        return "%s <= %s + %g" % (self.above, self.below, self.limit)


@dataclasses.dataclass(frozen=True)
class AddsTimes:
    """What `above` adds to `base` is at least `limit` times what `below` adds: a ratio, which any machine can tell."""
    above: str
    below: str
    base: str
    limit: float

    def text(self):
        return "%s - %s >= %g x (%s - %s)" % (self.above, self.base, self.limit, self.below, self.base)


@dataclasses.dataclass(frozen=True)
class AtMost:
    side: str
    limit: float

    def text(self):
        return "%s <= %g" % (self.side, self.limit)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    title: str
    unit: str
    sides: tuple
    targets: tuple = ()
    base: str = ""      # the side that the others are shown as multiples of
    rounds: int = 0     # 0: as many as the run says; what does not vary needs one
    note: typing.Any = ""  # text, or what makes it once all is measured
