"""Signal 9 while a checkpoint or compiled code is written: what is gone on with is what nobody killed, to the bit.

Recordings have `tests/watch/test_resuming.py`, Gram matrices `test_killed.py`; `make kills` takes 50 moments of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tplimits as tp

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.mark.long
def test_checkpoints_and_compiled_code_survive_random_moments(tmp_path):
    here = {**os.environ, "PYTHONPATH": f"{Path(tp.__file__).parents[1]}{os.pathsep}{SUPPORT}"}
    call = [sys.executable, SUPPORT / "kills.py", tmp_path / "runs", "0", "4", "checkpoint", "compilation"]
    done = subprocess.run(call, capture_output=True, text=True, env=here, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["subject"] for row in rows] == ["checkpoint", "compilation"]
    for row in rows:
        assert row["wrong"] == []
        assert row["cut"] >= 2 and row["states"] >= 2  # runs were killed, and not all at one moment
