"""Trainers of other packages, and packages that are begun from a template."""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit.plugins import KINDS, get
from motionkit.plugins import _component as _metrics
from motionkit.plugins._discovery import OBJECTS
from motionkit.plugins.scaffold import startable
from motionkit.report.card import write_hub_folder
from motionkit.report.page import compare_page, run_page
from motionkit.runs import next_commands, peek, write_model
from motionkit.starter import EXAMPLE, weights_path
from motionkit.testing import check_component
from motionkit.tracking import definition, label_of, require_defined

from ..made.commands import assert_refused
from ..made.forks import Forks

Cli = Callable[..., Result]

DRILL = """
from motionkit.training.settings import TrainerSettings
from motionkit.plugins import Component, Metric
class Settings(TrainerSettings):
    pass
class Drill:
    shape_keys = ()
    def __init__(self, settings):
        self.settings = settings
    def prepare(self):
        assert not {stop}, "its inputs are opened"
    def {describe}(self):
        return {{}}
    def train(self, run):
        {first}
        run.begin_steps(2)
        for step in (1, 2):
            run.log(step, {{"loss/total": 1.0, {logged}: 0.5}})
        return {{"heldout": {{"drill/error": {{"before": 2.0, "after": 1.0, "delta": -1.0, "n": 9}}}}}}
component = Component("Drill.", Settings, "drills:Drill", metrics={metrics}{more})
"""
OWN = "(Metric('drill/error', 'cm', 'down', 'Mean error.'), Metric('drill/<joint>/angle', 'deg', 'none', 'Angle.'))"


@pytest.fixture(autouse=True)
def _nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_metrics, "_declared", {})


PAGES = """
from motionkit.page.curves import Chart
from motionkit.plugins import Metric
from motionkit.runs.sections import Section, Sections
from motionkit.tracking import Findings, Remarks
def of(source):
    return Section(f"<p>Drilled by {source.info.command}.</p>", ["The drill's film is missing."])
def compared(sources):
    return Section(f"<p>Drills {' and '.join(sources)}.</p>")
SECTIONS = Sections(of, compared)
CHARTS = (Chart("How it drilled", {"error": "drill/error"}, "Of both steps."),)
def remarks(report):
    still = any(row.name == "drill/error" for row in report.changes)
    return Remarks(last=" The drill was wet.", short=", wet") if still else Remarks()
FINDINGS = Findings(remarks=remarks)
BROKEN = Findings(remarks=lambda report: 1 / 0)
METRICS = (
    Metric("drill/error", "cm", "down", "Mean error.", "how far off", short=True),
    Metric("drill/other", "cm", "down", "Other.", "the other"),
)
"""


def drill(
    site: Any, logged: str, *, metrics: str = "()", describe: str = "describe", stop: bool = False, more: str = ""
) -> None:
    first = "import torch"
    source = DRILL.format(logged=repr(logged), metrics=metrics, describe=describe, stop=stop, first=first, more=more)
    entries = "[motionkit.trainers]\ndrill = drills:component\n"
    site.install("motionkit-trainer-drill", entries, drills=source, drill_pages=PAGES)


