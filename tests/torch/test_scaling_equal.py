"""Scripts that follow a plan train the network that it is of: beside the package's own trainer, and beside mup."""

from __future__ import annotations

import copy
import warnings
from functools import lru_cache

import mup
import numpy
import pytest
import torch
from models import tokens
from scaled import Attention
from torch import nn

import tplimits as tp
from tplimits.program.parametrization.table import SP
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.torch.matching import _in_program
from tplimits.torch.scaling.stepping import optimizers_of

STEPS = 5
#: ε at the base: some gradients vanish but for rounding, which Adam without ε would follow; mup does not scale ε
EPS, NO_EPS = 1e-5, 1e-30


def perceptron(n):
    return nn.Sequential(nn.Linear(5, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh(), nn.Linear(n, 3))


X = torch.randn(6, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
MAKES = {"perceptron": (perceptron, (X,)), "GPT": (Attention, (tokens(11, 2, 5),))}


@lru_cache
def imported(name):
    make, example = MAKES[name]
    return tp.from_torch(make, tuple(x.float() if x.is_floating_point() else x for x in example), widths=(16, 32, 64))


def scripted(model, plan, example, goal, lr, eps=EPS):
    """Outputs after each of five steps of PyTorch's own optimizer on the plan's groups."""
    groups = plan.param_groups(model, lr=lr, weight_decay=0.0, **({"eps": eps} if plan.optimizer == "adam" else {}))
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
    rates, rules = {}, {}
    for name in built.weights:
        row, f = plan.by_name[name], factors[name]
        rate = lr * ratio ** float(row.rate) * (wrong if row.role == "hidden matrix" else 1)
        # w = f·v: the trainer moves v
        rates[name] = rate / f ** (2 if plan.optimizer == "sgd" else 1) / wider[name]
        eps = EPS * ratio ** float(row.eps or 0) * f
        rules[name] = tp.SGD() if plan.optimizer == "sgd" else tp.Adam(eps=eps, convention="torch")
    y = _in_program(net, goal)
    trainer = Trainer(net, lambda f: (f - y.reshape(f.shape)) / len(goal), rules, rates, parametrization=SP)
    run = trainer.start(
        net.data(*example), width=plan.width(model), parameters=net.weights(model), ratios=net.ratios
    )  # fmt: skip
    found = []
    for _ in range(STEPS):
        run.advance(1)
        found.append(run.outputs().copy())
    return found


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", MAKES)
def test_five_steps_are_those_of_the_program(name, optimizer):
    make, example = MAKES[name]
    net = imported(name)
    plan = tp.scaling(net, optimizer=optimizer, base=16)
    torch.manual_seed(3)
    model = plan.initialize_(make(48).double())
    shape = model(*example).shape
    goal = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    lr = {"sgd": 0.05, "adam": 3e-3}[optimizer]
    start, moved = model(*example).detach(), scripted(copy.deepcopy(model), plan, example, goal, lr)
    mine = trained(net, plan, model, example, goal, lr)
    twin = trained(net, plan, model, example, goal, lr, wrong=1.01) if name == "perceptron" else [0.0] * STEPS
    for theirs, ours, other in zip(moved, mine, twin, strict=True):
        truth = _in_program(net, theirs)
        assert numpy.abs(truth - _in_program(net, start)).max() > 1e-3
        assert numpy.abs(ours.reshape(truth.shape) - truth).max() < 1e-10
        assert numpy.abs(numpy.reshape(other, -1)[0] - truth.ravel()[0]) > 1e-8  # one rate 1 % off, or nothing at all


# -- mup --------------------------------------------------------------------------------------


def with_readout(n, readout):
    return nn.Sequential(nn.Linear(5, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh(), readout(n, 3))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_five_steps_are_those_of_mup(optimizer):
    """mup keeps the readout at order 1 and divides by n/base: equal by function, not by number."""
    base, n, lr = 16, 64, {"sgd": 0.05, "adam": 3e-3}[optimizer]
    plan = tp.scaling(imported("perceptron"), optimizer=optimizer, base=base)
    torch.manual_seed(5)
    theirs = with_readout(n, lambda a, b: mup.MuReadout(a, b)).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mup.set_base_shapes(
            theirs, with_readout(base, mup.MuReadout), delta=with_readout(2 * base, mup.MuReadout), rescale_params=False
        )
    mine = perceptron(n).double()
    mine.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        mine[4].weight.div_(n / base)  # the multiplier of MuReadout, in the weights
    goal = torch.randn(6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    moved = scripted(mine, plan, (X,), goal, lr, NO_EPS)
    made = {"sgd": lambda p: mup.MuSGD(p, lr=lr), "adam": lambda p: mup.MuAdam(p, lr=lr, eps=NO_EPS)}[optimizer]
    stepper = made(theirs.parameters())
    for t in range(STEPS):
        stepper.zero_grad()
        ((theirs(X) - goal).pow(2).sum() / 2 / len(goal)).backward()
        stepper.step()
        assert float((theirs(X).detach() - moved[t]).abs().max()) < 1e-12
