"""``motionkit view``: from paths to a page that a browser opens.

`plan_view` decides where the page goes, `view` writes it: the player alone, or a page that browses clips. The latter is
one HTML file; beyond `ONE_FILE` clips or `ONE_FILE_BYTES` their motions are files in a folder next to it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from motionkit.clips.browse.card import Card, broken, card_of
from motionkit.clips.convert.report import grouped
from motionkit.clips.sources import FileSource
from motionkit.clips.walk import Step, walk
from motionkit.config import cache_folder
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip, ClipSource
from motionkit.motion.corpus.captions import CaptionTable
from motionkit.page.html import content_rules, html_page, is_made_by
from motionkit.page.wording import count, duration
from motionkit.player import MAX_TRACKS, PlayerTrack, inert, player_assets, write_player
from motionkit.player.files import shown_track
from motionkit.runs import require_writable, write_bytes_atomic

MADE_BY = "view"

ONE_FILE = 500
"""Clips that one page holds; the motions of more are files in a folder next to it."""

ONE_FILE_BYTES = 48_000_000
"""Characters of motions that one page holds; more are such files as well."""

_KEPT = 7 * 24 * 3600.0
"""Seconds that a page stays in the cache."""

_PLAYER = "player"
"""The maker that pages with the player alone name."""


@dataclass(frozen=True)
class ViewPlan:
    """The page to make."""

    browse: bool  # A page that browses clips; else the player alone
    page: Path  # The file to write
    title: str  # Names of the inputs


@dataclass
class View:
    """A page that was made."""

    page: Path  # The file to open
    clips: int = 0  # Clips that it shows
    folder: Path | None = None  # The folder of motions next to it; None if the page holds them
    failed: dict[str, str] = field(default_factory=dict)  # Clips that it does not show, and why
    warnings: list[str] = field(default_factory=list)  # What a person should look at, equal ones of clips as one

    @property
    def sentence(self) -> str:
        """A summary for the user."""
        folder = "" if self.folder is None else f" and {self.folder}/"
        return f"{count(self.clips, 'clip')} in {self.page}{folder}"


def plan_view(names: Sequence[str], page: Path | None, *, browse: bool) -> ViewPlan:
    """Decide where the page goes, and refuse one that would replace something else.

    Args:
        names: The inputs: paths, or ``starter``.
        page: The file that the user named; None for one in the cache.
        browse: Whether the page browses clips.
    """
    title = ", ".join(Path(name).name or name for name in names)
    if page is None:
        folder = cache_folder() / "view"
        _sweep(folder)
        places = "\n".join(str(Path(name).absolute()) for name in names)
        digest = hashlib.sha256(places.encode(errors="backslashreplace")).hexdigest()[:10]
        plain = re.sub(r"[^\w.-]+", "_", title)[:60]
        return ViewPlan(browse, folder / f"{plain}-{digest}.html", title)
    if page.suffix.lower() != ".html":
        raise MotionkitError(f"--out {page} is not a name of a page.", fix=f"--out {page}.html")
    require_writable(page, parents=True)
    if page.exists() and not (is_made_by(page, MADE_BY) or is_made_by(page, _PLAYER)):
        raise MotionkitError(f"{page} would be replaced, and it is not a page of motions.", fix="choose another name.")
    return ViewPlan(browse, page, title)


def view(
    plan: ViewPlan,
    sources: Sequence[ClipSource],
    *,
    table: CaptionTable | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> View:
    """Write the page.

    Args:
        plan: The page to make.
        sources: The clips.
        table: Captions and splits of the clips.
        jobs: Worker processes.
        progress: Called with each source's id when it is done.
    """
    rows, _ = table.deal({source.key: source.origin for source in sources}) if table is not None else ({}, [])
    jobs = jobs if all(isinstance(source, FileSource) for source in sources) else 1
    made = View(plan.page)
    tracks: list[PlayerTrack] = []
    browser = _Browser(plan, large=sum(len(rows.get(source.key, (None,))) for source in sources) > ONE_FILE)
    step: Step[Card | PlayerTrack | _Warned] = _card if plan.browse else _track
    keys: list[str] = []
    warnings: list[str] = []
    with closing(walk(sources, step, rows=rows, jobs=jobs, progress=progress)) as outcomes:
        for outcome in outcomes:
            made.failed |= outcome.failed()
            for result in outcome.results:
                if isinstance(result, _Warned):
                    keys.append(result.key)
                    warnings += [f"{result.key}: {text}" for text in result.warnings]
                    continue
                if isinstance(result, PlayerTrack):
                    tracks.append(result)
                    continue
                browser.add(result)
                if result.motion is None:
                    made.failed[result.key] = result.about["why"]
            for key, error in outcome.problems.items():
                if plan.browse:
                    browser.add(broken(key, outcome.origin, error.sentence()))
    made.warnings = grouped(keys, warnings)
    made.clips = len(tracks) or browser.shown
    if not made.clips:
        raise MotionkitError(
            f"none of {count(len(sources), 'motion')} can be shown.",
            why="; ".join(f"{name}: {reason}" for name, reason in list(made.failed.items())[:3]),
        )
    if plan.browse:
        made.folder = browser.write()
    else:
        for track in tracks[MAX_TRACKS:]:
            made.failed[track.title] = f"a page shows {MAX_TRACKS} motions side by side; view a folder to browse more."
        made.clips = min(len(tracks), MAX_TRACKS)
        write_player(plan.page, tracks, title=plan.title if len(tracks) > 1 else "")
    return made


class _Warned(NamedTuple):
    """What the reader of a clip warned of."""

    key: str
    warnings: tuple[str, ...]


def _card(clip: Clip, key: str, origin: str) -> Iterable[Card | _Warned]:
    yield _Warned(key, clip.warnings)
    yield card_of(clip, key, origin)


def _track(clip: Clip, key: str, origin: str) -> Iterable[PlayerTrack | _Warned]:
    yield _Warned(key, clip.warnings)
    track = shown_track(clip, key)
    yield replace(track, notes=(*track.notes, *map(_sentence, clip.warnings)))


def _sentence(warning: str) -> str:
    return f"{warning[:1].upper()}{warning[1:]}"


class _Browser:
    """Collects clips for the page; if one page cannot hold their motions, they are written to files at once."""

    def __init__(self, plan: ViewPlan, *, large: bool) -> None:
        self.plan = plan
        self.clips: list[dict[str, Any]] = []
        self.folder: Path | None = None
        self.shown = 0
        self._size = 0
        if large:
            self._divide()

    def add(self, card: Card) -> None:
        """Add a clip."""
        clip = {**card.about, "number": len(self.clips)}
        self.clips.append(clip)
        if card.motion is None:
            return
        self.shown += 1
        if self.folder is not None:
            self._put(clip, card.motion)
            return
        clip["motion"] = card.motion
        self._size += len(_as_text(card.motion))
        if len(self.clips) > ONE_FILE or self._size > ONE_FILE_BYTES:
            self._divide()

    def write(self) -> Path | None:
        """Write the page, and return the folder next to it, if there is one."""
        folder = "" if self.folder is None else self.folder.name
        if self.folder is None:
            _empty(_folder_of(self.plan.page))
        text = _browser_page(self.plan.title, self.clips, folder=folder)
        self._save(self.plan.page, text)
        return self.folder

    def _divide(self) -> None:
        """Move the motions into files."""
        self.folder = _folder_of(self.plan.page)
        _empty(self.folder)
        for clip in self.clips:
            if "motion" in clip:
                self._put(clip, clip.pop("motion"))

    def _put(self, clip: dict[str, Any], motion: dict[str, Any]) -> None:
        assert self.folder is not None
        clip["file"] = f"{clip['number']:06d}.js"
        self._save(self.folder / clip["file"], _motion_file(clip["number"], motion))

    def _save(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes_atomic(path, text.encode())
        except OSError as error:
            raise MotionkitError(f"cannot write {path}: {error.strerror or error}.", code=1) from error


def _folder_of(page: Path) -> Path:
    return page.with_name(f"{page.stem}.motions")


def _empty(folder: Path) -> None:
    """Remove the motions of an earlier page; other files stay."""
    with suppress(OSError):
        for path in folder.glob("[0-9]" * 6 + ".js"):
            path.unlink()
        folder.rmdir()


def _sweep(folder: Path) -> None:
    """Remove pages from the cache that are older than a week."""
    with suppress(OSError):
        for path in folder.iterdir():
            if time.time() - path.stat().st_mtime > _KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _browser_page(title: str, clips: Sequence[Mapping[str, Any]], *, folder: str = "") -> str:
    """Return the page.

    Args:
        title: Any text.
        clips: `Card.about` of each clip, with ``motion``, the player's document, if the page holds it, else with
            ``file``, the name of its file in `folder`.
        folder: Name of the folder next to the page that holds the motions; empty if the page does.
    """
    seconds = sum(float(clip.get("seconds", 0.0)) for clip in clips)
    total = f"{count(len(clips), 'clip')}, {duration(seconds)}"
    data = inert(_as_text({"folder": folder, "clips": list(clips)}))
    body = (
        f"<style>{_file('browse.css')}</style>"
        f'<div class="browse">{_file("browse.html")}</div>'
        f'<script type="application/json" id="clips">{data}</script>'
        f"<noscript>{escape('This page needs JavaScript.')}</noscript>"
    )
    body = body.replace("{{title}}", escape(title)).replace("{{total}}", escape(total))
    scripts = f"{player_assets()}<script>{_file('browse.js')}</script>"
    rules = content_rules(scripts, loads=bool(folder))
    return html_page(title, body, made_by=MADE_BY, scripts=scripts, rules=rules)


def _motion_file(number: int, motion: Mapping[str, Any]) -> str:
    """Return the script that hands the motion of a clip to the page."""
    return f"motionkitMotion({number}, {inert(_as_text(motion))});\n"


def _as_text(value: object) -> str:
    """Return compact JSON that UTF-8 can encode."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