@pytest.mark.parametrize(
    ("logged", "metrics", "unit"),
    [
        ("my/loss", "()", "1"), ("my/loss/of.a-joint", "()", "1"), ("drill/error", OWN, "cm"),
        ("drill/left_hip/angle", OWN, "deg"),
    ],
)  # fmt: skip
def test_a_metric_of_its_own_is_logged(
    logged: str, metrics: str, unit: str, cli: Cli, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drill(site, logged, metrics=metrics)
    done = cli("drill", "--out", "run")
    assert done.exit_code == 0, done.stderr
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [line[logged] for line in lines] == [0.5, 0.5]
    monkeypatch.setattr(_metrics, "_declared", {})  # as another process begins
    page = run_page(Path("run"))
    assert definition(logged).unit == unit
    assert ("Mean error. Lower is better." in page) == (metrics == OWN)
    if metrics == OWN:
        assert "too few" in cli("runs", "show", "run").stdout


def test_its_sections_charts_and_metrics_are_on_the_pages_of_its_runs(cli: Cli, site: Any) -> None:
    named = ', sections="drill_pages:SECTIONS", charts="drill_pages:CHARTS"'
    drill(site, "drill/error", metrics="'drill_pages:METRICS'", more=named)
    for folder in ("run", "other"):
        done = cli("drill", "--out", folder)
        assert done.exit_code == 0, done.stderr
    page = run_page(Path("run"))
    assert "<p>Drilled by drill.</p>" in page
    assert "The drill&#x27;s film is missing." in page
    assert "How it drilled" in page
    assert "Mean error. Lower is better." in page
    assert "<p>Drills A and B.</p>" in compare_page([Path("run"), Path("other")])
    assert [label_of(name) for name in ("drill/error", "error", "drill/other", "other")] == [
        "how far off", "how far off", "the other", "other",
    ]  # fmt: skip


def test_what_it_says_of_results_is_on_pages_and_in_listings(cli: Cli, site: Any) -> None:
    drill(site, "drill/error", metrics="'drill_pages:METRICS'", more=', findings="drill_pages:FINDINGS"')
    done = cli("drill", "--out", "runs/drill/first")
    assert done.exit_code == 0, done.stderr
    words = "too few to say whether it changed. The drill was wet."
    assert words in " ".join(done.stderr.split())
    assert words in run_page(Path("runs/drill/first"))
    assert words in " ".join(cli("runs", "show", "first").stdout.split())
    assert peek("runs/drill/first").report.short == "how far off -1.000 too few, wet"


def test_what_it_cannot_say_of_results_is_its_own_error(cli: Cli, site: Any) -> None:
    drill(site, "my/x", more=', findings="drills:BROKEN"')
    with (site.folder / "drills.py").open("a") as module:
        module.write(PAGES)
    done = cli("drill", "--out", "run")
    assert done.exit_code == 1
    assert "motionkit-trainer-drill' raised ZeroDivisionError" in " ".join(done.stderr.split())
    assert peek("run").status == "done"


NEXT = """
from motionkit.runs.forms import ModelForm
def after(info):
    return [["drill", "--init", f"{info.directory}/a b"], ["report", str(info.directory)]]
def broken(info):
    raise KeyError("drill")
MODELS = (ModelForm("drill", "drill.json", "a drill", "motionkit drill --init FOLDER", tags=("drilling",)),)
"""


def test_it_says_what_to_type_after_its_runs(cli: Cli, site: Any) -> None:
    drill(site, "my/x", more=', next="drill_next:after"')
    (site.folder / "drill_next.py").write_text(NEXT)
    done = cli("drill", "--out", "run")
    assert done.exit_code == 0, done.stderr
    lines = ["motionkit drill --init 'run/a b'", "motionkit report run"]
    assert next_commands(peek("run")) == lines
    assert all(f"{line}\n" in done.stderr for line in lines)
    record = Path("run/run.json")
    record.write_text(record.read_text().replace('"done"', '"interrupted"'))
    assert next_commands(peek("run"))[0] == "motionkit drill --resume run"
    assert not any("--init" in line for line in next_commands(peek("run")))


def test_commands_that_it_cannot_say_are_its_own_error(cli: Cli, site: Any) -> None:
    drill(site, "my/x", more=', next="drills:broken"')
    with (site.folder / "drills.py").open("a") as module:
        module.write(NEXT)
    done = cli("drill", "--out", "run")
    assert done.exit_code == 1
    assert "motionkit-trainer-drill' raised KeyError" in " ".join(done.stderr.split())
    assert peek("run").status == "done"
    with pytest.raises(MotionkitError, match="motionkit-trainer-drill"):
        next_commands(peek("run"))


def test_without_them_its_policy_says_how_it_is_used(cli: Cli, site: Any, sample: ModuleType) -> None:
    drill(site, "my/x")
    assert cli("drill", "--out", "run").exit_code == 0
    others = ["motionkit drill --resume run --num-steps 4", "motionkit runs show run"]
    assert next_commands(peek("run")) == others
    shutil.copytree(weights_path("mdm"), "run/policy")
    used = f"motionkit generate {shlex.quote(EXAMPLE)} motions --policy.checkpoint run"
    assert next_commands(peek("run")) == [used, *others]
    document = Path("run/policy/policy.json")
    for kind, lines in (("small", [used, *others]), ("mpl", others), ("regions", others), ("absent", others)):
        document.write_text(json.dumps({"kind": kind}))
        assert next_commands(peek("run")) == lines, kind


def test_its_models_have_a_card(cli: Cli, site: Any, tmp_path: Path) -> None:
    drill(site, "my/x", more=', models="drill_next:MODELS"')
    (site.folder / "drill_next.py").write_text(NEXT)
    assert cli("drill", "--out", "run").exit_code == 0
    write_model(Path("run/drill"), "drill.json", {"depth": 3}, {"weight": torch.zeros(2)})
    for place in ("run", "run/drill"):
        said, files = write_hub_folder(place, Path(f"card of {place.replace('/', ' ')}"))
        assert said == "a drill"
        assert files == ["README.md", "drill.json", "model.safetensors"]
    text = Path("card of run/README.md").read_text()
    assert "This is a drill, made by `motionkit drill`" in text
    assert "motionkit drill --init FOLDER" in text
    assert "- drilling" in text


@pytest.mark.parametrize("logged", ["my_loss", "drill/error", "my/", "my/a b"])
def test_another_name_is_refused_with_the_way_to_define_it(logged: str, cli: Cli, site: Any) -> None:
    drill(site, logged)
    done = cli("drill", "--out", "run", "--json")
    assert done.exit_code == 1
    error = json.loads(done.stdout)["error"]
    assert error["message"] == f"metric {logged!r} is not defined."
    assert f"'my/{logged}'" in error["fix"]
    assert f"Component(metrics=(Metric({logged!r}, unit=" in error["fix"]
    assert Path("run/metrics.jsonl").read_text() == ""


def test_the_definitions_of_motionkit_come_first(site: Any) -> None:
    drill(site, "x", metrics="(Metric('loss/total', 'm', 'up', 'Mine.'), Metric('reward/mine/mean', 'm', 'up', 'M.'))")
    get("trainers", "drill")
    assert definition("loss/total").unit == "1"
    assert definition("reward/mine/mean").unit == "m", "the name itself says more than reward/<name>/mean"
    assert definition("reward/other/mean").unit == "1"
    with pytest.raises(AssertionError, match="loss/total"):
        check_component("trainers", "drill")
    require_defined(["my/x", "loss/total"])


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("Metric('a b', 'm', 'up', 'x')", "a name has letters"), ("Metric('a/', 'm', 'up', 'x')", "a name has letters"),
        ("Metric('a', '', 'up', 'x')", "at least one letter"), ("Metric(3, 'm', 'up', 'x')", "are texts"),
        ("Metric('a', 'm', 'lower', 'x')", "better is one of up, down"), ("'a'", "not a motionkit.plugins.Metric"),
        ("Metric('a', 'm', 'none', 'x', words='up')", "words are two texts"),
    ],
)  # fmt: skip
def test_a_definition_that_is_none_is_refused(metric: str, why: str, cli: Cli, site: Any) -> None:
    drill(site, "x", metrics=f"({metric},)")
    done = cli("drill")
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not Path("runs").exists()


