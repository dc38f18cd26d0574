"""The page of one run: the result first, then motions, curves, and where it all came from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.page import copy_script, hover_script, html_page, is_made_by
from motionkit.report import _facts as facts
from motionkit.report._charts import charts
from motionkit.report._compare import compare_page
from motionkit.report._motions import motions
from motionkit.report._predictor import predictor
from motionkit.report._regions import regions
from motionkit.report._source import read_source
from motionkit.report._success import collected, reward, success
from motionkit.runs import PAGE, disk_errors, next_commands, peek, write_bytes_atomic
from motionkit.version import __version__

MADE_BY = "report"


def run_page(folder: Path) -> str:
    """Return the page of a run as HTML that loads nothing.

    Args:
        folder: The run folder; what is missing in it is said on the page.

    Raises:
        MotionkitError: There is no run there (exit code 2).
    """
    source = read_source(folder)
    body = "".join(
        [
            facts.head(source),
            facts.gaps(source),
            facts.figures(source),
            facts.result_tables(source),
            predictor(source),
            reward(source),
            collected(source),
            success(source),
            regions(source),
            facts.sensitivity(source),
            motions(source),
            charts(source.lines),
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


# Writing pages: into a run's folder, or to a file.


def write_report(run: str | Path, out: Path | None = None) -> Path:
    """Write the page of a run: its trainer's own where that names one, else `run_page`.

    Args:
        run: The run folder, or a checkpoint in it.
        out: The file; ``report.html`` in the run folder when None.

    Returns:
        The file.

    Raises:
        MotionkitError: There is no run, or the file cannot be written (exit code 2).
    """
    info = peek(run)
    text = _own_page(info.command, info.directory) or run_page(info.directory)
    return _write(out or info.directory / PAGE, text, replace=out is None)


def write_comparison(runs: Sequence[str | Path], out: Path) -> Path:
    """Write a page that compares runs.

    Raises:
        MotionkitError: One is no run, or the file cannot be written (exit code 2).
    """
    return _write(out, compare_page([Path(run) for run in runs]), replace=False)


def _own_page(command: str, folder: Path) -> str:
    """Return the page that a trainer of another package names; empty without one."""
    name = command.replace(" ", ".")
    if all(entry.name != name for entry in plugins.available("trainers")):
        return ""
    component = plugins.get("trainers", name)
    if not component.page:
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
