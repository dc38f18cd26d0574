"""A profile as one page of HTML: its head, its sections, and what every figure means."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from motionkit._version import __version__
from motionkit.clips.profile._notes import notes
from motionkit.clips.profile._page_charts import movement
from motionkit.clips.profile._page_sections import captions, faults, inventory, joints, settings, unusual
from motionkit.clips.profile._profile import Profile
from motionkit.clips.profile._suggestion import Suggestion
from motionkit.page import capped, definitions, duration, html_page, metres, plain, tiles

_DEFINITIONS = {
    "length": "seconds are frames over the clip's own frame rate. Bins of the histogram are whole steps of the lengths "
    "that occur.",
    "avg_seq_len, median_seq_len": "frames per clip, at the clips' own rates.",
    "yaw_mean_deg, yaw_std_deg": "|yaw| over all frames, unwrapped: RootYaw where a file has it, else the angle turned "
    "since the clip's first frame (line across hips and shoulders).",
    "yaw_circular_*": "of the direction faced since the first frame: circular mean, std = sqrt(-2 ln R), R = length of "
    "the mean vector.",
    "speed_mean, speed_std": "m/s of the root along the floor: RootVelocityXY where a file has it, else its steps.",
    "bone_angle_*": "degrees between each joint's local rotation and the rest pose, root and end sites left out; only "
    "for files with rotations.",
    "contact_ratio": "part of both feet's frames whose soft contact is above 0.5.",
    "complexity": "min(2, (yaw_std / 30° + speed_std / 0.3 m/s) / 2); uncapped is without the 2.",
    "jerk, skate": "mean third difference over joints in m/s³ and sliding speed of feet near the floor in m/s, both at "
    "20 frames per second.",
    "outlier": "modified z-score 0.6745 (x - median) / MAD of the logarithm above 3.5; jerk, skate and speed only "
    "upwards; for each figure one clip in twenty at most, since more are a second group. Compared from 8 clips on.",
    "square-root scale": "where one bar would flatten all others, heights are square roots; a bar of twice the height "
    "then stands for four times the number.",
}


def profile_page(
    profile: Profile,
    suggestions: Sequence[Suggestion] = (),
    use: str = "",
    *,
    title: str = "",
    command: str = "",
    made: str = "",
) -> str:
    """Return a whole HTML page.

    Args:
        profile: The statistics.
        suggestions: Settings to list with their reasons.
        use: What the settings are for.
        title: Name of the dataset.
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
            settings(suggestions, use),
            f"<h2>Definitions</h2>{definitions(_DEFINITIONS)}",
        ]
    )
    return html_page(f"Profile of {title or 'a dataset'}", body, made_by="profile")


def _head(profile: Profile, title: str, command: str, made: str) -> str:
    seconds = sum(row.seconds for row in profile.rows)
    # A wide rate list would make a tile of its own width; the rest is in the inventory.
    rates = [f"{fps:g}" for fps in profile.fps]
    values = [
        ("clip" if len(profile.rows) == 1 else "clips", f"{len(profile.rows):,}"),
        ("in all", duration(seconds)),
        ("frames", f"{profile.frames:,}"),
        ("frames per second", " / ".join(rates[:3]) + (" / ..." if len(rates) > 3 else "")),
        ("captions", f"{profile.captions.captions:,}"),
        ("mean speed", metres(profile.speed.mean, "m/s")),
        ("contact ratio", plain(profile.contacts.ratio)),
        ("complexity, 0 to 2", capped(profile.complexity, profile.complexity_uncapped)),
    ]
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
        f"</header>{tiles(values)}" + (f'<ul class="notes">{found}</ul>' if found else "")
    )
