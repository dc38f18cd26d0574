"""Events of MkDocs: pages that code makes, links between files, equations without scripts, Chinese pages."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

os.environ["MOTIONKIT_PLUGINS"] = ""  # the site is about motionkit's own plugins, whatever else is installed

import links
import pages
from latex2mathml.converter import convert
from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
_CHINESE = ".zh-CN.md"
_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)
_KINDS = {"algorithms": "algorithms", "rewards": "rewards"}
"""Folders of docs/ whose pages are named after plugins, and the kind of these."""

_files: dict[str, str] = {}
"""Place in the site -> file of the repository, of the pages that are Markdown files."""


def _read(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8") if file.endswith(".md") else ""


def on_config(config: Any) -> Any:
    """Fill the sections of the navigation."""
    own = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    extra = {links.place_of(f"examples/{path.parent.name}/README.md") for path in ROOT.glob("examples/*/README.md")}
    chinese = sorted(page for page in own if page.endswith(_CHINESE))
    named = {page for page in _flat(config.nav) if page.endswith(".md")}
    below = {name: sorted(page for page in own if page.startswith(f"{name}/") and page not in named) for name in _KINDS}
    taken = {*named, *chinese, "README.md", *(page for found in below.values() for page in found)}
    sections: dict[str, list[Any]] = {
        "tutorials": sorted(extra),
        "guides": ["documentation.md", *sorted(own - taken)],
        "commands": ["commands/index.md", *({one.words: one.page} for one in pages.commands())],
        "plugins": [f"plugins/{kind}.md" for kind in ("datasets", "policies", "environments", "loops")],
        "api": pages.api_nav(),
        "chinese": ["index.zh-CN.md", *chinese],
        **below,
    }
    config.nav = _filled(config.nav, sections)
    return config


def _flat(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in _flat(part)]


def _filled(nav: Any, sections: dict[str, list[Any]]) -> Any:
    if isinstance(nav, dict):
        return {title: _filled(part, sections) for title, part in nav.items()}
    if isinstance(nav, list):
        filled: list[Any] = []
        for part in nav:
            filled += sections[part] if isinstance(part, str) and part in sections else [_filled(part, sections)]
        return filled
    return nav


def on_files(files: Any, config: Any) -> Any:
    """Add what lies outside ``docs/``, and what code makes."""
    files.remove(files.get_file_from_path("README.md"))
    _files.clear()
    for file in files.documentation_pages():
        _files[file.src_uri] = f"docs/{file.src_uri}"
    starts = ["README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/README.md"]
    starts += [path.relative_to(ROOT).as_posix() for path in ROOT.glob("examples/*/README.md")]
    starts += ["motionkit/starter/README.md", *_files.values()]
    for file in starts:
        if file not in _files.values():
            _files[links.place_of(file)] = file
            files.append(_page(config, links.place_of(file), file))
    for file in links.outside(starts, _read):
        place = links.place_of(file)
        if file.endswith(".md"):
            _files[place] = file
            files.append(_page(config, place, file, InclusionLevel.NOT_IN_NAV))
        elif place.endswith(".md"):
            content = links.listing(file)
            files.append(File.generated(config, place, content=content, inclusion=InclusionLevel.NOT_IN_NAV))
        else:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / file)))
    for place, content in pages.generated().items():
        files.append(File.generated(config, place, content=content))
    style = (ROOT / "docs/_site/site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "_site.css", content=style))
    return files


def _page(config: Any, place: str, file: str, inclusion: Any = InclusionLevel.UNDEFINED) -> File:
    return File.generated(config, place, abs_src_path=str(ROOT / file), inclusion=inclusion)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links to files into links of the site, and add settings and audit to the pages of plugins."""
    place = page.file.src_uri
    if (file := _files.get(place)) is None:
        return markdown
    markdown = links.rewritten(markdown, file, place)
    folder, name = posixpath.split(place.removesuffix(".md"))
    if folder in _KINDS and name in pages.names(_KINDS[folder]):
        found = pages.audit_table(_read("docs/rewards.md"), name) if folder == "rewards" else ""
        if found:
            about = "../rewards.md#what-a-reward-does-not-see"
            markdown += (
                f"\n\n## Audit\n\nWhat each change of real clips costs ([how it is measured]({about})).\n\n{found}"
            )
        markdown += "\n\n" + pages.plugin_tail(_KINDS[folder], name)
    return markdown


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Turn equations into MathML, which browsers draw without a script."""

    def put(found: re.Match[str]) -> str:
        text = found[3].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return convert(text.strip(), display="inline" if found[2] == "(" else "block")

    return _EQUATION.sub(put, html)


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Offer the other language where there is one."""
    place = page.file.src_uri
    english = place.replace(_CHINESE, ".md")
    chinese = english.removesuffix(".md") + _CHINESE
    config.extra.pop("alternate", None)
    if chinese in _files and english in _files:
        config.extra["alternate"] = [
            {"name": "English", "lang": "en", "link": english.removesuffix(".md") + ".html"},
            {"name": "中文", "lang": "zh-CN", "link": chinese.removesuffix(".md") + ".html"},
        ]
    return context


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Say the language of Chinese pages."""
    return (
        output.replace('<html lang="en"', '<html lang="zh-CN"', 1) if page.file.src_uri.endswith(_CHINESE) else output
    )