def test_a_missing_method_is_said_before_the_inputs_are_opened(cli: Cli, site: Any) -> None:
    drill(site, "my/x", describe="plan", stop=True)
    assert_refused(
        cli("drill"), "error: trainer 'drill' has no describe().", "add it, or update motionkit-trainer-drill"
    )
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        (("reward", "tmr-dense"), "a reward of motionkit."), (("trainer", "grpo"), "a trainer of motionkit."),
        (("trainer", "convert"), "a command of motionkit."), (("trainer", "pretrain"), "a command of motionkit."),
        (("motionkit-dataset-kit",), "a dataset of motionkit."), (("trainer", "drill"), "a trainer of another-drill."),
    ],
)  # fmt: skip
def test_a_new_plugin_with_a_name_that_is_taken_is_refused(
    words: tuple[str, ...], whose: str, cli: Cli, site: Any
) -> None:
    site.install("another-drill", "[motionkit.trainers]\ndrill = drills:component\n")
    assert_refused(cli("plugins", "new", *words), f"is the name of {whose}")
    assert not list(Path().iterdir())


STARTED = [(row.singular, "", "my-own") for row in startable()]
STARTED += [(row.singular, gives, f"my-{gives}") for row in KINDS.values() for gives in row.scaffolds]


def started(kind: str, gives: str, name: str, cli: Cli, site: Any) -> Path:
    """Begin a package and install it; return its folder."""
    done = cli("plugins", "new", kind, name, *(["--gives", gives] if gives else []))
    assert done.exit_code == 0, done.stderr
    folder = Path(f"motionkit-{kind}-{name}").resolve()
    assert f"wrote {folder.name} (5 files). Next: pip install -e {folder.name} && pytest {folder.name}" in done.stderr
    assert cli("plugins", "new", kind, name).exit_code == 2
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    entries = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
        for group, found in project["entry-points"].items()
    )
    site.install(project["name"], entries)
    return folder


