"""Tracing: a Python function, run once on values that record, becomes a Program."""

from __future__ import annotations

import functools
import inspect
import linecache
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import CodeType
from typing import Any

import sympy

from tplimits.errors import ProgramError, TplimitsError
from tplimits.program.language.annotations import Kind, as_kind
from tplimits.program.language.arguments import argument, declare_widths
from tplimits.program.language.axes import IndexValue
from tplimits.program.language.matrices import MatrixValue
from tplimits.program.language.names import LocalNames, members
from tplimits.program.language.quantities import Quantity
from tplimits.program.language.tracing import Trace, fail
from tplimits.program.language.values import Value
from tplimits.program.nodes.bind import bind
from tplimits.program.nodes.fuse import instructions_of
from tplimits.program.nodes.program import Program
from tplimits.program.nodes.stated import Line

#: what Python or SymPy says when a value or a symbol is taken for a number: (its words, what was found, the repair)
_MISUSE = (
    (
        "truth value of Relational",
        "a comparison with a symbolic constant",
        "use tp.where, or make the constant a plain number of the traced function",
    ),
    ("Cannot convert expression to float", "a symbolic constant used as a number", "use tp.sqrt, tp.exp, ..."),
    (
        "'MatrixValue'",
        "something that matrices of a program do not do",
        "a matrix has .T, .rename and .sel, and multiplies vectors: W @ x; only its products have .named",
    ),
    (
        "'Value'",
        "something that values of a program do not do",
        "values have + - * / **, .rename, .sel, .take and .named; all else is a tp function",
    ),
    (
        "'Quantity'",
        "something that symbolic constants, widths and sizes do not do",
        "they have + - * / ** and functions of tp; where a number is needed, use a plain Python number",
    ),
    ("'Neuron'", "a neuron index used as a value", "it indexes vectors, x[β], and is averaged by tp.avg(…, over=β)"),
)


def program(function: Callable[..., Any]) -> Program:
    """Trace a function into a Program; the decorator of every program.

    Arguments are annotated `tp.Matrix`, `tp.Vector` or `tp.Scalar`; keyword-only arguments without
    annotation are symbolic constants.  Raises ProgramError where the function is not a Ne⊗or⊤ program.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def one_matmul(W: tp.Matrix, x: tp.Vector):
    ...     return W @ x
    >>> [instruction.name for instruction in one_matmul]
    ['W', 'x', 'return']
    """
    found = traced(function, "@tp.program")
    if found.state is not None:
        raise ProgramError(
            f"{definition(function)} takes a tp.State; decorate it by @tp.block, or annotate the argument tp.Vector."
        )
    if found.inputs:
        raise ProgramError(
            f"{definition(function)} takes a tp.Input; decorate it by @tp.network, or annotate the argument tp.Scalar."
        )
    return found


def traced(
    function: Callable[..., Any],
    decorator: str,
    parts: Callable[[Any], dict[str, Any]] | None = None,
    refuse: Callable[[Program], None] | None = None,
) -> Program:
    """The Program of a function; messages call the `decorator` by its name.

    `parts` names the values of its result, `refuse` raises where the role of the program asks for another one.
    """
    if not callable(function):
        raise ProgramError(f"{decorator} got a value of type {type(function).__name__}; it decorates a function.")
    trace = Trace(getattr(function, "__name__", type(function).__name__))
    with trace.recording():
        parameters = _signature(function).parameters
        positional, keywords = _arguments(trace, parameters)
        result = _call(trace, function, parameters, positional, keywords)
        arguments = (*positional, *keywords.values())
        open_sizes = _recorded(trace, (parts or returned_values)(result), arguments, definition(function))
        told = getattr(function, "__doc__", None)
        docstring = inspect.cleandoc(told) if isinstance(told, str) else ""
        open_sizes = replace(open_sizes, returns_tuple=isinstance(result, (tuple, list)), docstring=docstring)
    if refuse is not None:
        refuse(open_sizes)
    return bind(open_sizes, {})  # sizes known by now become numbers in the bodies; the result is verified


