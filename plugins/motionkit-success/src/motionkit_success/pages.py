"""Pages of learned rewards: a classifier's figures, collected episodes, films of a trained actor."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.page.curves import Chart, Curve, curves
from motionkit.page.histogram import histogram
from motionkit.page.html import definitions, figure, grid, note, result_page, stored_picture, table, tiles
from motionkit.runs.sections import Section, Sections
from motionkit.runs.source import Source
from motionkit.tracking import titled
from motionkit_success.episodes import ARTIFACT, Episodes, open_episodes
from motionkit_success.evaluation.report import FILE, RewardReport, Strip, load_strips

CHARTS = (
    Chart(
        "Classifier on validation episodes",
        titled("classifier/auroc", "classifier/average_precision"),
        "The weights with the highest average precision are kept.",
    ),
    Chart(
        "Success",
        {
            "true": "success/true",
            "predicted": "success/predicted",
            "watched starts": "success/watched",
            "watched starts, predicted": "success/watched_predicted",
        },
        "Share of the newest episodes, true by the environment and predicted by the reward. Where the lines part, the "
        "policy pleases the reward without the task.",
        zero=True,
        steps=True,
    ),
)
"""Charts of what is logged while training."""


# Runs of reward-train, and the page of ``eval reward``

_FOLDER, _REPORT = "figures", "report.json"
_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAILS"}
_TONES = {"ok": "good", "warn": "warn", "fail": "bad"}
_HEADS = {
    "false alarm": "Taken for success, and none: what a policy would be rewarded for wrongly",
    "missed": "Success that was not seen",
}
_SHOWN = 96  # least pixels that a frame is shown at


def reward(source: Source) -> str:
    """Return the sections of a run of reward-train; empty for any other run."""
    if "checks" not in source.info.summary:
        return ""
    folder = source.info.directory / _FOLDER
    try:
        report = read_json(folder / _REPORT, dict)
        strips = load_strips(folder / FILE)
    except MotionkitError as error:
        return f"<h2>Held-out episodes</h2>{note(f'The figures cannot be shown: {error.message}')}"
    tables = source.info.tables[:1]
    return reward_sections(report, strips, tables)


def reward_sections(
    report: Mapping[str, Any],  # `RewardReport.document`; not trusted, as all that is read from a file
    strips: Sequence[Strip],  # the worst errors
    tables: Sequence[Mapping[str, Any]],  # tables of figures as the console shows them
) -> str:
    """Return checks, figures, charts and film strips, as far as they are there."""
    shown = "".join(
        f"<h3>{escape(str(figures.get('title', '')))}</h3>"
        + table(figures["columns"], figures["rows"], numbers=range(1, 2), kind="cards")
        for figures in tables
    )
    return (
        f"<h2>Held-out episodes</h2>{_tiles(report.get('heldout'))}{shown}"
        + _checks(report.get("checks"))
        + _charts(report.get("curves"), report.get("heldout"))
        + film_strips(strips)
    )


def film_strips(strips: Sequence[Strip]) -> str:
    """Return the worst errors as rows of frames, each frame with its label and its probability."""
    if not strips:
        return f"<h2>Worst errors</h2>{note('No held-out frame is on the wrong side of the threshold.')}"
    words = (
        "Frames in the order of time; the framed one is wrong. Below each: its label and the probability of success. "
        "One of an episode, the worst first."
    )
    parts = [note(words)]
    for kind, head in _HEADS.items():
        of_kind = [strip for strip in strips if strip.kind == kind]
        if of_kind:
            parts.append(f"<h3>{escape(head)}</h3>" + "".join(map(_strip, of_kind)))
    return "<h2>Worst errors</h2>" + "".join(parts)


def evaluation_page(document: Mapping[str, Any], report: RewardReport) -> str:
    """Return the page of ``eval reward`` from its document and the measurement."""
    title = f"eval reward: {document['model']}"
    facts = {
        "classifier": f"{document['architecture']}, {document['cameras']}",
        "data": ", ".join(document["data"]),
        "frames": f"{report.heldout['n']:,} of {report.heldout['episodes']} episodes, "
        f"{report.heldout['positives']:,} of success",
    }
    parts = [
        *(note(text) for text in document["notes"]),
        reward_sections(report.document(), report.strips, report.tables("Figures")[:1]),
        f"<h2>How it was measured</h2>{definitions(facts)}",
    ]
    see = "docs/reward-models.md says what each figure means."
    sentence = report.sentence[:1].upper() + report.sentence[1:]
    return result_page(title, [sentence], parts, made_by="eval", see=see)


def png(image: NDArray[np.uint8]) -> str:
    """Return an image ``[H, W, 3]`` as a ``data:`` address."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _tiles(heldout: object) -> str:
    names = {"auroc": "AUROC", "precision": "precision", "recall": "recall", "threshold": "threshold"}
    values = heldout if isinstance(heldout, Mapping) else {}
    shown = {key: values.get(key) for key in names}
    return tiles((names[key], f"{value:.3f}") for key, value in shown.items() if isinstance(value, (int, float)))


