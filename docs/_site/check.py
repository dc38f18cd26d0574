"""Check a built site: every link leads to a page and a place in it, and no page loads anything from elsewhere.

    python docs/_site/check.py build/site

Prints the number of pages and links; exit code 1 where one is broken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}


class _Page(HTMLParser):
    """Links, loads and places of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADS and given.get(_LOADS[tag]):
            self.loads.append(given[_LOADS[tag]])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.loads.append(given["href"])


def read(path: Path) -> _Page:
    """Return what a page holds."""
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults(site: Path) -> Iterator[str]:
    """Yield a sentence for each link or load that is wrong.

    Args:
        site: Folder of the built site.
    """
    # Files of the repository that pages show are no pages of ours.
    own = [path for path in sorted(site.rglob("*.html")) if path.relative_to(site).parts[0] not in ("files", "media")]
    pages = {path: read(path) for path in own}
    known = dict(pages)
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    yield f"{name} loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.path.startswith("/"):  # of the page for addresses that do not exist
                target = (site / unquote(parts.path).lstrip("/")).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target.suffix == ".html":
                there = known.get(target) or known.setdefault(target, read(target))
                if unquote(parts.fragment) not in there.places:
                    yield f"{name}: {link} has no such place"


def main(site: Path) -> int:
    """Check a site and return the exit code."""
    site = site.resolve()
    found = list(faults(site))
    for line in found:
        print(line)
    print(f"{sum(1 for _ in site.rglob('*.html'))} pages, {len(found)} broken links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
