"""Where files of the repository are in the site, and links between them.

Pages link to each other as files do, so that they can be read without the site: ``../README.md``, ``../examples/...``,
``../motionkit/rl/_plan.py``. In the site a linked file outside ``docs/`` is a page or a copy below ``files/``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(
    r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[ \t]*$|`[^`\n]+`|(?P<text>!?\[[^\]]*\])\((?P<target>[^()\s]+)\)",
    re.M | re.S,
)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/", re.I)
_OWN = {
    "README.md": "index.md",
    "README.zh-CN.md": "index.zh-CN.md",
    "docs/README.md": "documentation.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "motionkit/starter/README.md": "starter.md",
}
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yaml": "yaml", ".sh": "bash", ".js": "javascript"}
_TEXTS = {*_LANGUAGES, ".txt", ".csv", ".cu", ""}


def place_of(file: str) -> str:
    """Return where a file or folder of the repository is in the site.

    Args:
        file: Its path from the root, with ``/``.
    """
    if (file_or_readme := _readme(file)) in _OWN:
        return _OWN[file_or_readme]
    words = file_or_readme.split("/")
    if words[0] == "docs":
        return "/".join(words[1:])
    if words[0] in ("examples", "plugins") and len(words) > 2 and words[-1].endswith(".md"):
        return f"{words[0]}/{words[1]}.md" if words[2:] == ["README.md"] else "/".join(words)
    if (ROOT / file).is_dir():
        return f"files/{file}/index.md"
    suffix = posixpath.splitext(file)[1]
    return f"files/{file}.md" if suffix in _TEXTS else f"files/{file}"


def _readme(file: str) -> str:
    """Return the README of a folder that has one; else the path itself."""
    inside = f"{file}/README.md" if file else "README.md"
    return inside if (ROOT / file).is_dir() and (ROOT / inside).is_file() else file


def targets(text: str, file: str) -> Iterator[str]:
    """Yield the files and folders of the repository that a page links to.

    Args:
        text: Its Markdown.
        file: Its path from the root.
    """
    for found in _LINK.finditer(text):
        if found["target"] and (path := _resolve(found["target"], file)) is not None:
            yield path


def rewritten(text: str, file: str, page: str) -> str:
    """Return a page with links to files as links of the site; those that lead nowhere stay, for MkDocs to report.

    Args:
        text: Its Markdown.
        file: Its path from the root of the repository.
        page: Its place in the site.
    """

    def put(found: re.Match[str]) -> str:
        if not found["target"] or (path := _resolve(found["target"], file)) is None:
            return found[0]
        anchor = found["target"].partition("#")[2]
        link = posixpath.relpath(place_of(path), posixpath.dirname(page) or ".")
        return f"{found['text']}({link}{'#' + anchor if anchor else ''})"

    return _LINK.sub(put, text)


def _resolve(target: str, file: str) -> str | None:
    """Return the path that a link means; None for one to elsewhere, or to nothing."""
    plain = target.partition("#")[0]
    if _ELSEWHERE.match(target) or not plain:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file), plain))
    inside = not path.startswith("..") and (ROOT / path).exists()
    return ("" if path == "." else path) if inside else None


def outside(starts: list[str], read: Callable[[str], str]) -> list[str]:
    """Return what pages link to, directly or through each other, that is not below ``docs/``.

    Args:
        starts: Paths of pages.
        read: Gives the text of one.
    """
    found: dict[str, None] = {}
    left = list(starts)
    while left:
        file = left.pop()
        for target in targets(read(file), file):
            target = _readme(target)
            if target not in found and target not in starts and not target.startswith("docs/"):
                found[target] = None
                if target.endswith(".md"):
                    left.append(target)
    return list(found)


def listing(file: str) -> str:
    """Return the page of a text file or a folder that has no page of its own.

    Raises:
        OSError: It cannot be read.
    """
    path = ROOT / file
    head = "---\nsearch:\n  exclude: true\n---\n"
    if path.is_dir():
        inside = sorted(one for one in path.iterdir() if one.name[0] not in "._" or one.name == "__init__.py")
        lines = [f"- `{one.name}`{'/' if one.is_dir() else ''}" for one in inside]
        return f"{head}# {file}/\n\nA folder of the repository:\n\n" + "\n".join(lines) + "\n"
    language = _LANGUAGES.get(path.suffix, "text")
    text = path.read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{head}# {posixpath.basename(file)}\n\n`{file}` of the repository.\n\n{fence}{language}\n{text}\n{fence}\n"
