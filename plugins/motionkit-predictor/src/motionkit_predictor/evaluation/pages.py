"""Pages of motion predictors: the sections of a run's page, and the page of ``eval mpl``.

Both show error against horizon, long runs, predictions with the truth in the player, and the worst clips.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import torch

from motionkit.documents import value_at
from motionkit.errors import MotionkitError
from motionkit.page.curves import Chart, Curve, curves
from motionkit.page.html import definitions, details, figure, grid, note, result_page, table
from motionkit.page.wording import count
from motionkit.player import PlayerTrack, player_assets, player_fragment
from motionkit.runs import RunInfo
from motionkit.runs.sections import Section, Sections
from motionkit.runs.source import Source, not_shown
from motionkit.tracking import definition
from motionkit_predictor.evaluation.kept import FILE, KeptClip, KeptPath, Predictions

_MODEL = "model"
_OPENED = 2  # players that are drawn at once; the others are drawn when a reader opens them
_BAD = {1: "Worst", 2: "Second worst", 3: "Third worst"}

_ROOM = 1.5  # the charts' upper end, as a multiple of the error of the last pose held
_VALIDATED = (100, 200, 400, 1000)  # milliseconds at which a predictor is validated

CHARTS = (
    Chart(
        "Skill while training",
        {"skill": "mpl/skill"},
        "Free runs on validation clips, mean over the horizons; 0 is no better than holding the last pose.",
        zero=True,
    ),
    Chart(
        "GeoDeg by ms ahead, degrees",
        {f"{ms}": f"mpl/geo_deg/{ms}" for ms in _VALIDATED},
        "Error of free runs on validation clips, 100 to 1000 ms ahead.",
        zero=True,
    ),
    Chart(
        "GeoDeg, teacher forcing, degrees",
        {f"{ms}": f"mpl/teacher_geo_deg/{ms}" for ms in _VALIDATED},
        "The same frames, each predicted from the true frames before it.",
        zero=True,
        alone=True,
    ),
    Chart(
        "Loss groups, % of the loss",
        {group: f"loss_group/{group}" for group in ("core", "aux", "long")},
        "Aim: core 65, aux 5, long 30. Out of balance: core above 80, aux above 15, long below 15.",
        zero=True,
        shares=True,
        alone=True,
    ),
    Chart(
        "Schedule: share and weight",
        {"teacher forcing": "teacher/share", "free-run weight": "freerun/weight"},
        "Share of frames predicted from the true frame before, and weight of the free run's loss.",
        zero=True,
        steps=True,
        alone=True,
    ),
    Chart(
        "Schedule: free run, frames",
        {"horizon": "freerun/horizon"},
        "Frames of the free run whose loss is minimised.",
        zero=True,
        steps=True,
        alone=True,
    ),
)
"""Charts of what is logged while training."""

_FIGURES = (
    ("geo_deg", "degrees", "Angle between predicted and true rotations so far ahead, mean over joints."),
    ("mpjpe_mm", "mm", "Distance of predicted to true joints, root at the origin and unturned."),
    ("skill", "1 is perfect", "1 - GeoDeg divided by that of the last pose held (at least 0.5); above 0 is better."),
)

_LONG = (
    ("free", "movement", "1 is that of reference clips", "Free runs: the joint that moves most in reference clips of "
     "the label, 0.5 to 5 Hz, over the 2 s before."),
    ("free", "slide", "m/s", "Free runs: how fast the lower foot goes along the ground, over the 2 s before."),
    ("drawn", "path_mean", "m", "Distance of the root to the timed point of drawn paths, mean until "
     "then. The dragged root is on it by definition."),
    ("drawn", "slide", "m/s", "The same slide along drawn paths."),
)  # fmt: skip
"""Charts of long runs: the kind of run, the figure, unit and caption."""

_SHOWN_SECONDS = 10.0


def read_predictions(info: RunInfo) -> tuple[Predictions | None, list[str]]:
    """Return the predictions that a run has kept, or None, and a note if they should be there and are not."""
    file = info.directory / "heldout" / FILE
    listed = info.record is not None and "heldout" in info.record.artifacts and "rows" in info.summary
    if not (file.exists() or listed):
        return None, []
    try:
        return Predictions.load(file), []
    except MotionkitError:
        return None, [not_shown(file)]


def evaluation_page(document: Mapping[str, Any], predictions: Predictions) -> str:
    """Return the page as HTML that loads nothing."""
    model = document.get("model")
    title = f"eval mpl: {model}" if model else "eval mpl: baselines"
    *notes, verdict = document["closing"]
    facts = {
        "clips": f"{count(document['clips'], 'clip')} of the {document['split']} split, "
        f"{count(document['windows'], 'window')}",
        "data": ", ".join(document["data"]),
        "known and predicted": f"{document['warmup']} and {document['horizon']} frames at {document['fps']:g} fps",
        "command": "the path of the root, for all of them" if document["future_command"] == "path" else "none",
    }
    tables = "".join(
        f"<h3>{escape(entry['title'])}</h3>" + table(entry["columns"], entry["rows"], numbers=entry["numbers"])
        for entry in document["table"]
    )
    parts = [
        "<h2>Figures</h2>",
        note("In brackets: 95 % intervals by bootstrap over takes.") if document["ci95"] else "",
        tables,
        *(note(text) for text in notes),
        predictor_sections(document["rows"], document["worst_clips"], predictions, document.get("long")),
        "<h2>How it was measured</h2>",
        definitions(facts),
    ]
    return result_page(
        title,
        [verdict[:1].upper() + verdict[1:]],
        parts,
        made_by="eval",
        see="docs/evaluation.md says what each figure means.",
    )


def predictor_sections(
    rows: object,  # ``rows`` of the document of ``eval mpl``; not trusted, as all that is read from a file
    worst: object,  # its ``worst_clips``
    predictions: Predictions | None,  # predictions to draw
    long: object = None,
) -> str:
    """Return error against horizon, long runs, predictions in the player, and the worst clips, each if it is there."""
    drawn = path_players(predictions) + players(predictions)
    assets = player_assets() if drawn else ""
    return error_curves(rows) + long_runs(long) + assets + drawn + worst_table(worst)


def long_runs(long: object) -> str:
    """Return alarms of runs of many seconds, charts of them against time, and the errors along each path."""
    if not isinstance(long, Mapping):
        return ""
    kinds = {"free": _at(long, "free", "rows"), "drawn": _at(long, "drawn", "mean")}
    real = _at(long, "free", "real")
    colours = {str(row): number for number, row in enumerate({**kinds["free"], **kinds["drawn"]})}
    shown = [
        chart
        for kind, name, unit, caption in _LONG
        if (
            chart := _figure(
                name, _long_title(kind, name), unit, caption, kinds[kind], label="seconds", colours=colours,
                level=real.get(name) if kind == "free" else None,
            )
        )
    ]  # fmt: skip
    if not shown:
        return ""
    alarms = long.get("alarms")
    alarm_notes = "".join(note(str(text)) for text in alarms) if isinstance(alarms, list) else ""
    tables = _paths_table(_at(long, "drawn", "paths")) + _labels_table(_at(long, "labels"))
    return f"<h2>Long runs</h2>{alarm_notes}{grid(shown)}{tables}"


def _at(table: object, *keys: str) -> Mapping[Any, Any]:
    value = value_at(table, *keys)
    return value if isinstance(value, Mapping) else {}


def _paths_table(paths: Mapping[Any, Any]) -> str:
    """Return mean distances from the timed points of each drawn path, by predictor, at the last time up to 10 s."""
    by_path = {str(path): _at(group, "rows") for path, group in paths.items()}
    names = list(dict.fromkeys(str(row) for rows in by_path.values() for row in rows))
    times = {time for rows in by_path.values() for row in rows.values() for time, _ in _points(row, "path_mean")}
    near = [time for time in times if time <= _SHOWN_SECONDS] or sorted(times)[:1]
    if not near:
        return ""
    far = max(near)
    cells = []
    for path, rows in by_path.items():
        values = [dict(_points(rows.get(name), "path_mean")).get(far) for name in names]
        cells.append((path, *(f"{value:.2f}" if value is not None else "-" for value in values)))
    words = f"Metres from the timed point of each drawn path, mean over {far:g} seconds."
    return note(words) + table(("path", *names), cells, numbers=range(1, len(names) + 1))


def _labels_table(labels: Mapping[Any, Any]) -> str:
    """Return the movement of free runs by label, with that of reference clips."""
    groups = {str(label): group for label, group in labels.items() if isinstance(group, Mapping)}
    times = sorted({time for group in groups.values() for time, _ in _points(group, "movement")})
    if not times:
        return ""
    cells = []
    for label, group in groups.items():
        shares = dict(_points(group, "movement"))
        metres = _at(group, "real").get("movement")
        cells.append((
            label or "without a caption",
            f"{group.get('clips')}" + ("" if group.get("goal") else ", too few to judge"),
            *(f"{shares[time]:.2f}" if time in shares else "-" for time in times),
            f"{metres:.3f}" if _finite(metres) else "-",
        ))  # fmt: skip
    words = (
        "Movement of free runs by label, as a share of that of its reference clips, which stands in the last column."
    )
    columns = ("label", "clips", *(f"{time:g} s" for time in times), "reference, m")
    return note(words) + table(columns, cells, numbers=range(2, len(columns)))


def _long_title(kind: str, name: str) -> str:
    return _title(f"mpl/long/{name}/<s>") + (" along paths" if (kind, name) == ("drawn", "slide") else "")


def _title(metric: str) -> str:
    title = definition(metric).title(metric)
    return title[:1].upper() + title[1:]


def error_curves(rows: object) -> str:
    """Return charts of errors against the horizon, a curve for the model and for each baseline."""
    if not isinstance(rows, Mapping):
        return ""
    far = _far_off(rows)
    near = {row: values for row, values in rows.items() if row not in far}
    shown = [
        chart
        for name, unit, caption in _FIGURES
        if (chart := _figure(name, _title(f"mpl/{name}"), unit, caption, near))
    ]
    if not shown:
        return ""
    left = ", ".join(f"{row} ({value:.1f}°)" for row, value in far.items())
    words = f"Beyond these charts: {left} at the furthest horizon; the table has it." if left else ""
    return f"<h2>Error against horizon</h2>{grid(shown)}{note(words)}"


def players(predictions: Predictions | None) -> str:
    """Return players with truth and prediction in one picture, the worst clips first."""
    if predictions is None:
        return ""
    good = [(clip, player) for clip in predictions.clips if (player := _player(clip, predictions))]
    if not good:
        return f"<h2>Predictions</h2>{note('The predictions that were kept cannot be drawn.')}"
    whose = "the model" if predictions.predictor == _MODEL else predictions.predictor
    seconds = predictions.known / predictions.fps
    words = (
        f"Prediction of {whose} over the clip itself, after {seconds:.2g} s that are known: "
        "the timeline shows where the prediction begins. Of each clip the window whose error is nearest to the clip's "
        "mean. They stand at the end; the button Overlay puts them side by side, space plays."
    )
    parts = [_head(clip, predictions) + player for clip, player in good[:_OPENED]]
    rest = "".join(
        details(f"{_place(clip, predictions)}: {_errors(clip.errors)}  {clip.key}", player)
        for clip, player in good[_OPENED:]
    )
    return f"<h2>Predictions</h2>{note(words)}{''.join(parts)}{rest}"


def path_players(predictions: Predictions | None) -> str:
    """Return players with the model's run along each drawn path, the one that is farthest off first."""
    if predictions is None or not predictions.paths:
        return ""
    order = sorted(predictions.paths, key=lambda path: -path.mean if math.isfinite(path.mean) else -math.inf)
    good = [(path, player) for path in order if (player := _path_player(path, predictions))]
    if not good:
        return ""
    seconds = (len(good[0][0].predicted) - predictions.known) / predictions.fps
    words = (
        f"The model along each drawn path for {seconds:.3g} s, from the start whose distance is nearest to the mean; "
        "the path that it is farthest from comes first. The dashed line is the path, the ring is where it has the root "
        "now."
    )
    titles = [f"{path.title}: {path.mean:.2f} m off in the mean, {path.end:.2f} m at the end" for path, _ in good]
    opened = f'<h3>{escape(titles[0])} <span class="prompt">from {escape(good[0][0].key)}</span></h3>{good[0][1]}'
    rest = "".join(
        details(f"{title}, from {path.key}", player) for title, (path, player) in zip(titles[1:], good[1:], strict=True)
    )
    return f"<h2>Along paths</h2>{note(words)}{opened}{rest}"


