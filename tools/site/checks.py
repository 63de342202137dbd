"""Checks of the pages that were built: links that lead nowhere, and files that would come from a network."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.demo import remote_references


class _Page(HTMLParser):
    """The links of a page, and the places in it that links can name."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value or "")
            elif name in ("href", "src") and tag != "base":
                self.links.append(value or "")


def faults(folder: Path) -> list[str]:
    """The faults of the pages of a folder: sentences, each with the page that it is about."""
    pages = {file: _parsed(file) for file in sorted(folder.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        name = file.relative_to(folder).as_posix()
        found += [f"{name}: {text}" for text in _lost(file, page, pages)]
        found += [f"{name}: loads {one} from a network" for one in remote_references(file.read_text("utf-8"))]
    for style in sorted(folder.rglob("*.css")):
        addresses = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)", style.read_text("utf-8"))
        found += [f"{style.relative_to(folder).as_posix()}: loads {one} from a network" for one in addresses]
    return found


def _parsed(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text("utf-8"))
    page.close()
    return page


def _lost(file: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    """The links of a page that lead nowhere in the site."""
    for link in dict.fromkeys(page.links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
        if target.is_dir() or not target.exists():
            yield f"the link {link} leads to no file"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
            yield f"the link {link} leads to no place in its page"
