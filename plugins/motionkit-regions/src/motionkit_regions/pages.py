"""Pages of region policies: a gallery, for a run and for an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.page.curves import Chart
from motionkit.page.html import definitions, note, result_page, sort_script, sorter, stored_picture, table
from motionkit.runs.sections import Section, Sections
from motionkit.runs.source import Source
from motionkit.tracking import definition, titled
from motionkit_regions.evaluation.gallery import GALLERY, INDEX
from motionkit_regions.evaluation.result import explained

_MOST, _BYTES = 48, 1 << 20
"""Regions that are shown, and the largest picture."""

CHARTS = (
    Chart(
        "Rewards of the loops",
        {"mask to caption": "loop1/reward_mean", "caption to mask": "loop2/reward_mean"},
        "Mean over the samples of a step.",
    ),
    Chart(
        "Regions while training",
        titled(
            "regions/cycle_iou_greedy",
            "regions/judge_iou_greedy",
            "regions/unique_greedy",
            "regions/meteor_greedy",
            "regions/referring_iou",
            "regions/cycle_iou",
            "regions/judge_iou",
            "regions/meteor",
        ),
        "On validation regions, captions of the likeliest words. Where the frozen judge stops following, policy and "
        "partner speak a code of their own.",
        steps=True,
    ),
    Chart(
        "What may get worse",
        titled("regions/attributes_wrong_greedy", "regions/no_target"),
        "On validation regions. Wrong words should not rise, and nothing should be drawn of what is not there.",
        zero=True,
        steps=True,
    ),
    Chart("Length of captions", {"words": "regions/words_greedy"}, "On validation regions.", zero=True, steps=True),
)
"""Charts of what is logged while training."""

_WHY = {True: {"up": "gained most", "down": "lost most"}, False: {"up": "highest IoU", "down": "lowest IoU"}}


def regions(source: Source) -> str:
    """Return the gallery of a run of sa2va-rl, after notes on the measurement; empty for any other run."""
    shown = gallery(source.info.directory / GALLERY)
    notes = source.info.summary.get("notes")
    texts = [text for text in notes if isinstance(text, str)] if isinstance(notes, list) and shown else []
    return "".join(note(text[:1].upper() + text[1:]) for text in texts) + shown


def gallery(folder: Path) -> str:
    """Return the gallery of a folder; empty if there is none."""
    if not (folder / INDEX).is_file():
        return ""
    try:
        document = read_json(folder / INDEX, dict)
    except MotionkitError as error:
        return f"<h2>Regions</h2>{note(f'They cannot be shown: {error.message}')}"
    compared, entries = document.get("compared") is True, document.get("regions")
    rows = [
        row
        for entry in (entries if isinstance(entries, list) else [])[:_MOST]
        if isinstance(entry, Mapping) and (row := _row(folder, entry, compared))
    ]
    if not rows:
        return ""
    groups = (
        "the first ones, and those whose IoU gained and lost most"
        if compared else "the first ones, and those with the highest and the lowest IoU"
    )  # fmt: skip
    when = "before and after training, " if compared else ""
    unique = any("<span>uniqueness <b>" in row for row in rows)
    # Galleries without this entry are of a version that showed sampled captions.
    caption = "its caption in its likeliest words" if document.get("captions") == "greedy" else "a caption it sampled"
    words = (
        f"Held-out regions: {groups}. From the left: the image; the region, with the data's caption; and, {when}the "
        f"mask that the policy drew of {caption}. The yellow line is the region. IoU: its own mask of its caption; "
        "judge: the mask that the policy before training draws of it."
        + (" Uniqueness: 1 if the caption is true of the object and of no other." if unique else "")
    )
    orders = {"in order": "place", **({"gain": "gain"} if compared else {}), "IoU": "iou", "METEOR": "meteor"}
    listed = f'<div id="regions">{"".join(rows)}</div>'
    return f"<h2>Regions</h2>{note(words)}{sorter(orders, 'regions')}{listed}{sort_script()}"


def _row(folder: Path, entry: Mapping[str, Any], compared: bool) -> str:
    files, captions, scores = (entry.get(key) for key in ("files", "captions", "scores"))
    if not isinstance(files, Mapping) or not isinstance(captions, Mapping) or not isinstance(scores, Mapping):
        return ""
    sides = ("before", "after") if compared else ("after",)
    cells = []
    for name in ("image", "region", *sides):
        address = stored_picture(folder, files.get(name), most=_BYTES)
        if not address:
            return ""
        head = {"image": "image", "region": "the data say"}.get(name, name if compared else "the policy says")
        words = {"image": "", "region": str(entry.get("caption"))}.get(name, str(captions.get(name) or "nothing"))
        scores_html = _score_list(scores.get(name)) if name in sides else ""
        cells.append(
            f'<figure><img src="{address}" alt="{escape(words or head)}"><figcaption><b>{escape(head)}</b>'
            f"{'<q>' + escape(words) + '</q>' if words else ''}{scores_html}</figcaption></figure>"
        )
    last, first = (_number(scores.get(name), "cycle_iou") for name in (sides[-1], sides[0]))
    keys = {
        "place": entry.get("region") if isinstance(entry.get("region"), int) else 0,
        "gain": last - first, "iou": last, "meteor": _number(scores.get(sides[-1]), "meteor"),
    }  # fmt: skip
    marks = " ".join(f'data-{key}="{value:g}"' for key, value in keys.items())
    why = _WHY[compared].get(str(entry.get("why")), "")
    mark = f'<p class="why">{escape(why)}</p>' if why else ""
    return f'<div class="strip wide" {marks}>{mark}{"".join(cells)}</div>'


def _score_list(scores: object) -> str:
    values = scores if isinstance(scores, Mapping) else {}
    parts = [
        f"<span>{escape(_score(str(name)))} <b>{value:.2f}</b></span>"
        for name, value in values.items()
        if isinstance(value, (int, float))
    ]
    return f'<span class="told">{"".join(parts)}</span>'


def _score(name: str) -> str:
    for metric in (f"regions/{name}_greedy", f"regions/{name}"):
        try:
            return definition(metric).title(metric)
        except KeyError:
            continue
    return name  # of a newer motionkit


def _number(scores: object, name: str) -> float:
    value = scores.get(name) if isinstance(scores, Mapping) else None
    return float(value) if isinstance(value, (int, float)) else 0.0


def evaluation_page(folder: Path, document: Mapping[str, Any]) -> str:
    """Return the page of ``eval sa2va`` from its document and the gallery in its folder."""
    title = f"eval sa2va: {document['model']}"
    facts = {
        "policy": str(document["model"]),
        **({"compared with": str(document["base"])} if document["base"] else {}),
        "data": f"{document['regions']:,} regions of the {document['split']} split of {document['called']}",
        "captions": "of the likeliest words (greedy), which the pictures show; and sampled at temperature "
        f"{document['temperature']:g} with seed {document['seed']}",
    }
    shown = "".join(
        (f"<h3>{escape(str(shown_table['title']))}</h3>" if place else "")
        + table(
            shown_table["columns"],
            shown_table["rows"],
            numbers=shown_table["numbers"],
            kind=_kind(shown_table["columns"]),
        )
        for place, shown_table in enumerate(document["table"])
    )
    parts = [
        f"<h2>Figures</h2>{note('Intervals: 95 % bootstrap over regions.')}{shown}",
        gallery(folder / GALLERY),
        f"<h2>How it was measured</h2>{definitions(facts)}",
        *(note(text[:1].upper() + text[1:]) for text in document["notes"]),
        f"<h2>What each figure means</h2>{definitions(dict(explained()))}",
    ]
    verdict = str(document["verdict"])
    return result_page(
        title, [verdict[:1].upper() + verdict[1:]], parts, made_by="eval", see="docs/evaluation.md says more."
    )


def _kind(columns: Sequence[str]) -> str:
    """Return a table's CSS classes: a phone has no room for intervals, nor for changes next to three values."""
    wide = columns[4:5] == ["change"]
    return "plain result" + " interval" * ("95 % interval" in columns) + " real" * wide


def _of(source: Source) -> Section:
    """Return the gallery of a run of self-play."""
    return Section(regions(source))


SECTIONS = Sections(_of)
