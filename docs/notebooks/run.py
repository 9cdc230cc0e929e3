"""Run the notebooks and keep what they show: `python docs/notebooks/run.py [NAME…]`.

"pytorch" needs the extra torch, and is run where that is asked for by name.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).parent
#: those that need more than the package; its extra has an environment of its own
NEEDS_TORCH = ("pytorch",)
#: what of an output is kept: pages and pictures, and the text beside them
_KEPT = ("text/html", "image/png", "text/plain")


def executed(name: str) -> Any:
    """A notebook with what its cells give now; warnings are errors."""
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    first = nbformat.v4.new_code_cell("import warnings; warnings.simplefilter('error')")
    book.cells.insert(0, first)
    with tempfile.TemporaryDirectory() as place:  # cells may write files
        resources = {"metadata": {"path": place}}
        nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources=resources).execute()
    del book.cells[0]
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if "data" in output:
                output.data = {kind: output.data[kind] for kind in _KEPT if kind in output.data}
    return book


if __name__ == "__main__":
    for asked in sys.argv[1:] or [p.stem for p in sorted(FOLDER.glob("*.ipynb")) if p.stem not in NEEDS_TORCH]:
        nbformat.write(executed(asked), FOLDER / f"{asked}.ipynb")
        print(asked)
