"""The page of one run, the page that compares several, and the files that they are written to.

The page of a run has the result first, then motions, curves, and where it all came from; a comparison has results side
by side, curves over common axes, and the settings that differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import ascii_uppercase

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.page.curves import hover_script
from motionkit.page.html import (
    columns_script,
    commands,
    copy_script,
    details,
    html_page,
    is_made_by,
    note,
    renewing,
    table,
)
from motionkit.page.wording import count
from motionkit.report import _facts as facts
from motionkit.report._charts import charts, compared
from motionkit.report._facts import flat, typed
from motionkit.report._systems import sections_of
from motionkit.runs import PAGE, disk_errors, next_commands, peek, write_bytes_atomic
from motionkit.runs.source import Source, read_source
from motionkit.tracking import compared_rows, measured_apart
from motionkit.version import __version__

MADE_BY = "report"

_MOST = 8
"""Runs on one page: as many as there are colours."""

_LETTERS = ascii_uppercase[:_MOST]

_COLUMNS = "cards columns"
_ORDER = "The name of a row puts the runs in its order."


def run_page(folder: Path) -> str:
    """Return the page of a run as HTML that loads nothing.

    Args:
        folder: The run folder; what is missing in it is said on the page.

    Raises:
        MotionkitError: There is no run there (exit code 2).
    """
    source = read_source(folder)
    parts = [sections.of(source) for sections in sections_of(source)]
    body = "".join(
        [
            facts.head(source),
            facts.gaps([*source.missing, *(text for part in parts for text in part.missing)]),
            facts.figures(source),
            facts.result_tables(source),
            *(part.html for part in parts),
            charts(source),
            facts.alarms(source),
            facts.settings(source),
            facts.environment(source),
            facts.next_steps(next_commands(source.info)),
            f'<p class="cap">Made by motionkit {__version__}.</p>',
        ]
    )
    return html_page(
        f"{source.info.command}: {source.name}", body, made_by=MADE_BY, scripts=hover_script() + copy_script()
    )


def compare_page(folders: Sequence[Path]) -> str:
    """Return a page that compares runs, in the order they are given.

    Raises:
        MotionkitError: One is not a run, one is named twice, or there are too many (exit code 2).
    """
    if len(folders) > _MOST:
        raise MotionkitError(f"{len(folders)} runs do not fit on one page.", fix=f"name {_MOST} or fewer.")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise MotionkitError("one run is named twice.", fix="name each run once.")
    names = _names(folders)
    sources = dict(zip(_LETTERS, (read_source(folder) for folder in folders), strict=False))
    parts = [sections.compared(sources) for sections in sections_of(*sources.values())]
    missing = [f"{letter}: {text}" for letter, source in sources.items() for text in source.missing]
    missing += [text for part in parts for text in part.missing]
    body = "".join(
        [
            f"<header><h1>{escape(' and '.join(names) if len(names) == 2 else count(len(names), 'run'))}</h1>",
            f'<p class="sub">compared by motionkit {__version__}</p></header>',
            _legend(dict(zip(sources, names, strict=True)), sources),
            facts.gaps(missing),
            _results(sources),
            *(part.html for part in parts),
            compared(sources),
            _differences(sources),
        ]
    )
    title = f"Comparison of {', '.join(names)}"
    return html_page(title, body, made_by="report", scripts=hover_script() + copy_script() + columns_script())


def write_report(run: str | Path, out: Path | None = None, *, renewed: float = 0.0, again: bool = False) -> Path:
    """Write the page of a run: its trainer's own where that names one, else `run_page`.

    Args:
        run: The run folder, or a checkpoint in it.
        out: The file; ``report.html`` in the run folder when None.
        renewed: Seconds after which an open page loads itself again; 0 is never.
        again: Replace the file, whatever page it is: the caller has written it before.

    Returns:
        The file.

    Raises:
        MotionkitError: There is no run, or the file cannot be written (exit code 2).
    """
    info = peek(run)
    text = _own_page(info.command, info.directory) or run_page(info.directory)
    text = renewing(text, seconds=renewed) if renewed else text
    return _write(out or info.directory / PAGE, text, replace=again or out is None)


def write_comparison(runs: Sequence[str | Path], out: Path) -> Path:
    """Write a page that compares runs.

    Raises:
        MotionkitError: One is not a run, or the file cannot be written (exit code 2).
    """
    return _write(out, compare_page([Path(run) for run in runs]), replace=False)


def _legend(names: Mapping[str, str], sources: Mapping[str, Source]) -> str:
    """Return the letter, the name and the command of each run, the letter in the colour of its curves."""
    rows = "".join(
        f'<li><b class="c{place}">{letter}</b> {escape(names[letter])}{commands([line]) if line else ""}</li>'
        for place, letter in enumerate(names)
        for line in [typed(sources[letter])]
    )
    return f'<ul class="runs">{rows}</ul>'


def _names(folders: Sequence[Path]) -> list[str]:
    """Return names that tell the runs apart: the last parts of their folders, as few as will do."""
    parts = [folder.resolve().parts for folder in folders]
    depth = next((k for k in range(1, max(map(len, parts)) + 1) if len({part[-k:] for part in parts}) == len(parts)), 1)
    return ["/".join(part[-depth:]) for part in parts]


def _results(sources: dict[str, Source]) -> str:
    """Return a table with a column per run: what each quantity came to, and how it changed."""
    reports = [source.report for source in sources.values()]
    cells = compared_rows(reports)
    if not cells:
        return note("None of these runs has a final measurement.")
    cells.append(("steps", *(f"{source.steps:,}" for source in sources.values())))
    if any(source.info.chosen_by for source in sources.values()):
        cells.append(("policy chosen by", *(source.info.chosen_by or "-" for source in sources.values())))
    befores = [row.text(row.before) for report in reports for row in report.changes if row.name == "reward"]
    text = f"After training, with the change since its own start in brackets. {_ORDER}"
    if apart := measured_apart(reports):
        text += f" {apart}"
    if len(set(befores)) > 1:
        scores = f"{', '.join(befores[:-1])} and {befores[-1]}"
        text += f" Not directly comparable: before training these runs already score {scores}."
    return f"<h2>Result</h2>{note(text)}{table(('', *sources), cells, kind=_COLUMNS)}"


def _differences(sources: dict[str, Source]) -> str:
    configs = [dict(flat(source.info.config)) for source in sources.values()]
    keys = list(dict.fromkeys(key for config in configs for key in config))
    rows = [
        (key, *(str(config.get(key, "-")) for config in configs))
        for key in keys
        if len({str(config.get(key, "-")) for config in configs}) > 1 and not key.startswith("run.")
    ]
    # Another algorithm or command has other settings: they do not say how the runs differ in what both have.
    common = [row for row in rows if all(row[0] in config for config in configs)]
    special = [row for row in rows if row not in common]
    heads = ("setting", *sources)
    inside = table(heads, common, kind=_COLUMNS) if common else note("No setting that all runs have differs.")
    more = (
        details(
            f"{count(len(special), 'setting')} that not all of these runs have", table(heads, special, kind=_COLUMNS)
        )
        if special
        else ""
    )
    return f"<h2>Settings that differ</h2>{inside}{more}"


def _own_page(command: str, folder: Path) -> str:
    """Return the page that a trainer of another package names; empty without one."""
    component = plugins.trainer_of(command)
    if component is None or not component.page:
        return ""
    with plugins.catching(component.page.partition(":")[0], code=1):
        return str(component.page_maker()(folder))


def _write(path: Path, text: str, *, replace: bool) -> Path:
    if not replace and path.exists() and not (path.is_file() and is_made_by(path, MADE_BY)):
        raise MotionkitError(
            f"{path} exists and is not a page of motionkit report.",
            why="only such a page is replaced.",
            fix="choose another --out FILE.",
        )
    with disk_errors("write the page", path, code=2):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path, text.encode(errors="replace"))
    return path
