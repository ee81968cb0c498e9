"""Lines of Markdown are as short as those of the code."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 100


def test_no_line_of_prose_is_longer_than_a_line_of_code() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("benchmarks/**/*.md")]
    assert len(pages) > 20
    too_long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST and not _whole(line)
    ]
    assert too_long == []


def _whole(line: str) -> bool:
    """Whether it cannot be broken: a row of a table, code, a numbered message or an address."""
    return line.startswith(("|", "    ")) or line[:1].isdigit() or "](" in line or "http" in line
