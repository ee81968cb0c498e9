"""YAML of users, read safely and within bounds, so that no text costs more than about a second.

A few lines of YAML can stand for billions of values (aliases of aliases), and deeply nested
brackets end the process in some parsers.
"""

import re
from typing import Any

import yaml

LARGEST = 2**20
"""Bytes of a file"""
DEEPEST = 50
"""Mappings and lists inside one another"""
MOST_VALUES = 50_000
"""Keys and values of a text after each alias has been replaced by what it stands for"""
_HUGE = re.compile(r"[-+]?(0[bx][0-9a-fA-F_]{100,}|[0-9_:]{100,})")
"""A whole number that is so long that Python may refuse to print it"""
# libyaml is ten times faster, where PyYAML was built with it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadYaml(Exception):
    """A text is no YAML, or beyond the bounds; the message is the reason."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        """line: where it is, counted from 1; None: not known."""
        super().__init__(problem)
        self.line = line


def composed(text: str) -> yaml.Node | None:
    """The root of a text's tree of nodes, which know their lines; None: the text is empty.

    Raises BadYaml.
    """
    try:
        _check_depth(text)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadYaml(problem, mark.line + 1 if mark else None) from None
    if root is not None:
        _count(root, {}, set())
    return root


def constructed(root: yaml.Node | None) -> Any:
    """The value that a tree of nodes stands for. Raises BadYaml."""
    if root is None:
        return None
    loader = _Loader("")
    try:
        return loader.construct_document(root)
    # An impossible date is a ValueError, an empty `!!int` an IndexError, and so on.
    except Exception as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise BadYaml(problem, mark.line + 1 if mark else None) from None
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    """Refuse deep nesting from the events, before a parser calls itself for each level."""
    depth = values = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.NodeEvent)
        assert event.start_mark is not None  # every event of a text has a place
        line = event.start_mark.line + 1
        if depth > DEEPEST:
            raise BadYaml(f"more than {DEEPEST} levels of nesting", line)
        if values > MOST_VALUES:
            raise BadYaml(f"more than {MOST_VALUES} keys and values", line)
        if isinstance(event, yaml.ScalarEvent) and _HUGE.fullmatch(event.value):
            raise BadYaml(f"a whole number of {len(event.value)} digits is beyond 64 bits", line)


def _count(node: yaml.Node, known: dict[int, int], around: set[int]) -> int:
    """The number of keys and values of a node with its aliases replaced.

    known: node -> its number. around: the nodes that it is inside of.
    """
    line = node.start_mark.line + 1
    if id(node) in around:
        raise BadYaml("a part of the text contains itself", line)
    if id(node) in known:
        return known[id(node)]
    total = 1
    around.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise BadYaml("a key must be a word or a number", key.start_mark.line + 1)
            total += 1 + _count(value, known, around)
    elif isinstance(node, yaml.SequenceNode):
        total += sum(_count(value, known, around) for value in node.value)
    around.discard(id(node))
    if total > MOST_VALUES:
        raise BadYaml(f"its aliases stand for more than {MOST_VALUES} values", line)
    known[id(node)] = total
    return total
