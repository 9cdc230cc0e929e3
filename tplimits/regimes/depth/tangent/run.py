"""Numbers of a joint SDE: what is asked for checked, paths drawn, gradients of every parameter from their starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError, shown
from tplimits.numbers.roots import root
from tplimits.program.nodes.given import real_array, several, true_or_false, whole_number
from tplimits.regimes.depth import numbers
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.numbers import covariance
from tplimits.regimes.depth.tangent import simulation as stage
from tplimits.regimes.depth.tangent.chain import place_along
from tplimits.regimes.depth.tangent.covariance import contracted
from tplimits.regimes.depth.tangent.paths import TangentPaths, alignment, gram, projection
from tplimits.regimes.depth.tangent.verdict import Gradients, Row, token_of

if TYPE_CHECKING:
    from tplimits.progress import Progress
    from tplimits.regimes.depth.numbers.settings import Settings
    from tplimits.regimes.depth.tangent.limit import TangentSDE
    from tplimits.regimes.depth.tangent.parameters import Start

#: sums that cancel to this part of their terms are zero
_ROUNDING = 1e-12
#: what is perturbed besides matrices
INPUT, TOTAL = "input", "total"


def joint_state(V: Any, C: Any, D: Any) -> tuple[Array, Array, Array]:
    """V, C and D as arrays; EvaluationError where (V, C; Cᵀ, D) is no covariance."""
    found = [real_array(name, x) for x, name in zip((V, C, D), "VCD", strict=True)]
    if any(x.shape != found[0].shape or x.ndim < 2 or x.shape[-1] != x.shape[-2] for x in found):
        raise EvaluationError(f"V, C and D have shapes {', '.join(str(x.shape) for x in found)}; all are (…, m, m).")
    # each block may be a covariance and all of it none: C is bounded by V and D together
    joint = numpy.block([[found[0], found[1]], [numpy.swapaxes(found[1], -1, -2), found[2]]])
    covariance.positive(joint, "(V, C; Cᵀ, D)")
    return found[0], found[1], found[2]


def finite_array(found: Array) -> Array:
    """The same; EvaluationError where numbers are too large, or a variance is zero."""
    if not numpy.isfinite(found).all():
        raise EvaluationError(
            "the coefficients are not finite at this V, C, D: a variance is zero, or entries too large."
        )
    return found


def _values(sde: TangentSDE, V: Array, ratios: Any, constants: Any) -> dict[Any, float]:
    """Numbers for the symbols; EvaluationError where a function has no derivative at V."""
    values = sde.values(V.shape[-1], constants, ratios)
    numbers.validity.insist_on_chance(sde.limit.sequences, V, values, "tangents")
    return values


def drift_at(sde: TangentSDE, state: Any, ratios: Any, constants: Any) -> list[Array]:
    """b of V, C and D at matrices."""
    V, C, D = joint_state(*state)
    values, forms = _values(sde, V, ratios, constants), sde.limit.forms.drift
    with numpy.errstate(all="ignore"):
        return [finite_array(contracted(forms[k], (V, C, D), values, sde.limit.arrays, 2)) for k in "VCD"]


def diffusion_at(sde: TangentSDE, state: Any, ratios: Any, constants: Any) -> Array:
    """Σ over pairs of the 2m vectors."""
    V, C, D = joint_state(*state)
    m, forms = V.shape[-1], sde.limit.forms.diffusion
    values = _values(sde, V, ratios, constants)
    with numpy.errstate(all="ignore"):
        each = {pair: contracted(form, (V, C, D), values, sde.limit.arrays, 4) for pair, form in forms.items()}
    a, b = numpy.triu_indices(2 * m)
    found = numpy.empty((*V.shape[:-2], len(a), len(a)))
    # a ≤ b: a tangent and no token before it make V, one of both C, two tangents D
    block = ["VCD"[int(i >= m) + int(j >= m)] for i, j in zip(a, b, strict=True)]
    for p, q in numpy.ndindex(found.shape[-2:]):
        # forms were derived for one order of each pair of blocks; the covariance is symmetric
        one, two = (p, q) if "VCD".index(block[p]) <= "VCD".index(block[q]) else (q, p)
        at = (a[one] % m, b[one] % m, a[two] % m, b[two] % m)
        found[..., p, q] = each[block[one], block[two]][(..., *at)]
    return finite_array(found)


def per_path(E: Any) -> Any:
    """What a user perturbs, if it is given path by path, checked; EvaluationError where one is no covariance matrix."""
    if whole_number(E) is not None or real_array("E", E).ndim != 3:
        return E
    return covariance.positive(E, "E")


def _settings(asked: Mapping[str, Any], V: Array) -> Settings:
    """What a simulation is asked for; EvaluationError where it cannot be done."""
    unasked = {"stop": None, "record": False, "halve": False, "threads": None}
    return numbers.simulation.settings(**{**unasked, **asked}, V0=V)


def simulated(
    sde: TangentSDE,
    V0: Any,
    E: Any,
    asked: Mapping[str, Any],
    ratios: Any,
    constants: Any,
    progress: Progress,
    fed: bool,
    across: Any = 0.0,
) -> TangentPaths:
    """Paths of (V, C, D) from C = `across`; `asked` are the arguments of a simulation."""
    V = numbers.simulation.initial(V0)
    settings, fed = _settings(asked, V), true_or_false("fed", fed, EvaluationError)
    m = V.shape[-1]
    values = _values(sde, V, ratios, constants)
    D = E if isinstance(E, numpy.ndarray) and E.ndim == 3 else gram(E, m, "E")
    if D.ndim == 3 and D.shape != (settings.paths, m, m):
        raise EvaluationError(f"E has shape {D.shape}; it is a token, ({m}, {m}), or (paths, {m}, {m}).")
    start = numpy.zeros((*numpy.broadcast_shapes(V.shape[:-2], D.shape[:-2]), 2 * m, 2 * m))
    start[..., :m, :m], start[..., m:, m:], start[..., :m, m:] = V, D, across
    # C of one path need not be symmetric: the lower block is its transpose
    start[..., m:, :m] = numpy.swapaxes(start[..., :m, m:], -1, -2)
    compiled = stage.CompiledTangent.at(_simulator(sde, fed), values, V.shape[-1])
    return numbers.simulation.halved(lambda halves: compiled.run(start, settings, fed, halves, progress), settings)


def _simulator(sde: TangentSDE, fed: bool) -> stage.TangentSimulator:
    """One module for both: what weights add to D has a coefficient that is zero unless it is `fed`."""
    known: dict[str, Any] = sde.__dict__.setdefault("_simulators", {})
    if "one" not in known:
        known["one"] = stage.simulator(sde.limit.forms, sde.limit.source_or_none, sde.limit.arrays, sde.limit.rootless)
    if fed:
        _ = sde.limit.source  # its refusal
    return known["one"]


def gradients(
    sde: TangentSDE,
    V0: Any,
    T: float,
    of: Sequence[str] | str | None,
    layers: Sequence[float],
    readout: Any,
    asked: Mapping[str, Any],
    ratios: Any,
    constants: Any,
) -> Gradients:
    """The laws of log gradient norms of parameters at some places along depth."""
    V = numbers.simulation.initial(V0)
    settings = _settings({**asked, "T": T}, V)
    T, asked = settings.T, {**asked, "paths": settings.paths, "seed": settings.seed}
    m = V.shape[-1]
    if readout is not None:
        gram(readout, m, "readout")
    names = _names(sde, of)
    places = [place_along(f) for f in listed("layers", layers, "places along depth, from 0 to 1")]
    rows = []
    for number, place in enumerate(places):
        began, stopped = _states(sde, V, place * T, asked, ratios, constants)
        for name in names:
            if name != TOTAL:
                C, D, order = _started(sde, name, began, asked["seed"] + number, ratios, constants)
                start = (began, C, D, stopped)
                rows.append(_row(sde, name, place, start, T, readout, asked, ratios, constants, order))
    if TOTAL in names:
        # all weights of all layers: nothing is perturbed at the start, each layer adds its own
        paths = simulated(sde, V, numpy.zeros((m, m)), {**asked, "T": T}, ratios, constants, False, fed=True)
        rows.append(_ended(TOTAL, 0.0, paths, readout, sde.limit.source[1] - 1))
    return Gradients(sde.program.name, T, m, readout, tuple(rows), asked["seed"], {**(constants or {})})


def _names(sde: TangentSDE, of: Sequence[str] | str | None) -> list[str]:
    if of is not None:
        found = listed("of", of, 'names of matrices, "input", "input[0]" or "total"')
        for name in found:
            if not isinstance(name, str):
                raise EvaluationError(f'of={shown(of)}: a gradient is called by a name, as "input" or a matrix.')
            if name not in (INPUT, TOTAL) and token_of(name) is None:
                known = sde._known(name)
                if known.refusal:
                    raise NoLimitError(known.refusal)
        return found
    return [INPUT, *(name for name in sde.limit.parameters if sde.is_derived(name)), *_total(sde)]


def listed(name: str, given: Any, what: str) -> list[Any]:
    """One or several of something; EvaluationError for none of it."""
    found = several(given)
    if found == ():
        raise EvaluationError(f"{name}={shown(given)}: give {what}, at least one.")
    return [given] if found is None else list(found)


def _total(sde: TangentSDE) -> list[str]:
    try:
        return [TOTAL] if sde.limit.source else []
    except NoLimitError:
        return []


def _states(
    sde: TangentSDE, V: Array, t: float, asked: Mapping[str, Any], ratios: Any, constants: Any
) -> tuple[Array, NDArray[numpy.bool_]]:
    """V at a time, of each path, and which were stopped before."""
    count = asked["paths"]
    if t == 0:
        # no time, no step: every path is where it starts
        return numpy.broadcast_to(V, (count, *V.shape[-2:])).copy(), numpy.zeros(count, dtype=bool)
    # the seed is one for all places: the same networks are looked at in several layers
    paths = simulated(sde, V, numpy.eye(V.shape[-1]), {**asked, "T": t}, ratios, constants, False, fed=False)
    return paths.V.copy(), paths.stopped


def _started(sde: TangentSDE, name: str, V: Array, seed: int, ratios: Any, constants: Any) -> tuple[Array, Array, int]:
    """C and D of every path after the layer of a parameter, and the power of 1/n D comes with."""
    m = V.shape[-1]
    token = token_of(name)
    if name == INPUT or token is not None:
        D = numpy.broadcast_to(numpy.eye(m) if token is None else gram(token, m, name), V.shape).copy()
        return numpy.zeros(V.shape), D, 0
    start: Start = sde.limit.start(name)
    values, arrays = sde.values(m, constants, ratios), sde.limit.arrays
    form, more = start.form, {}
    if start.quadratic is not None:
        members = [int(covariance.numbers(Form({(): size}), values)[0]) for size in start.members]
        form, more = start.quadratic, {"R": _response(V, members, seed)}
    D, C = covariance.contracted(form, V, values, arrays, 2, more), numpy.zeros(V.shape)
    if start.quadratic is not None:
        # where softmax sees equal tokens its derivative vanishes: rounding would be given a logarithm and a correlation
        D = numpy.where(numpy.abs(D) > _ROUNDING * _largest(form, V, values, arrays, more), D, 0.0)
    if start.linear is not None and start.linear:
        seen = numpy.diagonal(D, axis1=-2, axis2=-1)[..., None, :] > 0.0  # no response, nothing across
        C = numpy.where(seen, covariance.contracted(start.linear, V, values, arrays, 2, more), 0.0)
    return finite_array(C), finite_array((D + numpy.swapaxes(D, -1, -2)) / 2), start.order


def _largest(form: Form, V: Array, values: Any, arrays: Any, more: Mapping[str, Array]) -> Array:
    """What the terms of a form in V, R and arrays come to if none cancels: equal tokens leave rounding alone."""
    size = Form({f: sympy.Abs(c) for f, c in form.terms.items()})
    positive = [{k: numpy.abs(v) for k, v in known.items()} for known in (arrays, more)]
    return covariance.contracted(size, numpy.abs(V), values, positive[0], 2, positive[1])


def _response(V: Array, members: Sequence[int], seed: int) -> Array:
    """L G Lᵀ with L Lᵀ = V, for every path and, as last indices, the members of families."""
    # a stream beside those of the paths, which are seeded by the number alone
    G = numpy.random.default_rng([seed, 7]).standard_normal((*V.shape, *members))
    L = root(V)
    return numpy.einsum("pab,pbc...,pdc->pad...", L, G, L, optimize=True)


def _row(
    sde: TangentSDE,
    name: str,
    place: float,
    start: tuple[Array, Array, Array, NDArray[numpy.bool_]],
    T: float,
    readout: Any,
    asked: Mapping[str, Any],
    ratios: Any,
    constants: Any,
    order: int,
) -> Row:
    V, C, D, stopped = start
    left = (1.0 - place) * T
    if left > 0:
        # layers behind the parameter are not those before it, and must not see their noise once more
        seed = int(numpy.random.SeedSequence([asked["seed"], len(name), int(1e6 * place)]).generate_state(1)[0])
        later = {**asked, "T": left, "seed": seed}
        paths = simulated(sde, V, D, later, ratios, constants, False, fed=False, across=C)
        row = _ended(name, place, paths, readout, order)
        return replace(row, stopped=stopped | paths.stopped)
    with numpy.errstate(divide="ignore"):
        logs = numpy.log(numpy.maximum(projection(D, readout), 0.0))
    return Row(name, place, logs, stopped, _correlations(D), _variances(V), alignment(V, C, D), order)


def _ended(name: str, place: float, paths: TangentPaths, readout: Any, order: int) -> Row:
    logs, ends = paths.log(readout), _variances(paths.V).copy()
    return Row(name, place, logs, paths.stopped, _correlations(paths.D), ends, paths.alignment, order)


def _variances(V: Array) -> Array:
    return numpy.diagonal(V, axis1=-2, axis2=-1)


def _correlations(D: Array) -> Array:
    """D_ab/√(D_aa D_bb) of the first two tokens; none of one token."""
    if D.shape[-1] < 2:
        return numpy.zeros(0)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        found = D[:, 0, 1] / (numpy.sqrt(D[:, 0, 0]) * numpy.sqrt(D[:, 1, 1]))
    return numpy.asarray(found[numpy.isfinite(found)])
