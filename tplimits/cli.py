"""The command line: tplimits zoo, derive, evaluate, check, classify, depth, width, scaling,
watch, view, new, doctor, errors.

Exit status 0; 1 when a check rejects; 2 for an error of the user, told in one line; 70 for a defect
of tplimits; 130 when interrupted.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from tplimits import zoo
from tplimits.commands.check import check
from tplimits.commands.classify import classify
from tplimits.commands.depth import depth
from tplimits.commands.derive import derive
from tplimits.commands.doctor import doctor
from tplimits.commands.errors import errors
from tplimits.commands.evaluate import evaluate
from tplimits.commands.new import new
from tplimits.commands.scaling import scaling
from tplimits.commands.view import view
from tplimits.commands.watch import watch
from tplimits.commands.width import width
from tplimits.errors import TplimitsError
from tplimits.terminal import show, table
from tplimits.version import VERSION

USER_ERROR, DEFECT, INTERRUPTED, NO_READER = 2, 70, 130, 141

app = typer.Typer(
    name="tplimits",
    help="Infinite-width limits of neural networks: derived, evaluated, and checked against finite width.",
    epilog="TARGET is a name from `tplimits zoo`, file.py:name, or a .json program.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command("zoo")
def zoo_command() -> None:
    """List the ready programs, then the networks."""
    for what, entries in (("program", zoo.PROGRAMS), ("network, for --regime kernels", zoo.NETWORKS)):
        if entries is zoo.NETWORKS:
            show("")
        table(("name", what, "limit"), [(entry.name, entry.summary, entry.limit) for entry in entries.values()])


for _command in (derive, evaluate, check, classify, depth, width, scaling, watch, view, new, doctor, errors):
    app.command()(_command)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False) -> None:
    if version:
        show(f"tplimits {VERSION}")
        raise typer.Exit


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
