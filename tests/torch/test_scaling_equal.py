"""Scripts that follow a plan train the network that it is of: beside the package's own trainer, and beside mup."""

from __future__ import annotations

import copy
import warnings
from functools import lru_cache, partial
from itertools import product

import mup
import numpy
import pytest
import torch
import torch.nn.functional as F
from models import tokens
from scaled import Attention
from torch import nn

import tplimits as tp
from tplimits.program.parametrization.table import SP
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.torch.matching import _in_program, arrays_of
from tplimits.torch.scaling.families import optimizers_of

STEPS = 5
#: ε at the base: some gradients vanish but for rounding, which Adam without ε would follow; mup does not scale ε
EPS, NO_EPS = 1e-5, 1e-30


def perceptron(n):
    return nn.Sequential(nn.Linear(5, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh(), nn.Linear(n, 3))


X = torch.randn(6, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Grouped(nn.Module):
    """Two heads of queries to each of keys, which grow; gains and biases of norms; a readout of its own, or the table.

    PyTorch's tables start with order 1: a tied one is divided by the width of the base.
    """

    def __init__(self, n, tied=False):
        super().__init__()
        self.e, self.head = nn.Embedding(11, n), nn.Linear(n, 11, bias=False)
        self.q, self.k, self.v = nn.Linear(n, n), nn.Linear(n, n // 2), nn.Linear(n, n // 2, bias=False)
        self.o, self.first, self.last = nn.Linear(n, n), nn.LayerNorm(n), nn.RMSNorm(n, eps=1e-6)
        self.tied = tied
        if tied:
            self.head.weight = self.e.weight

    def forward(self, i):
        x = self.e(i)
        h, d = self.first(x), x.shape[-1] // 4
        q, k, v = (w(h).unflatten(-1, (-1, d)).transpose(1, 2) for w in (self.q, self.k, self.v))
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=4 / d)
        f = self.head(self.last(x + self.o(a.transpose(1, 2).flatten(2))))
        return f / 16 if self.tied else f


TOKENS = (tokens(11, 2, 5),)
MAKES = {
    "perceptron": (perceptron, (X,)), "GPT": (Attention, TOKENS), "grouped": (Grouped, TOKENS),
    "tied": (partial(Grouped, tied=True), TOKENS),
}  # fmt: skip
#: rates and decays at the base
RATES = {"sgd": 0.05, "momentum": 0.01, "adam": 3e-3, "adamw": 3e-3}
DECAYS = {"adamw": 0.5}


@lru_cache
def imported(name):
    make, example = MAKES[name]
    return tp.from_torch(make, tuple(x.float() if x.is_floating_point() else x for x in example), widths=(16, 32, 64))


def scripted(model, plan, example, goal, lr, eps=EPS):
    """Outputs after each of five steps of PyTorch's own optimizer on the plan's groups."""
    decay = DECAYS.get(plan.optimizer, 0.0)
    groups = plan.param_groups(model, lr=lr, weight_decay=decay, eps=eps if "adam" in plan.optimizer else None)
    (optimizer,) = optimizers_of(plan.optimizer, groups)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        ((model(*example) - goal).pow(2).sum() / 2 / len(goal)).backward()
        optimizer.step()
        found.append(model(*example).detach())
    return found


def trained(net, plan, model, example, goal, lr, wrong=1.0):
    """The same by the trainer of programs, with the plan's rates; `wrong` multiplies that of one role."""
    built, ratio = net.built, plan.width(model) / plan.base
    factors = {name: float(built.factors.get(name, 1)) for name in built.weights}
    # steps of matrices are n/columns times the rate
    wider = {name: float(net.entries[name].spread) ** 2 / factors[name] ** 2 if name in built.factors else 1.0
             for name in built.weights}  # fmt: skip
    rates, rules, decays = {}, {}, {}
    linear = not plan.optimizer.startswith("adam")
    for name in built.weights:
        row, f = plan.by_name[name], factors[name]
        rate = lr * ratio ** float(row.rate) * (wrong if row.role == "hidden matrix" else 1)
        # w = f·v: the trainer moves v
        rates[name] = rate / f ** (2 if linear else 1) / wider[name]
        decays[name] = rate * DECAYS.get(plan.optimizer, 0.0) * ratio ** float(row.decay)
        eps = EPS * ratio ** float(row.eps or 0) * f
        rules[name] = {"sgd": tp.SGD(), "momentum": tp.SGD(momentum=0.9)}.get(plan.optimizer) or tp.Adam(
            eps=eps, convention="torch")  # fmt: skip
    y, factor = _in_program(net, goal), plan.multipliers(plan.width(model)).get("output", 1.0)

    def error(f):
        return factor * (factor * f - y.reshape(f.shape)) / len(goal)

    trainer = Trainer(net, error, rules, rates, parametrization=SP, weight_decay=decays)
    run = trainer.start(
        net.data(*example), width=plan.width(model), parameters=net.weights(model), ratios=net.ratios
    )  # fmt: skip
    found = []
    for _ in range(STEPS):
        run.advance(1)
        found.append(factor * run.outputs())
    return found


@pytest.mark.parametrize(
    "name, optimizer",
    [*product(("perceptron", "GPT"), ("sgd", "adam")), ("grouped", "adamw"), ("tied", "momentum")],
)  # fmt: skip
def test_five_steps_are_those_of_the_program(name, optimizer):
    make, example = MAKES[name]
    net = imported(name)
    plan = tp.scaling(net, optimizer=optimizer, base=16)
    torch.manual_seed(3)
    model = plan.initialize_(make(48).double())
    if plan.output:
        plan.attach(model)
    shape = model(*example).shape
    goal = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    lr = RATES[optimizer]
    start, moved = model(*example).detach(), scripted(copy.deepcopy(model), plan, example, goal, lr)
    mine = trained(net, plan, model, example, goal, lr)
    twin = trained(net, plan, model, example, goal, lr, wrong=1.01) if name == "perceptron" else [0.0] * STEPS
    for theirs, ours, other in zip(moved, mine, twin, strict=True):
        truth = _in_program(net, theirs)
        assert numpy.abs(truth - _in_program(net, start)).max() > 1e-3
        assert numpy.abs(ours.reshape(truth.shape) - truth).max() < 1e-10
        assert numpy.abs(numpy.reshape(other, -1)[0] - truth.ravel()[0]) > 1e-8  # one rate 1 % off, or nothing at all


class _InProgram:
    """Tensors in PyTorch's layout whose gradients are those of the program."""

    def __init__(self, net, model, example, goal):
        self.net, self.data, self.ratios = net, net.data(*example), net.ratios
        self.tensors = self._copied(dict(model.named_parameters()))
        y = _in_program(net, goal)
        self.trainer = Trainer(net, lambda f: (f - y.reshape(f.shape)) / len(goal), tp.SGD(), 1.0, parametrization=SP)
        self.factors = {name: float(net.built.factors.get(name, 1)) for name in self.tensors}
        self.order = {
            name: (numbers * self.factors[name]).round().astype(int)
            for name, numbers in self._arrays(
                {k: torch.arange(p.numel()).reshape(p.shape) for k, p in self.tensors.items()}
            ).items()
        }

    @staticmethod
    def _copied(tensors):
        return {k: p.detach().clone().requires_grad_() for k, p in tensors.items()}

    def twin(self):
        other = copy.copy(self)
        other.tensors = self._copied(self.tensors)
        return other

    def _arrays(self, tensors):
        return arrays_of(self.net.built, tensors)

    def run(self, width):
        return self.trainer.start(
            self.data, width=width, parameters=self._arrays(self.tensors), ratios=self.ratios
        )  # fmt: skip

    def differentiate(self, width):
        """Write the program's gradients onto the tensors; w = f·v, and the program's are those of v."""
        for name, g in self.run(width).gradients().items():
            flat = torch.zeros(self.tensors[name].numel(), dtype=torch.float64)
            flat[self.order[name].ravel()] = torch.from_numpy(numpy.ravel(g) / self.factors[name])
            self.tensors[name].grad = flat.reshape(self.tensors[name].shape)


@pytest.mark.parametrize("name", ["perceptron", "GPT"])
def test_five_steps_of_orthogonalised_updates_are_those_of_the_program(name):
    """PyTorch makes updates of gradients on both sides: of the model's by the plan's groups, and of the program's."""
    make, example = MAKES[name]
    net, base, n, lr = imported(name), 16, 48, {"muon": 0.02, "adamw": 3e-3}
    plan = tp.scaling(net, optimizer="muon", base=base)
    torch.manual_seed(3)
    model = plan.initialize_(make(n).double())
    goal = torch.randn(model(*example).shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mine = _InProgram(net, model, example, goal)
    twin = mine.twin()

    def updating(program, wrong=1.0):
        for kind, make_optimizer in (("muon", torch.optim.Muon), ("adamw", torch.optim.AdamW)):
            rows = [(row, program.tensors[row.name]) for row in plan.rows if row.optimizer == kind]
            assert {p.ndim for _, p in rows} == {2} or kind == "adamw"
            groups = []
            for row, p in rows:
                power = {"lr": row.rate, "weight_decay": row.decay} | ({"eps": row.eps} if kind == "adamw" else {})
                start = {"lr": lr[kind] * (wrong if kind == "muon" else 1), "weight_decay": 0.5, "eps": EPS}
                groups.append({"params": [p], **{k: start[k] * (n / base) ** float(q) for k, q in power.items()}})
            yield make_optimizer(groups)

    groups = plan.param_groups(model, lr=lr, weight_decay=0.5, eps=EPS)
    theirs, ours, others = optimizers_of("muon", groups), list(updating(mine)), list(updating(twin, 1.01))
    start = _in_program(net, model(*example).detach())
    for _ in range(STEPS):
        model.zero_grad()
        ((model(*example) - goal).pow(2).sum() / 2 / len(goal)).backward()
        for program in (mine, twin):
            program.differentiate(n)
        for optimizer in (*theirs, *ours, *others):
            optimizer.step()
        truth = _in_program(net, model(*example).detach())
        apart = [numpy.abs(program.run(n).outputs().reshape(truth.shape) - truth).max() for program in (mine, twin)]
        assert numpy.abs(truth - start).max() > 1e-3 and apart[0] < 1e-10 and apart[1] > 1e-6, apart


# -- mup --------------------------------------------------------------------------------------


def with_readout(name, n, readout):
    if name == "GPT":
        model = Attention(n)
        model.head = readout(n, 11, bias=False)
        return model, model.head
    model = nn.Sequential(nn.Linear(5, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh(), readout(n, 3))
    return model, model[4]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", ["perceptron", "GPT"])
def test_five_steps_are_those_of_mup(name, optimizer):
    """mup keeps the readout at order 1 and divides by n/base: equal by function, not by number."""
    base, n, lr, example = 16, 64, RATES[optimizer], MAKES[name][1]
    plan = tp.scaling(imported(name), optimizer=optimizer, base=base)
    torch.manual_seed(5)
    theirs = with_readout(name, n, mup.MuReadout)[0].double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small, large = (with_readout(name, size, mup.MuReadout)[0] for size in (base, 2 * base))
        mup.set_base_shapes(theirs, small, delta=large, rescale_params=False)
    mine, readout = with_readout(name, n, nn.Linear)
    mine.double().load_state_dict(theirs.state_dict())
    with torch.no_grad():
        readout.weight.div_(n / base)  # the multiplier of MuReadout, in the weights
    goal = torch.randn(theirs(*example).shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    moved = scripted(mine, plan, example, goal, lr, NO_EPS)
    made = {"sgd": lambda p: mup.MuSGD(p, lr=lr), "adam": lambda p: mup.MuAdam(p, lr=lr, eps=NO_EPS)}[optimizer]
    stepper = made(theirs.parameters())
    for t in range(STEPS):
        stepper.zero_grad()
        ((theirs(*example) - goal).pow(2).sum() / 2 / len(goal)).backward()
        stepper.step()
        assert float((theirs(*example).detach() - moved[t]).abs().max()) < 1e-12
