"""What the user is told when something is wrong: one sentence with the place and the nearest valid name."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A user's mistake in one sentence: what is wrong, where, and what would be right.

    The command line prints it without a traceback and exits with code 2.
    """


class TrialFailure(Exception):
    """A trial that cannot go on (for example a loss that is not finite), with the reason."""


def reason(error: Exception) -> str:
    """Why something failed, for a record: the sentence that was made for a person, or else the exception's type too."""
    return (
        str(error)
        if isinstance(error, TrialFailure | UserError)
        else f"{type(error).__name__}: {error}"
    )


def suggest(name: str, valid: Iterable[str]) -> str:
    """`; did you mean "x"?` for the valid name nearest to `name`, else the list of valid names."""
    names = sorted(set(valid))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; valid: {', '.join(names)}" if names else ""
