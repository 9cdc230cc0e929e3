"""Imports run one way, and the heavy ones wait until they are needed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import networkx
from source import MODULES, ROOT

#: a stage may import itself and what stands before it
ORDER = (
    *(
        "version",
        "errors",
        "arrays",
        "progress",
        "pictures",
        "pages",
        "program",
        "law",
        "numbers",
        "sampling",
        "report",
    ),
    *("regimes", "derive", "check", "watch", "torch", "zoo", "sklearn", "terminal", "commands", "cli"),
)
#: what a stage may import besides the earlier stages
ONLY = {
    "version": (),
    "errors": (),
    "arrays": (),
    "progress": ("errors",),
    "pictures": ("errors",),
    "pages": ("version", "errors"),
    "zoo": ("errors", "arrays", "program", "watch"),
}
#: what a wing of `regimes/` may import of others; all read `protocol`, and `known` reads all
WINGS = {
    "finite_width": {"width"},
    "depth": {"finite_width"},
    "training": {"kernels", "width"},
    "classification": {"training", "kernels", "width"},
}
#: the map of the package, and programs that use it from outside
FREE = ("tplimits", "tplimits.__main__", "tplimits.demo")
#: modules in one chain of imports
MOST_LAYERS = 20
#: imports inside a function: where, and why
LATE = {
    "tplimits/pictures/plots.py": "Matplotlib is an extra: its absence is told when a picture is asked for",
    "tplimits/torch/door.py": "PyTorch is an extra of 5 GB, and takes seconds to load",
    "tplimits/torch/scaling/plan.py": "a plan that was saved is read without PyTorch; its check trains models",
    "tplimits/watch/page/film.py": "Pillow is an extra: ffmpeg makes films as well",
}
#: names under which third-party packages are imported, where they differ from the package's
IMPORTED_AS = {"imageio_ffmpeg": "imageio-ffmpeg", "markupsafe": "jinja2", "PIL": "pillow", "sklearn": "scikit-learn"}


def stage(name: str) -> str:
    return name.split(".")[1]


def test_imports_come_from_earlier_stages():
    late = {}
    for module in (m for m in MODULES if m.name not in FREE):
        own = stage(module.name)
        allowed = {own, *ONLY.get(own, ORDER[: ORDER.index(own)])}
        inside = (i for i, _ in module.imports if i.startswith("tplimits."))
        late[module.place] = [i for i in inside if stage(i) not in allowed]
    assert {place: found for place, found in late.items() if found} == {}
    assert "tplimits/derive.py" in late


def test_wings_know_each_other_along_one_list():
    crossed = {}
    for module in MODULES:
        if module.name.startswith("tplimits.regimes.") and stage_of_wing(module.name) not in ("protocol", "known"):
            own = stage_of_wing(module.name)
            allowed = {own, "protocol"} | WINGS.get(own, set())
            inside = [i for i, _ in module.imports if i.startswith("tplimits.regimes.")]
            crossed[module.place] = [i for i in inside if stage_of_wing(i) not in allowed]
    assert {place: found for place, found in crossed.items() if found} == {}


def stage_of_wing(name: str) -> str:
    return name.split(".")[2]


def test_no_module_stands_on_more_layers_than_a_reader_can_hold():
    """The longest chain of modules that import one another when they run; put what is shared lower to shorten it."""
    edges = [(m.name, i) for m in MODULES for i, typing_only in m.imports if not typing_only and i != m.name]
    graph = networkx.DiGraph(edge for edge in edges if edge[1].startswith("tplimits"))
    assert list(networkx.simple_cycles(graph)) == []
    chain = networkx.dag_longest_path(graph)
    assert len(chain) <= MOST_LAYERS, f"{len(chain)} layers, at most {MOST_LAYERS}: " + " imports ".join(chain)


def test_packages_import_lazily_what_is_in_them_alone():
    """`from tplimits import sampling` stands for its modules: they come later, but from no higher stage."""
    lazy = {m.place: list(m.lazy_imports()) for m in MODULES}
    names = {m.name for m in MODULES}
    assert [name for found in lazy.values() for name in found if name not in names] == []
    assert sum(map(len, lazy.values())) > 12


def test_modules_are_imported_and_never_handed_over():
    """A function that returns a module, or looks one up by its name, hides an import from every reader."""
    hidden = re.compile(r"-> ModuleType|import_module\(|__import__\(")
    lines = [(m.place, line) for m in MODULES for line in m.text.splitlines() if hidden.search(line)]
    assert lines == []


def test_late_imports_are_listed_with_their_reason():
    found = {m.place: list(m.late_imports()) for m in MODULES}
    assert {place: late for place, late in found.items() if late and place not in LATE} == {}
    assert all(found[place] for place in LATE), "a listed exception is gone"


def test_derivations_need_no_numbers():
    heavy = re.compile(r"^(numba|scipy|matplotlib)\b")
    derivations = [m for m in MODULES if m.place.startswith("tplimits/law/") or "/derivation/" in m.place]
    assert [(m.place, i) for m in derivations for i, _ in m.imports if heavy.match(i)] == []


def test_scikit_learn_is_loaded_in_one_module():
    """It is an extra, and takes a second: who does not ask for it does not need it."""
    assert {m.place for m in MODULES for i, _ in m.imports if i.split(".")[0] == "sklearn"} == {
        "tplimits/sklearn/conventions.py"
    }


def test_pytorch_is_loaded_in_one_stage():
    """It is an extra of 5 GB: `tp.from_torch` opens the stage, which no other one needs."""
    found = {m.name.split(".")[1] for m in MODULES for i, _ in m.imports if i.split(".")[0] == "torch"}
    assert found == {"torch"}


def loaded_after(statement: str) -> set[str]:
    """Modules in memory after a statement in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(*sys.modules, file=sys.__stdout__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_one_regime():
    """Who writes a program and derives its width limit waits for no kernels, depth, training, pages or numbers."""
    run = "import tplimits as tp\n@tp.program\ndef p(x: tp.Vector): return tp.avg(x * x)\ntp.derive(p)"
    loaded = loaded_after(run)
    assert {name.split(".")[2] for name in loaded if name.startswith("tplimits.regimes.")} == {"protocol", "width"}
    assert loaded.isdisjoint({"jinja2", "latex2mathml", "tplimits.watch.making.asked", "tplimits.cli"})
    assert loaded.isdisjoint({"numba", "scipy.special", "scipy.optimize", "matplotlib", "sklearn", "torch"})


def test_drifts_need_no_compiler_and_paths_no_statistics():
    """Numba and scipy.stats take half a second each: a drift without Gaussian means is a product of arrays."""
    block = [
        "import numpy as np, tplimits as tp",
        "def block(x: tp.State['token'], W: tp.Matrix, Q: tp.Matrix, K: tp.Matrix):",
        "    v, Y = W @ x, tp.avg((Q @ x) * (K @ x).rename(token='key'))",
        "    return (x + v + tp.sum(Y * v.rename(token='key'), over='key')) / tp.sqrt(2)",
    ]
    run = "\n".join([*block, "sde = tp.derive(tp.block(block), tp.Proportional())", "sde.drift_at(np.eye(2))"])
    assert loaded_after(run).isdisjoint({"numba", "scipy.special"})
    assert loaded_after(f"{run}\nsde.simulate(np.eye(2), T=0.02, dt=0.01, paths=2)").isdisjoint({"scipy.stats"})


def test_a_function_stays_what_its_name_says_when_its_module_is_loaded():
    (package,) = (m for m in MODULES if m.name == "tplimits")
    names = {alias.name for node in package.listed() for alias in node.names}
    shared = sorted((names & {stage(m.name) for m in MODULES if m is not package}) - {"sklearn"})
    assert shared == ["check", "derive", "program", "watch"]
    for load in ("from tplimits.cli import main", "import tplimits.watch.run, tplimits.check, tplimits.derive"):
        run = f"{load}\nimport tplimits as tp\nassert all(callable(getattr(tp, name)) for name in {shared})"
        assert loaded_after(run)


def test_help_and_zoo_of_the_command_line_load_no_numba():
    run = "from tplimits.cli import main\nassert main(['--help']) == 0\nassert main(['zoo']) == 0"
    assert loaded_after(run).isdisjoint({"numba", "matplotlib"})


def test_what_is_imported_is_declared_and_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.match(r"[\w-]+", d)[0] for d in project["dependencies"]}
    optional = project["optional-dependencies"]
    extras = {re.match(r"[\w-]+", d)[0] for name in ("plot", "film", "sklearn", "torch") for d in optional[name]}
    imported = {i.split(".")[0] for m in MODULES for i, _ in m.imports} - set(sys.stdlib_module_names) - {"tplimits"}
    imported = {IMPORTED_AS.get(i, i) for i in imported}
    written = {"numba"}  # in the text of compiled kernels
    assert (imported - extras) | written == declared
    explained = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").lower()
    every = declared.union(*({re.match(r"[\w-]+", d)[0] for d in e} for e in project["optional-dependencies"].values()))
    assert [d for d in every if d not in explained and d != "tplimits"] == []
