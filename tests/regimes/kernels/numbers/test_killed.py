"""Signal 9 at random moments, to a worker or to the process that asked: nothing is lost but tiles in flight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tplimits as tp

SCRIPT = Path(__file__).parents[3] / "support" / "killing.py"
WORKERS = 2


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Ten runs killed, every other one by its parent, and gone on with; `make kills` has fifty."""
    place = tmp_path_factory.mktemp("killed")
    here = {**os.environ, "PYTHONPATH": str(Path(tp.__file__).parents[1])}
    call = [sys.executable, SCRIPT, place, "0", "10"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=here)
    return json.loads(done.stdout)


def test_arrays_are_those_of_a_run_that_nobody_killed(found):
    assert len(found["runs"]) == 10
    for run in found["runs"]:
        assert run["again"] == 0 and run["same"] == [True, True]
        assert run["files"] == ["lock", "manifest.json", "nngp.npy", "ntk.npy"]


def test_a_tile_a_worker_is_lost_at_most(found):
    for run in found["runs"]:
        assert run["in_all"] <= found["tiles"] + WORKERS
        if run["in_all"] > run["computed"]:  # it was not through
            assert run["computed"] - run["complete"] <= WORKERS


def test_moments_differ_and_both_kinds_of_process_were_killed(found):
    kinds = Counter(run["parent"] for run in found["runs"])
    assert kinds[True] >= 5 and kinds[False] >= 1
    assert len({run["complete"] for run in found["runs"]}) > 3
    assert {run["status"] for run in found["runs"]} <= {-9, 0, 3}  # 3: the error says that the executor gave up


def test_no_worker_outlives_a_parent_that_was_killed(found):
    assert [run["left"] for run in found["runs"]] == [0] * 10
