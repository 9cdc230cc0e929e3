"""What can go wrong, and who has to act.

Every error of the package is a `TplimitsError`; its text names what was found, where, and what
would repair it.

>>> issubclass(NoLimitError, TplimitsError)
True
"""


class TplimitsError(Exception):
    """The root of all errors raised on purpose by this package."""


class ProgramError(TplimitsError):
    """The text of a program is not legal: which line, what was found, what would fix it."""


class NoLimitError(TplimitsError):
    """The limit does not exist or a hypothesis fails: which line, which hypothesis, which term.

    `verdict` is the verdict of the derivation where there is one: it holds the conditions on the parameters.
    """

    def __init__(self, message: str, verdict: object = None) -> None:
        super().__init__(message)
        self.verdict = verdict


class EvaluationError(TplimitsError):
    """A number cannot be given: bad shapes, NaN, too few particles, moment not established."""


class CheckError(TplimitsError):
    """A finite-width check cannot be run as asked."""
