"""Numbers of a model that know its width, wherever they stand: powers of n, or refused by name."""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from models import noise
from torch import nn

import tplimits as tp
from tplimits.torch.entries import _entries

X = noise(3, 4)


class Layers(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n, self.a, self.b, self.o = n, nn.Linear(4, n), nn.Linear(n, n), nn.Linear(n, 2)
        self.started()

    def started(self):
        """What else a model has."""

    def forward(self, x):
        return self.o(torch.relu(self.b(torch.relu(self.a(x)))))


def model(forward=None, started=None):
    own = {"forward": forward, "started": started}
    return type("Model", (Layers,), {k: v for k, v in own.items() if v is not None})


def imported(make, x=X):
    return tp.from_torch(make, x, widths=(16, 32, 64))


FIRST = torch.tensor([True, False, False])[:, None]


def hidden(self, x):
    return self.b(torch.tanh(self.a(x)))


POWERS = {
    "a buffer": model(
        lambda s, x: s.o(hidden(s, x) * s.scale), lambda s: s.register_buffer("scale", torch.tensor(s.n**-0.5))
    ),
    "a tensor": model(lambda s, x: s.o(hidden(s, x) / torch.sqrt(torch.tensor(float(s.n))))),
    "an input": model(lambda s, x: s.o(hidden(s, x * s.n**-0.5))),
    "alpha": model(lambda s, x: s.o(torch.add(s.a(x), hidden(s, x), alpha=1 / s.n))),
    "beta": model(lambda s, x: torch.addmm(s.o.bias, hidden(s, x), s.o.weight.t(), beta=s.n**0.5, alpha=1 / s.n)),
    "ε": model(lambda s, x: s.o(F.layer_norm(hidden(s, x), (s.n,), eps=1 / s.n))),
    "a filling": model(lambda s, x: s.o(hidden(s, x) * torch.full((1,), 1 / s.n))),
    "a bound": model(lambda s, x: s.o(hidden(s, x).clamp(-(s.n**0.25), s.n**0.25))),
    "a masked entry": model(lambda s, x: s.o(hidden(s, x).masked_fill(FIRST, 1 / s.n))),
}  # fmt: skip


@pytest.mark.parametrize("name", POWERS)
def test_numbers_are_those_of_every_width(name):
    match = imported(POWERS[name]).matches(POWERS[name](24), X)
    assert match, str(match)


#: numbers in the text of a model, which are those of single precision in its graph; whole numbers times matrices
WRITTEN = {
    "a tensor": lambda s, x: s.o(hidden(s, x * torch.tensor([0.1, 0.2, 1 / 3, 0.7])) + x.new_tensor([0.3])),
    "a filling": lambda s, x: s.o(hidden(s, x * torch.full((4,), 0.1) + torch.full_like(x, 0.3))),
    "angles": lambda s, x: s.o(hidden(s, x * torch.cos(torch.arange(4) * torch.tensor([1.0, 0.1, 1.0, 0.1])))),
    "a double": lambda s, x: s.o(hidden(s, x * torch.from_numpy(np.array([0.1, 0.2, 0.3, 0.4])).float())),
    "twice a matrix": lambda s, x: s.o(s.a(x) @ (2 * s.b.weight).T + s.a(x) @ (s.b.weight * 0.5)),
    "less a matrix": lambda s, x: s.o(s.a(x) @ (-1 * s.b.weight) + s.b(s.a(x)).relu() @ -s.b.weight.T),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_written_numbers_are_those_of_the_model(name):
    make = model(WRITTEN[name])
    match = imported(make).matches(make(24), X)
    assert match and match.output < 1e-13, str(match)


def test_a_negated_readout_is_a_readout():
    negated, times = (
        imported(model(f)) for f in (lambda s, x: -s.o(hidden(s, x)), lambda s, x: -1 * s.o(hidden(s, x)))
    )
    assert [i.name for i in negated] == [i.name for i in times] and negated.returns == times.returns
    assert str(negated.classify(tp.Adam())) == str(times.classify(tp.Adam()))


def test_a_mean_that_is_far_from_0_by_chance_is_measured_again():
    """Behind nine layers, the entries of the first eight readouts are 4 standard errors from 0 on average."""

    class Many(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.a = nn.ModuleList(nn.Linear(5, n) for _ in range(9))
            self.o = nn.Linear(n, 2)

        def forward(self, x):
            return self.o(sum(a(x).tanh() for a in self.a))

    assert tp.from_torch(Many, noise(4, 5)).entries["o.weight"].mean == 0


@pytest.mark.parametrize("p", [0.25, 1.0])
def test_powers_of_other_widths_are_exact(p):
    """n of the program counts three of the model's: c n^p is (c 3^(−p)) N^p, whose number is a fourth root."""

    class Wide(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.k = n ** (p - 0.5)
            self.a, self.b = nn.Linear(4, n // 2, bias=False), nn.Linear(n // 2, 3 * n, bias=False)
            self.c, self.o = nn.Linear(3 * n, 3 * n, bias=False), nn.Linear(3 * n, 2, bias=False)
            nn.init.normal_(self.b.weight, std=1.5 * n**-p)
            nn.init.normal_(self.c.weight, std=0.7 * n**-p)

        def forward(self, x):
            return self.o(torch.tanh(self.k * self.c(torch.tanh(self.k * self.b(self.a(x))))))

    net = imported(Wide)
    match = net.matches(Wide(24), X)
    assert match, str(match)
    for name, std in (("b.weight", 1.5), ("c.weight", 0.7)):
        assert float(net.entries[name].spread) == pytest.approx(std, rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_measured_spreads_are_within_their_doubt(seed, std=0.7):
    """What models of two widths tell together is as certain as all of their entries are."""
    rng = np.random.default_rng(seed)
    samples = [[rng.normal(0, std / n, n * n) for _ in range(8)] for n in (16, 64)]
    found = _entries("w", samples, (16, 64))
    assert found.power == 1 and abs(found.std / std - 1) <= found.doubt


REFUSED = {
    "logarithm": (model(lambda s, x: s.o(hidden(s, x)) / torch.log(torch.tensor(float(s.n)))), "operation log (log)"),
    "sine": (model(lambda s, x: s.o(hidden(s, torch.sin(x * s.n)))), "operation sin (sin)"),
    "exponent": (model(lambda s, x: s.o(hidden(s, x).abs() ** (1 / s.n))), "operation pow"),
    "random": (model(lambda s, x: F.gumbel_softmax(s.o(hidden(s, x)))), "it draws random numbers"),
    "half": (model(lambda s, x: s.o(hidden(s, x).half().float())), "operation to (to): it casts to half precision"),
    "routed": (model(lambda s, x: s.o(hidden(s, x)) * s.o(s.a(x)).argmax(-1, keepdim=True)), "operation argmax"),
    "neurons": (model(lambda s, x: s.b(s.a(x))), "has an entry for each neuron"),
    "branch": (model(lambda s, x: s.o(s.a(x)) if s.a(x).sum() > 0 else s.o(x.sum() * s.a(x))), "test_numbers.py"),
    "own number": (
        model(lambda s, x: s.o(F.linear(s.a(x), s.b.weight / s.b.weight.sum(0).sum(0)))), "a weight matrix"
    ),
    "spectral norm": (model(started=lambda s: nn.utils.spectral_norm(s.b)), "computed from it"),
    "one memory": (
        model(lambda s, x: s.o(s.a(x)) + s.a(x) @ s.w.t()[:, :2],
              lambda s: setattr(s, "w", nn.Parameter(s.a.weight.data.t()))),
        "two tensors in one memory",
    ),
    "wrapped": (lambda n: nn.DataParallel(Layers(n)), "return the module inside"),
    "quantised": (
        lambda n: torch.ao.quantization.quantize_dynamic(Layers(n), {nn.Linear}, dtype=torch.qint8), "is quantised"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_power_is_refused_by_name(name):
    make, words = REFUSED[name]
    with pytest.raises(tp.ProgramError) as refusal:
        imported(make)
    assert words in str(refusal.value)


OWN = {
    "statistics of inputs": model(
        lambda s, x: Layers.forward(s, s.norm(x)), lambda s: setattr(s, "norm", nn.BatchNorm1d(4))
    ),
    "random frequencies": model(
        lambda s, x: Layers.forward(s, torch.sin(x @ s.f)), lambda s: s.register_buffer("f", torch.randn(4, 4))
    ),
    "one layer twice": model(
        lambda s, x: s.o(s.both[1](s.both[0](s.a(x)))), lambda s: setattr(s, "both", nn.ModuleList([s.b, s.b]))
    ),
    "views that change": model(lambda s, x: s.o(changed(s.a(x)))),
    "diagonal": model(
        lambda s, x: s.o(s.a(x)) * torch.einsum("ii->i", s.c),
        lambda s: setattr(s, "c", nn.Parameter(torch.randn(2, 2))),
    ),
    "comparisons": model(lambda s, x: s.o(torch.where((s.a(x) > 0) & (s.b(s.a(x)) <= 1), s.a(x), 0.1 * s.b(s.a(x))))),
    "channels of tokens": model(
        lambda s, x: s.o(s.c(s.a(x).unsqueeze(0))[0]), lambda s: setattr(s, "c", nn.Conv1d(3, 3, 1))
    ),
    "products of widths": model(
        lambda s, x: s.f(s.a(x), s.b(s.a(x))), lambda s: setattr(s, "f", nn.Bilinear(s.n, s.n, 2))
    ),
}  # fmt: skip


def changed(h):
    parts = h.view(-1, 2, h.shape[-1] // 2)
    h.mul_(2.0)
    return torch.relu(h) + parts.flatten(1)


@pytest.mark.parametrize("name", OWN)
def test_each_module_has_its_own(name):
    make = OWN[name]
    module = make(24).train()
    module(X)  # running statistics are no longer 0 and 1
    match = imported(make).matches(module, X)
    assert match, str(match)


def test_other_numbers_in_a_buffer_are_told():
    make = model(lambda s, x: s.o(s.a(x) * s.k), lambda s: s.register_buffer("k", torch.tensor(2.0)))
    module = make(24)
    module.k.fill_(3.0)
    with pytest.raises(tp.EvaluationError, match="the numbers of the buffer `k`"):
        imported(make).matches(module, X)


KINKS = {
    "relu6": F.relu6, "hardtanh": lambda h: F.hardtanh(h, 0.0, 1.0), "elu": F.elu,
    "maximum": lambda h: torch.maximum(h, 2 * h),
    "celu": lambda h: F.celu(h, 2.0),
    "hardswish": lambda h: F.hardswish(h - 3) + F.hardswish(h + 3), "smaller": lambda h: torch.minimum(h, 0 * h + 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", KINKS)
def test_derivatives_at_kinks_are_those_of_pytorch(name):
    """A dead channel whose bias starts at 0 stands exactly on them."""
    make = model(lambda s, x: s.o(KINKS[name](s.a(x) - s.a(x).detach())))
    assert imported(make).matches(make(24), X)


@pytest.mark.parametrize(
    ("of", "twin"), [(lambda h: h.clamp(0, 1), lambda h: F.hardtanh(h, 0.0, 1.0)), (lambda h: h.clamp(min=0), F.relu)]
)
def test_at_bounds_of_clamp_derivatives_are_0(of, twin):
    """Whatever PyTorch has there, which is 1 before 2.14 and 0 since: the same functions by other names have 0."""
    make, other = (model(lambda s, x, f=f: s.o(f(s.a(x) - s.a(x).detach()))) for f in (of, twin))
    net = imported(make)
    assert net.matches(other(24), X) and net.matches(make(24), X).largest == ("the model",)


def test_a_make_that_seeds_itself_is_measured():
    def make(n):
        torch.manual_seed(0)
        return Layers(n)

    net = imported(make)
    assert net.entries["b.weight"].shape == "uniform" and net.entries["b.weight"].power == Fraction(1, 2)


def test_matrices_that_start_at_0():
    net = imported(model(started=lambda s: nn.init.zeros_(s.b.weight)))
    assert "`b` moves like n^(1/2)" in net.classify(tp.SGD()).sentence
    with pytest.raises(tp.NoLimitError, match="start at 0"):
        tp.derive(net, tp.Kernels())


def test_given_matrices_are_not_classified():
    net = imported(model(started=lambda s: nn.init.eye_(s.b.weight)))
    with pytest.raises(tp.NoLimitError, match="as a unit matrix does"):
        net.classify(tp.SGD())
    assert "as a unit matrix does" in str(net.report())


def test_constants_are_powers_of_n():
    scale = imported(model(
        lambda s, x: s.o(s.a(x) + s.g * torch.relu(s.b(s.a(x)))),
        lambda s: setattr(s, "g", nn.Parameter(torch.full((s.n,), 3 * s.n**-0.5))),
    ))  # fmt: skip
    assert scale.entries["g"].power == Fraction(1, 2) and scale.entries["g"].mean == pytest.approx(3)
    with pytest.raises(tp.NoLimitError, match="multiply by the power of n in forward"):
        tp.derive(scale, tp.Kernels())


def beside_b(s, of):
    s.c = nn.Linear(s.n, s.n)
    s.c.weight.data.copy_(of(s.b.weight.data))


@pytest.mark.parametrize(
    ("started", "words"),
    [
        (lambda s: setattr(s, "c", copy.deepcopy(s.b)), "starts with the numbers of `b.weight`"),
        (lambda s: beside_b(s, lambda w: -3 * w), "starts with multiples of the numbers of `b.weight`"),
        (lambda s: beside_b(s, lambda w: 2 * w.t()), "starts with multiples of the numbers of `b.weight`"),
        (lambda s: beside_b(s, lambda w: w + torch.randn_like(w) * s.n**-0.5), "correlated with `b.weight`"),
        (
            lambda s: beside_b(s, lambda w: torch.where(torch.rand(w.shape) < 0.3, w, w.flip(0))),
            "numbers of `b.weight`",
        ),
        (lambda s: beside_b(s, lambda w: (3 * w**2 - 1 / s.n) * s.n**0.5), "correlated with `b.weight`"),
        (lambda s: nn.init.orthogonal_(s.b.weight), "starts orthogonal"),
        (lambda s: s.a.weight.data[1::2].copy_(-s.a.weight.data[::2]), "numbers that it holds several times"),
        (lambda s: s.a.weight.data[:, 1].copy_(s.a.weight.data[:, 0]), "numbers that it holds several times"),
        (lambda s: s.a.weight.data[:, 0].mul_(2), "rows or columns that are larger"),
        (lambda s: s.b.weight.data[: len(s.b.weight) // 2].mul_(2), "rows or columns that are larger"),
        (lambda s: s.b.weight.data.mul_(torch.rand(len(s.b.weight), 1)), "rows or columns that are larger"),
    ],
)
def test_entries_that_depend_on_one_another(started, words):
    net = imported(model(lambda s, x: s.o(getattr(s, "c", s.b)(torch.tanh(s.b(s.a(x))))), started))
    assert words in str(net.dependent) and words in str(net.report())
    with pytest.raises(tp.NoLimitError, match=words):
        tp.derive(net.gaussian().leading(), tp.Kernels())
    assert tp.derive(net.gaussian().leading().independent(), tp.Kernels())


def signs(w):
    return w.copy_(torch.sign(torch.randn(w.shape)))


def sparse(w):
    return w.mul_(torch.rand(w.shape) < 0.1)


@pytest.mark.parametrize("law", [nn.init.uniform_, nn.init.normal_, signs, sparse])
def test_laws_of_independent_entries_are_alike(law):
    assert not imported(model(started=lambda s: [law(p.data) for p in (s.a.weight, s.b.weight, s.o.weight)])).dependent


@pytest.mark.parametrize("part", ["b", "o"])
def test_limits_are_those_of_products_of_order_1(part):
    """Entries of 0.02 at every width: what networks compute grows like √n."""
    net = imported(model(started=lambda s: nn.init.normal_(getattr(s, part).weight, std=0.02)))
    with pytest.raises(tp.NoLimitError, match=rf"`{part}.weight` starts at normal.*go like n\^\(1/2\)"):
        tp.derive(net.gaussian().leading(), tp.Kernels())
    assert "n^(1/2)" in str(net.classify(tp.SGD()))


def test_what_training_alone_does_is_told():
    net = imported(model(lambda s, x: (s.o(s.d(s.a(x))), s.a(x)), lambda s: setattr(s, "d", nn.Dropout(0.5))))
    assert "as in evaluation, without dropout in d" in str(net.report())
    assert "the model returns 2 tensors, and the program is the first" in str(net.report())


def test_a_number_before_the_output_counts():
    """Δf by the number itself is f, and the layers behind it move as they do without it."""
    net = imported(model(
        lambda s, x: s.t * torch.relu(s.b(torch.relu(s.a(x)))).mean(-1),
        lambda s: setattr(s, "t", nn.Parameter(torch.tensor(1.0))),
    ))  # fmt: skip
    found = net.classify(tp.SGD()).by_parameter
    assert found["t"] == found["b.weight"] == 0 and found["a.weight"] == -1
