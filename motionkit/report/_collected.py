"""What reward-collect collected: counts, when success comes, and film strips of both classes."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.episodes import ARTIFACT, Episodes, open_episodes
from motionkit.errors import MotionkitError
from motionkit.page import figure, grid, histogram, note, table, tiles
from motionkit.report._reward import frame, png
from motionkit.report._source import Source

_STRIPS, _FRAMES = 3, 8
"""Episodes of a class, and frames of each."""

_SIDE = 128
_HEADS = {"positive": "Episodes with a success", "negative": "Episodes without"}


def collected(source: Source) -> str:
    """Return the sections of a run that collected episodes; empty for any other run."""
    folder = source.info.directory / ARTIFACT
    if not folder.is_dir():
        return ""
    try:
        episodes = open_episodes(folder)
    except MotionkitError as error:
        return f"<h2>Episodes</h2>{note(f'They cannot be shown: {error.message}')}"
    if not episodes.records:
        return f"<h2>Episodes</h2>{note('None is complete yet.')}"
    counts = episodes.counts()
    shown = tiles(
        [
            ("with a success", f"{counts['positive']['trajectories']:,}"),
            ("without", f"{counts['negative']['trajectories']:,}"),
            ("frames", f"{len(episodes):,}"),
            ("frames of success", f"{float(episodes.labels.mean()):.1%}"),
        ]
    )
    tables = "".join(
        table(one["columns"], one["rows"], numbers=range(1, len(one["columns"])), kind="plain result")
        for one in source.info.tables[:1]
    )
    return f"<h2>Episodes</h2>{shown}{tables}{_first(episodes)}{_strips(episodes)}"


def _first(episodes: Episodes) -> str:
    steps = episodes.step[episodes.labels > 0.5]
    owners = episodes.episode[episodes.labels > 0.5]
    if not len(steps):
        return ""
    firsts = steps[np.unique(owners, return_index=True)[1]]  # the first of each episode: frames are in its order
    bins = np.bincount(firsts, minlength=int(episodes.step.max()) + 1)
    chart = histogram(0.0, 1.0, bins.tolist(), label="first success", unit="step", of="episodes", marks={}, whole=True)
    words = "Successes that all come late leave few frames to learn from."
    return grid([figure(chart, words, title="When success comes")])


def _strips(episodes: Episodes) -> str:
    camera = next(iter(episodes.cameras))
    positive = np.array([record.positive for record in episodes.records])
    parts = [note(f"Camera {camera}, evenly spaced frames in the order of time. Framed: the task is fulfilled.")]
    for name, own in (("positive", positive), ("negative", ~positive)):
        numbers = np.flatnonzero(own)
        if not len(numbers):
            parts.append(f"<h3>{_HEADS[name]}</h3>{note('There is none.')}")
            continue
        chosen = numbers[np.linspace(0, len(numbers) - 1, min(_STRIPS, len(numbers))).astype(np.int64)]
        parts.append(f"<h3>{_HEADS[name]}</h3>" + "".join(_strip(episodes, int(one), camera) for one in chosen))
    return "<h2>What the camera saw</h2>" + "".join(parts)


def _strip(episodes: Episodes, number: int, camera: str) -> str:
    own: NDArray[np.int64] = np.flatnonzero(episodes.episode == number)
    index = own[np.unique(np.linspace(0, len(own) - 1, _FRAMES).astype(np.int64))]
    images = episodes.read(index)[camera]
    every = max(1, round(max(images.shape[1:3]) / _SIDE))
    cells = "".join(
        frame(
            png(np.ascontiguousarray(image[::every, ::every])),
            image.shape[1] // every,
            f"step {step}",
            good=label > 0.5,
        )
        for image, step, label in zip(images, episodes.step[index], episodes.labels[index], strict=True)
    )
    record = episodes.records[number]
    head = f"{record.id}, {record.frames} frames, collected by {record.source}"
    return f'<p class="cap">{escape(head)}</p><div class="strip">{cells}</div>'
