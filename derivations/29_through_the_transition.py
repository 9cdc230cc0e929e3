"""Clustering heads: does the limit of a wide perceptron decide what a network learns?

    python derivations/29_through_the_transition.py [--full] [--out FOLDER] [--png]

As h grows the randomness of the neurons goes away, and what is left are the numbers E, P, q, V, c at the start and the
order of the data: a base.  Networks of several widths, draws of neurons, and the limit on two sets of particles train
from the same bases, in μP with base width 32, on the same batches.
"""

import functools
import pathlib

import numpy as np
from clustering import Setting
from pictures import Pictures
from studies import Study, shown
from worked import Worked

import tplimits as tp
from tplimits.zoo.clustering_heads import start
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
BASES, EPOCHS, PARTICLES = 20, 400, 1024
#: width, draws of neurons: in the order of what they cost, so that an interrupted study has all bases of few widths
STAGES = ((32, 4), (128, 4), (512, 1), (tp.inf, 1), (512, 2), (tp.inf, 2), (512, 3), (2048, 1))
EVERY = [0, 1, 2, 4, 7, 10, 15, 20, 30, 40, 50, 60, *range(80, EPOCHS + 1, 20)]
#: parameters that all networks of a base share
SHARED = ("E", "P", "q", "V", "c")
CACHE = pathlib.Path("build/through_the_transition")
study = Study("through_the_transition", pictures.full)


def watched(base: int, width: float, seed: int, epochs: int = EPOCHS, **more) -> tp.Recording:
    setting = Setting(SparseModularAddition(), seed=base)
    every = [epoch for epoch in EVERY if epoch <= epochs]
    more = {"particles": PARTICLES, "gradients": False, **start.scalars(base), **more}
    return setting.watch(epochs, every, (width,), [seed], **more)


@functools.cache
def limit(base: int, epochs: int = EPOCHS) -> dict[str, np.ndarray]:
    """The shared numbers of the limit on the first set of particles, frame by frame; kept between calls."""
    kept = {}
    if epochs == EPOCHS:
        CACHE.mkdir(parents=True, exist_ok=True)
        kept = {"path": CACHE / f"{base}.npz"}
    run = watched(base, tp.inf, 0, epochs, **kept).run()
    return {name: run.parameters[name].astype(float) for name in SHARED}


def measured(base: int, width: float, seed: int, epochs: int = EPOCHS) -> dict[str, np.ndarray]:
    """Losses and accuracies on all sequences, and the distance of the shared numbers from those of the limit."""
    run = watched(base, width, seed, epochs).run()
    wanted = limit(base, epochs)
    squares = [((run.parameters[name] - wanted[name]).reshape(run.frames, -1) ** 2).sum(axis=1) for name in SHARED]
    count = sum(wanted[name][0].size for name in SHARED)
    off = np.sqrt(sum(squares) / count)
    return {"loss": run.curves["held-out loss"], "accuracy": run.curves["held-out accuracy"], "distance": off}


def row(base: int, width: float, seed: int):
    name = "limit" if width == tp.inf else int(width)
    return study.row(lambda: measured(base, width, seed), base=base, width=name, seed=seed)


for width, draws in STAGES if pictures.full else ():
    for base in range(BASES):
        for seed in range(draws):
            row(base, width, seed)
    print(width, draws, shown(1, 2), flush=True)
