"""The page that compares runs: results side by side, curves over common axes, settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from motionkit._version import __version__
from motionkit.errors import MotionkitError
from motionkit.page import count, hover_script, html_page, note, table
from motionkit.report._charts import compared
from motionkit.report._facts import flat
from motionkit.report._motions import section
from motionkit.report._source import Source, read_source
from motionkit.tracking import compared_rows

_MOST = 8
"""Runs on one page: as many as there are colours."""


def compare_page(folders: Sequence[Path]) -> str:
    """Return a page that compares runs, in the order they are given.

    Raises:
        MotionkitError: One is no run, one is named twice, or there are too many (exit code 2).
    """
    if len(folders) > _MOST:
        raise MotionkitError(f"{len(folders)} runs do not fit on one page.", fix=f"name {_MOST} or fewer.")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise MotionkitError("one run is named twice.", fix="name each run once.")
    sources = dict(zip(_names(folders), (read_source(folder) for folder in folders), strict=True))
    missing = "".join(
        f"<li>{escape(name)}: {escape(text)}</li>" for name, source in sources.items() for text in source.missing
    )
    body = "".join(
        [
            f"<header><h1>{escape(' and '.join(sources) if len(sources) == 2 else count(len(sources), 'run'))}</h1>",
            f'<p class="sub">compared by motionkit {__version__}</p></header>',
            f'<ul class="notes">{missing}</ul>' if missing else "",
            _results(sources),
            _motions(sources),
            compared({name: source.lines for name, source in sources.items()}),
            _differences(sources),
        ]
    )
    return html_page(f"Comparison of {', '.join(sources)}", body, made_by="report", scripts=hover_script())


def _names(folders: Sequence[Path]) -> list[str]:
    """Return names that tell the runs apart: the last parts of their folders, as few as will do."""
    parts = [folder.resolve().parts for folder in folders]
    depth = next((k for k in range(1, max(map(len, parts)) + 1) if len({one[-k:] for one in parts}) == len(parts)), 1)
    return ["/".join(one[-depth:]) for one in parts]


def _results(sources: dict[str, Source]) -> str:
    """Return a table with a column per run: what each quantity came to, and how it changed."""
    cells = compared_rows([source.results for source in sources.values()])
    if not cells:
        return note("None of these runs has a final measurement.")
    cells.append(("steps", *(f"{source.steps:,}" for source in sources.values())))
    befores = {row.text(row.before) for source in sources.values() for row in source.results if row.name == "reward"}
    text = "After training, with the change since its own start in brackets."
    if len(befores) > 1:
        text += " Not directly comparable: their rewards differ before training, so prompts, policies or rewards do."
    return f"<h2>Result</h2>{note(text)}{table(('', *sources), cells)}"


def _motions(sources: dict[str, Source]) -> str:
    """Return players with the start and each run's motions, where all have the prompts."""
    shown = {name: source.after for name, source in sources.items() if source.after is not None}
    first = next(iter(sources.values()))
    if len(shown) < len(sources) or first.before is None:
        return ""
    return section({"before": first.before, **shown}, first.real)


def _differences(sources: dict[str, Source]) -> str:
    configs = [dict(flat(source.info.config)) for source in sources.values()]
    keys = list(dict.fromkeys(key for config in configs for key in config))
    rows = [
        (key, *(str(config.get(key, "-")) for config in configs))
        for key in keys
        if len({str(config.get(key, "-")) for config in configs}) > 1
    ]
    inside = table(("setting", *sources), rows) if rows else note("No setting differs.")
    return f"<h2>Settings that differ</h2>{inside}"
