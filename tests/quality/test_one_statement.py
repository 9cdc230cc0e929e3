"""Each rule is stated in one file, and the engines that use it read that file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from source import MODULES, PACKAGE

#: what functions are called that state a rule, and the file they stand in
STATED = {
    r"isserlis|wick|pairing|by_parts$|gaussian_polynomial": "law/closed_forms/isserlis.py",
    r"is_safe|initial_only|origins_of": "law/hypotheses/fluctuation.py",
    r"beside_jump|not_a_function|derivative_or_stein": "law/rules/dots.py",
    r"arc_?cos(ine)?_kernel|kernel_of_abs": "regimes/depth/algebra/folded.py",
}
#: the engines that use a rule: they import its file
READ = {
    "tplimits.law.closed_forms.isserlis": {
        "law.closed_forms.table",
        "numbers.monomials",
        "numbers.moments.closed",
        "regimes.depth.algebra.activations",
        "regimes.depth.derivation.groupings",
        "regimes.kernels.derivation.expectations",
    },
    "tplimits.law.hypotheses.fluctuation": {
        "law.rules.fluctuation",
        "law.hypotheses.freshness",
        "regimes.kernels.derivation.safety",
    },
    "tplimits.law.rules.dots": {"law.rules.matmul", "regimes.kernels.derivation.dots"},
    "tplimits.regimes.depth.algebra.folded": {
        "regimes.depth.algebra.writing",
        "regimes.depth.numbers.covariance",
        "regimes.depth.numbers.moves",
        "regimes.depth.report",
    },
}
#: where the angle of two Gaussians is taken, and for which closed form; a new place belongs in one of these
ANGLES = {
    "law/closed_forms/orthant.py": "Sheppard's probabilities, as expressions",
    "numbers/moments/quadrant.py": "quadrant moments, as text for arrays and for loops",
    "numbers/moments/determinants.py": "determinants of piecewise linear functions, from the acute angle",
    "numbers/moments/angles.py": "the angle itself, in vector registers",
    "regimes/kernels/numbers/tables/laws.py": "one angle for both of a law's",
    "regimes/depth/algebra/folded.py": "the kernel of |u|, as an expression",
    "regimes/depth/numbers/covariance.py": "its angle for arrays",
    "regimes/depth/numbers/moves.py": "its angle in loops",
    "regimes/depth/expanded/paths.py": "what polynomials are in, for coefficients without closed form",
}
_ARCS = {"acos", "arccos", "asin", "arcsin", "atan2", "arctan2"}


def test_each_rule_is_stated_in_one_file():
    names = {m.place: set(defined(m.tree)) for m in MODULES}
    for pattern, place in STATED.items():
        found = {p for p, own in names.items() if any(re.search(pattern, name) for name in own)}
        assert found <= {f"tplimits/{place}"}, f"/{pattern}/ is stated in {sorted(found)}"
        assert (PACKAGE / place).is_file()


@pytest.mark.parametrize("rule", list(READ))
def test_the_engines_read_the_file_of_a_rule(rule):
    for reader in READ[rule]:
        module = next(m for m in MODULES if m.name == f"tplimits.{reader}")
        assert rule in {name for name, _ in module.imports}, f"{module.place} does not read {rule}"


def test_angles_of_gaussians_are_taken_where_their_closed_form_stands():
    found = {m.place.removeprefix("tplimits/") for m in MODULES if "/zoo/" not in m.place and any(arcs(m.tree))}
    assert found - set(ANGLES) == set()


def test_closed_forms_are_rows_of_one_table():
    made = {m.place for m in MODULES for node in ast.walk(m.tree) if called(node) == "ClosedForm"}
    assert made == {"tplimits/law/closed_forms/table.py"}


def test_a_second_statement_would_be_seen():
    twin = ast.parse("def _isserlis(tokens): ...\nangle = numpy.arctan2(sine, rho)\nlet(call('atan2', a, b))")
    assert list(defined(twin)) == ["_isserlis"] and len(list(arcs(twin))) == 2
    assert any(re.search(pattern, "_isserlis") for pattern in STATED)


def defined(tree: ast.Module) -> Iterator[str]:
    """The names of all functions, those of methods and inner ones too."""
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def called(node: ast.AST) -> str | None:
    """The name that a call is to, without what stands before its dot."""
    if not isinstance(node, ast.Call):
        return None
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)


def arcs(tree: ast.Module) -> Iterator[ast.AST]:
    """Calls of inverse circular functions, by name or as text for a writer of code."""
    for node in ast.walk(tree):
        texts = {a.value for a in getattr(node, "args", ()) if isinstance(a, ast.Constant)} if called(node) else set()
        if called(node) in _ARCS or (called(node) == "call" and texts & _ARCS):
            yield node