def outcomes(report: Path) -> dict[str, list[str]]:
    """Return what became of the tests of each file: ``passed``, or what pytest says of it."""
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").rpartition(".")[2]
        found.setdefault(file, []).append(" ".join(each.tag for each in case) or "passed")
    return found


def test_new_packages_pass_their_own_tests(
    cli: Cli, site: Any, tmp_path: Path, forks: Forks, subtests: pytest.Subtests
) -> None:
    """One process for all of them: most of its time goes into the imports."""
    folders = {row: started(*row, cli, site) for row in STARTED}
    there: dict[str, Any] = {
        "folder": Path.cwd(), "path": [str(site.folder), *(str(folder / "src") for folder in folders.values())],
        "environment": {"MOTIONKIT_CACHE": str(tmp_path / "cache"), "PYTEST_ADDOPTS": ""},
    }  # fmt: skip
    line = ["pytest", "-q", "-W", "error::UserWarning", "-p", "no:cacheprovider", f"--junitxml={tmp_path}/tests.xml"]
    ran = forks.run(*line, *map(str, folders.values()), **there)
    assert "testsuite" in (tmp_path / "tests.xml").read_text(), ran.stdout + ran.stderr
    shown = forks.run("motionkit", "plugins", "list", "--check", "--json", **there)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "--dataset.root is not given" in shown.stdout + shown.stderr, "why a data set was not built"
    listed = {(each["name"], each["package"]) for each in json.loads(shown.stdout)["plugins"]}
    found = outcomes(tmp_path / "tests.xml")
    for (kind, _, name), folder in folders.items():
        with subtests.test(folder.name):
            assert set(found[f"test_{folder.name.replace('-', '_')}"]) == {"passed"}, ran.stdout + ran.stderr
            assert (name, folder.name) in listed or kind in {row.singular for row in OBJECTS.values()}
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_kind_is_asked_for(cli: Cli) -> None:
    assert_refused(
        cli("plugins", "new", "motionkit-bounce"),
        "'motionkit-bounce' does not say what kind of plugin it is.",
        "motionkit plugins new reward|trainer|algorithm|dataset|environment|protocol|policy|format NAME",
    )
    assert "'Not-A-Name' is not a package name." in cli("plugins", "new", "reward", "Not-A-Name").stderr
    assert not list(Path().iterdir())


def test_what_cannot_be_started_is_named(cli: Cli) -> None:
    assert_refused(cli("plugins", "new", "dataset", "ab", "--gives", "frames"), "--gives text-motion or regions")
    assert "leave --gives out" in cli("plugins", "new", "reward", "ab", "--gives", "mask").stderr
    assert not list(Path().iterdir())
