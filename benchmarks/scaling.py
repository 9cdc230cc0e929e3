"""Plans of widened models beside the models themselves: powers by role, and coordinate checks that pass and fail.

    python benchmarks/scaling.py [powers] [checks] [--full]

powers: each role of a model that has all of them is trained alone at a rate that is the same at all widths, for one
step by each optimizer; the power of its own image is compared with the derived one.  Then all are trained together with
the plan's table, and everything should move like n^0; scalars whose first gradient is a centred sum by n^(−½) less in
the first step of an optimizer that is linear in it.
checks: coordinate checks of models trained as their plans say, and of the same models with one thing scaled wrongly.
Rows are kept in benchmarks/results/scaling.json; what is there is not measured again, but for rows
that are marked as measured before the check was changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "torch"))

import torch  # noqa: E402
from scaled import CHECKED, WRONG, alone, check, jointly, powers_of  # noqa: E402

ROWS = HERE / "results" / "scaling.json"
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "lion", "adafactor", "muon", "nadam", "adamax",
              "adadelta", "sign", "muon matching adamw")  # fmt: skip
WIDTHS = (64, 128, 256, 512)
#: powers of what moves late in training are seen at larger ones
WIDER = (128, 256, 512, 1024)


def powers():
    """Rows of all optimizers: each role alone, and all together."""
    for optimizer in OPTIMIZERS:
        # first gradients of scalars are centred sums: where steps are linear in them, it takes more of them
        many = 512 if optimizer in ("sgd", "momentum", "adadelta") else 64
        yield f"alone, {optimizer}", lambda o=optimizer, m=many: alone(o, powers_of(o), WIDTHS, seeds=m)
        yield f"together, {optimizer}", lambda o=optimizer: jointly(o, WIDER, seeds=32)


def checks():
    """Rows of all coordinate checks: as planned, and wrong."""
    for seed in range(5):
        for name in CHECKED:
            yield f"check, adamw, {name}, as planned, {seed}", lambda n=name, s=seed: check(n, "adamw", None, s)
        for name in list(CHECKED)[:10] if seed < 3 else ():
            yield f"check, sgd, {name}, as planned, {seed}", lambda n=name, s=seed: check(n, "sgd", None, s)
        for wrong, models in WRONG.items():
            for name in models if seed < (3 if wrong == "scores" else 2) else ():
                key = f"check, adamw, {name}, {wrong}, {seed}"
                yield key, lambda n=name, w=wrong, s=seed: check(n, "adamw", w, s)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["powers", "checks"])
    parser.add_argument("--full", action="store_true", help="measure rows that are kept, too")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    kept = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    for what in asked.what:
        for key, make in {"powers": powers, "checks": checks}[what]():
            if asked.full or kept.get(key, {"before": True}).get("before"):
                started = time.process_time()
                kept[key] = {**make(), "seconds": round(time.process_time() - started, 1)}
                ROWS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            print(key, json.dumps(kept[key])[:300], flush=True)


if __name__ == "__main__":
    main()
