"""Models widened by their plans, and measured: each role alone, all together, and with one thing scaled wrongly."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from further import FURTHER
from measuring import slope
from models import MODELS, Decoder, Model, noise, tokens
from torch import nn

import tplimits as tp
from tplimits.regimes.classification.finite.judging import measured_power
from tplimits.torch.scaling.families import optimizers_of
from tplimits.torch.scaling.recording import rms


class Roles(nn.Module):
    """A parameter of every role: embedding, input weight, bias, gain, hidden matrix, gate, readout, output bias."""

    def __init__(self, n):
        super().__init__()
        self.emb, self.inp, self.hid, self.out = nn.Embedding(16, n), nn.Linear(5, n), nn.Linear(n, n), nn.Linear(n, 3)
        self.gain, self.gate = nn.Parameter(torch.ones(n)), nn.Parameter(torch.tensor(0.7))

    def forward(self, i, x):
        h = torch.tanh(self.emb(i) + self.inp(x))
        return self.out(h + self.gate * torch.tanh(self.gain * self.hid(h)))


ROLES = {
    "input weight": ("emb.weight", "inp.weight"), "bias or gain": ("inp.bias", "hid.bias", "gain"),
    "hidden matrix": ("hid.weight",), "readout": ("out.weight",), "output bias": ("out.bias",), "scalar": ("gate",),
}  # fmt: skip
EXAMPLE = (tokens(16, 8), noise(8, 5))
#: so narrow that f starts small beside its target at all widths that are measured
BASE = 8


@lru_cache
def imported():
    return tp.from_torch(Roles, EXAMPLE, widths=(16, 32, 64))


@lru_cache
def powers_of(optimizer):
    return tp.scaling(imported(), optimizer=optimizer, base=BASE)


def _losses(model, goal):
    return (model(*EXAMPLE) - goal).pow(2).mean() / 2


def _new(plan, n, seed):
    """A new model; every other one has the last one's readout with the opposite sign, since the first gradients of
    scalars are sums that are centred: their signs, which adaptive optimizers follow, are then as often + as -."""
    torch.manual_seed(100 * (seed // 2) + n)
    model = plan.initialize_(Roles(n).double())
    with torch.no_grad():
        for p in model.out.parameters():
            p.mul_((-1) ** seed)
    return model


def _example():
    return EXAMPLE[0], EXAMPLE[1].double()


def _values(model):
    kept = {}
    handles = [
        m.register_forward_hook(lambda m, i, y, k=k: kept.setdefault(k, y)) for k, m in model.named_modules() if k
    ]
    f = model(*_example())
    for h in handles:
        h.remove()
    return f, {**{k: v.detach() for k, v in kept.items()}, "f": f.detach()}


def own_image(model, name, change):
    """What a change of a parameter does where it is used: ΔW x, Δb, Δg."""
    if name.endswith(".weight"):
        module = model.get_submodule(name.removesuffix(".weight"))
        taken = []
        handle = module.register_forward_hook(lambda m, i, y: taken.append(i[0].detach()))
        model(*_example())
        handle.remove()
        return rms(F.embedding(taken[0], change) if isinstance(module, nn.Embedding) else F.linear(taken[0], change))
    return rms(change)


#: rates at the base, so large that scalars are aligned by the fifth step: their first gradients are centred sums
RATES = {"sgd": 1.0, "momentum": 0.2, "adadelta": 1.0, "adafactor": 0.05, "adagrad": 2e-2, "rmsprop": 2e-3}
RATE = 1e-2
#: ε at the base, where PyTorch's own stands between the first gradients and late ones of scalars
EPS = {"adadelta": 1.0}


def together(sizes, many=8):
    """Root mean squares over so many networks: a single number that is centred has logarithms that scatter."""
    return [sum(x * x for x in sizes[i : i + many]) ** 0.5 for i in range(0, len(sizes), many)]


def alone(optimizer, plan, widths, seeds):
    """The power of each parameter's own image after one step at a rate that does not know n, beside the derived one.

    In the first step others do not matter: all parameters move at once, and the image of each is measured by itself.
    """
    rate = RATES.get(optimizer, RATE)
    goal = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sizes = {name: {n: [] for n in widths} for names in ROLES.values() for name in names}
    for n in widths:
        for seed in range(seeds):
            model = _new(plan, n, seed)
            groups = plan.param_groups(model, lr=rate, weight_decay=0.0, eps=EPS.get(optimizer))
            for group in (g for many in groups.values() for g in many) if isinstance(groups, dict) else groups:
                group["lr"] = rate
            start = {k: p.detach().clone() for k, p in model.named_parameters()}
            f, _ = _values(model)
            ((f - goal).pow(2).mean() / 2).backward()
            for step in optimizers_of(optimizer, groups):
                step.step()
            changes = {k: p.detach() - start[k] for k, p in model.named_parameters()}
            with torch.no_grad():
                for k, p in model.named_parameters():
                    p.copy_(start[k])
            for name, by_width in sizes.items():
                by_width[n].append(own_image(model, name, changes[name]))
    found = {}
    for role, names in ROLES.items():
        for name in names:
            measured = slope(widths, [together(sizes[name][n]) for n in widths])
            derived = float(plan.by_name[name].early - plan.by_name[name].rate)
            found[name] = {"role": role, "derived": derived, "measured": round(measured.power, 3),
                           "error": round(measured.error, 3)}  # fmt: skip
    return {"rows": found}


def jointly(optimizer, widths, seeds, steps=(1, 5, 20)):
    """The powers of all changes with the plan's table; seeds: of the widest, up to three times as many of others."""
    plan = powers_of(optimizer)
    many: dict = {}
    for n in widths:
        for seed in range(seeds * min(3, widths[-1] // n)):
            model = _new(plan, n, seed)
            goal = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            rate = RATES.get(optimizer, RATE)
            groups = plan.param_groups(model, lr=rate, weight_decay=0.0, eps=EPS.get(optimizer))
            steppers = optimizers_of(optimizer, groups)
            start = {k: p.detach().clone() for k, p in model.named_parameters()}
            _, first = _values(model)
            for t in range(1, max(steps) + 1):
                model.zero_grad()
                f, _ = _values(model)
                ((f - goal).pow(2).mean() / 2).backward()
                for s in steppers:
                    s.step()
                if t in steps:
                    _, now = _values(model)
                    for k, v in now.items():
                        many.setdefault((f"value {k}", t), {}).setdefault(n, []).append(rms(v - first[k]))
                    for k, p in model.named_parameters():
                        size = own_image(model, k, p.detach() - start[k])
                        many.setdefault((f"image {k}", t), {}).setdefault(n, []).append(size)
    rows = {}
    for (name, t), by_width in many.items():
        found = measured_power(widths, [together(by_width[n]) for n in widths])
        kind, what = name.split(" ", 1)
        early = float(plan.by_name[what].early) if kind == "image" and t == 1 else 0.0
        rows[f"{name}, step {t}"] = {"derived": early, "measured": round(found.power, 3),
                                     "error": round(found.error, 3)}  # fmt: skip
    return {"rows": rows}


# -- coordinate checks ------------------------------------------------------------------------


class Attention(Decoder):
    """A decoder with a readout of its own, whose heads grow and are divided by their size, or by its root."""

    def __init__(self, n, root=False):
        super().__init__(n, 2)
        self.head = nn.Linear(n, 11, bias=False)
        for block in self.blocks:
            block.root = root
            block.__class__ = _Divided


class _Divided(type(Decoder(8, 2).blocks[0])):
    def forward(self, x):
        batch, length, n = x.size()
        many = self.attn(self.ln_1(x)).split(n, dim=2)
        q, k, v = (z.view(batch, length, self.heads, n // self.heads).transpose(1, 2) for z in many)
        d = n // self.heads
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=d**-0.5 if self.root else 4 / d)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(batch, length, n))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Small(Decoder):
    """A decoder with a tied readout, heads that grow, and normal entries of 0.02 at all widths, as GPT-2 starts."""

    def __init__(self, n):
        super().__init__(n, 2)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)


class Llama(nn.Module):
    """Gated, with RMS norms, shared keys and values, and heads of a fixed size."""

    def __init__(self, n):
        super().__init__()
        self.wte, self.head = nn.Embedding(11, n), nn.Linear(n, 11, bias=False)
        self.n1, self.n2, self.n3 = nn.RMSNorm(n), nn.RMSNorm(n), nn.RMSNorm(n)
        self.q, self.kv, self.o = (nn.Linear(n, m, bias=False) for m in (n, n, n))
        self.gate, self.up, self.down = nn.Linear(n, 2 * n, bias=False), nn.Linear(n, 2 * n, bias=False), nn.Linear(
            2 * n, n, bias=False)  # fmt: skip
        self.heads = n // 8

    def forward(self, i):
        x = self.wte(i)
        h = self.n1(x)
        q = self.q(h).unflatten(-1, (self.heads, 8)).transpose(1, 2)
        k, v = (z.unflatten(-1, (self.heads // 2, 8)).transpose(1, 2) for z in self.kv(h).chunk(2, -1))
        y = F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
        )  # fmt: skip
        x = x + self.o(y.transpose(1, 2).flatten(2))
        h = self.n2(x)
        return self.head(self.n3(x + self.down(F.silu(self.gate(h)) * self.up(h))))


class Residual(nn.Module):
    """A small residual network on images, with group norms."""

    def __init__(self, n):
        super().__init__()
        self.i, self.o = nn.Conv2d(3, n, 3, padding=1), nn.Linear(n, 5)
        self.a, self.b = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.Conv2d(n, n, 3, padding=1, bias=False)
        self.g, self.h = nn.GroupNorm(4, n), nn.GroupNorm(4, n)

    def forward(self, x):
        x = self.i(x)
        x = x + self.b(F.relu(self.h(self.a(F.relu(self.g(x))))))
        return self.o(x.mean((2, 3)))


class Tied(nn.Module):
    """One block used twice, as ALBERT does, with a finite embedding before it."""

    def __init__(self, n):
        super().__init__()
        self.e, self.i, self.o = nn.Embedding(11, 6), nn.Linear(6, n), nn.Linear(n, 3)
        self.layer = nn.TransformerEncoderLayer(n, n // 8, 2 * n, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, i):
        x = self.i(self.e(i))
        return self.o(self.layer(self.layer(x))[:, 0])


ALL = {
    **MODELS, **FURTHER,
    "attention over d": Model(Attention, (tokens(11, 4, 6),)),
    "attention over root d": Model(lambda n: Attention(n, True), (tokens(11, 4, 6),)),
    "entries of 0.02": Model(Small, (tokens(11, 4, 6),)),
    "Llama": Model(Llama, (tokens(11, 4, 6),)),
    "residual": Model(Residual, (noise(4, 3, 4, 4),)),
    "one block twice": Model(Tied, (tokens(11, 4, 5),)),
}  # fmt: skip
ALL["attention written out, root d"] = ALL["attention written out"]
#: no scores grow in them
CHECKED = {
    name: ALL[name]
    for name in ("attention over d", "Llama", "residual", "mixer", "GRU cells", "sets", "graph convolution", "experts",
                 "highway", "conditioned", "one block twice", "perceptron")
}  # fmt: skip
WRONG = {
    "readout rate": tuple(CHECKED), "hidden rate": tuple(CHECKED), "readout std": tuple(CHECKED)[:11],
    "inputs frozen": tuple(CHECKED)[:11],
    "scores": ("attention over root d", "attention written out", "encoder, norms first", "entries of 0.02"),
}  # fmt: skip
NARROW = (
    "residual",
    "mixer",
    "attention over d",
    "one block twice",
    "Llama",
    "attention over root d",
    "entries of 0.02",
)


@lru_cache(maxsize=4)
def plan_of(name, optimizer):
    make, example, widths = ALL[name]
    return tp.scaling(make, example, optimizer=optimizer, base=32, widths=widths)


def wrongly(plan, wrong, lr):
    """A script's own preparation of a model, with one thing scaled wrongly."""

    def setup(model):
        n = plan.width(model)
        ratio = n / plan.base
        plan.initialize_(model)
        if plan.output:
            plan.attach(model)
        groups = plan.param_groups(model, lr=lr, weight_decay=0.0)
        names = {id(p): k for k, p in model.named_parameters()}
        for g in groups:
            row = plan.by_name[names[id(g["params"][0])]]
            if wrong == "readout rate" and row.role == "readout":
                g["lr"] *= ratio  # what it is at the base
            if wrong == "hidden rate" and row.role == "hidden matrix":
                g["lr"] *= ratio
            if wrong == "inputs frozen" and row.role in ("input weight", "embedding"):
                g["lr"] /= ratio  # all rates fall with n, those of input weights, too
        if wrong == "readout std":
            with torch.no_grad():
                for k, p in model.named_parameters():
                    if plan.by_name[k].role == "readout":
                        p.mul_(ratio**0.5)
        return optimizers_of(plan.optimizer, groups)

    return setup


def culprits(plan, wrong):
    """The parameters that are scaled wrongly."""
    role = {"readout rate": ("readout",), "readout std": ("readout",), "hidden rate": ("hidden matrix",),
            "inputs frozen": ("input weight", "embedding")}.get(wrong, ())  # fmt: skip
    return {row.name for row in plan.rows if row.role in role}


def check(name, optimizer, wrong, seed):
    """One coordinate check: what it said, and whether it is right."""
    make, example, _ = ALL[name]
    plan = plan_of(name, optimizer)
    lr = {"adamw": 2e-3, "sgd": 0.05}[optimizer]
    generator = torch.Generator().manual_seed(seed)
    goal = None

    def loss(f, _):
        nonlocal goal
        if goal is None or goal.shape != f.shape:
            goal = torch.randn(f.shape, generator=generator, dtype=f.dtype)
        return (f - goal).pow(2).mean() / 2

    widths = (32, 64, 128, 256) if name in NARROW else (64, 128, 256, 512)
    torch.manual_seed(seed)
    report = plan.check(
        make, (example, None), widths=widths, lr=lr, loss=loss, seed=seed,
        setup=None if wrong in (None, "scores") else wrongly(plan, wrong, lr),
    )  # fmt: skip
    if wrong is None:
        right = report.accepted
    elif wrong == "scores":
        right = any(row.kind == "score" for row in report.alarms)
    else:
        right = bool(set(report.blamed) & culprits(plan, wrong))
    return {"right": right, "said": report.sentence[:300], "alarms": [str(a) for a in report.alarms[:6]],
            "undecided": len(report.undecided), "rows": len(report.rows)}  # fmt: skip
