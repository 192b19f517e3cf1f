"""The floor by itself: what the machine asks for a stop, whoever traces."""
from runner.row import Row, Side


def rows():
    def stop(kind, cores):
        return lambda context: context.floor(kind, str(cores), cores=context.one_core if cores == 1 else context.two_cores())

    return [
        Row("floor-stops", "the floor: stops of a traced process, with wait, GETREGS, SETREGS and CONT", "ns", (
            Side("one stop, one core", stop("bare_stop", 1)),
            Side("one stop, two cores", stop("bare_stop", 2)),
            Side("entry and return, one core", stop("entry_return", 1)),
            Side("entry and return, two cores", stop("entry_return", 2)),
        ), base="one stop, one core"),
    ]
