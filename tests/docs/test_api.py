"""docs/api.md lists every public name, and no other."""

import ast
import pathlib
import re
import types

import tplimits as tp
from tplimits.law.kets import Step
from tplimits.numbers.number import Number
from tplimits.program.language.annotations import Kind
from tplimits.program.network.losses import Loss
from tplimits.program.optimizers.recursion import Optimizer, OptimizerState
from tplimits.program.optimizers.stepping import Stepper
from tplimits.program.parametrization.script import Script
from tplimits.program.parametrization.table import Parametrization
from tplimits.regimes.classification.derivation.activations import Finding
from tplimits.regimes.classification.derivation.inequalities import Inequality
from tplimits.regimes.classification.finite.coordinates import Coordinate, CoordinateCheck
from tplimits.regimes.depth.derivation.responses import Response
from tplimits.regimes.depth.derivation.roots import Root
from tplimits.regimes.depth.numbers.paths import Paths
from tplimits.regimes.depth.tangent.paths import TangentPaths
from tplimits.regimes.depth.tangent.verdict import Gradients
from tplimits.regimes.depth.tangent.verdict import Row as Quantiles
from tplimits.regimes.finite_width.results import Enough, Expansion, Share
from tplimits.regimes.kernels.inference import Descent, Inference
from tplimits.regimes.kernels.mixture import Mixture
from tplimits.regimes.kernels.numbers.mixture import KernelSample, Kurtosis
from tplimits.regimes.kernels.numbers.request import KernelPair
from tplimits.regimes.kernels.regression.regression import Prediction
from tplimits.sampling.rows import Row
from tplimits.sampling.verdict import Verdict
from tplimits.watch.run import Run
from tplimits.zoo import ZooEntry

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
#: names in the first column of a table
LISTED = set(re.findall(r"^\| `tp\.(\w+)", TEXT, re.MULTILINE))
#: fields of programs and limits that users have no need of
INNER = {"sized", "returns_tuple", "size_of", "root_axis", "known", "arrays", "tables", "replace", "written", "read"}
#: what kernels of a network predict, and how far they are random
PREDICTED = (Prediction, KernelSample, Kurtosis, Descent, tp.StoredKernels)
INNER |= {"array_names", "values"}  # of CovarianceSDE: what the views are made of
INNER |= {"behind", "changed", "written_out"}  # of programs: what regimes make others of them by
INNER |= {
    "check_keywords",
    "judged",
    "shown",
    "numbers_document",
    "trained_as",
}  # what check() and commands ask of a limit


def public(namespace):
    return {name for name in namespace if not name.startswith("_")}


def test_every_name_of_the_package_is_listed():
    names = {n for n in public(vars(tp)) if not isinstance(getattr(tp, n), types.ModuleType)}
    assert names - LISTED == set()


def test_every_name_for_scikit_learn_is_listed():
    assert set(re.findall(r"^\| `tp\.sklearn\.(\w+)", TEXT, re.MULTILINE)) == set(dir(tp.sklearn))


def test_nothing_is_listed_that_does_not_exist():
    assert {name for name in LISTED if not hasattr(tp, name)} == set()
    assert {name for name in re.findall(r"`tp\.(\w+)", TEXT) if not hasattr(tp, name)} == set()


def attributes(kind):
    fields = set(getattr(kind, "__dataclass_fields__", {}))
    return public(set(dir(kind)) | fields) - INNER


def test_attributes_of_programs_limits_numbers_and_entries_are_listed():
    mentioned = set(re.findall(r"`\.(\w+)", TEXT))
    for kind in (
        tp.Program,
        tp.WidthLimit,
        tp.CovarianceSDE,
        tp.KernelLimit,
        tp.MaximalLimit,
        tp.TangentLimit,
        tp.TrainingRun,
        tp.Recording,
        Run,
        Paths,
        Number,
        Verdict,
        ZooEntry,
    ):
        assert attributes(kind) - mentioned - {"name", "described", "rearranged"} == set(), kind.__name__


def test_attributes_of_optimizers_are_listed():
    mentioned = set(re.findall(r"`\.(\w+)", TEXT))
    assert attributes(Optimizer) - mentioned - {"name", "symbols_of"} == set()


def test_attributes_of_parametrizations_and_classifications_are_listed():
    mentioned = set(re.findall(r"`\.(\w+)", TEXT))
    assert (attributes(Parametrization) | attributes(tp.Classification)) - mentioned - {"name"} <= {"latex"}


def test_attributes_of_predictions_are_listed():
    mentioned = set(re.findall(r"`\.(\w+)", TEXT))
    for kind in (Inference, Mixture, *PREDICTED):
        assert attributes(kind) - mentioned - {"symmetric", "derivation"} == set(), kind.__name__


def test_attributes_that_are_listed_exist():
    known = set()
    parts = (Root, Response, Paths, Number, Verdict, Row, Step, ZooEntry, Inference, Mixture, KernelPair, *PREDICTED)
    parts += (Optimizer, OptimizerState, Stepper, Parametrization, tp.Classification, Inequality, Script)
    parts += (Coordinate, CoordinateCheck, Finding, Loss, tp.Batches, Kind, tp.Head)
    parts += (tp.NumericSDE, tp.TangentSDE, TangentPaths, Gradients, Quantiles)
    parts += (tp.FiniteWidthLimit, Expansion, Share, Enough)
    for kind in (
        tp.Program,
        tp.WidthLimit,
        tp.CovarianceSDE,
        tp.KernelLimit,
        tp.MaximalLimit,
        tp.TangentLimit,
        tp.TrainingRun,
        tp.Recording,
        Run,
        *parts,
    ):
        known |= attributes(kind)
    known |= of_an_imported_model() | of_source("scaling/plan.py", "Plan")
    known |= of_source("scaling/verdicts.py", "CoordinateReport")
    assert set(re.findall(r"`\.(\w+)", TEXT)) - known - {"tables"} == set()


def of_an_imported_model():
    """What `tp.from_torch` gives beside a program."""
    return of_source("importing.py", "TorchProgram")


def of_source(path, name):
    """Fields and methods of a class for PyTorch, read from its source: loading it needs PyTorch."""
    tree = ast.parse((ROOT / "tplimits" / "torch" / path).read_text(encoding="utf-8"))
    (kind,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    found = {n.name for n in kind.body if isinstance(n, ast.FunctionDef)}
    return public(found | {n.target.id for n in kind.body if isinstance(n, ast.AnnAssign)})


def test_attributes_of_imported_models_are_listed():
    mentioned = set(re.findall(r"`\.(\w+)", TEXT))
    assert of_an_imported_model() - mentioned - {"built", "by_row", "row"} == set()


def test_stages_of_the_package_are_no_names_for_users():
    shown = {n for n in dir(tp) if isinstance(getattr(tp, n), types.ModuleType) and not n.startswith("_")}
    assert shown <= {"layers", "sklearn", "views", "zoo"}
    assert {"derive", "check", "network", "Kernels", "layers"} <= set(dir(tp))
