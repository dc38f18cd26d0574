"""Protocols of other packages and files: they become commands of `eval`, and what breaks the contract is said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit import plugins
from motionkit.contracts.console import Quiet
from motionkit.contracts.open_model import FoundModel
from motionkit.contracts.protocol import build_protocol, figure_table, measured
from motionkit.testing import check_component, check_protocol

from ..made.commands import assert_refused

Cli = Callable[..., Result]
ROOT = Path(__file__).parents[2]
OWN = ["text-to-motion", "compare", "retrieval", "sensitivity", "mpl", "reward", "sa2va"]
"""Those that come with motionkit."""


def offered() -> list[str]:
    """Return what `eval` offers, in order: `OWN`, those of other packages that are installed here, and `steps`."""
    every = [entry.name for entry in plugins.scan().entries if entry.kind == "protocols"]
    return [*OWN, *(name for name in every if name not in (*OWN, "steps")), "steps"]


STEPS = """
import sys
assert "stop" not in sys.argv
from typing import Annotated, ClassVar
from pydantic import Field
from motionkit.config import Cli, {base}
from motionkit.contracts.protocol import Argument, ProtocolSettings
from motionkit.plugins import Component, Metric
class Settings({base}):
    {text}
    {doc}
    arguments: ClassVar = (Argument("RUN", "A run.", ""), Argument("DATA...", "Data.", many=True, required=False))
    factor: Annotated[float, Cli("--factor")] = Field(2.0, description="What steps are multiplied with.")
    def plan(self, run, data):
        return {{"run": run or "none", "data": list(data)}}
component = Component(
    "Counts steps.", Settings, "steps_heavy:Steps",
    metrics=(Metric("steps/count", "m/s^2", "up", "Steps so far.", label="steps", digits=1),),
)
"""
HEAVY = """
from motionkit.contracts.protocol import Result
class Steps:
    {name}
    def __init__(self, settings, *, console):
        self.settings, self.console = settings, console
    def {measure}(self, run, data):
        self.console.say("counting")
        with self.console.working(1) as step:
            step()
        {result}