def _recorded(trace: Trace, named: dict[str, Any], arguments: tuple[Any, ...], place: str) -> Program:
    """The Program of a trace in progress that returns these values; sizes of axes are open."""
    returned = _returned(trace, list(named.values()), place)
    labels = {name: v.uid for name, v in zip(named, returned, strict=True)}
    instructions, names, where = instructions_of(trace, labels)
    return Program(
        name=trace.name,
        instructions=instructions,
        returns=tuple(where[v.uid] for v in returned),
        names=names,
        widths=tuple(trace.widths),
        constants=dict(trace.constants),
        sizes=dict(trace.sizes),
        size_of=dict(trace.size_of),
        arrays=tuple(trace.arrays),
        tables=tuple(trace.tables),
        arguments=tuple(where[v.uid] for v in arguments if not isinstance(v, Quantity)),
        functions=dict(trace.functions),
        state=_state(place, arguments, where),
        inputs=tuple(where[v.uid] for v in arguments if _is_data(v)),
    )


def written(
    name: str,
    widths: Iterable[str],
    kinds: Mapping[str, Kind],
    body: Callable[[Trace, dict[str, Any]], dict[str, Any]],
    constants: Mapping[str, Any] | None = None,
) -> Program:
    """The Program that a function of a trace and its arguments writes; arguments have any printable names.

    Other front ends than Python functions come in here.  `body` returns values by name.
    """
    trace = Trace(name)
    with trace.recording():
        for width in widths:
            trace.widths.setdefault(width)
        arguments = {key: argument(trace, key, kind, None) for key, kind in kinds.items()}
        arguments |= {key: argument(trace, key, None, value) for key, value in (constants or {}).items()}
        for key, value in arguments.items():
            if isinstance(value, Value):
                trace.bind(key, value.uid)
        found = _recorded(trace, body(trace, arguments), tuple(arguments.values()), f"`{name}`")
    return bind(found, {})


def returned_values(result: Any) -> dict[str, Any]:
    """The values a program returns, under the names they have unless the user gave them others."""
    if isinstance(result, (tuple, list)):
        return {f"return[{i}]": value for i, value in enumerate(result)}
    return {"return": result}


def _is_data(argument: Any) -> bool:
    return isinstance(argument, IndexValue) or (isinstance(argument, Value) and argument.role == "input")


def _state(place: str, arguments: tuple[Any, ...], where: dict[int, int]) -> int | None:
    """The instruction of the argument annotated tp.State, if there is one."""
    states = [v for v in arguments if isinstance(v, Value) and v.role == "state"]
    if len(states) > 1:
        raise ProgramError(f"{place} takes {len(states)} states; a block takes one.")
    return where[states[0].uid] if states else None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise ProgramError(
            f"{definition(function)}: an annotation cannot be read ({error}); import tplimits as tp at the top of "
            "the module, or drop `from __future__ import annotations`."
        ) from None
    except (TypeError, ValueError, AttributeError, SyntaxError) as error:
        raise ProgramError(
            f"{definition(function)}: the signature cannot be read ({error}); write a plain function whose arguments "
            "are annotated tp.Matrix, tp.Vector or tp.Scalar."
        ) from None


