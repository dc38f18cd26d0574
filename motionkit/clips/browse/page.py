"""The page that browses clips: one HTML file, and beyond some size a folder of motions beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from motionkit.page.html import count, duration, html_page
from motionkit.player import inert, player_assets

MADE_BY = "view"


def browser_page(title: str, clips: Sequence[Mapping[str, Any]], *, folder: str = "") -> str:
    """Return the page.

    Args:
        title: What is looked at; any text.
        clips: What it knows of each clip: `Card.about`, with ``motion``, the player's document, where the page holds
            it, else with ``file``, the name of its file in `folder`.
        folder: Name of the folder beside the page that holds the motions; empty where the page does.
    """
    seconds = sum(float(clip.get("seconds", 0.0)) for clip in clips)
    total = f"{count(len(clips), 'clip')}, {duration(seconds)}"
    data = inert(as_text({"folder": folder, "clips": list(clips)}))
    body = (
        f"<style>{_read('browse.css')}</style>"
        f'<div class="browse">{_read("browse.html")}</div>'
        f'<script type="application/json" id="clips">{data}</script>'
        f"<noscript>{escape('This page needs JavaScript.')}</noscript>"
    )
    body = body.replace("{{title}}", escape(title)).replace("{{total}}", escape(total))
    return html_page(title, body, made_by=MADE_BY, scripts=f"{player_assets()}<script>{_read('browse.js')}</script>")


def motion_file(number: int, motion: Mapping[str, Any]) -> str:
    """Return the script that brings the motion of a clip to the page."""
    return f"motionkitMotion({number}, {inert(as_text(motion))});\n"


def as_text(value: object) -> str:
    """Return JSON without blanks, as UTF-8 can write it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