"""
GOOD = 'return Result({"run": run, "data": data}, figures={"steps/count": 3 * self.settings.factor}, closing=["done"])'


def install(
    site: Any,
    *,
    name: str = 'name = "steps"',
    measure: str = "measure",
    result: str = GOOD,
    base: str = "",
    doc: str = "",
    text: str = "'''Count steps.'''",
) -> None:
    light = STEPS.format(base=base or "Settings", doc=doc, text=text).replace(
        "class Settings(Settings)", "class Settings(ProtocolSettings)"
    )
    heavy = HEAVY.format(name=name, measure=measure, result=result)
    entries = "[motionkit.protocols]\nsteps = steps_light:component\n"
    site.install("motionkit-protocol-steps", entries, steps_light=light, steps_heavy=heavy)


@pytest.mark.parametrize("word", ["steps", "motionkit-protocol-steps:steps"])
def test_a_protocol_of_a_package_is_a_command_of_eval(word: str, cli: Cli, site: Any) -> None:
    install(site)
    done = cli("eval", word, "runs/a", "x", "y", "--factor", "1.5", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document.pop("schema") == 1
    expected = {"command": "eval steps", "status": "done", "run": "runs/a", "data": ["x", "y"]}
    assert document == {**expected, "figures": {"steps/count": 4.5}}
    shown = cli("eval", word)
    assert [cell.strip() for cell in re.split(r"  +", shown.stdout.strip().splitlines()[-1])] == [
        "steps m/s²", "6.0", "higher", "Steps so far.",
    ]  # fmt: skip
    assert "counting" in shown.stderr
    assert "done" in shown.stderr
    plan = json.loads(cli("eval", word, "r", "--dry-run", "--json").stdout)
    assert (plan["plan"], plan["settings"]["factor"]) == ({"run": "r", "data": []}, 2.0)


def test_help_names_it_and_does_not_import_it(cli: Cli, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site)
    monkeypatch.setattr("sys.argv", ["motionkit", "stop"])  # its light half refuses to be imported then
    shown = cli("eval", "--help")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    names = [line.split()[1] for line in lines if re.match(r"│ [a-z]", line)]
    assert names == offered()
    listed = cli("plugins", "list", "protocols")
    assert re.search(r"protocols +steps +motionkit-protocol-steps", listed.stdout)
    assert re.search(r"protocols +mpl +result +predictor +motionkit", listed.stdout)
    monkeypatch.setattr("sys.argv", ["motionkit"])
    own = cli("eval", "steps", "--help").stdout
    assert "Count steps." in own
    assert "--factor" in own
    assert "DATA..." in own
    settings = json.loads(cli("config", "show", "eval", "steps", "--json").stdout)
    assert settings["settings"] == {"factor": 2.0}


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        ({"name": "pass"}, 2, "protocol 'steps' has no name."),
        ({"name": "name = ''"}, 2, "protocol 'steps' has no name."),
        ({"measure": "run"}, 2, "protocol 'steps' has no measure()."),
        ({"base": "Group"}, 2, "the settings of protocol 'steps' are not ProtocolSettings."),
        ({"result": "return {'a': 1}"}, 1, "protocol 'steps' returned dict."),
        ({"result": "return None"}, 1, "protocol 'steps' returned NoneType."),
        ({"result": "return Result(figures={'steps/other': 1.0})"}, 1, "metric 'steps/other' is not defined."),
        ({"result": "return Result(figures={'my/x': 'high'})"}, 1, "protocol 'steps' returned 'high' as 'my/x'."),
        ({"result": "return Result({'x': object()})"}, 1, "protocol 'steps' returned a document that is not JSON"),
        ({"result": "raise RuntimeError('no data')"}, 1, "raised RuntimeError: no data"),
        ({"result": "import sys; sys.exit(0)"}, 1, "raised SystemExit: 0"),
        ({"result": "return 1\n    def measure(self):\n        pass"}, 1, "raised TypeError: Steps.measure() takes 1"),
        (
            {"name": 'name = "steps"\n    def __new__(cls):\n        pass'},
            2,
            "raised TypeError: Steps.__new__() got an unexpected",
        ),
    ],
)
def test_a_bad_protocol_ends_in_one_error(wrong: dict[str, str], code: int, said: str, cli: Cli, site: Any) -> None:
    install(site, **wrong)
    done = cli("eval", "steps", "r")
    assert done.exit_code == code, done.stderr
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not done.stdout.strip()


def test_the_check_passes_a_good_one_and_lists_what_is_wrong(site: Any) -> None:
    install(site)
    assert check_protocol("steps", "r", []).figures == {"steps/count": 6.0}
    with pytest.raises(AssertionError, match="2 words"):
        check_protocol("steps", "r")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"result": "return 3"}, "returned int"),
        ({"name": "pass"}, "no name"),
        ({"text": "pass"}, "docstring"),
        ({"base": "Group"}, "ProtocolSettings"),
        ({"result": "return Result(figures={'my/x': float('nan')})"}, "'my/x' is nan"),
        ({"result": "return Result(figures={'other': 1.0})"}, "'other'"),
        ({"result": "return Result(tables=[{'columns': ['a'], 'rows': [(1, 2)]}])"}, "another width"),
        ({"result": "import random; return Result(figures={'my/x': random.random()})"}, "Measuring again"),
    ],
)
def test_the_check_says_what_is_wrong(wrong: dict[str, str], said: str, site: Any) -> None:
    install(site, **wrong)
    with pytest.raises(AssertionError, match=said):
        check_protocol("steps", "r", [])


@pytest.mark.parametrize("name", OWN)
def test_the_protocols_of_motionkit_keep_the_contract(name: str) -> None:
    component = check_component("protocols", name)
    protocol = build_protocol(name, component, component.options(), Quiet())  # type: ignore[arg-type]
    assert protocol.name == name
    assert component.options.explains == hasattr(component.load(), "explain")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "plugin", "what", "protocol"),
    [
        ("policies", "mdm", "a policy", "text-to-motion"),
        ("policies", "mpl", "a predictor", "mpl"),
        ("policies", "tiny-sa2va", "a region policy", "sa2va"),
        ("rewards", "tmr-dense", "a TMR", "retrieval"),
        ("rewards", "mdm-matching", "a text-to-motion evaluator", "text-to-motion"),
    ],
)
def test_a_model_chooses_the_protocol_that_reads_it(
    kind: str, plugin: str, what: str, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FoundModel(str(tmp_path), kind, plugin, what)
    monkeypatch.setattr("motionkit.contracts.evaluation.open_model", lambda path: found)
    from motionkit.contracts.evaluation import protocol_of

    assert protocol_of(str(tmp_path), ()) == protocol


def test_what_is_neither_a_protocol_nor_a_model_is_refused_with_the_names(cli: Cli, site: Any) -> None:
    install(site)
    assert_refused(cli("eval", "stesp"), f"fix {', '.join(offered())}; or a run, a folder or a file")


def test_explain_is_offered_where_the_settings_say_so(cli: Cli, site: Any) -> None:
    told = "return 1\n    @staticmethod\n    def explain():\n        return Result(text='what it means')"
    install(site, result=told, doc="explains: ClassVar[bool] = True")
    done = cli("eval", "steps", "--explain")
    assert (done.exit_code, done.stdout.strip()) == (0, "what it means"), done.stderr
    assert "--explain" not in cli("eval", "mpl", "--help").stdout


def test_explain_without_the_method_is_refused(cli: Cli, site: Any) -> None:
    install(site, doc="explains: ClassVar[bool] = True")
    assert_refused(cli("eval", "steps", "--explain"), "protocol 'steps' has no explain().")
    with pytest.raises(AssertionError, match=r"has no explain\(\)"):
        check_protocol("steps", "r", [])


def test_figures_become_a_table_by_their_definitions() -> None:
    table = figure_table({"mpl/yaw_abs_deg": 12.345, "eval/movement": 0.5, "my/x": 2.0}, "a title")
    assert table["title"] == "a title"
    assert [row[:3] for row in table["rows"]] == [
        ("yaw °", "12.3", "lower"), ("movement, share of reference", "0.500", "near 1"), ("x", "2.000", ""),
    ]  # fmt: skip


def test_the_example_of_the_documents_runs(cli: Cli) -> None:
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "ProtocolSettings" in one)
    Path("speed.py").write_text(block)
    done = cli("eval", "./speed.py:component", "--seconds", "1", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["model"]) == ("eval speed", "starter")
    assert 0.05 < document["figures"]["speed/root"] < 3
    assert check_component("protocols", "./speed.py:component").summary
    shown = cli("eval", "./speed.py:component", "--seconds", "1")
    assert re.search(r"root m/s +\d\.\d\d +Mean speed of the root\.", shown.stdout)
    assert "measured over 20 frames" in shown.stderr


def test_measuring_from_python_needs_no_console(site: Any) -> None:
    install(site)
    component = plugins.get("protocols", "steps")
    protocol = build_protocol("steps", component, component.options(factor=1.0), Quiet())  # type: ignore[arg-type]
    assert measured("steps", protocol, ["r", []]).figures == {"steps/count": 3.0}
