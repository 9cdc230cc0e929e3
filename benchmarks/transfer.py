"""Learning rates carried from small models to larger ones: a character GPT, as PyTorch starts it, and as its plan says.

    python benchmarks/transfer.py [width] [depth] [--picture docs/pictures/learning-rates-carried-over.png]

The text is the documentation that comes with Python itself, so that nothing is downloaded.  For each size of the model
and each rate of a grid, the model is trained for 150 steps; the loss on text that it has not seen is one row of
benchmarks/results/transfer.json.  Rows that are there are not measured again, so that an interrupted run goes on; all
take about 15 minutes on one core.  "standard": PyTorch's own initial entries, scores divided by √d, one rate for
all.  "derived": the same model with the numbers of tp.scaling, scores divided by d.  At the base both are the same.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import lru_cache
from pathlib import Path
from pydoc_data.topics import topics

import numpy
import torch
import torch.nn.functional as F
from torch import nn

import tplimits as tp

ROWS = Path(__file__).parent / "results" / "transfer.json"
STEPS, WARM, BATCH, LENGTH, HEADS = 150, 15, 16, 32, 4
WIDTHS, DEPTHS = (32, 64, 128, 256), (2, 4, 8, 16)
#: the sizes where both are the same; depths are compared at one width
BASE, SHALLOW, NARROW = 32, 2, 64
RATES = tuple(range(-11, -3))


class Block(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.qkv, self.proj = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.fc, self.out = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
        self.scale = scale

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (HEADS, -1)).transpose(1, 2) for z in self.qkv(self.ln_1(x)).chunk(3, -1))
        x = x + self.proj(
            F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale).transpose(1, 2).flatten(2)
        )
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    """Characters to characters; scores are divided by √d, or by d (√8 at the base, too)."""

    def __init__(self, n, depth, by_size):
        super().__init__()
        d = n // HEADS
        self.wte, self.wpe = nn.Embedding(len(characters()[0]), n), nn.Embedding(LENGTH, n)
        self.blocks = nn.ModuleList(Block(n, (BASE // HEADS) ** 0.5 / d if by_size else d**-0.5) for _ in range(depth))
        self.ln, self.head = nn.LayerNorm(n), nn.Linear(n, len(characters()[0]))

    def forward(self, i):
        x = self.wte(i) + self.wpe(torch.arange(i.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


@lru_cache
def characters():
    """The characters that occur often, and the text in their numbers."""
    text = "".join(topics[name] for name in sorted(topics))
    known = sorted(c for c in set(text) if text.count(c) > 50)
    number = {c: i for i, c in enumerate(known)}
    return known, torch.tensor([number[c] for c in text if c in number])


def batch(rng, first, last, many):
    """Pieces of the text, and the characters that follow."""
    _, text = characters()
    starts = rng.integers(int(first * len(text)), int(last * len(text)) - LENGTH - 1, size=many)
    pieces = torch.stack([text[s : s + LENGTH + 1] for s in starts])
    return pieces[:, :-1], pieces[:, 1:]


@lru_cache
def plan(over):
    tokens = batch(numpy.random.default_rng(0), 0, 0.9, 2)[0][:, :6]
    if over == "width":
        return tp.scaling(lambda n: GPT(n, 2, True), tokens, optimizer="adamw", base=BASE, widths=(16, 32, 64))
    return tp.scaling(lambda n, depth: GPT(n, depth, True), tokens, optimizer="adamw", base=NARROW, depth=SHALLOW,
                      widths=(16, 32, 64))  # fmt: skip


def trained(over, kind, size, exponent):
    """The loss on unseen text after training at the rate 2^exponent."""
    torch.manual_seed(0)
    n, depth = (size, 2) if over == "width" else (NARROW, size)
    model = GPT(n, depth, kind == "derived" and over == "width")
    groups = model.parameters()
    if kind == "derived":
        plan(over).initialize_(model)
        groups = plan(over).param_groups(model, lr=2.0**exponent, weight_decay=0.0)
    optimizer = torch.optim.AdamW(groups, lr=2.0**exponent, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda t: min((t + 1) / WARM, 0.5 + 0.5 * math.cos(math.pi * t / STEPS))
    )
    rng = numpy.random.default_rng(1)
    for _ in range(STEPS):
        x, y = batch(rng, 0, 0.9, BATCH)
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        schedule.step()
    x, y = batch(numpy.random.default_rng(2), 0.9, 1, 64)
    with torch.no_grad():
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    return loss if math.isfinite(loss) else 1e3


def best(rows, over, kind, size):
    """log₂ of the best rate, by a parabola through the best point and its neighbours."""
    losses = [rows[f"{over}, {kind}, {size}, 2^{e}"]["loss"] for e in RATES]
    i = min(max(int(numpy.argmin(losses)), 1), len(losses) - 2)
    a, b, c = losses[i - 1 : i + 2]
    bend = a - 2 * b + c
    return RATES[i] + max(-1.0, min(1.0, (a - c) / (2 * bend) if bend > 0 else 0.0))


def picture(rows, path):
    """Loss against rate: a column for each kind, a row for what grows; points mark the best rates."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    whats = [w for w, sizes in SWEEPS.items() if all(f"{w}, derived, {s}, 2^{e}" in rows for s in sizes for e in RATES)]
    figure, panels = pyplot.subplots(len(whats), 2, figsize=(9, 3.4 * len(whats)), sharey="row", squeeze=False)
    for line, over in zip(panels, whats, strict=True):
        for panel, kind in zip(line, ("standard", "derived"), strict=True):
            for shade, size in zip((0.25, 0.5, 0.75, 1.0), SWEEPS[over], strict=True):
                losses = [rows[f"{over}, {kind}, {size}, 2^{e}"]["loss"] for e in RATES]
                panel.plot(RATES, losses, color=(0.05, 0.25, 0.55, shade), marker=".", label=f"{over} {size}")
                top = min(losses)
                panel.plot(best(rows, over, kind, size), top, "o", color=(0.8, 0.2, 0.1, shade))
            panel.set(
                title=f"{kind}: best rates × 2^{moved(rows, over, kind):+.1f}", xlabel="log₂ of the rate at the base"
            )
            panel.legend(fontsize=8)
        line[0].set(ylabel="loss on unseen text")
        least = min(rows[k]["loss"] for k in rows if k.startswith(over))
        line[0].set_ylim(least - 0.05, least + 1.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def moved(rows, over, kind):
    """By how many powers of 2 the best rate moves from the smallest to the largest size."""
    sizes = SWEEPS[over]
    return best(rows, over, kind, sizes[-1]) - best(rows, over, kind, sizes[0])


SWEEPS = {"width": WIDTHS, "depth": DEPTHS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=list(SWEEPS))
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    for over in asked.what:
        for size in SWEEPS[over]:
            for kind in ("standard", "derived"):
                for exponent in RATES:
                    key = f"{over}, {kind}, {size}, 2^{exponent}"
                    if key not in rows:
                        started = time.process_time()
                        loss = trained(over, kind, size, exponent)
                        rows[key] = {"loss": round(loss, 4), "seconds": round(time.process_time() - started, 1)}
                        ROWS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
        for kind in ("standard", "derived"):
            tops = ", ".join(f"{best(rows, over, kind, size):.1f}" for size in SWEEPS[over])
            print(f"{over}, {kind}: log₂ of the best rates {tops}; they move by {moved(rows, over, kind):+.1f}")
    if asked.picture:
        picture(rows, asked.picture)


if __name__ == "__main__":
    main()
