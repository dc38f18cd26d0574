"""Contact sheets of what `motionkit generate` makes of prompts, for somebody who judges them by eye.

    python tests/studies/prompts/sheets.py PROMPTS.txt OUT            # a prompt a line; "-" reads stdin
    python tests/studies/prompts/sixty.py INDEX.csv | python tests/studies/prompts/sheets.py - OUT
    python tests/studies/prompts/sheets.py PROMPTS.txt OUT -- --as-typed   # what follows goes to generate

Each prompt is typed alone, as a user does, with seed 0. OUT, which must be new, gets ``000.png``, ``001.png``, ... and
``prompts.json`` and ``prompts.csv`` with a row a prompt: what was typed, what the command said (whole, on stderr), the
warning of the prompt and the caption that it was read as, where it has them, and measures of the motion. A sheet has 14
frames, the first and the last among them, in two rows: seen from its right side, so that the direction that it faces
at the start is to the right in the picture, and seen from the front; and at the right the path from above. Left limbs
are blue, right ones red. The nose is where the head joint is ahead of the neck: all that joints tell of where it looks.
Each picture is centred on the pelvis: travel is seen in the path and in the row of metres.

``PYTHONPATH=OTHER/CHECKOUT`` makes the sheets of another version.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from motionkit.cli import get_app
from motionkit.motion import HUMANML

FRAMES = 14
CELL, TALL, ABOVE, TOP = (
    110,
    190,
    300,
    40,
)  # pixels: width and height of a picture, width of the path, height of the head
SCALE = 82.0  # pixels a metre
LEFT, RIGHT, MIDDLE = (40, 90, 210), (210, 50, 40), (40, 40, 40)

Array = NDArray[np.float64]


def main() -> None:
    """Make the sheets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", help="a file, or - for stdin")
    parser.add_argument("out", type=Path)
    parser.add_argument("options", nargs="*", help="options of generate, after --")
    asked = parser.parse_args()
    text = sys.stdin.read() if asked.prompts == "-" else Path(asked.prompts).read_text(encoding="utf-8")
    prompts = [line.strip() for line in text.splitlines() if line.strip()]
    asked.out.mkdir(parents=True)
    rows = []
    for number, prompt in enumerate(prompts):
        row, joints, fps = made(prompt, asked.options)
        row = {"number": number, "prompt": prompt, **row}
        if joints is not None:
            row |= measured(joints, fps)
            sheet(joints, fps, f"{number:03d}  {prompt}").save(asked.out / f"{number:03d}.png", optimize=True)
        rows.append(row)
        print(f"{number:03d} {prompt}", file=sys.stderr)
    (asked.out / "prompts.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (asked.out / "prompts.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)


