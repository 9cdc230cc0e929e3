"""Networks that are drawn for one check serve the next one with the same seed: beside a true limit stands a wrong one.

Batches are numbered, and batch i at width n is the same whoever asks for it; a test that judges several claims about
the same networks pays for them once.  The numbers are those of checks that draw anew, bit for bit.
"""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

try:
    from cloudpickle import dumps  # by what they do: functions of a test have no name to be found by
except ImportError:  # the environment of PyTorch has none, and such networks are drawn anew there
    from pickle import dumps

from tplimits.sampling import sample


class Remembering:
    """A source of draws that looks batches up by what the source consists of, and draws those that are new."""

    def __init__(self, source: Any, known: dict[Any, Any]) -> None:
        self._source, self._known = source, known
        try:
            self._key: Any = dumps((type(source), [getattr(source, f.name) for f in fields(source)]))
        except (pickle.PicklingError, AttributeError, TypeError):
            self._key = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def run(self, n: int, index: int, draws: int) -> Any:
        """Batch number `index` at width n."""
        if self._key is None:
            return self._source.run(n, index, draws)
        place = self._key, n, index, draws
        if place not in self._known:
            self._known[place] = self._source.run(n, index, draws)
        return self._known[place]


def drawing_once(known: dict[Any, Any]) -> Any:
    """`tplimits.sampling.sample.sample` that remembers; what an executor is asked for is drawn by it."""

    def sampled(source: Any, wanted: Any, executor: Any, report: Any) -> Any:
        return sample.sample(source if executor is not None else Remembering(source, known), wanted, executor, report)

    return sampled
