"""The page as a whole, and its head."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from motionkit._version import __version__
from motionkit.clips.profile._notes import notes
from motionkit.clips.profile._profile import Profile
from motionkit.clips.profile._suggest import Suggestion
from motionkit.clips.profile.page._captions import captions
from motionkit.clips.profile.page._definitions import definitions
from motionkit.clips.profile.page._faults import faults
from motionkit.clips.profile.page._inventory import inventory
from motionkit.clips.profile.page._joints import joints
from motionkit.clips.profile.page._movement import movement
from motionkit.clips.profile.page._settings import settings
from motionkit.clips.profile.page._unusual import unusual
from motionkit.page.style import STYLE
from motionkit.page.wording import capped, duration, metres, plain

MARK = '<meta name="generator" content="motionkit profile">'
"""What only such pages have, near their beginning."""


def is_profile_page(path: Path) -> bool:
    """Whether a file is a page of `profile_page`."""
    with path.open("rb") as file:
        return MARK.encode() in file.read(1024)


def profile_page(
    profile: Profile, suggestions: Sequence[Suggestion] = (), *, title: str = "", command: str = "", made: str = ""
) -> str:
    """Return a whole HTML page.

    Args:
        profile: The statistics.
        suggestions: Settings to list with their reasons.
        title: Name of the data set.
        command: The command line that made it, so that it can be made again.
        made: When, as text.
    """
    body = "".join(
        [
            _head(profile, title, command, made),
            movement(profile),
            captions(profile),
            joints(profile),
            faults(profile),
            unusual(profile),
            inventory(profile),
            settings(suggestions),
            definitions(),
        ]
    )
    name = escape(title or "a dataset")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{MARK}'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Profile of {name}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _head(profile: Profile, title: str, command: str, made: str) -> str:
    seconds = sum(row.seconds for row in profile.rows)
    # A wide rate list would make a tile of its own width; the rest is in the inventory.
    rates = [f"{fps:g}" for fps in profile.fps]
    tiles = [
        ("clip" if len(profile.rows) == 1 else "clips", f"{len(profile.rows):,}"),
        ("in all", duration(seconds)),
        ("frames", f"{profile.frames:,}"),
        ("frames per second", " / ".join(rates[:3]) + (" / ..." if len(rates) > 3 else "")),
        ("captions", f"{profile.captions.captions:,}"),
        ("mean speed", metres(profile.speed.mean, "m/s")),
        ("contact ratio", plain(profile.contacts.ratio)),
        ("complexity, 0 to 2", capped(profile.complexity, profile.complexity_uncapped)),
    ]
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{_value(value)}</dd></div>" for name, value in tiles)
    found = "".join(
        f"<li>{f'<b>{escape(one.head)}</b>' if one.bad else escape(one.head)}{escape(one.rest)}</li>"
        for one in notes(profile)
    )
    # Word by word, so that a line does not end within an option.
    words = " ".join(f"<span>{escape(word)}</span>" for word in command.split(" "))
    source = f"<code>{words}</code><br>" if command else ""
    when = f"made {escape(made)} by " if made else "made by "
    return (
        f"<header><h1>Profile of {escape(title or 'a dataset')}</h1>"
        f'<p class="sub">{source}{when}motionkit {__version__}; every figure is defined at the end of the page</p>'
        f'</header><dl class="tiles">{cells}</dl>' + (f'<ul class="notes">{found}</ul>' if found else "")
    )


def _value(value: str) -> str:
    """Return a tile's figure; its unit, and what stands in brackets, in smaller type."""
    head, space, rest = value.partition(" ")
    small = space and not rest.startswith("/") and head[:1].isdigit()
    return f"{escape(head)} <small>{escape(rest)}</small>" if small else escape(value)
