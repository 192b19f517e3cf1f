"""Samples of one side of a row, and ratios of two sides."""
import statistics


def quartiles(values):
    """(p25, median, p75); of one value, that one."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def summary(values):
    low, middle, high = quartiles(values)
    return {"median": middle, "p25": low, "p75": high, "least": min(values), "most": max(values), "samples": len(values)}


def ratio(above, below):
    """The median of the rounds' own ratios: what disturbs the machine for some seconds disturbs both sides of a round."""
    pairs = [(a, b) for a, b in zip(above, below) if a is not None and b is not None]
    if not pairs or any(b == 0 for _, b in pairs):
        return None
    return statistics.median(a / b for a, b in pairs)


def added_ratio(above, below, base):
    """Of what both add to `base`, by rounds; None where the smaller adds nothing that could be told."""
    rounds = [(a - c, b - c) for a, b, c in zip(above, below, base) if None not in (a, b, c)]
    if not rounds or any(b <= 0 for _, b in rounds):
        return None
    return statistics.median(a / b for a, b in rounds)


def difference(above, below):
    pairs = [(a, b) for a, b in zip(above, below) if a is not None and b is not None]
    return statistics.median(a - b for a, b in pairs) if pairs else None
