"""The hyperparameters of a method: type, default, range, meaning, and the paper's values."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from harness.plugin.fields import DescribedField


def print_method(name: str, console: "Console") -> None:
    """Print every hyperparameter of the method with this name or path.

    Raises UserError for a method that cannot be loaded.
    """
    from harness.plugin import registry
    from harness.plugin.fields import described_fields

    config = registry.load(name).config_type
    fields = described_fields(config)
    _line(console, registry.docstring_line(registry.locate(name)))
    for title, own in (("Its own hyperparameters", True), ("Shared with other methods", False)):
        found = [field for field in fields if field.own == own]
        if found:
            console.print()
            _line(console, f"{title} (--set NAME=VALUE):")
        for field in found:
            _print_field(field, console)


def _print_field(field: "DescribedField", console: "Console") -> None:
    """Print a field; the paper's values stand before its default."""
    default = f"default {field.default}" if field.default else "no default"
    kind = ", ".join(filter(None, [field.type, field.range, default]))
    _line(console, f"{field.name} ({kind})", 2)
    if field.meaning:
        _line(console, field.meaning, 6)
    if field.published:
        _line(console, f"published: {'; '.join(field.published)}", 6)


def _line(console: "Console", text: str, indent: int = 0) -> None:
    """Print a text, which is Markdown for the site, with all of its lines indented."""
    import textwrap

    blank = " " * indent
    lines = textwrap.fill(
        text.replace("`", ""),
        console.width,
        initial_indent=blank,
        subsequent_indent=blank,
        break_long_words=False,
        break_on_hyphens=False,
    )
    console.print(lines, soft_wrap=True)