def _code(function: Callable[..., Any]) -> CodeType | None:
    """The code that runs when a function, a partial of one, or an object with __call__ is called."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return _code(function.func)
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)


def definition(function: Callable[..., Any]) -> str:
    """How messages point at a function as a whole."""
    code, name = _code(function), getattr(function, "__name__", type(function).__name__)
    return f"{Line(os.path.basename(code.co_filename), code.co_firstlineno)}: `{name}`" if code else f"`{name}`"


def _arguments(trace: Trace, parameters: Mapping[str, inspect.Parameter]) -> tuple[list[Any], dict[str, Any]]:
    kinds: dict[str, Kind | None] = {}
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            fail(f"the argument *{name} of `{trace.name}`", "name every argument: a program has a fixed signature")
        kind = as_kind(parameter.annotation)
        if kind is None:
            if parameter.annotation is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY:
                kinds[name] = None
                continue
            unmarked = parameter.annotation is parameter.empty
            shown = "no annotation" if unmarked else f"the annotation {parameter.annotation!r}"
            fail(
                f"the argument `{name}` of `{trace.name}` with {shown}",
                "annotate it tp.Matrix, tp.Vector or tp.Scalar, or make it keyword-only without annotation: a constant",
            )
        kinds[name] = kind
    declare_widths(trace, kinds)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, parameter in parameters.items():
        default = None if parameter.default is parameter.empty else parameter.default
        value = argument(trace, name, kinds[name], default)
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords[name] = value
        else:
            positional.append(value)
    return positional, keywords


def _call(
    trace: Trace, function: Callable[..., Any], names: Iterable[str], positional: list[Any], keywords: dict[str, Any]
) -> Any:
    def on_bind(name: str, value: Any) -> None:
        if isinstance(value, Value) and value.trace is trace:
            trace.bind(name, value.uid)
        elif isinstance(value, Value):
            return
        else:
            # values inside of lists and dictionaries are named by their places, unless they have a name already
            known = {uid for _, uid in trace.bindings}
            for place, member in members(value):
                if isinstance(member, Value) and member.trace is trace and member.uid not in known:
                    trace.bind(name + place, member.uid)
                    known.add(member.uid)

    for name, value in zip(names, (*positional, *keywords.values()), strict=True):
        if isinstance(value, Value):
            trace.bind(name, value.uid)
    try:
        code = _code(function)
        if code is None:
            return function(*positional, **keywords)
        with LocalNames(code, on_bind):
            return function(*positional, **keywords)
    except TplimitsError:
        raise
    except (TypeError, AttributeError) as error:
        for words, found, repair in _MISUSE:
            if words in str(error):
                raise ProgramError(f"{_raised(error, function)}: {found} ({error}); {repair}.") from error
        raise
    except RecursionError as error:
        raise ProgramError(
            f"{_raised(error, function, first=True)}: {error}; a function that calls itself needs an end, and a long "
            "expression names for its parts."
        ) from None


def _raised(error: Exception, function: Callable[..., Any], first: bool = False) -> str:
    """The line of the traced function where an exception came from; of its first call where it calls itself."""
    code, step, line = _code(function), error.__traceback__, definition(function)
    while step is not None:
        if step.tb_frame.f_code is code:
            file, number = step.tb_frame.f_code.co_filename, step.tb_lineno
            line = str(Line(os.path.basename(file), number, linecache.getline(file, number).strip()))
            if first:
                break
        step = step.tb_next
    return line


def _returned(trace: Trace, results: list[Any], place: str) -> list[Value]:
    if not results:
        raise ProgramError(f"{place} returns nothing; return a vector or a scalar of the program.")
    for i, value in enumerate(results):
        if isinstance(value, (MatrixValue, IndexValue)):
            raise ProgramError(f"{place} returns {value.describe()}; return a vector or a scalar.")
        if not isinstance(value, Value):
            if isinstance(value, (numbers.Real, sympy.Expr, Quantity)) and not isinstance(value, bool):
                results[i] = Value(trace, trace.constant(value), None, ())
                continue
            what = "nothing" if value is None else f"a value of type {type(value).__name__}"
            raise ProgramError(f"{place} returns {what}; return a vector or a scalar of the program.")
        if value.trace is not trace:
            raise ProgramError(f"{place} returns a value from another trace; return one of its own.")
        if value.neurons:
            raise ProgramError(
                f"{place} returns {value.describe()}; average it by tp.avg(…, over=…) before returning it."
            )
    return results
