"""Plans: what they say, how they are applied, and what is refused."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from fractions import Fraction
from functools import lru_cache

import pytest
import torch
from models import MODELS, Decoder
from scaled import EXAMPLE, Attention, Roles, imported
from torch import nn

import tplimits as tp
from tplimits.torch.scaling.families import Family
from tplimits.torch.scaling.optimizers import RULES, rule_of
from tplimits.torch.scaling.plan import from_json

HALF = Fraction(1, 2)
#: rates by role as Yang et al. and others print them: SGD, Adam and its like, Adafactor of torch, Muon
PUBLISHED = {
    "sgd": {"emb.weight": 1, "hid.bias": 1, "gain": 1, "hid.weight": 0, "out.weight": -1, "out.bias": 0, "gate": 0},
    "adam": {"emb.weight": 0, "hid.bias": 0, "gain": 0, "hid.weight": -1, "out.weight": -1, "out.bias": 0, "gate": 0},
    "adafactor": {"emb.weight": 0, "gain": 0, "hid.weight": -HALF, "out.weight": 0, "out.bias": 0, "gate": 0},
    "muon": {"emb.weight": 0, "gain": 0, "hid.weight": 0, "out.weight": -1, "out.bias": 0, "gate": 0},
    "muon matching adamw": {"hid.weight": -HALF, "out.weight": -1},
}
for same, of in (("momentum", "sgd"), ("adamw", "adam"), ("rmsprop", "adam"), ("adagrad", "adam"), ("lion", "adam"),
                 ("nadam", "adam"), ("nadam decoupled", "adam"), ("adamax", "adam"), ("sign", "adam"),
                 ("adadelta", "sgd")):  # fmt: skip
    PUBLISHED[same] = PUBLISHED[of]


@lru_cache
def decoder():
    make, example, widths = MODELS["decoder"]
    return tp.from_torch(make, example, widths=widths)


@pytest.mark.parametrize("optimizer", RULES)
def test_rates_are_those_that_are_published(optimizer):
    plan = tp.scaling(imported(), optimizer=optimizer, base=64)
    assert {name: plan.by_name[name].rate for name in PUBLISHED[optimizer]} == PUBLISHED[optimizer]
    assert not plan.output and not plan.scores and not plan.left
    starts = {name: plan.by_name[name].initial for name in ("emb.weight", "hid.bias", "hid.weight", "out.weight")}
    assert starts == {"emb.weight": 0, "hid.bias": 0, "hid.weight": -HALF, "out.weight": -1}


DECAYING = ("adam", "adamw", "nadam decoupled", "sgd", "adadelta")


def test_what_moves_frozen_matrices_alone_is_no_optimizer_of_a_plan():
    def resting(n):
        model = Roles(n)
        model.hid.weight.requires_grad_(False)
        return model

    plan = tp.scaling(resting, EXAMPLE, "muon", base=16, widths=(16, 32, 64))
    assert plan.optimizer == "adamw" and plan.by_name["hid.weight"].role == "frozen"
    assert plan.check(resting, (EXAMPLE, None), widths=(16, 32, 64), seeds=1, steps=(1,)).rows


def test_epsilon_and_decay_follow_gradients_and_rates():
    plans = {o: tp.scaling(imported(), optimizer=o).by_name for o in DECAYING}
    rows = {o: {n: (p[n].eps, p[n].decay) for n in ("hid.weight", "gain", "out.weight")} for o, p in plans.items()}
    assert rows["adamw"] == {"hid.weight": (-1, 1), "gain": (-1, 0), "out.weight": (0, 1)} == rows["nadam decoupled"]
    assert rows["adam"] == {"hid.weight": (-1, -HALF), "gain": (-1, -1), "out.weight": (0, 1)}  # coupled
    assert rows["sgd"] == {"hid.weight": (None, 0), "gain": (None, -1), "out.weight": (None, 1)}
    assert rows["adadelta"]["hid.weight"][0] == -2


def test_a_tied_embedding_needs_a_factor_and_growing_heads_another():
    """Rates by optimizer are those measured for tied embeddings: Adam 1, SGD n, with 1/n on the output."""
    plans = {o: tp.scaling(decoder(), optimizer=o, base=16) for o in ("adamw", "sgd")}
    assert {o: p.by_name["wte.weight"].rate for o, p in plans.items()} == {"adamw": 0, "sgd": 1}
    for plan in plans.values():
        assert plan.output == -1 and plan.by_name["wte.weight"] is plan.by_name["head.weight"]
        assert list(plan.scores.values()) == [-HALF, -HALF]
    text = str(plans["adamw"])
    assert "the output × n^(-1)" in text and "scores of blocks.0.attn, blocks.1.attn × n^(-1/2)" in text
    assert plans["adamw"].multipliers(64) == {
        "output": 0.25, "scores of blocks.0.attn": 0.5, "scores of blocks.1.attn": 0.5,
    }  # fmt: skip
    make, example, widths = MODELS["decoder with more heads"]
    assert not tp.scaling(make, example, widths=widths).scores  # heads of a fixed size
    divided = tp.scaling(Attention, example, widths=widths)
    assert not divided.scores and not divided.output and not divided.left


def _behind(function, bias=False):
    """A model whose readouts are read by a function, (model, their values, inputs)."""

    class Behind(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.inside = nn.Linear(5, n)
            self.one, self.other = nn.Linear(n, 1, bias=bias), nn.Linear(n, 1, bias=bias)
            self.gate = nn.Parameter(torch.ones(1))

        def forward(self, x):
            h = torch.tanh(self.inside(x))
            return function(self, self.one(h), self.other(h), x)

    return Behind


BEHIND = {
    "a gate": lambda model, one, other, x: one * model.gate,
    "a temperature": lambda model, one, other, x: one * torch.exp(model.gate),
    "data": lambda model, one, other, x: one * x[:, :1] + 0 * model.gate,
    "a product": lambda model, one, other, x: one * other * model.gate,
    "a gated sum": lambda model, one, other, x: one * model.gate + other,
}


@pytest.mark.parametrize("function", BEHIND.values(), ids=BEHIND)
def test_readouts_that_a_function_reads_take_their_factors_themselves(function, request):
    """Biases of readouts change nothing about weights: without them the output had been told to need a factor."""
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    without, having = (tp.scaling(_behind(function, bias), x, "sgd") for bias in (False, True))
    # a product of two sums that start small leaves 0 in ever more steps the wider it is
    assert not without.output and set(without.left) == ({"f"} if "product" in request.node.name else set())
    rows = {name: (p.initial, p.rate) for name, p in without.by_name.items()}
    assert rows == {name: (having.by_name[name].initial, having.by_name[name].rate) for name in rows}
    assert rows["one.weight"] == (-1, -1) and rows["gate"][1] == 0


def test_an_attached_factor_multiplies_the_output():
    plan, model = tp.scaling(decoder(), base=16), Decoder(64)
    tokens = MODELS["decoder"].example[0]
    before = model(tokens).detach()
    handle = plan.attach(model)
    assert torch.allclose(model(tokens).detach(), before / 4)
    handle.remove()
    handle = plan.attach(model, at="head")
    assert torch.allclose(model(tokens).detach(), before / 4)
    with pytest.raises(tp.EvaluationError, match="module `head` has the factor already: remove the handle"):
        plan.attach(model)
    handle.remove()
    assert torch.equal(model(tokens).detach(), before)
    with pytest.raises(tp.EvaluationError, match="no such module; give one of wte"):
        plan.attach(model, at="lm_head")


class Returned(Decoder):
    """Logits beside a loss, as scripts have them."""

    def forward(self, i):
        f = super().forward(i)
        return f, f.mean()


def test_checks_multiply_the_output_beside_a_loss():
    plan, tokens = tp.scaling(decoder(), base=16), MODELS["decoder"].example[0]
    model = Returned(64)
    before, loss = plan.initialize_(model)(tokens)
    Family(plan, Returned, deep=False).prepared(model, 64, 1e-3)
    f, same = model(tokens)
    assert torch.allclose(f, before / 4) and torch.equal(same, loss)


def test_groups_hold_every_parameter_once_with_its_numbers():
    plan, model = tp.scaling(imported(), base=64), Roles(256)
    groups = plan.param_groups(model, lr=1e-3, weight_decay=0.1)
    held = [id(p) for g in groups for p in g["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())
    hidden = next(g for g in groups if g["name"] == "hidden matrix")
    assert hidden["lr"] == pytest.approx(2.5e-4) and hidden["weight_decay"] == pytest.approx(0.4)
    assert hidden["eps"] == pytest.approx(2.5e-9)
    torch.optim.AdamW(groups)
    own = [{"params": [model.hid.weight], "lr": 2e-3, "note": "mine"},
           {"params": [p for k, p in model.named_parameters() if k != "hid.weight"], "weight_decay": 0.0}]  # fmt: skip
    split = plan.param_groups(model, lr=1e-3, groups=own)
    assert split[0]["lr"] == pytest.approx(5e-4) and split[0]["note"] == "mine"
    assert all(g["weight_decay"] == 0 for g in split[1:])
    assert sum(len(g["params"]) for g in split) == len(held)
    mixed = tp.scaling(imported(), optimizer="muon").param_groups(model, lr={"muon": 0.02, "adamw": 1e-3})
    assert [p.shape for g in mixed["muon"] for p in g["params"]] == [(256, 256)]
    # a model that freezes what one of them trains takes groups by optimizer, too
    model.hid.weight.requires_grad_(False)
    assert set(tp.scaling(imported(), optimizer="muon").param_groups(model, lr=1e-3)) == {"adamw"}
    model.hid.weight.requires_grad_(True)
    wrapped = nn.Sequential()
    wrapped.add_module("module", model)  # as DataParallel names things
    assert len(plan.param_groups(wrapped, lr=1e-3)) == len(groups)


def _outer(n):
    return nn.Sequential(OrderedDict(module=nn.Linear(5, n), last=nn.Linear(n, 2)))


def _inner(n):
    return nn.Sequential(OrderedDict(module=nn.Sequential(nn.Linear(5, n), nn.Linear(n, n), nn.Linear(n, 2))))


@pytest.mark.parametrize("make", [_outer, _inner])
def test_models_may_call_a_part_of_theirs_module(make):
    plan = tp.scaling(make, torch.randn(4, 5), base=16, widths=(16, 32, 64))
    for model in (make(32), nn.Sequential(OrderedDict(module=make(32)))):
        held = [id(p) for g in plan.param_groups(plan.initialize_(model), lr=1e-3) for p in g["params"]]
        assert sorted(held) == sorted(id(p) for p in model.parameters())


def test_initial_entries_are_multiplied_once():
    plan = tp.scaling(imported(), base=64)
    torch.manual_seed(0)
    model = Roles(256)
    before = {k: p.detach().clone() for k, p in model.named_parameters()}
    assert plan.initialize_(plan.initialize_(model)) is model
    for name, factor in (("hid.weight", 1), ("out.weight", 0.5), ("hid.bias", 2), ("emb.weight", 1), ("gain", 1)):
        assert torch.allclose(model.get_parameter(name), factor * before[name]), name
    at_base = Roles(64)
    start = copy.deepcopy(at_base.state_dict())
    plan.initialize_(at_base)
    assert all(torch.equal(v, start[k]) for k, v in at_base.state_dict().items())


def test_plans_are_kept(tmp_path):
    plan = tp.scaling(decoder(), base=16)
    assert from_json(plan.to_json()) == plan
    plan.save(tmp_path / "plan.json")
    assert tp.load_plan(tmp_path / "plan.json") == plan
    cut = json.loads(plan.to_json())
    del cut["rows"][0]["rate"]
    for text in ("", "[]", '{"format": "tplimits plan", "version": 2}', json.dumps(cut), "\x00"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(tp.EvaluationError, match="no plan"):
            tp.load_plan(tmp_path / "bad.json")
    with pytest.raises(tp.EvaluationError, match="cannot be read"):
        tp.load_plan(tmp_path / "none.json")


class Sized(nn.Module):
    """What knows n outside of parameters that are trained: a buffer, a start that is no random number, two sums."""

    def __init__(self, n, kind):
        super().__init__()
        self.i, self.l, self.o = nn.Linear(5, n), nn.Linear(n, n), nn.Linear(n, 3)
        self.b, self.c, self.kind, self.n = nn.Linear(n, 2), nn.Linear(n, 2), kind, n
        if kind == "buffer":
            self.register_buffer("g", torch.full((n,), n**-0.5))
        else:
            self.g = nn.Parameter(torch.full((n,), n**-0.5))

    def forward(self, x):
        h = torch.relu(self.l(torch.relu(self.i(x))))
        if self.kind == "two sums":
            return self.o(h * (1 + (self.b(h) * self.c(h)).sum(-1, keepdim=True)))
        return self.o(self.g * h) if self.kind == "buffer" else self.o(self.g * h * self.n**0.5)


@pytest.mark.parametrize("kind, powers", [
    ("buffer", {"o.weight": -HALF, "l.weight": -HALF, "i.weight": 0}),
    ("start", {"o.weight": -3 * HALF, "g": 0}),
    ("two sums", {"o.weight": -1, "b.weight": -1, "c.weight": -1}),
])  # fmt: skip
def test_powers_of_n_in_buffers_and_starts_are_counted(kind, powers):
    make = lambda n: Sized(n, kind)  # noqa: E731
    plan = tp.scaling(make, torch.randn(8, 5), base=32, widths=(16, 32, 64))
    assert {name: plan.by_name[name].initial for name in powers} == powers
    model = plan.initialize_(make(128))
    assert kind != "start" or torch.allclose(model.g, torch.full((128,), 32**-0.5))
    report = plan.check(make, torch.randn(8, 5), widths=(32, 64, 128, 256))
    assert report.accepted, report


class Other(nn.Module):
    """The same names with other shapes."""

    def __init__(self, n, inputs=5, name="hid"):
        super().__init__()
        self.emb, self.inp, self.out = nn.Embedding(16, n), nn.Linear(inputs, n), nn.Linear(n, 3)
        setattr(self, name, nn.Linear(n, n))
        self.gain, self.gate = nn.Parameter(torch.ones(n)), nn.Parameter(torch.tensor(0.7))


def _twice(model):
    return [{"params": list(model.parameters())}, {"params": [model.hid.weight]}]


def _trained(model):
    with torch.no_grad():
        model.hid.weight.mul_(7)
    return model


def _untied():
    model = Decoder(16)
    model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    return model


def _tied_groups(model):
    return [{"params": [*model.parameters(), model.head.weight]}]


class Sparse(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e, self.h, self.o = nn.Embedding(7, n, sparse=True), nn.Linear(n, n), nn.Linear(n, 2)

    def forward(self, i):
        return self.o(torch.tanh(self.h(self.e(i))))


def _partly(n, trained=False):
    model = nn.Sequential(nn.Linear(5, n), nn.Linear(n, n), nn.Linear(n, 2))
    model[1].weight.requires_grad_(trained)
    return model


@lru_cache
def partly():
    return tp.scaling(_partly, torch.randn(4, 5), base=16, widths=(16, 32, 64))


def _checked(**changed):
    """A check of a plan, with something that is none."""
    settings = {"make": _partly, "data": (torch.randn(4, 5), None), "widths": (16, 32, 64), **changed}
    return partly().check(settings.pop("make"), settings.pop("data"), **settings)


TRAINED = [torch.zeros(1, requires_grad=True)]

BAD = {
    "a group misses one": (
        lambda p, m: p.param_groups(m, lr=1, groups=[{"params": [m.hid.weight]}]), "stands in no group"),
    "a group doubles one": (
        lambda p, m: p.param_groups(m, lr=1, groups=_twice(m)), "`hid.weight` stands in groups.0. and"),
    "a group of another model": (
        lambda p, m: p.param_groups(m, lr=1, groups=[{"params": list(Roles(64).parameters())}]), "does not have"),
    "a group that is none": (lambda p, m: p.param_groups(m, lr=1, groups=[3]), 'dictionaries with "params"'),
    "another shape": (
        lambda p, m: p.param_groups(Other(64, inputs=4), lr=1), "`inp.weight` has the shape 64×4, in the plan n×5"),
    "another parameter": (
        lambda p, m: p.initialize_(Other(64, name="hidden")), "`hidden.weight`, which the plan does not"),
    "narrower than the base": (lambda p, m: p.initialize_(Roles(32)), "has the width 32, the base is 64"),
    "no model": (lambda p, m: p.param_groups(3, lr=1), "give a torch.nn.Module"),
    "no rate": (lambda p, m: p.param_groups(m, lr=float("nan")), "lr=nan: give a number"),
    "entries that are not new": (lambda p, m: p.initialize_(_trained(m)), "is for new models"),
    "an optimizer without a rule": (lambda p, m: tp.scaling(imported(), optimizer="RAdam"), "no one power of n fits"),
    "an unknown optimizer": (lambda p, m: tp.scaling(imported(), optimizer="Wonder"), "There are rules for sgd"),
    "LBFGS": (lambda p, m: tp.scaling(imported(), optimizer=torch.optim.LBFGS), "along past gradients"),
    "no base": (lambda p, m: tp.scaling(imported(), base=0), "base=0: give the width"),
    "one width": (lambda p, m: p.check(Roles, 3, widths=(64,)), "widths=.64,.: give 3"),
    "no data": (lambda p, m: p.check(Roles, 3), "give .inputs, target."),
    "a group of nothing": (
        lambda p, m: p.param_groups(m, lr=1, groups=[{"params": None}]), "NoneType: give parameters of the model"),
    "a group of names": (
        lambda p, m: p.param_groups(m, lr=1, groups=[{"params": ["gain"]}]), "str: give parameters of the model"),
    "a tied parameter twice": (
        lambda p, m: tp.scaling(decoder(), base=16).param_groups(m := Decoder(16), lr=1, groups=_tied_groups(m)),
        "`wte.weight` stands twice in groups.0.: leave it in one place"),
    "not tied": (
        lambda p, m: tp.scaling(decoder(), base=16).param_groups(_untied(), lr=1),
        "`wte.weight` are one parameter in the plan, and two in the model"),
    "trained, and frozen in the plan": (
        lambda p, m: partly().param_groups(_partly(16, True), lr=1), "`1.weight` is trained here and was not"),
    "all frozen": (lambda p, m: p.param_groups(m.requires_grad_(False), lr=1), "no parameter that is trained"),
    "a class": (lambda p, m: p.param_groups(Roles, lr=1), "give a torch.nn.Module"),
    "a lazy model": (lambda p, m: p.initialize_(nn.LazyLinear(64)), "`weight` has no shape yet"),
    "a rate above all numbers": (lambda p, m: p.param_groups(m, lr=10**400), "give a number of 0 or more"),
    "a depth": (lambda p, m: p.param_groups(m, lr=1, depth=3), "depth=3: the plan has no powers of it"),
    "no threshold": (lambda p, m: p.clipping(128, -1), "threshold=-1: give a number"),
    "no width": (lambda p, m: p.multipliers(None), "n=None: give a whole number"),
    "Muon for the rest": (
        lambda p, m: tp.scaling(imported(), optimizer={"matrix": "adam", "rest": "muon"}), "trains matrices alone"),
    "no models": (lambda p, m: _checked(seeds=0), "seeds=0: give a whole number, at least 1"),
    "no seed": (lambda p, m: _checked(seed="a"), "a seed is a whole number"),
    "a make of another width": (lambda p, m: _checked(make=lambda n: _partly(2 * n)), "model of the width 32"),
    "a make of nothing": (lambda p, m: _checked(make=lambda n: None), "builds a torch.nn.Module"),
    "data of another size": (lambda p, m: _checked(data=(torch.randn(4, 7), None)), "cannot be called with the data"),
    "a target of another size": (
        lambda p, m: _checked(data=(torch.randn(4, 5), torch.randn(4, 1))), "the shape .4, 1., the output .4, 2."),
    "a target that is none": (lambda p, m: _checked(data=(torch.randn(4, 5), "a")), "the target is str"),
    "classes beyond the output": (
        lambda p, m: _checked(data=(torch.randn(4, 5), torch.full((4,), 9))), "loss.f, target. raises IndexError"),
    "a loss that is none": (lambda p, m: _checked(loss=lambda f, y: 3.0), "return one number, as a tensor"),
    "a loss of all": (lambda p, m: _checked(loss=lambda f, y: f), "return one number, as a tensor"),
    "no optimizer": (lambda p, m: _checked(setup=lambda model: None), "return the optimizer"),
    "a setup that fails": (lambda p, m: _checked(setup=lambda: 3), "setup.model. raises TypeError"),
    "sparse gradients": (
        lambda p, m: tp.scaling(Sparse, torch.arange(4), base=16, widths=(16, 32, 64)).check(
            Sparse, torch.arange(4), widths=(16, 32, 64)), "`e.weight` has sparse gradients"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told(name):
    plan = tp.scaling(imported(), base=64)
    call, said = BAD[name]
    with pytest.raises(tp.TplimitsError, match=said):
        call(plan, Roles(64))


def test_optimizers_are_told_by_how_they_decay():
    """PyTorch's Adam and NAdam decouple decay if asked, and others' Adafactor leaves the size of weights out."""
    assert rule_of(torch.optim.Adam(TRAINED, decoupled_weight_decay=True)).name == "adamw"
    assert rule_of(torch.optim.NAdam(TRAINED, decoupled_weight_decay=True)).decoupled
    assert rule_of(torch.optim.Adam(TRAINED)).name == "adam"
    other = torch.optim.Adafactor(TRAINED)
    other.defaults["scale_parameter"] = False
    with pytest.raises(tp.ProgramError, match="not multiplied by the size of the weights"):
        rule_of(other)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_parameters_in_half_precision_are_planned_alike(kind):
    make = lambda n: _partly(n).to(kind)  # noqa: E731
    found = tp.scaling(make, torch.randn(4, 5, dtype=kind), base=16, widths=(16, 32, 64))
    assert {r.name: r.powers for r in found.rows} == {r.name: r.powers for r in partly().rows}
    model, same = make(64), make(64)
    same.load_state_dict(model.state_dict())
    found.initialize_(model)
    assert model[2].weight.dtype == kind and torch.allclose(model[2].weight * 2, same[2].weight, rtol=1e-2)
    assert {g["lr"] for g in found.param_groups(model, lr=1.0)} == {1.0, 0.25}