def _checks(checks: object) -> str:
    rows, tones = [], []
    for check in checks if isinstance(checks, list) else []:
        if not isinstance(check, Mapping):
            continue
        value = check.get("value")
        shown = f"{value:.3g}" if isinstance(value, (int, float)) else "-"
        status = str(check.get("status"))
        rows.append((check.get("name", ""), _MARKS.get(status, status), shown, check.get("limit", ""),
                     check.get("meaning", "")))  # fmt: skip
        tones.append(_TONES.get(status, ""))
    if not rows:
        return ""
    words = "A policy finds every weakness of its reward. Train none on a classifier that fails one of these."
    drawn = table(("check", "result", "value", "limit", "what it says"), rows, numbers=(2,))
    for tone, row in zip(tones, rows, strict=True):  # the colour only repeats the word
        drawn = drawn.replace(f'<td data-label="result">{row[1]}</td>', f'<td data-label="result" class="{tone}">'
                              f"{row[1]}</td>", 1)  # fmt: skip
    return f"<h2>Checks</h2>{note(words)}{drawn}"


def _charts(data: object, heldout: object) -> str:
    if not isinstance(data, Mapping):
        return ""
    try:
        threshold = float(heldout["threshold"]) if isinstance(heldout, Mapping) else 0.5
        bins = data["reliability"]
        line = [(float(x), float(y)) for x, y in zip(bins["said"], bins["was"], strict=True)]
        roc, pr = ([(float(x), float(y)) for x, y in data[name]] for name in ("roc", "pr"))
        scores = {name: [int(many) for many in data["scores"][name]] for name in ("success", "other")}
    except (KeyError, TypeError, ValueError):
        return note("The charts cannot be drawn: report.json is damaged.")
    even = Curve("even", [(0.0, 0.0), (1.0, 1.0)], dashed=True)
    shown = [
        figure(
            curves([Curve("classifier", roc), Curve("chance", even.points, dashed=True)],
                   x_label="false positive rate", y_label="true positive rate", above=True),
            "Share of successes found against share of other frames taken for one, over all thresholds.",
            title="ROC",
        ),
        figure(
            curves([Curve("classifier", pr)], x_label="recall", y_label="precision", above=True),
            "With few successes this says more than the ROC.", title="Precision and recall",
        ),
        figure(
            curves([Curve("classifier", line, dots=True), even], x_label="probability said",
                   y_label="share that were successes", above=True) if line else "",
            "On the dashed line a probability of 0.8 is right in 8 of 10 frames.", title="Calibration",
        ),
        *(
            figure(
                histogram(0.0, 1 / len(scores[name]), scores[name], label="probability", unit="of success", of="frames",
                          marks={"threshold": threshold}),
                words, title=title,
            )
            for name, title, words in (
                ("success", "Scores of successes", "Those left of the threshold are missed."),
                ("other", "Scores of other frames", "Those right of the threshold are false alarms."),
            )
        ),
    ]  # fmt: skip
    return f"<h2>Curves on held-out episodes</h2>{grid(shown)}"


def frame(
    address: str,
    width: int,  # its pixels; small ones are enlarged
    words: str,
    *,
    wrong: bool = False,  # whether it is marked as an error
    good: bool = False,  # whether it is marked as a success
) -> str:
    """Return a frame of a film strip."""
    kind = ' class="wrong"' if wrong else ' class="right"' if good else ""
    return (
        f'<figure{kind}><img src="{address}" width="{max(_SHOWN, width)}" alt="{escape(words)}">'
        f"<figcaption>{escape(words)}</figcaption></figure>"
    )


def _strip(strip: Strip) -> str:
    cells = [
        frame(
            png(image), strip.frames.shape[2], f"{'success' if label > 0.5 else 'no success'}, {probability:.2f}",
            wrong=place == strip.at,
        )
        for place, (image, probability, label) in enumerate(zip(strip.frames, strip.before, strip.labels, strict=True))
    ]  # fmt: skip
    head = f"{strip.episode}, step {strip.step}, camera {strip.camera}: {strip.probability:.3f}"
    return f'<p class="cap">{escape(head)}</p><div class="strip">{"".join(cells)}</div>'