def worst_table(worst: object) -> str:
    """Return the table of the clips with the largest GeoDeg."""
    if not isinstance(worst, Mapping) or not isinstance(clips := worst.get("clips"), list):
        return ""
    clips = [clip for clip in clips if isinstance(clip, Mapping) and isinstance(clip.get("geo_deg"), Mapping)]
    if not clips:
        return ""
    keys = list(dict.fromkeys(str(key) for clip in clips for key in clip["geo_deg"]))
    far = max(keys, key=_milliseconds)
    baseline = str(worst.get("beside", "baseline"))
    columns = ("clip", "windows", *(f"{key} ms" for key in keys), f"{baseline}, {far} ms")
    rows = []
    for clip in clips:
        other = clip.get("beside")
        other = other if isinstance(other, Mapping) else {}
        values = [_degrees(clip["geo_deg"].get(key)) for key in keys]
        rows.append((clip.get("clip", ""), clip.get("windows", ""), *values, _degrees(other.get(far))))
    words = f"The clips with the largest GeoDeg of {worst.get('of', _MODEL)} at {far} ms, degrees; the last column: "
    words += f"{baseline} on the same clip. If both are large, the clip is hard; if only one is, look at the model."
    return f"<h2>Worst clips</h2>{note(words)}{table(columns, rows, numbers=range(1, len(columns)))}"


