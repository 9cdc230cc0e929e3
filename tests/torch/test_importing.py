"""Models of PyTorch as programs: neurons may change places, outputs and gradients are those of the module."""

from __future__ import annotations

from fractions import Fraction

import numpy
import pytest
import sympy
import torch
from further import FURTHER
from libraries import LIBRARIES
from models import MODELS, Sets
from refused import REFUSED
from strangers import STRANGERS

import tplimits as tp

EVERY = {**MODELS, **FURTHER, **STRANGERS, **LIBRARIES}


def disturbed(module, seed=0):
    """A module whose zeros and ones are neither: they would hide what is missing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            size = p.shape[-1] ** -0.5 if p.ndim > 1 else 1.0
            p.add_(0.3 * size * torch.randn(p.shape, generator=generator))
    return module


@pytest.mark.parametrize("name", EVERY)
def test_a_program_is_its_model(name):
    make, example, widths = EVERY[name]
    net = tp.from_torch(make, example, widths=widths)
    assert net.permutation_error <= 1e-12
    match = net.matches(disturbed(make(widths[0])), *example)
    assert match, str(match)
    assert match.promised == (1e-6 if match.casts else 1e-10)
    assert match.output <= 1e-10  # without casts, on both sides
    if name in ("Llama", "T5", "Mamba", "Gemma 2"):
        assert match.casts and 1e-9 < match.cast <= 1e-6 and max(match.gradients.values()) <= 1e-10


def test_at_another_width_too():
    make, example, widths = EVERY["decoder"]
    match = tp.from_torch(make, example, widths=widths).matches(disturbed(make(48)), *example)
    assert match, str(match)


def test_another_model_does_not_match():
    make, example, widths = EVERY["sets"]
    net = tp.from_torch(make, example, widths=widths)

    class Other(Sets):
        def forward(self, x):
            return super().forward(1.01 * x)

    match = net.matches(disturbed(Other(16)), *example)
    assert not match and match.output > 1e-4
    assert "NOT the model" in str(match)


def test_rounded_sizes_are_widths_of_their_own():
    make, example, widths = EVERY["rounded"]
    net = tp.from_torch(make, example, widths=widths)
    (name,) = net.built.rounded
    assert net.built.atoms[name] == Fraction(11, 4)  # 176 neurons at 64
    assert net.ratios[name] == pytest.approx(2.75 / float(net.built.atoms["n"]))
    assert net.entries["w2.weight"].power == Fraction(1, 2) and str(net.parametrization.of(net)["w2.weight"].b) == "1/2"
    match = net.matches(disturbed(make(40)), *example)  # 112 neurons
    assert match, str(match)
    assert "about" in str(net.report())


def test_powers_of_all_neurons_where_every_width_is_a_part():
    """The program's n is a quarter of the model's: literals and initial entries are powers of the model's."""
    make, example, widths = EVERY["quarters"]
    net = tp.from_torch(make, example, widths=widths)
    assert net.built.atoms["n"] == Fraction(1, 4)
    law = net[net.position("qkv.bias")].law  # uniform within n^(-1/2), of the 4n neurons
    assert law.std == sympy.sqrt(3) / 6
    assert net.matches(disturbed(make(48)), *example)


def test_entries_between_neurons_and_inputs():
    make, example, widths = EVERY["Glorot"]
    net = tp.from_torch(make, example, widths=widths)
    assert str(net.entries["weights.0"]) == "uniform, std 1.414·(n + 4)^-1/2"
    assert str(net.entries["weights.2"]) == "uniform, std 1.414·(n + 3)^-1/2"