# Runs that collected episodes

_STRIPS, _FRAMES = 3, 8
"""Episodes of a class, and frames of each."""

_SIDE = 128
_COLLECTED_HEADS = {"positive": "Episodes with a success", "negative": "Episodes without"}


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
        table(summary["columns"], summary["rows"], numbers=range(1, len(summary["columns"])), kind="plain result")
        for summary in source.info.tables[:1]
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
    for name, members in (("positive", positive), ("negative", ~positive)):
        numbers = np.flatnonzero(members)
        if not len(numbers):
            parts.append(f"<h3>{_COLLECTED_HEADS[name]}</h3>{note('There is none.')}")
            continue
        chosen = numbers[np.linspace(0, len(numbers) - 1, min(_STRIPS, len(numbers))).astype(np.int64)]
        parts.append(
            f"<h3>{_COLLECTED_HEADS[name]}</h3>"
            + "".join(_collected_strip(episodes, int(number), camera) for number in chosen)
        )
    return "<h2>What the camera saw</h2>" + "".join(parts)


def _collected_strip(episodes: Episodes, number: int, camera: str) -> str:
    indices: NDArray[np.int64] = np.flatnonzero(episodes.episode == number)
    index = indices[np.unique(np.linspace(0, len(indices) - 1, _FRAMES).astype(np.int64))]
    images = episodes.read(index)[camera]
    stride = max(1, round(max(images.shape[1:3]) / _SIDE))
    cells = "".join(
        frame(
            png(np.ascontiguousarray(image[::stride, ::stride])),
            image.shape[1] // stride,
            f"step {step}",
            good=label > 0.5,
        )
        for image, step, label in zip(images, episodes.step[index], episodes.labels[index], strict=True)
    )
    record = episodes.records[number]
    head = f"{record.id}, {record.frames} frames, collected by {record.source}"
    return f'<p class="cap">{escape(head)}</p><div class="strip">{cells}</div>'


# Runs of ppo

_FILMS_FOLDER, _BEFORE, _INDEX = "films", "films-before", "films.json"
_MOST, _BYTES = 12, 4 << 20
"""Films that are shown, and the largest one."""


def success(source: Source) -> str:
    """Return the section of films of a run of ppo, each before and after training; empty for any other run."""
    folder, before = (source.info.directory / name for name in (_FILMS_FOLDER, _BEFORE))
    if not (folder / _INDEX).is_file():
        return ""
    try:
        later = read_json(folder / _INDEX, list)
        earlier = read_json(before / _INDEX, list) if (before / _INDEX).is_file() else []
    except MotionkitError as error:
        return f"<h2>Episodes after training</h2>{note(f'The films cannot be shown: {error.message}')}"
    rows = []
    for number, film in enumerate(later[:_MOST]):
        first = _film(before, earlier[number], "before: ") if number < len(earlier) else ""
        if after := _film(folder, film, "after: " if first else ""):
            rows.append(f'<div class="strip pair">{first}{after}</div>')
    if not rows:
        return ""
    # Older runs have no films of before.
    title = "Episodes before and after training" if earlier else "Episodes after training"
    words = "The first held-out episodes, as the camera saw them" + (
        ": on the left before training, on the right after it, from the same start." if earlier else "."
    )
    more = " Below each: what the environment said of it" + (
        ", and the reward."
        if any(isinstance(film, dict) and film.get("predicted") is not None for film in later)
        else "."
    )
    return f"<h2>{title}</h2>{note(words + more)}{grid(rows)}"


def _film(folder: Path, film: object, when: str) -> str:
    if not isinstance(film, dict):
        return ""
    address = stored_picture(folder, film.get("file"), most=_BYTES)
    if not address:
        return ""
    words = when + _word(film.get("success"))
    if film.get("predicted") is not None:
        words += f"; reward: {_word(film.get('predicted'))}"
    kind = "" if film.get("success") else ' class="wrong"'
    return f'<figure{kind}><img src="{address}" alt="{escape(words)}"><figcaption>{escape(words)}</figcaption></figure>'


def _word(value: object) -> str:
    return "success" if value else "no success"


def _of(source: Source) -> Section:
    """Return a classifier's figures, collected episodes and a policy's films."""
    return Section(reward(source) + collected(source) + success(source))


SECTIONS = Sections(_of)