def _figure(
    name: str,
    title: str,
    unit: str,
    caption: str,
    rows: Mapping[Any, Any],
    *,
    label: str = "ms ahead",
    colours: Mapping[str, int] | None = None,
    level: object = None,
) -> str:
    """Return a chart of a figure; `level` is that of reference clips, a dashed line."""
    shown = [
        Curve(str(row), points, dots=True, colour=(colours or {}).get(str(row)))
        for row, values in rows.items()
        if (points := _points(values, name))
    ]
    if not any(len(curve.points) > 1 for curve in shown):
        return ""
    if isinstance(level, (int, float)) and _finite(level):
        times = [time for curve in shown for time, _ in curve.points]
        shown.append(Curve("reference", [(min(times), float(level)), (max(times), float(level))], dashed=True))
    drawn = curves(shown, x_label=label, y_label=unit, height=240)
    return figure(drawn, caption, title=title)


def _far_off(rows: Mapping[Any, Any]) -> dict[str, float]:
    """Return the baselines whose error is too large for the charts, with that error at the furthest horizon."""
    last = {row: points[-1][1] for row, values in rows.items() if (points := _points(values, "geo_deg"))}
    limit = _ROOM * last.get("hold", math.inf)
    return {row: value for row, value in last.items() if row != _MODEL and value > limit}


