"""A trainer's component may name the page of its finished runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit.testing import check_trainer

Cli = Callable[..., Result]

SOURCE = """
from pathlib import Path
import json
from motionkit.plugins import Component
from sample_trainer import CountSettings

def page(folder: Path) -> str:
    steps = len((folder / "metrics.jsonl").read_text().splitlines())
    return f"<p>{json.loads((folder / 'run.json').read_text())['status']} after {steps} steps</p>"

def broken(folder: Path) -> str:
    raise ZeroDivisionError("no steps")

def ends(folder: Path) -> str:
    raise SystemExit(0)

def wrong(folder: Path) -> int:
    return 3
"""


@pytest.fixture
def paged(site: Any, trainer: ModuleType) -> Callable[[str], None]:
    """Install a trainer ``paged`` whose page is a function of the module above."""

    def install(page: str) -> None:
        entry = f"component = Component('Count.', CountSettings, 'sample_trainer:CountTrainer', page={page!r})\n"
        site.install(
            "paged-trainer", "[motionkit.trainers]\npaged = paged_trainer:component\n", paged_trainer=SOURCE + entry
        )

    return install


def test_the_page_of_a_finished_run_lies_in_its_folder(cli: Cli, paged: Callable[[str], None]) -> None:
    paged("paged_trainer:page")
    done = cli("paged", "--num-steps", 3, "--out", "here")
    assert done.exit_code == 0, done.stderr
    assert "page: here/report.html" in done.stderr
    assert Path("here/report.html").read_text() == "<p>done after 3 steps</p>"
    assert "report.html" in json.loads(Path("here/run.json").read_text())["artifacts"]
    Path("here/report.html").write_text("an older one")
    assert cli("report", "here").exit_code == 0
    assert Path("here/report.html").read_text() == "<p>done after 3 steps</p>"
    again = cli("paged", "--num-steps", 3, "--out", "here", "--overwrite", "--end", "interrupt")
    assert again.exit_code == 130
    page = Path("here/report.html").read_text()
    assert "The run did not finish" in page, "the common page, as the trainer's own may need what is missing"


@pytest.mark.parametrize("name", ["broken", "ends", "wrong", "missing"])
def test_a_page_that_fails_costs_a_warning_and_no_run(cli: Cli, paged: Callable[[str], None], name: str) -> None:
    paged(f"paged_trainer:{name}")
    done = cli("paged", "--num-steps", 3, "--out", "here", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "done"
    assert done.stderr.count("no page was written") == 1
    assert not Path("here/report.html").exists()


def test_the_contract_check_of_trainers_looks_at_the_page(paged: Callable[[str], None], tmp_path: Path) -> None:
    paged("paged_trainer:broken")
    with pytest.raises(AssertionError, match="Its page could not be written"):
        check_trainer("paged", tmp_path, settings={"run": {"num_steps": 3}})
