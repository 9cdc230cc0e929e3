"""What a folder of Gram matrices says of itself: enough to know whether another request is the same computation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite
import numba
import numpy

from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.files.arrays import digest_of
from tplimits.program.files.fields import Fields, hexadecimal, name, parse, text_in, whole
from tplimits.program.files.serial import to_json
from tplimits.regimes.kernels.numbers.request import shape_of
from tplimits.version import VERSION

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.job import Job

FORMAT, FORMAT_VERSION = "tplimits gram matrices", "1"
#: what a field is called where two folders differ
_CALLED = {
    "program": "another network",
    "trained": "other trained parameters",
    "rates": "other factors of squared gradients",
    "infinite": "other infinite axes",
    "assumed": "other assumptions",
    "constants": "other constants or sizes",
    "data": "other data",
    "symmetric": "other data",
    "dtype": "data of another precision",
    "sampling": "other draws",
    "versions": "begun with other versions",
}


@dataclass(frozen=True)
class Manifest:
    """One folder: whole numbers as text, floats in hexadecimal, as in all files of the package."""

    program: str
    network: str
    trained: tuple[str, ...]
    #: factors of squared gradients that are not 1
    rates: dict[str, float]
    infinite: tuple[str, ...]
    assumed: tuple[str, ...]
    constants: dict[str, float]
    data: tuple[str, ...]
    symmetric: bool
    dtype: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    tiles: int
    sampling: dict[str, str]
    versions: dict[str, str]
    #: why there is no tangent kernel, and the mean of the outputs: what predictions have to know
    no_ntk: str
    mean: str
    #: the error bound of complete arrays
    error: float | None = None

    @staticmethod
    def of(job: Job) -> Manifest:
        """That of a job which has not begun."""
        asked = job.asked
        network, _, infinite, assumed = asked.derivation.made_from
        sides = (asked.one,) if asked.symmetric else (asked.one, asked.other)
        return Manifest(
            program=to_json(network),
            network=network.name,
            trained=asked.derivation.trained,
            rates={name: float(rate) for name, rate in sorted(asked.derivation.rates.items()) if rate != 1},
            infinite=tuple(infinite),
            assumed=tuple(assumed),
            constants={str(symbol): float(value) for symbol, value in sorted(asked.constants.items(), key=str)},
            data=tuple(digest_of(side.arrays) for side in sides),
            symmetric=asked.symmetric,
            dtype=numpy.dtype(asked.dtype).name,
            names=job.names,
            shape=shape_of(asked),
            tiles=len(job.places),
            sampling={k: str(v) for k, v in job.sampling.items()} if asked.is_drawn else {},
            versions=_versions(),
            no_ntk=asked.derivation.no_ntk,
            mean=str(asked.derivation.mean),
        )

    @property
    def is_complete(self) -> bool:
        """Whether the arrays are there."""
        return self.error is not None

    def completed(self, error: float) -> Manifest:
        """That of complete arrays."""
        return replace(self, error=error)

    def difference(self, other: Manifest) -> str:
        """What another folder differs in, in words; nothing where it is the same computation."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if mine != theirs and not (field.name == "error" or (field.name == "versions" and other.is_complete)):
                more = f": {_listed(theirs)}, not {_listed(mine)}" if field.name == "versions" else ""
                return _CALLED.get(field.name, f"other {field.name}") + more
        return ""

    @property
    def text(self) -> str:
        """The file."""
        found = asdict(self)
        for field in ("constants", "rates"):
            found[field] = {k: v.hex() for k, v in getattr(self, field).items()}
        found["shape"], found["tiles"] = [str(s) for s in self.shape], str(self.tiles)
        found["error"] = None if self.error is None else self.error.hex()
        return json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **found}, ensure_ascii=False, indent=1)


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file; EvaluationError for what is none."""
    try:
        return _read(parse(text_in(path)))
    except (OSError, ProgramError) as error:
        raise EvaluationError(f"{str(path)!r} is no manifest of Gram matrices: {error}") from None


def _read(header: Fields) -> Manifest:
    header.one_of("format", (FORMAT,))
    header.one_of("version", (FORMAT_VERSION,))
    found: dict[str, Any] = {key: header.long_text(key) for key in ("program", "no_ntk", "mean")}
    found |= {key: header.text(key) for key in ("network", "dtype")}
    found |= {key: header.texts(key) for key in ("trained", "infinite", "assumed", "data", "names")}
    found |= {key: header.mapping(key, hexadecimal) for key in ("constants", "rates")}
    found["symmetric"] = header.flag("symmetric")
    found |= {"shape": header.each("shape", whole), "tiles": header.count("tiles")}
    found |= {key: header.mapping(key, name) for key in ("sampling", "versions")}
    found["error"] = None if header.is_null("error") else hexadecimal(header.text("error"), "the file, error")
    header.finish()
    return Manifest(**found)


def _versions() -> dict[str, str]:
    """What the last bits of the numbers depend on."""
    return {
        "tplimits": VERSION,
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in versions.items())
