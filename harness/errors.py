"""The errors that users read: one sentence with the place and the nearest valid name."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec

_LONG = re.compile(r"[^\s/]{260,}")
"""Pattern of what is longer than the name of a file can be"""
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode that a terminal obeys or does not show"""
_MOST = 1500
"""Characters of a sentence"""
REASON_LENGTH = 4000
"""The most characters of a reason in a record; the sentence alone has at most a quarter of them"""

OUTPUT_FOLLOWS = "\nThe last lines of its output:\n"
"""Separator in a reason between the sentence and lines of the trial's output"""


class UserError(Exception):
    """A user's mistake in one sentence: what is wrong, where, and what would be right.

    The command line prints it without a traceback and exits with code 2.
    """


class NotHere(UserError):
    """A model or a data file is not on this machine; a plan names it and goes on."""


class TrialFailure(Exception):
    """A trial cannot go on, for example because a loss is not finite; the message is the reason."""


class WorkerLost(TrialFailure):
    """One of the processes of a trial has ended, and another attempt goes on."""


class SweepStopped(Exception):
    """A sweep cannot go on, for example because Ray is gone; the message says why."""


class Postponed(Exception):
    """A trial cannot go on now, and is to be run later; the message says what it waits for."""


class Interrupted(KeyboardInterrupt):
    """A trial gives way before its end, because it was asked to; its checkpoint is written."""


class Pruned(Exception):
    """A training ends before its last step, because its search prunes it."""


@contextmanager
def explained(beginning: str) -> Iterator[None]:
    """In the block, whatever a library or a user's code raises becomes a UserError.

    Its sentence is `beginning` and the first line of the reason, and the second one behind a colon.
    A UserError stays as it is. SystemExit counts as well, because a plugin that exits must not end
    the program.
    """
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # a damaged file or a plugin may raise anything
        first, *more = reason(error).splitlines()
        if first.endswith(":"):
            first = " ".join([first, *map(str.strip, more[:1])])
        raise UserError(f"{beginning}{first}") from error


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """In the block, a package that is not installed becomes a UserError that says how to get it.

    name: the extra of pyproject.toml that has the package. user: what needs it.
    """
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"{user} needs {error.name}, which is not installed: "
            f"pip install 'harness-embeddings[{name}]'"
        ) from None


def check_extra(name: str, package: str, user: str) -> None:
    """Raises UserError as `extra` does; the package is not imported, which may take seconds."""
    with extra(name, user):
        if find_spec(package) is None:
            raise ModuleNotFoundError(name=package)


def reason(error: BaseException) -> str:
    """Why something failed, for a record.

    It is the message alone where that was written for people, and else the exception's type too.
    """
    written = isinstance(error, TrialFailure | UserError)
    text = str(error) if written else f"{type(error).__name__}: {error}"
    return shortened(text, REASON_LENGTH // 4)


def headline(why: str | None) -> str:
    """A record's reason on one line, without the lines of output that may follow it."""
    return " ".join((why or "").partition(OUTPUT_FOLLOWS)[0].split())


def one_line(text: str) -> str:
    """The text on one line that a terminal can show, with what is very long cut in the middle.

    Line ends, control characters and bytes that are no text are shown by their escapes.
    """
    shown = visible(text.strip()).replace("\n", "\\n").replace("\t", "\\t")
    shown = _LONG.sub(lambda found: shortened(found[0], 200), shown)
    return shortened(shown, _MOST)


def visible(text: str) -> str:
    """The text with what a terminal would obey or hide shown by its escape, such as `\\x1b`.

    These are control characters (C0 and C1, and with them escape sequences), characters that turn
    the direction of a line or have no width, separators of lines, and halves of characters. Line
    ends and tabs stay. All text of others goes through it on its way to a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode()
        if unicodedata.category(char) in _UNSEEN and char not in "\n\t"
        else char
        for char in text
    )


def counted(number: float, noun: str) -> str:
    """A number with its noun: `1 file`, `2 files`, `0.5 CPUs`."""
    return f"{number:.15g} {noun}{'' if number == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """The text, or the beginning and the end of one that has more than `most` characters."""
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def suggest(name: str, valid: Iterable[str]) -> str:
    """The end of a sentence about an unknown name, which helps to correct it.

    It is `; did you mean "x"?` for the valid name nearest to `name`, or else the list of all valid
    names.
    """
    names = sorted(set(valid))
    # difflib's default of 0.6 misses short names with one wrong letter.
    close = get_close_matches(name[:_MOST], names, n=1, cutoff=0.5)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; valid: {', '.join(names)}" if names else ""
