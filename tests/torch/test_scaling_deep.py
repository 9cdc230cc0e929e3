"""Powers of the depth: counted over a stack, applied by names at any depth, measured on stacks of 2 to 32 blocks."""

from __future__ import annotations

import sys
from fractions import Fraction
from functools import lru_cache

import pytest
import torch
from torch import nn

import tplimits as tp
from tplimits.cli import main
from tplimits.torch.scaling.plan import from_json

HALF = Fraction(1, 2)
X = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))


class Blocks(nn.Module):
    """Residual blocks of two matrices, a norm before them, after the sum, or none; one block used again if tied."""

    def __init__(self, n, depth, norm="before", tied=False, factor=1.0):
        super().__init__()
        self.i, self.o, self.depth, self.norm, self.factor = nn.Linear(5, n), nn.Linear(n, 3), depth, norm, factor
        self.b = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(n), nn.Linear(n, n), nn.Linear(n, n)]) for _ in range(1 if tied else depth)
        )

    def forward(self, x):
        x = self.i(x)
        for i in range(self.depth):
            norm, a, b = self.b[i % len(self.b)]
            x = x + self.factor * b(torch.relu(a(norm(x) if self.norm == "before" else x)))
            x = norm(x) if self.norm == "after" else x
        return self.o(x)


@lru_cache
def plan(optimizer="adam", residual="1", **settings):
    return tp.scaling(
        lambda n, depth: Blocks(n, depth, **settings), X, optimizer=optimizer, base=16, depth=2, residual=residual,
        widths=(16, 32, 64),
    )  # fmt: skip


# rate L^(α−1) for Adam and Muon, L^(2α−1) for SGD inside of blocks; the matrix that closes one takes L^(−α) besides
@pytest.mark.parametrize("optimizer, inside", [("adam", {"1": 0, "1/2": -HALF}), ("muon", {"1": 0, "1/2": -HALF}),
                                               ("sgd", {"1": 1, "1/2": 0})])  # fmt: skip
@pytest.mark.parametrize("α", ["1", "1/2"])
def test_powers_are_those_that_are_published(optimizer, inside, α):
    rows = plan(optimizer, α).by_name
    power = Fraction(α)
    assert rows["b.0.1.weight"].deep.rate == inside[α] and rows["b.0.1.weight"].deep.initial == 0
    closing = rows["b.1.2.weight"].deep
    assert closing.initial == -power and closing.rate == inside[α] - (2 if optimizer == "sgd" else 1) * power
    assert rows["b.0.1.bias"].deep.gradient == -power
    assert all(rows[name].deep.rate == 0 for name in ("i.weight", "o.weight", "o.bias"))


class Kinds(nn.Module):
    """Blocks of other kinds: gated behind a norm, scores of queries and keys, a number each, a function last."""

    def __init__(self, n, depth, kind):
        super().__init__()
        self.i, self.o, self.kind = nn.Linear(5, n), nn.Linear(n, 3), kind
        own = kind == "gated"  # as in Llama, but with biases
        shapes = [(n, 2 * n), (n, 2 * n), (2 * n, n), (n, n)] if own else 4 * [(n, n)]
        self.b = nn.ModuleList(
            nn.ModuleList([nn.RMSNorm(n), *(nn.Linear(*shape, bias=own) for shape in shapes)]) for _ in range(depth)
        )
        self.g = nn.ParameterList(nn.Parameter(torch.zeros(())) for _ in range(depth))

    def forward(self, x):
        x = self.i(x)
        for (norm, p, q, r, s), g in zip(self.b, self.g, strict=True):
            y = norm(x)
            if self.kind == "gated":
                x = x + r(nn.functional.silu(p(y)) * q(y))
            elif self.kind == "scores":
                x = x + s(torch.softmax(p(y) @ q(y).transpose(-1, -2) / x.shape[-1], -1) @ r(y))
            elif self.kind == "number":
                x = x + g * r(torch.tanh(q(y)))
            elif self.kind == "first version":
                x = torch.relu(x + r(torch.relu(q(x))))
            else:
                x = x + torch.tanh(q(y))
        return self.o(x.mean(-2))


# which matrices a kind has, the one that closes a block last, None where a function does
KINDS = {
    "gated": ("123", "3"),
    "scores": ("1234", "4"),
    "number": ("23", "3"),
    "first version": ("23", "3"),
    "tanh": ("2", None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rates_inside_of_blocks_are_one_power_whatever_stands_there(kind):
    """Adam at α = ½: L^(−½) inside, besides L^(−½) for what takes the factor, and none outside."""
    found = tp.scaling(
        lambda n, depth: Kinds(n, depth, kind), X[None], optimizer="adam", base=16, depth=2, residual="1/2",
        widths=(16, 32, 64),
    )  # fmt: skip
    matrices, closing = KINDS[kind]
    rows = found.by_name
    assert {m: rows[f"b.0.{m}.weight"].deep.rate for m in matrices} == {
        m: -HALF - (HALF if m == closing else 0) for m in matrices
    }
    assert all(rows[name].deep.rate == 0 for name in ("i.weight", "o.weight"))
    assert rows["g.0"].deep.rate == (-HALF if kind == "number" else 0)
    assert found.blocks == ({} if closing else {f"b.{b}.2 (tanh)": -HALF for b in range(2)})


def test_blocks_that_share_weights_add_up():
    with pytest.raises(tp.NoLimitError, match=r"share weights.*residual=1"):
        plan("adam", "1/2", tied=True)
    assert plan("adam", "1", tied=True).by_name["b.0.2.weight"].deep.initial == -1
    model = Blocks(32, 6, tied=True)
    with pytest.raises(tp.EvaluationError, match=r"share their weights.*depth="):
        plan("adam", "1", tied=True).initialize_(model)
    assert plan("adam", "1", tied=True).size(model, depth=6).depth == 3


def test_a_plan_of_shallow_models_fits_deep_ones():
    found = from_json(plan().to_json())
    assert found == plan()
    model, same = Blocks(32, 8), Blocks(32, 8)
    same.load_state_dict(model.state_dict())
    found.initialize_(model)
    assert torch.allclose(model.b[7][2].weight * 4, same.b[7][2].weight)  # L^(−1), L = 8/2
    assert torch.allclose(model.b[7][1].weight, same.b[7][1].weight)
    groups = found.param_groups(model, lr=1.0)
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))
    (group,) = [g for g in groups if any(p is model.b[5][2].weight for p in g["params"])]
    assert group["lr"] == pytest.approx(1 / 2 / 4)
    with pytest.raises(tp.EvaluationError, match="depth 1, the base is 2"):
        found.initialize_(Blocks(32, 1))


