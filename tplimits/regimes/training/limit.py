"""What the limits of training in both regimes have in common: reports, a document, networks to check them by."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tplimits.regimes.protocol import CheckAsked, Shown, Undoubted
from tplimits.regimes.training.claims import NOTE, OF_EVALUATE, TrainedAs, training_verdict
from tplimits.report import json_report
from tplimits.report.written import TRAINING, Told

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.runs import TrainingRun
    from tplimits.sampling.verdict import Verdict


class TrainingLimit(Undoubted, Told):
    """A limit of a network in training."""

    check_keywords: ClassVar[tuple[str, ...]] = OF_EVALUATE
    _format: ClassVar[str] = TRAINING
    _note: ClassVar[str] = NOTE
    #: the word of the regime
    _word: ClassVar[str]

    @property
    @abstractmethod
    def _optimizers(self) -> Mapping[str, Optimizer]:
        """The optimizer of every parameter."""

    @property
    @abstractmethod
    def trained_as(self) -> TrainedAs:
        """How networks of finite width are trained that have this limit."""

    @property
    @abstractmethod
    def evaluate(self) -> Any:
        """The method that gives outputs at every step."""

    @property
    def _title(self) -> str:
        return f"{self.program.name} in training"

    def _asked(self) -> Mapping[str, Any]:
        return {"regime": self._word, "optimizers": {name: str(o) for name, o in self._optimizers.items()}}

    def shown(self, numbers: TrainingRun) -> Shown:
        """A table of the outputs at every step."""
        return numbers.shown

    def numbers_document(self, numbers: TrainingRun) -> str:
        """JSON of the outputs with their standard errors, (steps + 1, inputs, *outputs)."""
        return json_report.numbers_document(
            self.program, training={"f": numbers.f.tolist(), "stderr": numbers.stderr.tolist()}
        )

    def judged(self, asked: CheckAsked) -> Verdict:
        """Outputs of networks in training, or the user's claims about them, at finite widths."""
        return training_verdict(self, asked)