def _points(values: object, name: str) -> list[tuple[float, float]]:
    by_time = values.get(name) if isinstance(values, Mapping) else None
    if not isinstance(by_time, Mapping):
        return []
    pairs = [(_milliseconds(str(key)), value) for key, value in by_time.items()]
    return sorted((ms, float(value)) for ms, value in pairs if _finite(value) and math.isfinite(ms))


def _milliseconds(key: str) -> float:
    try:
        return float(key)
    except ValueError:
        return -math.inf


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _degrees(value: object) -> str:
    return f"{value:.1f}" if _finite(value) else "-"


def _head(clip: KeptClip, predictions: Predictions) -> str:
    return (
        f"<h3>{_place(clip, predictions)}: {escape(_errors(clip.errors))} "
        f'<span class="prompt">{escape(clip.key)}, from {clip.start:.1f} s</span></h3>'
    )


def _place(clip: KeptClip, predictions: Predictions) -> str:
    if clip.rank == predictions.ranked and clip.rank > 1:
        return "Best"
    middle = clip.rank == predictions.ranked // 2 + 1 and clip.rank > 3
    return "Middle" if middle else _BAD.get(clip.rank, f"Number {clip.rank} from the worst")


def _errors(errors: Mapping[str, float | None]) -> str:
    reached = [(key, value) for key, value in errors.items() if value is not None]
    return ", ".join(f"{value:.1f}° at {key} ms" for key, value in reached)