def made(prompt: str, options: list[str]) -> tuple[dict[str, Any], Array | None, float]:
    """Return what generate said of a prompt, and its joints ``[T, 22, 3]`` in metres; none if it was refused."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        result = CliRunner().invoke(
            get_app(), ["generate", "-", str(out), "--seed", "0", "--device", "cpu", *options], input=f"{prompt}\n"
        )
        lines = [line for line in result.stderr.splitlines() if line.strip() and str(out) not in line]
        said: dict[str, Any] = {"exit": result.exit_code, "said": "\n".join(lines)}
        if result.exit_code:
            return said, None, 0.0
        document = json.loads((out / "motions.json").read_text(encoding="utf-8"))
        (entry,) = document["motions"]
        for name in ("read_as", "left_out", "warning"):  # of the segments; versions before have none
            found = [str(value) for part in entry["segments"] if (value := part.get(name))]
            said[name] = " | ".join(found)
        if "warning" not in entry["segments"][0] and any(line.startswith("warning") for line in lines):
            said["warning"] = said["warning"] or "\n".join(lines)
        return said, np.load(out / entry["joints"]).astype(np.float64), float(document["fps"])


def facing(joints: Array) -> Array:
    """Return the horizontal directions ``[T, 3]`` that hips and shoulders face, of length 1."""
    name = HUMANML.joint_names.index
    across = joints[:, name("left_hip")] - joints[:, name("right_hip")]
    across = across + joints[:, name("left_shoulder")] - joints[:, name("right_shoulder")]
    ahead = np.cross(across, [0.0, 1.0, 0.0])
    ahead[:, 1] = 0
    return np.asarray(ahead / np.maximum(np.linalg.norm(ahead, axis=1, keepdims=True), 1e-9))


def measured(joints: Array, fps: float) -> dict[str, float]:
    """Return measures that help to judge: metres, metres a second, degrees (to the left positive), seconds."""
    name = HUMANML.joint_names.index
    root, ahead = joints[:, 0], facing(joints)
    velocity = np.diff(root, axis=0) * fps
    velocity[:, 1] = 0
    left = np.cross([0.0, 1.0, 0.0], ahead)
    yaw = np.unwrap(np.arctan2(ahead[:, 0], ahead[:, 2]))
    low = joints[:, [name("left_foot"), name("right_foot")], 1].min(axis=1)
    hands = {side: joints[:, name(f"{side}_wrist")] for side in ("left", "right")}
    feet = {side: joints[:, name(f"{side}_foot")] for side in ("left", "right")}
    facts = {
        "seconds": len(joints) / fps,
        "path_m": np.linalg.norm(velocity, axis=1).sum() / fps,
        "speed_ahead_m_s": (velocity * ahead[:-1]).sum(1).mean(),
        "speed_left_m_s": (velocity * left[:-1]).sum(1).mean(),
        "turn_deg": np.degrees(yaw[-1] - yaw[0]),
        "turned_in_all_deg": np.degrees(np.abs(np.diff(yaw)).sum()),
        "pelvis_lowest_m": root[:, 1].min(),
        "pelvis_highest_m": root[:, 1].max(),
        "in_the_air_s": float((low - low.min() > 0.06).sum()) / fps,
    }
    face = joints[:, name("head")] - joints[:, name("neck")]
    aside = np.degrees(np.arctan2((face * left).sum(1), (face * ahead).sum(1)))
    down = np.degrees(np.arctan2((face * ahead).sum(1), face[:, 1]))
    facts |= {
        "head_turned_left_most_deg": aside.max(),
        "head_turned_right_most_deg": -aside.min(),
        "head_tilted_ahead_deg_from": down.min(),
        "head_tilted_ahead_deg_to": down.max(),
    }
    for side in ("left", "right"):
        facts[f"{side}_hand_highest_m"] = hands[side][:, 1].max()
        facts[f"{side}_hand_speed_m_s"] = np.linalg.norm(np.diff(hands[side] - root, axis=0), axis=1).mean() * fps
        facts[f"{side}_foot_highest_m"] = feet[side][:, 1].max()
    return {key: round(float(value), 3) for key, value in facts.items()}


def sheet(joints: Array, fps: float, title: str) -> Image.Image:
    """Return the picture of a motion."""
    width = FRAMES * CELL + ABOVE
    picture = Image.new("RGB", (width, TOP + 2 * TALL), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((6, 4), title, fill="black", font_size=15)
    draw.text(
        (6, 23),
        "above: from its right side, ahead at the start = right; below: from the front; blue: left limbs, red: right",
        fill="gray",
        font_size=11,
    )
    times = np.linspace(0, len(joints) - 1, FRAMES).round().astype(int)
    first = facing(joints)[0]
    left = np.cross([0.0, 1.0, 0.0], first)
    for place, frame in enumerate(times):
        body = joints[frame] - joints[frame, 0] * [1.0, 0.0, 1.0]
        moved = joints[frame, 0] - joints[0, 0]
        x = place * CELL
        for row, direction in enumerate((first, left)):
            floor = TOP + (row + 1) * TALL - 16
            draw.line([(x, floor), (x + CELL, floor)], fill=(190, 190, 190))
            draw.line([(x, TOP + row * TALL), (x, TOP + (row + 1) * TALL)], fill=(230, 230, 230))
            # The right limbs are drawn last, as they are nearer from the right side.
            points = np.stack([x + CELL / 2 + SCALE * body @ direction, floor - SCALE * body[:, 1]], axis=1)
            figure(draw, points, body @ np.stack([direction, [0.0, -1.0, 0.0]], axis=1))
        draw.text((x + 3, TOP + 2), f"{frame / fps:.1f} s", fill="gray", font_size=10)
        draw.text((x + 3, TOP + TALL - 14), f"ahead {moved @ first:+.1f}", fill="gray", font_size=10)
        draw.text((x + 3, TOP + 2 * TALL - 14), f"left {moved @ left:+.1f}", fill="gray", font_size=10)
    above(draw, joints, times, first, left, FRAMES * CELL)
    return picture


def figure(draw: ImageDraw.ImageDraw, points: Array, flat: Array) -> None:
    """Draw a body whose joints ``[22, 2]`` are in pixels; `flat` are they in metres, for the nose."""
    for colour in (MIDDLE, LEFT, RIGHT):
        for joint, parent in enumerate(HUMANML.parents):
            if parent >= 0 and colour_of(joint) == colour:
                draw.line([tuple(points[parent]), tuple(points[joint])], fill=colour, width=3)
    x, y = points[HUMANML.joint_names.index("head")]
    draw.ellipse([x - 7, y - 9, x + 7, y + 5], outline=MIDDLE, width=2)
    nose = flat[HUMANML.joint_names.index("head")] - flat[HUMANML.joint_names.index("neck")]
    draw.line([(x, y - 2), (x + 130 * nose[0], y - 2)], fill=MIDDLE, width=2)


def colour_of(joint: int) -> tuple[int, int, int]:
    """Return the colour of a bone by the joint at its end."""
    name = HUMANML.joint_names[joint]
    return LEFT if name.startswith("left") else RIGHT if name.startswith("right") else MIDDLE


def above(
    draw: ImageDraw.ImageDraw, joints: Array, times: NDArray[np.int64], first: Array, left: Array, x: int
) -> None:
    """Draw the path from above, the direction faced at the start up, with a tick where it faces at each time."""
    ahead = facing(joints)
    path = np.stack([-(joints[:, 0] - joints[0, 0]) @ left, (joints[:, 0] - joints[0, 0]) @ first], axis=1)
    size = max(2.0, float(np.ptp(path, axis=0).max()) + 0.8)
    scale, middle = (ABOVE - 40) / size, (path.max(0) + path.min(0)) / 2
    centre = np.array([x + ABOVE / 2, TOP + TALL])

    def at(point: Array) -> tuple[float, float]:
        place = centre + scale * (point - middle) * [1, -1]
        return float(place[0]), float(place[1])

    draw.rectangle([x + 4, TOP + 2, x + ABOVE - 4, TOP + 2 * TALL - 4], outline=(200, 200, 200))
    draw.text(
        (x + 10, TOP + 6),
        f"from above; ahead at the start = up; the box is {size * ABOVE / (ABOVE - 40):.1f} m wide",
        fill="gray",
        font_size=11,
    )
    draw.line([at(point) for point in path], fill=(150, 150, 150), width=2)
    for number, frame in enumerate(times, start=1):
        toward = np.array([-(ahead[frame] @ left), ahead[frame] @ first])
        start, end = at(path[frame]), at(path[frame] + toward * 18 / scale)
        draw.line([start, end], fill=(20, 130, 60), width=2)
        draw.ellipse([start[0] - 3, start[1] - 3, start[0] + 3, start[1] + 3], fill=(20, 130, 60))
        if number in (1, FRAMES):
            draw.text((start[0] + 5, start[1] - 5), "start" if number == 1 else "end", fill="black", font_size=11)


if __name__ == "__main__":
    main()
