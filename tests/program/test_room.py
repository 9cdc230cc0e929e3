"""Room for what functions call, by the pieces of memory that the system is asked for."""

import resource

import tplimits as tp
from tplimits.program.nodes.keywords import constants_apart
from tplimits.program.room import with_room

CALLS = 2000


def nothing():
    return None


def loop():
    for _ in range(CALLS):
        nothing()


def at(depth, function):
    return at(depth - 1, function) if depth else function()


def most_pieces(run):
    """The most new pages of memory that the loop needs at one of many depths."""

    def pages(depth):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        run(depth)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    return max(map(pages, range(300)))


def test_a_loop_of_calls_takes_no_memory_at_any_depth():
    assert most_pieces(lambda depth: with_room(at)(depth, loop)) < CALLS / 2
    assert most_pieces(lambda depth: at(depth, with_room(loop))) < CALLS / 2
    assert most_pieces(lambda depth: at(depth, constants_apart(loop))) < CALLS / 2
    assert most_pieces(lambda depth: at(depth, loop)) >= CALLS  # what is mended: one piece for each call


def test_functions_with_room_are_called_and_raise_as_before():
    @with_room
    def quotient(a, /, b=1, *, c):
        """a/(b c)"""
        return a / (b * c)

    assert quotient(6, c=2) == 3 and quotient(6, b=3, c=2) == 1
    assert (quotient.__name__, quotient.__doc__) == ("quotient", "a/(b c)")
    try:
        quotient(1, c=0)
    except ZeroDivisionError as problem:
        assert problem.__traceback__.tb_next.tb_next.tb_frame.f_locals == {"a": 1, "b": 1, "c": 0}


def test_derivations_have_room():
    """Whatever reads a regime stands in the same piece as derive()."""

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(x * x)

    limit = tp.derive(program)

    class Looping(tp.Width):
        def derive(self, program):
            loop()
            return limit

    assert most_pieces(lambda depth: at(depth, lambda: tp.derive(program, Looping()))) < CALLS / 2
