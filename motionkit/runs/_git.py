"""Reads the commit of a git work tree from the files of its `.git`.

No git command is called: a `.git` folder that came with an archive may name programs (`core.fsmonitor`, filters)
that git starts. This module only reads a few small text files.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from motionkit.runs._tree import is_inside

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LIMIT = 16 * 2**20
"""Most bytes read of a file; enough for packed-refs with 200,000 names."""


def commit_of(folder: Path) -> str | None:
    """Return the checked-out commit of the work tree around `folder`; None outside of one, or when it cannot be
    read."""
    for place in (folder, *folder.parents):
        if os.path.lexists(git := place / ".git"):
            return _head(_linked(git, git, "gitdir: "))
    return None


def _head(git: Path) -> str | None:
    head = _text(git / "HEAD").strip()
    name = head.removeprefix("ref: ")
    if name == head or not name.startswith("refs/") or not is_inside(name):
        return _as_hash(head)
    # A work tree added by `git worktree add` shares most of its refs with the first one.
    common = _linked(git, git / "commondir")
    packed = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", _text(common / "packed-refs"), re.MULTILINE)
    found = [_text(git / name), _text(common / name), packed[1] if packed else ""]
    return next(filter(None, (_as_hash(text.strip()) for text in found)), None)


def _linked(folder: Path, file: Path, prefix: str = "") -> Path:
    """Return the folder that a text file names, relative to where the file is; `folder` when there is no such file."""
    text = _text(file).rstrip("\r\n")
    named = text.startswith(prefix) and "\0" not in text and text.removeprefix(prefix)
    return file.parent / named if named else folder


def _as_hash(text: str) -> str | None:
    return text if _HASH.fullmatch(text) else None


def _text(path: Path) -> str:
    """Return the text of a regular file, at most `_LIMIT` bytes of it; empty when it cannot be read."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_LIMIT).decode(errors="replace") if regular else ""
    except (OSError, ValueError):
        return ""