def _path_player(path: KeptPath, predictions: Predictions) -> str:
    """Return a player; empty if the joints or the path cannot be drawn."""
    known, end = predictions.known / predictions.fps, len(path.predicted) / predictions.fps
    try:
        drawn = PlayerTrack(
            title=path.title,
            positions=torch.from_numpy(path.predicted).double(),
            parents=predictions.parents,
            fps=predictions.fps,
            segments=[("known", 0.0, known), ("along the path", known, end)],
            contacts=torch.from_numpy(path.feet).double().clamp(0.0, 1.0),
            names=predictions.names,
            path=torch.from_numpy(path.path).double(),
        )
    except MotionkitError:
        return ""
    return player_fragment([drawn], assets=False)


def _player(clip: KeptClip, predictions: Predictions) -> str:
    """Return a player; empty if the joints cannot be drawn."""
    known, end = predictions.known / predictions.fps, len(clip.truth) / predictions.fps
    whose = "prediction" if predictions.predictor == _MODEL else f"prediction of {predictions.predictor}"
    sides: Sequence[tuple[str, Any, str]] = (
        ("the clip itself", clip.truth, "what followed"),
        (whose, clip.predicted, whose),
    )
    try:
        tracks = [
            PlayerTrack(
                title=title,
                positions=torch.from_numpy(joints).double(),
                parents=predictions.parents,
                fps=predictions.fps,
                segments=[("known", 0.0, known), (after, known, end)],
                contacts=None if clip.feet is None else torch.from_numpy(clip.feet[place]).double().clamp(0.0, 1.0),
                names=predictions.names,
            )
            for place, (title, joints, after) in enumerate(sides)
        ]
    except MotionkitError:  # no finite frame, or a rate that no file has
        return ""
    return player_fragment(tracks, assets=False, attributes=("overlay", f'time="{end:.3f}"'))


def _of(source: Source) -> Section:
    """Return errors, long runs and predictions of a motion predictor."""
    predictions, missing = read_predictions(source.info)
    summary = source.info.summary
    rows, worst = summary.get("rows"), summary.get("worst_clips")
    return Section(predictor_sections(rows, worst, predictions, summary.get("long")), missing)


def _compared(sources: Mapping[str, Source]) -> Section:
    """Return only which predictions cannot be read."""
    missing = [f"{letter}: {text}" for letter, one in sources.items() for text in read_predictions(one.info)[1]]
    return Section(missing=missing)


SECTIONS = Sections(_of, _compared)
