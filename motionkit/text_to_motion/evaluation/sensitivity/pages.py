"""The page of ``eval sensitivity``, with the clips of which a reward sees least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import JointMotion, features_to_joints
from motionkit.page.html import definitions, details, note, result_page, table
from motionkit.player import PlayerTrack, player_assets, player_fragment, track_of
from motionkit.text_to_motion.evaluation.pages import mid_action
from motionkit.text_to_motion.evaluation.sensitivity.audit import Audit, Measured
from motionkit.text_to_motion.evaluation.sensitivity.bench import SOURCES, Clips
from motionkit.text_to_motion.evaluation.sensitivity.words import ASKED, tables, verdict, worst_actions

_SHOWN = 4  # clips in the player, for each reward

_TOLD_ALONE = (
    "how often a linear classifier, trained on other clips, detects the change from averages of the motion without its "
    "caption, or from the words of the caption without its motion; chance is 50 %. If it is high, a reward may have "
    "learnt what a change looks like and nothing about captions: lively-statue is harder"
)


def sensitivity_page(document: Mapping[str, Any], audit: Audit, clips: Clips, data: str) -> str:
    """Return the page as HTML without external files; `data` is the dataset in words."""
    title = f"eval sensitivity: {', '.join(audit.names)}"
    main, *further = tables(audit, "")
    facts = {
        "clips": f"{document['clips']} of the {document['split']} split of {data}, at most "
        f"{document['most_clips_a_change'] or 'all'} for a change; {document['cpu_seconds']:.0f} CPU-seconds",
        "seen": "(mean reference - mean changed) / (mean reference - mean with an unrelated caption), a ratio of "
        "means; its 95 % interval is a bootstrap over clips",
        "a reward that reads no text, or tells no captions apart": "mean reference - mean changed, in standard "
        "deviations over reference clips",
        **({"told alone": _TOLD_ALONE} if "told alone" in main["columns"] else {}),
        "in the sentence": "below 20 % a change is not seen, from 60 % on it is; of several changes the one that is "
        "seen least counts. Without text: 0.2 and 1 standard deviations",
    }
    parts = [
        "<h2>What is seen of each change</h2>",
        # The change comes first, because it is the heading of an entry if a narrow page shows the table as a list.
        table(
            ["change", "kind", *main["columns"][2:]],
            [(change, kind, *cells) for kind, change, *cells in main["rows"]],
            numbers=main["numbers"],
        ),
        note("* trained against this change. In brackets: 95 % intervals."),
        _players(audit, clips),
        *(details(part["title"], table(part["columns"], part["rows"], numbers=part["numbers"])) for part in further),
        "<h2>How it was measured</h2>",
        definitions(facts),
        *(note(_sentence(text, audit.names)) for text in document["notes"]),
        details("What each change does", definitions(_meanings(audit))),
    ]
    lead = [verdict(audit, name).sentence for name in audit.names]
    return result_page(title, lead, parts, made_by="eval", see="docs/rewards.md says what each figure means.")


def _sentence(text: str, names: Sequence[str]) -> str:
    """Return a note with a capital letter, unless it begins with the name of a reward."""
    return text if text.startswith(tuple(f"{name} " for name in names)) else text[:1].upper() + text[1:]


def _meanings(audit: Audit) -> dict[str, str]:
    meanings = {}
    for name, source in SOURCES.items():
        where = f" Applies: {source.row.where}." if source.row.where else ""
        missing = f" Not measured: {audit.missing[name]}." if name in audit.missing else ""
        meanings[name] = f"{source.row.meaning[:1].upper()}{source.row.meaning[1:]}.{where}{missing}"
    return meanings


def _players(audit: Audit, clips: Clips) -> str:
    """Return the clips of which the first reward that reads texts sees least, reference and changed side by side."""
    parts = []
    for name in audit.names:
        if not audit.reads_text[name]:
            continue
        shown = [_player(audit, clips, name, row, place) for row, place in _least(audit, name)]
        if any(shown):
            parts += [f"<h3>{escape(name)}</h3>", *shown]
        break
    if not parts:
        return ""
    words = "Reference and changed side by side, with the score of each: clips of which the reward sees least."
    return f"<h2>What is not seen</h2>{note(words)}{player_assets()}{''.join(parts)}"


def _least(audit: Audit, name: str) -> list[tuple[Measured, int]]:
    """Return rows with the number of an example: of the worst actions, else of the rows that are seen least."""
    picked: list[tuple[Measured, int]] = []
    for action, _, _ in worst_actions(audit, name):
        used = {row.row.name for row, _ in picked}
        shares = [(audit.by_action(row, name).get(action, (np.nan, 0))[0], row) for row in _of_motion(audit)]
        known = [(share, row) for share, row in shares if np.isfinite(share) and row.row.name not in used]
        if known:
            row = min(known, key=lambda pair: pair[0])[1]
            places = [n for n, example in enumerate(row.examples) if audit.actions[example.place] == action]
            picked.append((row, _blindest(row, name, places)))
        if len(picked) == _SHOWN:
            return picked
    if not picked:
        rows = sorted(_of_motion(audit), key=lambda row: audit.figure(row, name).seen)
        picked = [(row, _blindest(row, name, list(range(row.n)))) for row in rows[:_SHOWN]]
    return picked


def _of_motion(audit: Audit) -> list[Measured]:
    """Return the rows that change a motion in something that captions ask for."""
    tests = {test for topic in ASKED.values() for test in topic}
    return [row for row in audit.rows if row.row.name in tests and row.row.family != "text"]


def _blindest(row: Measured, name: str, places: list[int]) -> int:
    """Return the example with the smallest fall in score."""
    columns = row.columns[name]
    falls = np.nan_to_num(columns.real - columns.changed, nan=np.inf)
    return min(places, key=lambda place: float(falls[place]))


def _player(audit: Audit, clips: Clips, name: str, row: Measured, place: int) -> str:
    example, columns = row.examples[place], row.columns[name]
    scores = float(columns.real[place]), float(columns.changed[place])
    try:
        tracks = [
            _track(clips, "reference", example.real, example.caption, scores[0]),
            _track(clips, row.row.name, example.changed, example.caption, scores[1]),
        ]
    except MotionkitError:  # no finite frame: the table still has its figures
        return ""
    start = f'time="{mid_action(tracks[0]):.2f}"'
    figures = f"{scores[0]:.2f} → {scores[1]:.2f}, {row.row.name}: {row.row.meaning}"
    return (
        f'<h3>{escape(figures)} <span class="prompt">{escape(example.caption)}</span></h3>'
        f"{player_fragment(tracks, assets=False, attributes=(start,))}"
    )


def _track(clips: Clips, title: str, features: Tensor, caption: str, score: float) -> PlayerTrack:
    body = clips.skeleton
    motion = JointMotion(body.joint_names, body.parents, features_to_joints(features, body).double(), clips.fps)
    segments = [(caption, 0.0, len(features) / clips.fps)]
    scores = [score] if np.isfinite(score) else []
    return track_of(motion, f"{title} {score:.2f}", segments=segments, scores=scores)
