"""The player as a page of its own (`player_html`), or as a part of another page (`player_fragment`).

`document` is what the script is given: positions are integers in tenths of a millimetre, stored as second differences
in bytes of variable length (`encode`).
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from motionkit.errors import MotionkitError
from motionkit.motion.motion import ranges
from motionkit.player._figure import Figure, figure_of
from motionkit.player._track import PlayerTrack
from motionkit.rigs import find_feet, soft_contacts
from motionkit.rigs.detect import PERSON_LEG, UNITS
from motionkit.rigs.roles import CENTRE, SIDED, find_roles
from motionkit.rigs.upright import UP_TABLE
from motionkit.runs import write_bytes_atomic

STEP = 1e-4
"""Metres per unit of a stored position."""

MAX_TRACKS = 48
"""Most tracks on one page, which a browser can draw at once."""

MAX_VALUES = 12_000_000
"""Most stored numbers on one page: about 16 MB of file and 50 MB in a browser."""

_RATES = (60.0, 30.0, 20.0, 15.0, 10.0)

_WANTED = "The dashed line is the path that was asked for; the ring is where it has the root now."

Ints = npt.NDArray[np.int64]

_IDEAS = (
    *("codec", "camera", "names", "bvh", "glb", "feet", "up", "measure", "body", "figure", "scene"),
    *("panels", "labels", "edges", "lanes", "save", "input"),
)
_PARTS = tuple(f"{idea}.js" for idea in _IDEAS)
_SCRIPTS = (*_PARTS, "player.js")

_NO_SCRIPT = "<noscript>This view of a motion needs JavaScript.</noscript>"


def player_html(tracks: Sequence[PlayerTrack], *, title: str = "") -> str:
    """Return a whole page that shows tracks side by side or overlaid, without external resources.

    ``#t=2.5`` after the page's address opens it at 2.5 seconds.

    Args:
        tracks: The tracks to show; skeletons, frame rates and lengths may differ.
        title: Title of the page; any text.
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
    """Return a player for use inside another page: an element ``motionkit-player`` with the height of its style.

    A page may hold any number of them: each isolates its style and its names in a shadow tree. It starts paused,
    listens to keys when it has the focus, and to the wheel once it was clicked.

    Args:
        tracks: The tracks to show.
        title: Its heading; any text.
        assets: Put `player_assets` in front. Once per page is enough.
        attributes: Attributes of the element: ``autoplay``; ``overlay`` to begin with all motions in one picture;
            ``page`` if it is alone; ``theme="dark"`` or ``theme="light"`` instead of the system's choice;
            ``time="1.5"``, the second to start at.
    """
    data = json.dumps(document(tracks, title=title), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    before = player_assets() if assets else ""
    element = " ".join(["motionkit-player", *attributes])
    script = f'<script type="application/json">{inert(data)}</script>'
    return f"{before}<{element}>{script}{_NO_SCRIPT}</motionkit-player>"


def player_assets() -> str:
    """Return the script that all players of a page share."""
    return f"<script>{_script()}</script>\n"


def write_player(path: Path, tracks: Sequence[PlayerTrack], *, title: str = "") -> None:
    """Write `player_html` to a file.

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


def document(tracks: Sequence[PlayerTrack], *, title: str, fps: float = math.inf) -> dict[str, Any]:
    """Return the data of one player as plain JSON values.

    Data beyond what a browser can show is thinned out, as listed in the document's `notes`.

    Args:
        tracks: The tracks to show.
        title: Any text.
        fps: Most frames per second to keep.
    """
    if not tracks:
        raise MotionkitError("there is no motion to show.")
    notes = []
    kept = list(tracks[:MAX_TRACKS])
    rate = min(_rate(kept), fps)
    while _values(kept, rate) > MAX_VALUES and len(kept) > 1:
        kept.pop()
    if len(kept) < len(tracks):
        notes.append(f"The first {len(kept)} of {len(tracks)} motions are shown; a page holds no more.")
    parts = []
    about: dict[str, list[str]] = {}
    for track in kept:
        part, remarks = _track(track, rate, wanted=fps)
        parts.append(part)
        for remark in remarks:
            about.setdefault(remark, []).append(part["title"])
    for remark, titles in about.items():
        if len(titles) == len(kept):
            notes.append(remark)
        else:
            notes += [f"{title}: {remark}" for title in titles]
    return {"schema": 1, "title": plain_text(title), "step": STEP, "notes": notes, "tracks": parts}


def plain_text(text: str) -> str:
    """Return text that UTF-8 can encode: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _rate(tracks: Sequence[PlayerTrack]) -> float:
    """Return the highest frame rate at which all tracks fit; the lowest one if none does."""
    fitting = (rate for rate in (math.inf, *_RATES) if _values(tracks, rate) <= MAX_VALUES)
    return next(fitting, _RATES[-1])


def _stride(track: PlayerTrack, rate: float) -> int:
    return max(1, math.ceil(track.fps / rate - 1e-6))


def _values(tracks: Sequence[PlayerTrack], rate: float) -> int:
    return sum(math.ceil(track.frames / _stride(track, rate)) * len(track.parents) * 3 for track in tracks)


def _track(track: PlayerTrack, rate: float, *, wanted: float) -> tuple[dict[str, Any], list[str]]:
    """Return one track's part of the document, and notes on what was left out."""
    notes = list(track.notes)
    stride = _stride(track, rate)
    if stride > _stride(track, wanted):
        notes.append(f"Every {_ordinal(stride)} frame is shown, {track.fps / stride:g} of {track.fps:g} per second.")
    limit = max(1, MAX_VALUES // (len(track.parents) * 3)) * stride
    if track.frames > limit:
        notes.append(f"The first {limit / track.fps:.0f} of {track.duration:.0f} seconds are shown.")
    keep = slice(0, limit, stride)
    figure = figure_of(track)
    gaps = ranges(~figure.shown)
    if gaps:
        named = ", ".join(f"{start}-{stop - 1}" if stop - start > 1 else f"{start}" for start, stop in gaps[:5])
        more = f" and {len(gaps) - 5} more" if len(gaps) > 5 else ""
        plural = "s" if len(gaps) > 1 or gaps[0][1] - gaps[0][0] > 1 else ""
        notes.append(f"Frame{plural} {named}{more} have no finite positions; the figure disappears there.")
    if track.path is not None:
        notes.append(_WANTED)
    part = {
        "title": plain_text(track.title),
        "fps": track.fps / stride,
        "stride": stride,
        "fileFps": track.fps,
        "frames": len(figure.positions[keep]),
        "duration": min(track.frames, limit) / track.fps,
        "joints": len(track.parents),
        "positions": encode(_units(figure.positions[keep])),
        "gaps": [list(run) for run in ranges(~figure.shown[keep])],
        "names": [plain_text(name) for name in track.names or ("",) * len(track.parents)],
        "roles": find_roles(track.names, track.parents),
        "feet": find_feet(track.names, track.parents),
        "contacts": _contacts(_stands(track, figure), keep),
        "path": "" if track.path is None else encode(_units(track.path[keep].detach().cpu().double())),
        "segments": [
            {"text": plain_text(text), "start": float(start), "end": float(end), "score": score}
            for (text, start, end), score in zip(track.segments, track.scores or _unscored(track), strict=True)
        ],
        "colour": track.colour,
        **({"links": True} if track.radii else {}),  # drawn by its own radii, never with the skin of a person
        **_drawn(figure, keep),
    }
    return part, notes


def _drawn(figure: Figure, keep: slice) -> dict[str, Any]:
    """Return the drawing data of a figure."""
    head = figure.head
    return {
        "root": figure.root,
        "bones": [list(bone) for bone in figure.bones],
        "lone": list(figure.lone),
        "radii": list(figure.radii),
        "sides": "".join(figure.sides),
        "head": [head.at, head.origin, head.reach, head.radius] if head else None,
        "height": round(figure.height, 4),
        "middle": round(figure.middle, 4),
        "reach": round(figure.reach, 4),
        "follow": encode(_units(figure.follow[keep])),
        "centre": [round(value, 4) for value in figure.centre],
        "spread": round(figure.spread, 4),
    }


def _units(values: torch.Tensor) -> Ints:
    return (values.flatten(1) / STEP).round().numpy().astype(np.int64)


def _stands(track: PlayerTrack, figure: Figure) -> torch.Tensor | None:
    """Return measured contacts ``[T, 2]``; those of the track if its feet are not known by name."""
    feet = find_feet(track.names, track.parents)
    return track.contacts if feet is None else soft_contacts(figure.positions, track.fps, feet)


def _contacts(contacts: torch.Tensor | None, keep: slice) -> str:
    """Return soft contacts as one byte each, base64; empty if there are none."""
    if contacts is None:
        return ""
    soft = (contacts[keep].detach().cpu().double().clamp(0, 1) * 255).round()
    return base64.b64encode(soft.numpy().astype(np.uint8).tobytes()).decode("ascii")


def _unscored(track: PlayerTrack) -> list[None]:
    return [None] * len(track.segments)


def _ordinal(number: int) -> str:
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else last}"


def encode(values: Ints) -> str:
    """Return whole numbers ``[T, N]`` as text: second differences over T, zigzag, base-128 bytes, base64.

    Motion is smooth, so most second differences fit into one or two bytes. The encoding is lossless.
    """
    first = np.diff(values, axis=0, prepend=0)
    second = np.diff(first, axis=0, prepend=0).ravel()
    zigzag = (second << 1) ^ (second >> 63)
    groups = zigzag[:, None] >> (7 * np.arange(5))
    # A byte is written if any bits of the number remain; all but a number's last byte have the top bit set.
    written = groups > 0
    written[:, 0] = True
    more = np.zeros_like(written)
    more[:, :-1] = written[:, 1:]
    return base64.b64encode(((groups & 127) | (more << 7))[written].astype(np.uint8).tobytes()).decode("ascii")


@cache
def look() -> dict[str, Any]:
    """Return the colours and angles shared by page and video."""
    values: dict[str, Any] = json.loads(_resource("look.json"))
    return values


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """Join the player's sources into one script that defines only its element."""
    ui = f"<style>{_resource('player.css')}</style>{_resource('player.html')}"
    constants = (
        f"const LOOK = {json.dumps(look())};\nconst NAMES = {known_names()};\nconst UI = {inert(json.dumps(ui))};"
    )
    sources = "\n".join(_resource(name) for name in _SCRIPTS)
    return f"(() => {{\n'use strict';\n{constants}\n{sources}\n}})();"


def known_names() -> str:
    """Return the script's tables of rigs and units as JSON, the same as those of the readers here."""
    units = {name: unit.metres for name, unit in UNITS.items()}
    tables = {"sided": SIDED, "centre": CENTRE, "units": units, "leg": PERSON_LEG, "most": MAX_TRACKS, "up": UP_TABLE}
    return json.dumps(tables)


def inert(text: str) -> str:
    """Escape JSON so that an HTML parser finds no markup in it."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
