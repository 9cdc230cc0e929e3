"""The command line: tplimits zoo, derive, evaluate, check.

Exit status 0; 1 when a check rejects; 2 for an error of the user, told in one line; 70 for a defect
of tplimits; 130 when interrupted.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from tplimits import __version__, zoo
from tplimits.assignments import assigned, wholes
from tplimits.errors import TplimitsError
from tplimits.loading import batch, complete, infinite_axes, load
from tplimits.output import drawable, picture, report, writable, write
from tplimits.program.program import Program
from tplimits.report import html as html_page
from tplimits.report import json_report
from tplimits.results.check import check as check_limit
from tplimits.results.derive import derive as derive_limit
from tplimits.results.kernels import KernelLimit, Kernels
from tplimits.results.proportional import CovarianceSDE, Proportional
from tplimits.results.width import WidthLimit
from tplimits.terminal import show, table, working

REJECTED, USER_ERROR, DEFECT, INTERRUPTED, NO_READER = 1, 2, 70, 130, 141
REGIMES = ("width", "proportional", "kernels")

app = typer.Typer(
    name="tplimits",
    help="Infinite-width limits of neural networks: derived, evaluated, and checked against finite width.",
    epilog="TARGET is a name from `tplimits zoo`, file.py:name, or a .json program.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Target = Annotated[str, typer.Argument(help="a zoo name, file.py:name, or a .json program")]
Sets = Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="a constant or given scalar")]
Sizes = Annotated[list[str], typer.Option("--size", metavar="AXIS=SIZE", help="the size of a finite axis")]
Ratios = Annotated[list[str], typer.Option("--ratio", metavar="WIDTH=RATIO", help="a width relative to n")]
Method = Annotated[str, typer.Option(help="auto, exact, quadrature or particles")]
Particles = Annotated[int, typer.Option(help="particles of one replicate")]
Replicates = Annotated[int, typer.Option(help="independent runs of particles, for the error")]
Infinite = Annotated[list[str], typer.Option("--infinite", metavar="AXIS", help="kernels: infinitely many of it")]
Train = Annotated[list[str], typer.Option("--train", metavar="NAME", help="kernels: what is trained; all if left out")]
Data = Annotated[
    list[Path],
    typer.Option("--data", metavar="FILE", help="inputs of a network, .npy or .npz; given twice, two batches"),
]
Seed = Annotated[int, typer.Option(min=0, help="the same seed gives the same numbers")]


# -- commands -------------------------------------------------------------------------------------


@app.command("zoo")
def zoo_command() -> None:
    """List the ready programs, then the networks."""
    for what, entries in (("program", zoo.PROGRAMS), ("network, for --regime kernels", zoo.NETWORKS)):
        if entries is zoo.NETWORKS:
            show("")
        table(("name", what, "limit"), [(entry.name, entry.summary, entry.limit) for entry in entries.values()])


@app.command()
def derive(
    target: Target,
    regime: Annotated[
        str, typer.Option(help="width; proportional: depth grows with width, for a block; kernels: of a network")
    ] = "width",
    fixed: Annotated[list[str], typer.Option("--fixed", metavar="WIDTH", help="proportional: a width that stays")] = [],  # noqa: B006
    infinite: Infinite = [],  # noqa: B006
    train: Train = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006 - typer reads the default, nothing changes it
    set_: Sets = [],  # noqa: B006
    steps: Annotated[bool, typer.Option("--steps", help="print the derivation step by step")] = False,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="write the limit as LaTeX")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page with everything")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write the limit for other programs")] = None,
) -> None:
    """Derive the infinite-width limit and print it."""
    if regime not in REGIMES:
        raise TyperException(f"--regime {regime}: this version knows the regimes {', '.join(REGIMES)}.")
    if regime == "proportional" and (html or json):
        raise TyperException("--regime proportional writes --latex; pages and JSON are for the other regimes.")
    if fixed and regime != "proportional":
        raise TyperException("--fixed goes with --regime proportional.")
    if (infinite or train) and regime != "kernels":
        raise TyperException("--infinite and --train go with --regime kernels.")
    writable(latex, html, json)
    limit: WidthLimit | CovarianceSDE | KernelLimit
    if regime == "width":
        limit = _derived(target, size, set_)
    elif regime == "kernels":
        limit = _kernels(target, size, set_, train, infinite)
    else:
        limit = _stochastic(_bound(target, size, set_), fixed)
    show(repr(limit.program), "", repr(limit))
    if steps:
        show("", *(f"{number:>3}  {step}" for number, step in enumerate(limit.steps, start=1)))
    if latex:
        write(latex, limit.latex() + "\n")
    if html:
        write(html, report(html_page, limit))
    if json:
        write(json, report(json_report, limit))


@app.command()
def evaluate(
    target: Target,
    method: Method = "auto",
    particles: Particles = 4096,
    replicates: Replicates = 8,
    seed: Seed = 0,
    set_: Sets = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    ratio: Ratios = [],  # noqa: B006
    data: Data = [],  # noqa: B006
    infinite: Infinite = [],  # noqa: B006
    train: Train = [],  # noqa: B006
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write the numbers for other programs")] = None,
) -> None:
    """Give the limit as numbers with errors; of a network and --data, its kernels."""
    writable(json)
    constants, ratios = assigned("--set", set_), assigned("--ratio", ratio)
    if data or infinite or train:
        batches = _batches(data)
        kernels = _kernels(target, size, (), train, infinite)
        with working("evaluating"):
            pair = kernels.evaluate(*batches, ratios=ratios, constants=constants, replicates=replicates, seed=seed)
        show(f"NNGP\n{pair.nngp}")
        show(f"NTK\n{pair.ntk}")
        if json:
            write(json, json_report.kernel_numbers(kernels.program, pair, __version__))
        return
    limit = _derived(target, size, given=constants)
    with working("evaluating"):
        numbers = limit.evaluate(
            method, particles=particles, replicates=replicates, seed=seed, ratios=ratios, constants=constants
        )
    doubts = [f"± {n.error:.1e}" if n.method != "exact" else "" for n in numbers.values()]
    rows = [(k, f"{n.value:.12g}", d, n.method) for (k, n), d in zip(numbers.items(), doubts, strict=True)]
    head: tuple[str, ...] = ("quantity", "value", "error", "method")
    if any(n.variance for n in numbers.values()):
        head = (*head, "variance")
        spread = [f"{n.variance:.12g}" if n.variance else "" for n in numbers.values()]
        table(head, [(*row, v) for row, v in zip(rows, spread, strict=True)])
    else:
        table(head, rows)
    if json:
        write(json, json_report.numbers(limit.program, numbers, __version__))


@app.command()
def check(
    target: Target,
    widths: Annotated[str | None, typer.Option(metavar="N,N,…", help="widths to sample at")] = None,
    draws: Annotated[str | None, typer.Option(metavar="D|D,D,…", help="networks at each width")] = None,
    seed: Seed = 0,
    level: Annotated[float, typer.Option(help="the probability to reject a true limit")] = 1e-2,
    claim: Annotated[list[str], typer.Option(metavar="NAME=VALUE", help="judge this value instead")] = [],  # noqa: B006
    set_: Sets = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    ratio: Ratios = [],  # noqa: B006
    data: Data = [],  # noqa: B006
    infinite: Infinite = [],  # noqa: B006
    train: Train = [],  # noqa: B006
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="write a picture: .png, .pdf or .svg")] = None,
    method: Method = "auto",
    particles: Particles = 4096,
    replicates: Replicates = 8,
) -> None:
    """Run the program at finite widths and judge the limit, of a network and --data its kernels; exit status 1 when it
    is rejected."""
    drawable(plot)
    constants, ratios = assigned("--set", set_), assigned("--ratio", ratio)
    claims, at, counts = assigned("--claim", claim), wholes("--widths", widths), wholes("--draws", draws)
    inputs: dict[str, Any] = {}
    limit: WidthLimit | KernelLimit
    if data or infinite or train:
        inputs = dict(zip(("X1", "X2"), _batches(data), strict=False))
        limit = _kernels(target, size, (), train, infinite)
    else:
        limit = _derived(target, size, given=constants)
    verdict = check_limit(
        limit,
        at,
        counts[0] if counts and len(counts) == 1 else counts,
        seed,
        level,
        claims or None,
        ratios=ratios,
        constants=constants,
        method=method,
        particles=particles,
        replicates=replicates,
        **inputs,
    )
    show(verdict.sentence, verdict.table, style="green" if verdict.accepted else "red")
    if plot:
        write(plot, picture(verdict, plot.suffix.lower()[1:]))
    if not verdict.accepted:
        raise typer.Exit(REJECTED)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False) -> None:
    if version:
        show(f"tplimits {__version__}")
        raise typer.Exit


# -- what the user gave ---------------------------------------------------------------------------


def _derived(
    target: str, sizes: Sequence[str], constants: Sequence[str] = (), given: Mapping[str, Any] | None = None
) -> WidthLimit:
    """The limit of the target with sizes and constants bound; `given` is told from what numbers will need."""
    bound = {**assigned("--size", sizes), **assigned("--set", constants)}
    program: Program = load(target)
    program = program.bind(**bound) if bound else program
    if program.state is not None:
        raise TyperException(
            f"`{program.name}` is a block, one layer of a deep network: tplimits derive --regime proportional."
        )
    if program.is_network:
        raise TyperException(
            f"`{program.name}` is a network: tplimits derive --regime kernels, or evaluate and check with --data."
        )
    complete(program, given)
    with working(f"deriving {program.name}"):
        return derive_limit(program)


def _bound(target: str, sizes: Sequence[str], constants: Sequence[str]) -> Program:
    """The target of another regime than that of width; sizes may stay open."""
    bound = {**assigned("--size", sizes), **assigned("--set", constants)}
    program: Program = load(target)
    return program.bind(**bound) if bound else program


def _stochastic(program: Program, fixed: Sequence[str]) -> CovarianceSDE:
    with working(f"deriving {program.name}"):
        return derive_limit(program, Proportional(tuple(fixed)))


def _kernels(
    target: str, sizes: Sequence[str], constants: Sequence[str], train: Sequence[str], infinite: Sequence[str]
) -> KernelLimit:
    """The kernels of a target; a network of the zoo says itself which of its axes are infinite."""
    program = _bound(target, sizes, constants)
    axes = tuple(infinite) or infinite_axes(target, program)
    with working(f"deriving {program.name}"):
        return derive_limit(program, Kernels(tuple(train) or None, axes))


def _batches(data: Sequence[Path]) -> list[Any]:
    if not 1 <= len(data) <= 2:
        raise TyperException("kernels are between the inputs in --data FILE: one batch, or two.")
    return [batch(path) for path in data]


# -- running --------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    >>> main(["derive", "tied_relu", "--regime", "nonsense"])
    2
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without Unicode shows escapes, not a traceback
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        status = typer.main.get_command(app).main(given, prog_name="tplimits", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # typer exits by itself when the reader of a pipe has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return NO_READER
    except KeyboardInterrupt:
        status = INTERRUPTED
    except TyperException as error:
        return _failed(error.format_message(), USER_ERROR)
    except TplimitsError as error:
        return _failed(str(error), USER_ERROR)
    except OSError as error:
        return _failed(f"{error.filename or 'file'}: {error.strerror or error}.", USER_ERROR)
    except Exception:
        traceback.print_exc()
        return _failed("this is a defect of tplimits, not of your input: report it with the lines above.", DEFECT)
    if status == INTERRUPTED:
        return _failed("interrupted.", INTERRUPTED)
    return int(status or 0)


def _failed(message: str, status: int) -> int:
    print("tplimits:", " ".join(message.split()), file=sys.stderr)
    return status