@pytest.mark.parametrize("alike", [False, True])
def test_gradients_of_the_largest_of_equal_values_are_doubted(alike):
    class Maxout(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.a, self.b, self.o = torch.nn.Linear(3, n), torch.nn.Linear(3, n), torch.nn.Linear(n, 2)
            if alike:
                self.b.load_state_dict(self.a.state_dict())

        def forward(self, x):
            return self.o(torch.stack([self.a(x), self.b(x)]).amax(0))

    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    match = tp.from_torch(Maxout, x, widths=(16, 32, 64)).matches(Maxout(16))
    assert bool(match) is not alike and match.output <= 1e-10
    assert ("where these are equal" in str(match)) is alike


def test_gradients_that_are_no_numbers_do_not_match():
    class Norm(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.a, self.o = torch.nn.Linear(3, n, bias=False), torch.nn.Linear(n, 1)

        def forward(self, x):
            h = self.a(x)
            return self.o(h) + (h**2).sum(-1, keepdim=True).sqrt()

    net = tp.from_torch(Norm, torch.ones(2, 3), widths=(16, 32, 64))
    assert net.matches(Norm(16)) and not net.matches(Norm(16), torch.zeros(2, 3))


def test_names_of_parameters_mean_nothing():
    """A program calls its results `return` and `shift`, and its axes d3: so may a model call its parts."""

    class Called(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.a, self.o = torch.nn.Linear(3, n), torch.nn.Linear(n, 2)
            self.shift, self.d3, self.x = (torch.nn.Parameter(torch.randn(n)) for _ in range(3))

        def forward(self, x):
            return self.o(torch.relu(self.x * self.a(x) + self.d3 + self.shift))

    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    match = tp.from_torch(Called, x, widths=(16, 32, 64)).matches(disturbed(Called(16)))  # called with the example
    assert match and {"shift", "d3", "x"} < set(match.gradients)


def test_rows_of_padding_are_named():
    """PyTorch gives them no gradient; the program is differentiated everywhere."""

    class Padded(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.e, self.o = torch.nn.Embedding(5, n, padding_idx=2), torch.nn.Linear(n, 1)

        def forward(self, i):
            return self.o(torch.relu(self.e(i))).mean(1)

    i = torch.tensor([[0, 2, 3], [2, 2, 4]])
    match = tp.from_torch(Padded, i, widths=(16, 32, 64)).matches(disturbed(Padded(16)), i)
    assert match and match.padding == {"e.weight": 2}
    assert "row 2 of e.weight is padding" in str(match)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_program_is_refused_by_name(name):
    (make, example, widths), words = REFUSED[name]
    with pytest.raises(tp.ProgramError) as refusal:
        tp.from_torch(make, example, widths=widths)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"widths": (16, 32)}, "three different widths"),
        ({"widths": (16, 16, 32)}, "three different widths"),
        ({"example": 3}, "give a tensor"),
        ({"make": lambda n: n}, "builds a torch.nn.Module"),
        ({"make": lambda n: 1 / 0}, "make(16) raises ZeroDivisionError"),
    ],
)
def test_bad_requests(asked, words):
    whole = {"make": MODELS["sets"].make, "example": MODELS["sets"].example, "widths": (16, 32, 64), **asked}
    with pytest.raises(tp.TplimitsError) as refusal:
        tp.from_torch(**whole)
    assert words in str(refusal.value)


def test_rows_that_do_not_see_each_other_are_inputs():
    sets, graph = MODELS["sets"], MODELS["graph convolution"]
    assert tp.from_torch(*sets[:2], widths=sets.widths).by_row
    assert not tp.from_torch(*graph[:2], widths=graph.widths).by_row


def test_progress_is_told():
    make, example, widths = MODELS["sets"]
    seen = []
    tp.from_torch(make, example, widths=widths, name="sets", progress=lambda *told: seen.append(told))
    assert seen[0] == (0.0, seen[-1][1], "importing sets") and seen[-1][0] == seen[-1][1] == len(seen) - 1


def test_rare_powers_are_measured_again():
    """n^(-1/4) is told from 1/log n, which is refused."""

    def make(n):
        model = torch.nn.Sequential(torch.nn.Linear(3, n), torch.nn.ReLU(), torch.nn.Linear(n, 2))
        torch.nn.init.normal_(model[2].weight, std=n**-0.25)
        return model

    entries = tp.from_torch(make, torch.randn(2, 3)).entries["2.weight"]
    assert entries.power == Fraction(1, 4) and entries.error < 0.01


def test_names_are_those_of_the_module_tree():
    make, example, widths = MODELS["decoder"]
    text = str(tp.from_torch(make, example, widths=widths, name="decoder"))
    assert text.startswith("program decoder(")
    for name in ("blocks.0.attn.weight", "blocks.1.ln_2", "blocks.0.fc["):
        assert name in text
    assert text.count("head.weight") >= 1 and "wte.weight[" not in text  # one tensor, one parameter


