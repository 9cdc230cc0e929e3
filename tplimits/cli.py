"""The command line: tplimits zoo, derive, evaluate, check.

Exit status 0; 1 when a check rejects; 2 for an error of the user, told in one line; 70 for a defect
of tplimits; 130 when interrupted.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.exceptions import TyperException

from tplimits import __version__, zoo
from tplimits.errors import CheckError, TplimitsError
from tplimits.loading import complete, load
from tplimits.program.program import Program
from tplimits.report import files, json_report
from tplimits.report import html as html_page
from tplimits.results.check import check as check_limit
from tplimits.results.derive import derive as derive_limit
from tplimits.results.width import WidthLimit

REJECTED, USER_ERROR, DEFECT, INTERRUPTED, NO_READER = 1, 2, 70, 130, 141
REGIMES = ("width",)
PICTURES = (".png", ".pdf", ".svg")

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
Seed = Annotated[int, typer.Option(min=0, help="the same seed gives the same numbers")]


# -- commands -------------------------------------------------------------------------------------


@app.command("zoo")
def zoo_command() -> None:
    """List the ready programs."""
    rows = [(entry.name, entry.summary, entry.limit) for entry in zoo.PROGRAMS.values()]
    _table(("name", "program", "limit"), rows)


@app.command()
def derive(
    target: Target,
    regime: Annotated[str, typer.Option(help="which limit: width")] = "width",
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
    _writable(latex, html, json)
    limit = _derived(target, size, set_)
    _print(repr(limit.program), "", repr(limit))
    if steps:
        _print("", *(f"{number:>3}  {step}" for number, step in enumerate(limit.steps, start=1)))
    if latex:
        _write(latex, limit.latex() + "\n")
    if html:
        _write(html, html_page.width_limit(limit.program, limit.state, limit.citation(), __version__))
    if json:
        _write(json, json_report.width_limit(limit.program, limit.state, limit.citation(), __version__))


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
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write the numbers for other programs")] = None,
) -> None:
    """Give the limit as numbers with errors."""
    _writable(json)
    constants, ratios = _assigned("--set", set_), _assigned("--ratio", ratio)
    limit = _derived(target, size, given=constants)
    with _working("evaluating"):
        numbers = limit.evaluate(
            method, particles=particles, replicates=replicates, seed=seed, ratios=ratios, constants=constants
        )
    doubts = [f"± {n.error:.1e}" if n.method != "exact" else "" for n in numbers.values()]
    rows = [(k, f"{n.value:.12g}", d, n.method) for (k, n), d in zip(numbers.items(), doubts, strict=True)]
    head: tuple[str, ...] = ("quantity", "value", "error", "method")
    if any(n.variance for n in numbers.values()):
        head = (*head, "variance")
        spread = [f"{n.variance:.12g}" if n.variance else "" for n in numbers.values()]
        _table(head, [(*row, v) for row, v in zip(rows, spread, strict=True)])
    else:
        _table(head, rows)
    if json:
        _write(json, json_report.numbers(limit.program, numbers, __version__))


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
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="write a picture: .png, .pdf or .svg")] = None,
    method: Method = "auto",
    particles: Particles = 4096,
    replicates: Replicates = 8,
) -> None:
    """Run the program at finite widths and judge the limit; exit status 1 when it is rejected."""
    _drawable(plot)
    constants, ratios = _assigned("--set", set_), _assigned("--ratio", ratio)
    claims, at, counts = _assigned("--claim", claim), _wholes("--widths", widths), _wholes("--draws", draws)
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
    )
    _print(verdict.sentence, verdict.table, style="green" if verdict.accepted else "red")
    if plot:
        _write(plot, _picture(verdict, plot.suffix.lower()[1:]))
    if not verdict.accepted:
        raise typer.Exit(REJECTED)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False) -> None:
    if version:
        _print(f"tplimits {__version__}")
        raise typer.Exit


# -- what the user gave ---------------------------------------------------------------------------


def _derived(
    target: str, sizes: Sequence[str], constants: Sequence[str] = (), given: Mapping[str, Any] | None = None
) -> WidthLimit:
    """The limit of the target with sizes and constants bound; `given` is told from what numbers will need."""
    bound = {**_assigned("--size", sizes), **_assigned("--set", constants)}
    program: Program = load(target)
    program = program.bind(**bound) if bound else program
    complete(program, given)
    with _working(f"deriving {program.name}"):
        return derive_limit(program)


def _assigned(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE pairs; a value is a number, a fraction, or several with commas between."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (name and equals):
            raise TyperException(f"{option} {text}: write {option} NAME=VALUE.")
        if name in found:
            raise TyperException(f"{option} {text}: `{name}` is given twice.")
        numbers = [_number(option, text, part) for part in value.split(",")]
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def _number(option: str, text: str, part: str) -> int | float | Fraction:
    kinds: tuple[type[int], type[float], type[Fraction]] = (int, float, Fraction)
    for kind in kinds:
        try:
            number = kind(part)
        except (ValueError, ZeroDivisionError):
            continue
        if math.isfinite(number):
            return number
    raise TyperException(f"{option} {text}: {part!r} is not a number, such as 3, 0.5 or 1/3.")


def _wholes(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise TyperException(f"{option} {text}: write whole numbers with commas between.") from None


# -- what goes out --------------------------------------------------------------------------------


def _writable(*paths: Path | None) -> None:
    """Refuse files that cannot be written, before any work."""
    given = [p for p in paths if p is not None]
    for path in given:
        files.check_writable(path)
    if len({p.resolve() for p in given}) < len(given):
        raise TyperException("two outputs go to the same file.")


def _drawable(plot: Path | None) -> None:
    _writable(plot)
    if plot is not None:
        if plot.suffix.lower() not in PICTURES:
            raise TyperException(f"--plot {plot}: pictures are written as {', '.join(PICTURES)}.")
        if importlib.util.find_spec("matplotlib") is None:
            raise CheckError("a picture needs Matplotlib, which is not installed: pip install 'tplimits[plot]'.")


def _write(path: Path, content: str | bytes) -> None:
    sys.stdout.flush()  # the path may be /dev/stdout
    files.write(path, content)
    Console(stderr=True, markup=False, highlight=False, soft_wrap=True).print(f"wrote {path}")


def _print(*texts: str, style: str | None = None) -> None:
    """Text as it is; the first line coloured in a terminal when a style is given."""
    console = Console(markup=False, highlight=False, soft_wrap=True)
    for number, text in enumerate(texts):
        console.print(Text(text, style=style if style and not number else ""))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table in a terminal, aligned columns in a pipe."""
    console = Console(markup=False, highlight=False, soft_wrap=True)
    if console.is_terminal:
        table = Table(*head, header_style="bold", show_lines=False)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console(markup=False, highlight=False).print(table)
        return
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        console.print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def _working(what: str) -> AbstractContextManager[Any]:
    """A sign of life in a terminal."""
    return Console(stderr=True).status(what)


def _picture(verdict: Any, kind: str) -> bytes:
    drawn = io.BytesIO()
    verdict.plot().savefig(drawn, format=kind, dpi=150)
    return drawn.getvalue()


# -- running --------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    >>> main(["derive", "tied_relu", "--regime", "kernels"])
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
