"""The player as a page of its own, or as a part of another one."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.player._payload import document, plain_text
from motionkit.player._track import PlayerTrack
from motionkit.runs import write_bytes_atomic

_IDEAS = ("codec", "camera", "figure", "scene", "panels", "labels", "edges", "lanes", "input")
_PARTS = tuple(f"{idea}.js" for idea in _IDEAS)
_SCRIPTS = (*_PARTS, "player.js")

_NO_SCRIPT = "<noscript>This view of a motion needs JavaScript.</noscript>"


def player_html(tracks: Sequence[PlayerTrack], *, title: str = "") -> str:
    """Return a whole page that shows tracks side by side or overlaid; it needs no network and loads nothing.

    ``#t=2.5`` after the page's address opens it at 2.5 seconds.

    Args:
        tracks: What to show; skeletons, frame rates and lengths may differ.
        title: What the page is called; any text.

    Raises:
        MotionkitError: There is no track.
    """
    fragment = player_fragment(tracks, title=title, attributes=("page", "autoplay"))
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode("ascii")
    values = {
        "hash": f"sha256-{digest}",
        "title": html.escape(plain_text(title or tracks[0].title)),
        "light": look()["light"]["stage"],
        "dark": look()["dark"]["stage"],
        "player": fragment,
    }
    return re.sub(r"{{(\w+)}}", lambda match: values[match[1]], _resource("page.html"))


def player_fragment(
    tracks: Sequence[PlayerTrack], *, title: str = "", assets: bool = True, attributes: Sequence[str] = ()
) -> str:
    """Return a player for use inside another page: an element ``motionkit-player`` of the height its style gives it.

    Any number of them share a page: each keeps its style and its names to itself (a shadow tree). It starts paused,
    listens to keys when it has the focus, and takes the wheel once it was clicked.

    Args:
        tracks: What to show.
        title: Its heading; any text.
        assets: Put `player_assets` in front. One time per page is enough, more do no harm.
        attributes: Of the element: ``autoplay``; ``overlay`` to begin with all motions in one picture; ``page`` when
            it is alone; ``theme="dark"`` or ``theme="light"`` against the system's choice; ``time="1.5"``, the second
            that it begins at.

    Raises:
        MotionkitError: There is no track.
    """
    data = json.dumps(document(tracks, title=title), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    before = player_assets() if assets else ""
    element = " ".join(["motionkit-player", *attributes])
    script = f'<script type="application/json">{_inert(data)}</script>'
    return f"{before}<{element}>{script}{_NO_SCRIPT}</motionkit-player>"


def player_assets() -> str:
    """Return the script that all players of a page share."""
    return f"<script>{_script()}</script>\n"


def write_player(path: Path, tracks: Sequence[PlayerTrack], *, title: str = "") -> None:
    """Write `player_html` to a file.

    Raises:
        MotionkitError: There is no track, or the file cannot be written.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> track = PlayerTrack("walk", torch.from_numpy(walk.joints), HUMANML.parents, walk.fps)
        >>> write_player(Path("walk.html"), [track])
        >>> Path("walk.html").read_text()[:15]
        '<!doctype html>'
    """
    page = player_html(tracks, title=title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path, page.encode())
    except OSError as error:
        raise MotionkitError(f"cannot write {path}: {error.strerror or error}.") from error


@cache
def look() -> dict[str, Any]:
    """Return colours and angles that the page and the video share."""
    values: dict[str, Any] = json.loads(_resource("look.json"))
    return values


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """Join the player's sources into one script that leaves nothing behind but its element."""
    ui = f"<style>{_resource('player.css')}</style>{_resource('player.html')}"
    constants = f"const LOOK = {json.dumps(look())};\nconst UI = {_inert(json.dumps(ui))};"
    sources = "\n".join(_resource(name) for name in _SCRIPTS)
    return f"(() => {{\n'use strict';\n{constants}\n{sources}\n}})();"


def _inert(text: str) -> str:
    """Write JSON so that no HTML parser sees markup in it."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