def test_a_factor_that_the_model_has_is_counted():
    own = tp.scaling(
        lambda n, depth: Blocks(n, depth, factor=depth**-0.5),
        X,
        optimizer="adam",
        base=16,
        depth=2,
        widths=(16, 32, 64),
    )
    assert own.by_name["b.0.2.weight"].deep.initial == -HALF  # of L^(−1), half is there


@pytest.mark.parametrize("norm", ["before", "after", "none"])
def test_stacks_move_as_planned(norm):
    found = plan("adam", "1", norm=norm)
    make = lambda n, depth: Blocks(n, depth, norm)  # noqa: E731
    report = found.check(make, (X, None), depths=(2, 4, 8, 16, 32), steps=(1, 5))
    assert report.accepted, report

    def wrong(model):
        """One rate for all: what closes the blocks is L times too fast."""
        found.initialize_(model)
        groups = found.param_groups(model, lr=2e-3)
        for group in groups:
            group["lr"] = 2e-3
        return torch.optim.Adam(groups)

    report = found.check(make, (X, None), depths=(2, 4, 8, 16, 32), steps=(1, 5), setup=wrong)
    assert not report.accepted and any(name.endswith("2.weight") for name in report.blamed)


@pytest.mark.parametrize("changed, message", [({"residual": 2}, "from 1/2"), ({"depth": 0}, "depth=0"),
                                              ({"residual": "x"}, "residual='x'")])  # fmt: skip
def test_bad_depths_are_told(changed, message):
    with pytest.raises(tp.EvaluationError, match=message):
        tp.scaling(Blocks, X, **({"base": 16, "depth": 2, "widths": (16, 32, 64)} | changed))


def test_layers_that_are_added_to_nothing_are_told():
    def make(n, depth):
        layers = [nn.Linear(5, n), *(nn.Linear(n, n) for _ in range(depth)), nn.Linear(n, 3)]
        return nn.Sequential(*layers)

    with pytest.raises(tp.NoLimitError, match="no blocks that are added"):
        tp.scaling(make, X, base=16, depth=2, widths=(16, 32, 64))


# -- other outputs, and the command ----------------------------------------------------------


class Heads(nn.Module):
    """Two readouts side by side, a temperature, or a factor 1/n behind the readout."""

    def __init__(self, n, kind):
        super().__init__()
        self.a, self.l, self.o, self.q = nn.Linear(5, n), nn.Linear(n, n), nn.Linear(n, 3), nn.Linear(n, 2)
        self.s, self.n, self.kind = nn.Parameter(torch.ones(())), n, kind

    def forward(self, x):
        h = torch.relu(self.l(torch.relu(self.a(x))))
        if self.kind == "two":
            return torch.cat([self.o(h), self.q(h)], -1)
        return self.o(h) * self.s if self.kind == "temperature" else self.o(h) / self.n


@pytest.mark.parametrize("kind, power", [("two", -1), ("temperature", -1), ("over n", 0)])
def test_outputs_that_are_made_of_readouts(kind, power):
    found = tp.scaling(lambda n: Heads(n, kind), X, base=16, widths=(16, 32, 64))
    rows = found.by_name
    assert (rows["o.weight"].initial, rows["o.weight"].rate, rows["o.weight"].role) == (power, power, "readout")
    assert found.output == 0 and not found.left
    assert rows["l.weight"].rate == -1 and (kind != "temperature" or rows["s"].rate == 0)
    assert kind != "two" or rows["q.weight"].rate == -1


def test_a_seed_inside_of_make_is_told():
    def make(n):
        torch.manual_seed(0)
        return Heads(n, "two")

    with pytest.raises(tp.ProgramError, match="seed"):
        tp.scaling(make, X, base=16, widths=(16, 32, 64))


def test_the_command(tmp_path, capsys):
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\ndef make(n):\n    return nn.Sequential(nn.Linear(5, n), nn.Tanh(),"
        " nn.Linear(n, n), nn.Tanh(), nn.Linear(n, 2))\n\nexample = torch.randn(4, 5)\n"
    )
    file, plan_file = str(tmp_path / "model.py"), tmp_path / "plan.json"
    assert main(["scaling", file, "--base", "32", "--optimizer", "sgd", "--json", str(plan_file)]) == 0
    assert "hidden matrix" in capsys.readouterr().out
    assert tp.load_plan(plan_file).optimizer == "sgd"
    for wrong in (
        [f"{file}:mak"],
        [f"{file}:example"],
        [file, "--optimizer", "radam"],
        ["tied_relu"],
        [file, "--base", "0"],
    ):
        assert main(["scaling", *wrong]) == 2
        assert "Traceback" not in capsys.readouterr().err
    sys.path.remove(str(tmp_path))
