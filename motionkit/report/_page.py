"""The page of one run: the result first, then motions, curves, and where it all came from."""

from __future__ import annotations

from pathlib import Path

from motionkit._version import __version__
from motionkit.page import hover_script, html_page
from motionkit.report import _facts as facts
from motionkit.report._charts import charts
from motionkit.report._collected import collected
from motionkit.report._motions import motions
from motionkit.report._predictor import predictor
from motionkit.report._regions import regions
from motionkit.report._reward import reward
from motionkit.report._source import read_source
from motionkit.report._success import success
from motionkit.runs import next_commands

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
    return html_page(f"{source.info.command}: {source.name}", body, made_by=MADE_BY, scripts=hover_script())
