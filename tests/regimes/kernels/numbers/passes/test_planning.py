"""Plans: inputs of one size on either side share all that is done once for an input."""

import numpy as np

import tplimits as tp
from tplimits.regimes.kernels.numbers import request
from tplimits.regimes.kernels.numbers.passes import planning


@tp.network
def pooled(ξ: tp.Input["d", "pos"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.mean(tp.tanh(tp.sum(U * ξ, over="d")), over="pos")


def planned(*places):
    rng = np.random.default_rng(0)
    one, other = (rng.standard_normal((2, 2, size)) for size in places)
    asked = request.request(tp.derive(pooled, tp.Kernels()).derivation, one, other, {}, None)
    return planning.plan_for(asked.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))


def test_sides_of_one_size_share_their_tape():
    plan = planned(3, 3)
    assert plan.rows[2] is plan.rows[1] and plan.tables[2] is plan.tables[1] and plan.functions[2] is plan.functions[1]
    assert plan.many[1] == plan.many[2] >= 2
    assert plan.watched_rows[1] == plan.watched_rows[2] and plan.row_entries[1] == plan.row_entries[2]


def test_sides_of_two_sizes_do_not():
    plan = planned(3, 4)
    assert plan.rows[2] is not plan.rows[1] and plan.functions[2] is not plan.functions[1]
    assert plan.tables[2] is not plan.tables[1]
    # the kernels of inputs with themselves are those of the first side alone
    assert plan.many[1] > plan.many[2] >= 1 and plan.row_entries[1] > plan.row_entries[2]
