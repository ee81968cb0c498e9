"""Hooks of mkdocs for building the site: pages that are not files of docs/, and their links.

The pages of the root (README.md, CONTRIBUTING.md, ...) and one page for each method are added. The
links in a page are written for a reader of the repository. In the site, a link to another page is
changed to where that page is, and a link to a file that is no page becomes its text.
"""

import os
import re
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from fields import method_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from harness.plugin import registry

CHECKOUT = Path(__file__).resolve().parent.parent
FROM_THE_ROOT = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}
"""Page of the site -> file of the checkout"""
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that a pattern of the navigation stands for in its place."""
    pages = [path.relative_to(config.docs_dir) for path in Path(config.docs_dir).rglob("*.md")]
    names = [*(page.as_posix() for page in pages), *map(_page_of, registry.names())]
    config.nav = _expanded(config.nav, sorted(names))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    for page, source in FROM_THE_ROOT.items():
        text = (CHECKOUT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for name in registry.names():
        files.append(File.generated(config, _page_of(name), content=method_page(name)))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Turn links between files of the checkout into links between pages of the site."""
    here = page.file.src_uri
    source = PurePosixPath(FROM_THE_ROOT.get(here, f"docs/{here}"))

    def link(match: re.Match[str]) -> str:
        if ":" in match["target"]:
            return match[0]
        file = os.path.normpath(source.parent / match["target"])
        target = _site_page(file)
        if target is None or files.get_file_from_path(target) is None:
            return match["text"] if (CHECKOUT / file).exists() else match[0]
        to = os.path.relpath(target, PurePosixPath(here).parent)
        return f"[{match['text']}]({to}{match['anchor'] or ''})"

    parts = FENCE.split(markdown)
    return "".join(part if FENCE.match(part) else LINK.sub(link, part) for part in parts)


def _page_of(method: str) -> str:
    return f"methods/{method}.md"


def _site_page(file: str) -> str | None:
    """The page of the site that shows a file of the checkout."""
    pages = {source: page for page, source in FROM_THE_ROOT.items()}
    return pages.get(file, file.removeprefix("docs/") if file.startswith("docs/") else None)


def _expanded(nav: Any, pages: list[str]) -> Any:
    """The navigation with each pattern (`papers/*.md`) replaced by the pages that it matches."""
    if isinstance(nav, dict):
        return {title: _expanded(part, pages) for title, part in nav.items()}
    if not isinstance(nav, list):
        return nav
    entries: list[Any] = []
    for part in nav:
        if isinstance(part, str) and "*" in part:
            entries += [page for page in pages if fnmatch(page, part) and page not in nav]
        else:
            entries.append(_expanded(part, pages))
    return entries
