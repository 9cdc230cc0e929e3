"""Places where compiled code cannot be kept, and work that needs it; `make worlds` runs all, the tests the first ones.

Each world is a process of its own in an empty current folder, which has to be empty afterwards; its numbers have to be
those of this process.  With root's rights it is a user without an entry in the list of users, who may read everything
and write nothing; without them the folders of this user are read-only as far as that can be said to the system.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: runs as a user that no list knows, who reads everything
_STRANGER = (
    *("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
)

#: a mean over pairs of neurons (Numba) and a network in training (LLVM): both compile in half a second
FEW = """
import json, numpy as np, tplimits as tp
@tp.program
def pairs(x: tp.Vector):
    β = tp.neuron("β")
    return tp.avg(tp.avg(tp.tanh(x * x[β] + x), over=β))
@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))
X, y = np.random.default_rng(0).standard_normal((4, 3)), np.ones(4)
found = [float(tp.derive(pairs).evaluate(method="particles", particles=256, replicates=2)["return"])]
run = tp.watch(net, X, error=tp.squared_error(y), optimizer=tp.SGD(), lr=0.1, steps=3, widths=(16,))
found += run.loss[16][0].tolist()
"""
#: what else is compiled: paths of an SDE, kernels of a network with positions
ALL = """
@tp.block
def layer(x: tp.State["token"], W: tp.Matrix, *, c):
    return x + tp.tanh(W @ x) * c / tp.sqrt(tp.n)
sde = tp.derive(layer.bind(token=2), tp.Proportional())
found += sde.simulate(np.eye(2), T=0.1, dt=0.05, paths=4, seed=0, c=1.0).V.ravel().tolist()
limit = tp.derive(net, tp.Kernels())
found += limit.evaluate(np.random.default_rng(1).standard_normal((400, 3))).nngp[0, :5].tolist()
"""


@dataclass
class World:
    """Where a process runs: what it may not have."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    stranger: bool = False
    #: a folder for compiled code of so many bytes
    disk: int = 0


WORLDS = (
    World("no home, no entry in the list of users, another user's installation", stranger=True),
    World("a home that is read-only", {"HOME": "/proc/1"}),
    World("a disk of 1 MB for compiled code", disk=1 << 20),
    World("a disk of 16 kB for compiled code", disk=1 << 14),
)


def run(world: World, work: str = FEW, python: str = sys.executable) -> list[float]:
    """The numbers of the work in a world; AssertionError with what it said where it fails or leaves files."""
    code = work + "print(json.dumps(found))"
    kept = ("PATH", "LD_LIBRARY_PATH", "LANG")  # and the choice among BLAS's kernels, which round differently
    environment = {k: v for k, v in os.environ.items() if k in kept or k.startswith("OPENBLAS_")} | world.environment
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    stranger = world.stranger and os.name == "posix" and os.geteuid() == 0 and shutil.which("setpriv") is not None
    with tempfile.TemporaryDirectory() as here, _disk(world.disk) as disk:
        if disk:
            environment["TPLIMITS_CACHE"] = disk
        command = [*(_STRANGER if stranger else ()), python, "-W", "error::UserWarning", "-c", code]
        os.chmod(here, 0o777)  # whoever wants to write here can, and nobody should
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=600)
        left = sorted(p.name for p in Path(here).iterdir())
    assert done.returncode == 0, f"{world.name}: {done.stderr[-2000:]}"
    assert left == [], f"{world.name}: {left} in the current folder"
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _disk(size: int) -> Iterator[str]:
    """A folder on a disk of a few bytes: a tmpfs, where the system lets us make one."""
    with tempfile.TemporaryDirectory() as place:
        mounted = bool(size) and _did("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", place)
        try:
            yield place if size else ""
        finally:
            if mounted:
                _did("umount", place)


def _did(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


if __name__ == "__main__":
    wanted = run(World("here", {k: os.environ[k] for k in ("HOME",) if k in os.environ}), FEW + ALL)
    for world in WORLDS:
        assert run(world, FEW + ALL) == wanted, f"{world.name}: other numbers"
        print(f"{world.name}: the same {len(wanted)} numbers, nothing left behind", flush=True)