def test_entries_are_measured():
    make, example, widths = MODELS["perceptron"]
    net = tp.from_torch(make, example, widths=widths)
    assert {str(net[net.position(name)].law.std) for name in ("0.weight", "0.bias")} == {"sqrt(15)/15"}
    assert net.entries["2.weight"].power == net.entries["2.bias"].power == 0.5
    assert net.entries["0.weight"].power == 0
    assert net[net.position("2.bias")].law.shape == "uniform"
    assert float(net.built.factors["2.weight"]) == pytest.approx(3**-0.5, rel=1e-12)
    assert net.parametrization.of(net)["2.bias"].b == sympy.Rational(1, 2)


def test_given_numbers_have_no_limit():
    make, example, widths = MODELS["sines"]
    net = tp.from_torch(make, example, widths=widths)
    assert net[net.position("pe")].law.shape == "given" and net.frozen == ("pe",)
    with pytest.raises(tp.NoLimitError, match="given numbers along the width"):
        tp.derive(net, tp.Kernels())
    with pytest.raises(tp.EvaluationError, match="no law to be drawn from"):
        net.run(n=4, constants={"i": [1, 2, 3, 4, 5]})


def test_what_the_model_freezes_is_left_at_rest():
    """The tangent kernel of the rest alone, by torch's gradients at a large width; statistics of batches are frozen."""

    def make(n):
        model = torch.nn.Sequential(
            torch.nn.Linear(3, n), torch.nn.BatchNorm1d(n), torch.nn.Tanh(), torch.nn.Linear(n, 1)
        )
        model[0].requires_grad_(False)
        return model

    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    net = tp.from_torch(make, x, widths=(16, 32, 64)).gaussian().leading()
    limit = tp.derive(net, tp.Kernels())
    assert limit.trained == ("1.weight", "1.bias", "3.weight", "3.bias")
    claimed, wide = limit.evaluate(net.data(x)).ntk, 2**15
    module = make(wide).double().eval()
    trained = [p for p in module.parameters() if p.requires_grad]
    rows = [torch.autograd.grad(f, trained, retain_graph=True) for f in module(x.double())[:, 0]]
    # of readouts like n^(−½) and the bias of the output, which the limit has with rates of their own
    factors = (1, 1, 1 / wide, 1)
    found = [[sum(c * (a * b).sum().item() for c, a, b in zip(factors, one, two, strict=True)) for two in rows]
             for one in rows]  # fmt: skip
    assert numpy.array(found) == pytest.approx(numpy.asarray(claimed).reshape(2, 2), rel=0.03)
    decayed = {"optimizer": tp.SGD(), "weight_decay": 0.1}
    assert "0.weight" not in tp.derive(net, tp.NeuralTangent(**decayed)).trained
    recursion = tp.derive(net, tp.MaximalUpdate(**decayed)).recursion
    assert "0.weight" not in recursion.moving and recursion.weight_decay["0.weight"] == 0
    for regime in (
        tp.Kernels(train=("0.weight",)),
        tp.MaximalUpdate(dict.fromkeys(net.entries, tp.SGD())),
        tp.NeuralTangent(dict.fromkeys(net.entries, tp.SGD())),
    ):
        with pytest.raises(tp.ProgramError, match=r"does not train `0\.weight`"):
            tp.derive(net, regime)


def test_frozen_parameters():
    make, example, widths = MODELS["low rank"]
    assert tp.from_torch(make, example, widths=widths).frozen == ("w.weight",)


def test_files():
    make, example, widths = MODELS["attention written out"]
    net = tp.from_torch(make, example, widths=widths)
    assert str(tp.from_json(tp.to_json(net))) == str(net)


def test_a_parametrization_is_judged():
    make, example, widths = MODELS["perceptron"]
    net = tp.from_torch(make, example, widths=widths)
    verdict = tp.classify(net.gaussian(), net.parametrization, tp.SGD())
    assert not verdict.stable


def test_without_pytorch_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("tplimits.torch.door.find_spec", lambda _: None)
    with pytest.raises(tp.ProgramError, match=r"pip install 'tplimits\[torch\]'"):
        tp.from_torch(MODELS["sets"].make, MODELS["sets"].example)
