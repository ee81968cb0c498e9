"""Citations: every page, section and file that is cited exists; lines of Markdown are short."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT

# Citations: every page and every section that is cited exists, and so does every linked file.

ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
CITING_FOLDERS = ("harness", "methods", "tests", "benchmarks", "search_spaces", "results")

GAP = r"(?:[ \t]*\n[ \t]*#?[ \t]*|[ \t]+)"
"""Between two words: spaces, or a line end with the mark of a comment behind it"""
NUMBER = r"\d+(?:\.\d+)*"
CITATION = re.compile(
    rf"(?<![\w./-])(?P<page>(?:[\w-]+/)*[\w-]+\.md)\b"
    rf"(?:,{GAP}section{GAP}(?P<one>{NUMBER})"
    rf"|,{GAP}sections{GAP}(?P<several>(?:{NUMBER},{GAP})*{NUMBER}{GAP}and{GAP}{NUMBER}))?"
)
OTHER_FORM_BEFORE = re.compile(rf"sections?{GAP}{NUMBER}{GAP}of{GAP}$", re.IGNORECASE)
OTHER_FORM_BEHIND = re.compile(
    rf",?{GAP}(?:sections?{GAP})?\d|,?{GAP}(?:and|to|or){GAP}\d", re.IGNORECASE
)
FILE_NAME = re.compile(r"""(?<!["'])(["'])[\w./-]+\.md\1(?!["'])""")
"""A name in quotes is a file of the program, not a citation"""
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(rf"^##+ ({NUMBER})\.? ", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")

Pages = Mapping[str, set[str]]
"""Name of a page, or its path from the root -> numbers of its sections"""


def wrong_citations(text: str, pages: Pages) -> list[str]:
    """Faults of the citations in a text, in order, each with its line number."""
    text = FILE_NAME.sub(lambda name: " " * len(name[0]), text)
    return [
        f"line {text.count(chr(10), 0, found.start()) + 1}: {problem}"
        for found in CITATION.finditer(text)
        for problem in _problems(found, text, pages)
    ]


def _problems(match: re.Match[str], text: str, pages: Pages) -> Iterator[str]:
    page = match["page"]
    if page not in pages:
        yield f"there is no page {page}"
        return
    before, behind = text[: match.start()], text[match.end() :]
    if OTHER_FORM_BEFORE.search(before[-80:]) or OTHER_FORM_BEHIND.match(behind):
        yield f'write the sections as in "{page}, section 1.2" or "{page}, sections 1.2 and 3"'
    for number in re.findall(NUMBER, match["one"] or match["several"] or ""):
        if number not in pages[page]:
            yield f"{page} has no section {number}"


def numbered_sections(text: str) -> set[str]:
    """The numbers of a page's headings: `## 2. Name` and `### 2.1 Name` give 2 and 2.1."""
    return set(HEADING.findall(FENCE.sub("", text)))


def all_pages() -> Pages:
    """Pages of docs/ and of the root, by name; these and each folder's README.md also by path."""
    documents = [*CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("docs/papers/*.md")]
    documents += [path for name in ROOT_PAGES if (path := CHECKOUT / name).is_file()]
    pages: dict[str, set[str]] = {}
    for path in (*documents, *CHECKOUT.glob("*/README.md")):
        sections = numbered_sections(path.read_text("utf-8"))
        pages[path.relative_to(CHECKOUT).as_posix()] = sections
        if path in documents:
            pages.setdefault(path.name, set()).update(sections)
    return pages


def citing_files() -> Iterator[Path]:
    """All files that may cite, but for this one, which cites pages that do not exist."""
    for folder in CITING_FOLDERS:
        for ending in ("py", "yaml"):
            yield from sorted((CHECKOUT / folder).rglob(f"*.{ending}"))
    yield from sorted((CHECKOUT / "docs").rglob("*.md"))


