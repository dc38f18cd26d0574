"""What every figure of the page means."""

from __future__ import annotations

from html import escape

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


def definitions() -> str:
    """Return the section."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _DEFINITIONS.items())
    return f'<h2>Definitions</h2><dl class="defs">{rows}</dl>'
