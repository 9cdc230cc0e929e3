"""Powers of n of imported models beside those measured on the modules, for each parameter and each layer.

    python benchmarks/widening.py [--model NAME …] [--seeds 6] [--full]

Every model is trained for one step by torch's own optimizers, at a rate that is the same at all widths and so small
that everything moves in proportion to it; the changes of the output by the updates of each parameter alone, and of the
output of each module by all of them, are fitted by powers of n.  Rows are kept in benchmarks/results/widening.json;
models that are there are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "torch"))

from measuring import OPTIMIZERS, judged, powers  # noqa: E402
from models import MODELS  # noqa: E402
from scaled import ALL  # noqa: E402

import tplimits as tp  # noqa: E402

ROWS = HERE / "results" / "widening.json"
#: images and sequences: many operations for each neuron
NARROW = ("mixer", "depthwise", "flattened", "gate", "U-Net", "pixel shuffle", "one direction", "LSTM", "residual")
#: the rows that are measured without --model
CHOSEN = [*(name for name in MODELS if name not in ("LSTM", "decoder with more heads")),
          "Llama", "residual", "highway", "one block twice"]  # fmt: skip
RULES = {"SGD": tp.SGD(), "AdamW": tp.Adam()}


def row(name, optimizer, seeds):
    """What is counted and measured for one model and one optimizer."""
    make, example, widths = ALL[name]
    started = time.process_time()
    net = tp.from_torch(make, example, widths=widths)
    verdict = net.classify(RULES[optimizer])
    counted, seconds = str(verdict), time.process_time() - started
    used = (32, 64, 128, 256) if name in NARROW else (64, 128, 256, 512)
    measured = powers(make, example, used, seeds, optimizer)
    aliases = {a: k for k in net.built.weights for a in net.built.found.graph.aliases.get(k, (k,))}
    by_parameter = {}
    for (who, value), found in measured.items():
        if who != "all" and value == "f":
            by_parameter[who] = judged(float(verdict.by_parameter[aliases[who]]), found)
    layers = {
        value: judged(float(verdict.layers[value]), found)
        for (who, value), found in measured.items()
        if who == "all" and value in verdict.layers
    }
    return {
        "sentence": verdict.sentence, "verdict": counted, "seconds": round(seconds, 1), "widths": used, "seeds": seeds,
        "f": judged(float(verdict.f[0]), measured["all", "f"]), "powers of f": [str(p) for p in verdict.f],
        "largest rate": str(-verdict.largest_rate), "by parameter": by_parameter, "layers": layers,
    }  # fmt: skip


def told(name, optimizer, found):
    """A row in a line."""
    f, rows, sum_ = found["f"], list(found["by parameter"].values()), " + ".join(found["powers of f"])
    wrong = [k for k, r in found["by parameter"].items() if r["verdict"] == "wrong"]
    layers = [
        f"{k} {r['verdict']}: {r['measured']} for {r['counted']:g}"
        for k, r in found["layers"].items()
        if r["verdict"] in ("wrong", "slower")
    ]
    return (
        f"{name:22} {optimizer:6} f {f['measured']:5.2f} ± {f['error']:.2f}, counted {sum_}; "
        f"by parameter {len(rows)}, wrong {wrong}; layers {len(found['layers'])}, otherwise {layers}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", nargs="*", default=CHOSEN)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--full", action="store_true", help="measure rows that are kept, too")
    asked = parser.parse_args()
    kept = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    for name in asked.model:
        for optimizer in OPTIMIZERS:
            key = f"{name}, {optimizer}"
            if key not in kept or asked.full:
                kept[key] = row(name, optimizer, asked.seeds)
                ROWS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            print(told(name, optimizer, kept[key]), flush=True)


if __name__ == "__main__":
    main()