@pytest.mark.slow
def test_every_cited_page_and_section_exists() -> None:
    pages = all_pages()
    wrong = []
    for path in citing_files():
        if path == Path(__file__).resolve():
            continue
        text = path.read_text("utf-8")
        if path.suffix == ".md":  # the targets of links are files, checked below
            text = LINK.sub("]", text)
        name = path.relative_to(CHECKOUT)
        wrong += [f"{name}, {problem}" for problem in wrong_citations(text, pages)]
    assert not wrong, "\n".join(wrong)


def test_every_relative_link_points_at_a_file() -> None:
    roots = [path for name in ROOT_PAGES if (path := CHECKOUT / name).is_file()]
    roots += CHECKOUT.glob("*/README.md")
    broken = [
        f"{path.relative_to(CHECKOUT)}: {target}"
        for path in (*roots, *sorted((CHECKOUT / "docs").rglob("*.md")))
        for target in LINK.findall(FENCE.sub("", path.read_text("utf-8")))
        if "://" not in target and not target.startswith(("#", "mailto:"))
        if not (path.parent / target.partition("#")[0]).exists()
    ]
    assert not broken, "\n".join(broken)


PLANTED: Pages = {"here.md": {"1", "1.2", "3"}, "docs/here.md": {"1", "1.2", "3"}}


def test_a_wrong_page_and_a_wrong_section_are_noticed() -> None:
    text = '''
    """A loss (here.md, section 1.2; gone.md, section 1)."""
    # see here.md, section
    # 4, and here.md, sections 1, 3 and 5.1.
    '''
    assert wrong_citations(text, PLANTED) == [
        "line 2: there is no page gone.md",
        "line 3: here.md has no section 4",
        "line 4: here.md has no section 5.1",
    ]


def test_right_forms_are_accepted_and_others_noticed() -> None:
    for text in (
        "here.md",
        '"""here.md, section 3."""',
        "(here.md, section 1.2, step 5)",
        "docs/here.md, sections 1 and 3; here.md",
        "a loss of here.md,\n    section 1.2: mean",
        'path / "table.md"',
    ):
        assert wrong_citations(text, PLANTED) == []
    for text in (
        "here.md, 1.2",
        "here.md 1.2 and 3",
        "here.md section 3",
        "Section 3 of here.md",
        "here.md, sections 1 to 3",
        "here.md, section 1 and 3",
    ):
        (problem,) = wrong_citations(text, PLANTED)
        assert problem.startswith("line 1: write the sections as in")


def test_sections_are_numbered_headings_outside_code() -> None:
    text = "# 9 Title\n## 1. One\n### 1.2 Two\n## Three\n```\n## 4. Code\n```\n"
    assert numbered_sections(text) == {"1", "1.2"}


# Lines of Markdown are as short as those of the code.


def test_no_line_of_prose_is_longer_than_a_line_of_code() -> None:
    pages = [
        *CHECKOUT.glob("*.md"),
        *(CHECKOUT / "docs").rglob("*.md"),
        *CHECKOUT.glob("benchmarks/**/*.md"),
    ]
    assert len(pages) > 20
    too_long = [
        f"{page.relative_to(CHECKOUT)}:{number}"
        for page in pages
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 100 and not _whole(line)
    ]
    assert too_long == []


def _whole(line: str) -> bool:
    """Whether it cannot be broken: a row of a table, code, a numbered message or an address."""
    return line.startswith(("|", "    ")) or line[:1].isdigit() or "](" in line or "http" in line


# tests/README.md: the tests that keep the promises of README and docs exist


ROWS = [
    line
    for line in (CHECKOUT / "tests" / "README.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and "](" in line.rpartition(" | ")[2]
]


def test_every_named_test_is_in_a_file_of_its_row() -> None:
    missing = []
    for row in ROWS:
        files = [CHECKOUT / "tests" / name for name in LINK.findall(row)]
        sources = [path.read_text("utf-8") for path in files if path.suffix == ".py"]
        missing += [
            name
            for name in re.findall(r"`(test_\w+)`", row)
            if not any(f"def {name}(" in source for source in sources)
        ]
        missing += [str(path) for path in files if not path.exists()]
    assert not missing
    assert len(ROWS) > 60
