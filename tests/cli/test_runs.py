"""`motionkit runs`: results in listings, runs in words and side by side, and what is kept of them."""

from __future__ import annotations

import json
import shutil
import webbrowser
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit.cli import progress
from motionkit.runs import data_of, find_one, open_run, tags_of
from motionkit.training.base import LOSS, REWARD, Figure

from ..made.commands import assert_refused

Cli = Callable[..., Result]


def block(delta: float) -> dict[str, object]:
    return {"before": 0.5, "after": 0.5 + delta, "delta": delta, "ci95": [delta - 0.05, delta + 0.05], "n": 64}


def make(name: str, *, delta: float = 0.1, rate: float = 0.1, steps: int = 30) -> None:
    with open_run("grpo", {"run": {"name": name, "num_steps": 60}, "optim": {"learning_rate": rate}}) as run:
        for step in range(1, steps + 1):
            run.log(step, {"reward/mean": 0.5 + step / 100, "loss/total": 1.0})
        run.finish({"heldout": {"reward": block(delta), "skate": block(0.2)}})


def test_a_listing_has_the_result(cli: Cli) -> None:
    make("one")
    make("two", delta=0.01)
    shown = cli("runs", "list").stdout
    assert "reward +0.100 better" in shown
    assert "reward +0.010 no change" in shown
    rows = json.loads(cli("runs", "list", "--json").stdout)["runs"]
    assert {row["name"]: Path(row["run"]).name for row in rows} == {"one": "one", "two": "two"}


def test_a_run_is_shown_with_its_result_by_the_last_part_of_its_name(cli: Cli) -> None:
    make("one")
    make("two", delta=-0.1)
    shown = cli("runs", "show", "one").stdout
    assert "The reward rose from 0.500 to 0.600" in shown
    assert "reward   0.51" in shown
    assert "▁" in shown
    assert "█" in shown
    assert "Last metrics" not in shown
    assert "Last metrics" in cli("runs", "show", "one", "--metrics").stdout
    rows = {line.split()[0]: line.split()[-1] for line in shown.splitlines() if "+0.050" in line or "+0.150" in line}
    assert rows["reward"] == "better"
    assert rows["skate"] == "worse"
    newest = cli("runs", "show").stdout
    assert "The reward fell" in newest
    assert cli("runs", "show", "--root", "nowhere").exit_code == 2


def test_a_run_that_is_going_on_shows_its_step(cli: Cli) -> None:
    with open_run("grpo", {"run": {"name": "now", "num_steps": 60}}) as run:
        run.log(7, {"reward/mean": 0.5})
        listed = [line.split() for line in cli("runs", "list").stdout.splitlines() if "now" in line]
        assert listed[0][1:3] == ["running", "7/60"]
        assert "7/60" in cli("runs", "show", "now").stdout


def test_runs_are_compared_with_the_settings_that_differ(cli: Cli) -> None:
    make("one")
    make("two", delta=0.3, rate=0.2)
    shown = cli("runs", "compare", "one", "two").stdout
    assert "0.600 (+0.100, better)" in shown
    assert "0.800 (+0.300, better)" in shown
    assert "optim.learning_rate" in shown
    document = json.loads(cli("runs", "compare", "one", "two", "--json").stdout)
    assert document["settings"]["optim.learning_rate"] == ["0.1", "0.2"]
    assert [run["heldout"]["reward"]["delta"] for run in document["runs"]] == [0.1, 0.3]
    assert_refused(cli("runs", "compare", "one"), "two runs or more")


class Listened:
    """A run as `follow` sees it."""

    total_steps, start_step = 100, 0

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.beginning: list[Any] = []


def test_progress_shows_smoothed_numbers_and_times_steps_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    told: list[str] = []
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "is_terminal", lambda: False)
    monkeypatch.setattr(progress.output, "say", told.append)
    run = Listened()
    with progress.follow(run, "grpo", (REWARD, LOSS, Figure("held out", ("heldout/reward/delta",), change=True))):
        now[0] = 500.0  # measured before training
        run.listeners[0](0, {"heldout/reward/delta": 0.0})
        assert told == ["grpo   0/100"]
        for step in range(1, 41):
            now[0] += 0.5
            point = {"heldout/reward/delta": 0.125} if step == 20 else {}
            run.listeners[0](step, {"reward/mean": float(step), "loss/total": -1.0, **point})
    assert told[1] == "grpo  30/100  reward 20.500  held out +0.125  2.00/s  eta 0:35"
    assert len(told) == 2


SECONDS = count()


def make_run(name: str, *, command: str = "grpo", after: float | None = 0.6, **config: Any) -> Path:
    """A finished run; `after` is its held-out reward."""
    with open_run(command, {"run": {"name": name}, **config}) as run:
        run.log(1, {"reward/mean": 0.5})
        block = {"before": 0.5, "after": after, "delta": (after or 0) - 0.5, "ci95": [-1.0, 1.0], "n": 64}
        run.finish({"heldout": {"reward": block}} if after is not None else {})
        (run.directory / "policy").mkdir(exist_ok=True)
        (run.directory / "policy" / "weights").write_bytes(b"0" * 1000)
    folder = Path("runs") / command.replace(" ", "-") / name
    record = json.loads((folder / "run.json").read_text())
    record["created"] = f"2026-01-01T00:00:{next(SECONDS):02d}+00:00"  # runs of one second have no order
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def names(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [row["name"] for row in json.loads(result.stdout)["runs"]]


@pytest.fixture
def runs() -> None:
    make_run("old", after=0.9, dataset={"name": "humanml", "root": "data/mocap"})
    make_run("middle", after=0.7, dataset={"name": "starter"})
    make_run("none", command="train-mpl", after=None, data={"path": ["data/mpl", "data/more"]})
    make_run("new", after=0.8, dataset={"name": "starter"})


def test_runs_are_filtered_and_sorted(cli: Cli, runs: None) -> None:
    assert names(cli("runs", "list", "--json")) == ["new", "none", "middle", "old"]
    assert names(cli("runs", "list", "grpo", "--sort", "reward", "--json")) == ["old", "new", "middle"]
    assert names(cli("runs", "list", "--sort", "reward", "--json")) == ["old", "new", "middle", "none"]
    assert names(cli("runs", "list", "--sort", "name", "--json")) == ["middle", "new", "none", "old"]
    assert names(cli("runs", "list", "--sort", "dataset", "--json")) == ["none", "old", "new", "middle"]
    assert names(cli("runs", "list", "--sort", "command", "--json")) == ["new", "middle", "old", "none"]
    assert names(cli("runs", "list", "--dataset", "MOCAP", "--json")) == ["old"]
    assert names(cli("runs", "list", "--dataset", "data/m", "--json")) == ["none", "old"]
    assert "no runs under runs/ that are asked for: kit" in cli("runs", "list", "--dataset", "kit").stderr
    assert cli("runs", "list", "--sort", "size").exit_code == 2
    shown = cli("runs", "list").stdout
    assert "humanml data/mocap" in shown
    assert "tags" not in shown, "a column that nothing has is left out"


def test_tags_are_kept_with_the_run(cli: Cli, runs: None) -> None:
    assert cli("runs", "tag", "new", "paper", "baseline").stdout == "runs/grpo/new: baseline, paper\n"
    cli("runs", "tag", "old", "paper")
    assert names(cli("runs", "list", "--tag", "paper", "--json")) == ["new", "old"]
    assert names(cli("runs", "list", "--tag", "paper", "--tag", "baseline", "--json")) == ["new"]
    assert "baseline, paper" in cli("runs", "list").stdout
    assert "tags     baseline, paper" in cli("runs", "show", "new").stdout
    assert cli("runs", "tag", "new", "--remove", "paper").stdout == "runs/grpo/new: baseline\n"
    assert cli("runs", "tag", "new", "--remove", "baseline").stdout == "runs/grpo/new: no tags\n"
    assert not Path("runs/grpo/new/tags.json").exists()
    assert_refused(cli("runs", "tag", "new", "two words"), "no blanks")
    assert "it has: paper" in cli("runs", "tag", "old", "--remove", "draft").stderr
    Path("runs/grpo/old/tags.json").write_text('{"a": 1}')
    assert tags_of(Path("runs/grpo/old")) == [], "a damaged file hides no run"
    assert "old" in cli("runs", "list").stdout


def test_a_run_is_opened_in_the_browser(cli: Cli, runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    page = Path("runs/grpo/new/report.html")
    page.unlink(missing_ok=True)
    assert cli("runs", "open", "new").stdout == f"{page}\n"
    assert "<html" in page.read_text(encoding="utf-8")
    page.write_text("as it was")
    assert json.loads(cli("runs", "open", "new", "--json").stdout)["page"] == str(page)
    assert page.read_text() == "as it was", "the page of a finished run is not made again"
    assert opened == [page.resolve().as_uri()] * 2
    assert cli("runs", "open", "nothing").exit_code == 2


def test_runs_are_removed_only_when_that_is_said(cli: Cli, runs: None) -> None:
    listed = cli("runs", "rm", "new", "old")
    assert listed.exit_code == 2
    assert "nothing was removed: 2 runs would be" in listed.stderr
    assert "motionkit runs rm new old --yes" in listed.stderr
    assert "reward +0.300" in listed.stdout
    assert {info for info in ("new", "old") if find_one(info)} == {"new", "old"}
    Path("runs/grpo/old/notes.txt").write_text("mine")
    done = cli("runs", "rm", "new", "old", "--yes")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "removed runs/grpo/new\nremoved runs/grpo/old; other files stay there: notes.txt\n"
    assert not Path("runs/grpo/new").exists()
    assert [path.name for path in Path("runs/grpo/old").iterdir()] == ["notes.txt"]
    assert names(cli("runs", "list", "--json")) == ["none", "middle"]


def test_what_uses_a_run_is_named_before_it_goes(cli: Cli, runs: None) -> None:
    make_run("heir", policy={"name": "mdm", "checkpoint": "runs/grpo/new/policy"})
    assert "used by runs/grpo/heir" in cli("runs", "rm", "new").stdout
    assert "used by" not in cli("runs", "rm", "new", "heir").stdout, "both go"


def folders() -> set[str]:
    """Return what lies in the runs, by path and content."""
    return {f"{path} {path.read_bytes()!r}" for path in Path("runs").rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("", "'' names no run"), ("/", "'/' names no run"), ("//", "'//' names no run"),
        ("ne", "write the name whole, such as new"), ("grpo/ne", "write the name whole, such as new"),
        ("/new", "/new is not a motionkit run"), ("*", "not a motionkit run"), (".", "not a motionkit run"),
        ("runs", "not a motionkit run"), ("grpo", "not a motionkit run"),
        ("runs/grpo/new/checkpoints", "is a part of the run runs/grpo/new"),
    ],
)  # fmt: skip
def test_a_run_is_changed_by_its_whole_name_only(cli: Cli, runs: None, word: str, said: str) -> None:
    before = folders()
    for words in (["rm", word, "--yes"], ["rm", "new", word, "--yes"], ["tag", word, "x"]):
        assert_refused(cli("runs", *words), said)
    assert folders() == before
    if not word.strip("/") or word in ("ne", "grpo/ne", "/new"):
        done = cli("grpo", "--resume", word)
        assert done.exit_code == 2
        assert said in " ".join(done.stderr.split())
        assert folders() == before


def test_the_run_in_the_current_folder_is_not_an_empty_word(
    cli: Cli, runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("runs/grpo/new")
    for words in (["runs", "rm", "", "--yes"], ["runs", "tag", "", "x"], ["runs", "show", ""], ["runs", "open", ""],
                  ["report", ""], ["grpo", "--resume", ""], ["grpo", "--out", "", "--overwrite"],
                  ["grpo", "--set", "run.resume="]):  # fmt: skip
        assert_refused(cli(*words), "empty")
    assert Path("run.json").is_file()
    assert not Path("tags.json").exists()


def test_a_name_that_is_gone_is_not_the_beginning_of_another(cli: Cli, runs: None) -> None:
    """A script that removes exp1 is run again; exp10 is another run."""
    for name in ("exp1", "exp10"):
        make_run(name)
    assert cli("runs", "rm", "exp1", "--yes").stdout == "removed runs/grpo/exp1\n"
    assert_refused(cli("runs", "rm", "exp1", "--yes"), "write the name whole, such as exp10")
    assert Path("runs/grpo/exp10/run.json").is_file()


def test_two_runs_of_one_name_are_told_apart(cli: Cli, runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_run("pretrain mdm", {"run": {"name": "new"}}) as run:
        run.finish()
    before = folders()
    for words in (["runs", "rm", "new", "--yes"], ["runs", "tag", "new", "x"], ["runs", "show", "new"],
                  ["grpo", "--resume", "new"]):  # fmt: skip
        assert_refused(cli(*words), "2 runs are called 'new': grpo/new, pretrain-mdm/new")
    assert folders() == before
    assert cli("runs", "tag", "grpo/new", "x").stdout == "runs/grpo/new: x\n"
    assert cli("runs", "rm", "pretrain-mdm/new/", "--yes").stdout == "removed runs/pretrain-mdm/new\n"
    monkeypatch.chdir("runs/grpo")  # here the word is a folder, and with --root the name of another run, too
    shutil.copytree("old", "../../elsewhere/grpo/new")
    assert_refused(cli("runs", "rm", "new", "--root", "../../elsewhere", "--yes"), "2 runs are called 'new'")


def test_a_beginning_is_enough_to_read_and_which_run_it_is_is_said(cli: Cli, runs: None) -> None:
    for words in (["runs", "show", "ne"], ["runs", "open", "grpo/ne"], ["report", "ne"],
                  ["runs", "compare", "ne", "ol"]):  # fmt: skip
        done = cli(*words)
        assert done.exit_code == 0, done.stderr
        assert f"{words[-1 if words[1] != 'compare' else 2]}: runs/grpo/new" in done.stderr
    whole = cli("runs", "show", "new")
    assert "new: runs/grpo/new" not in whole.stderr


def test_a_run_is_continued_by_its_name(cli: Cli, tiny: Any) -> None:
    assert cli(*tiny.grpo("runs/grpo/mine", steps=1)).exit_code == 0
    for number, name in enumerate(("mine", "grpo/mine"), 2):
        done = cli("grpo", "--resume", name, "--num-steps", number, "--json")
        assert done.exit_code == 0, done.stderr
        document = json.loads(done.stdout)
        assert (document["run"], document["steps"]) == ("runs/grpo/mine", number)


def test_a_run_that_is_in_use_is_named_when_it_is_removed(
    cli: Cli, runs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("heir", policy={"name": "mdm", "checkpoint": "runs/grpo/new/policy"})
    there = Path.cwd() / "runs"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)  # where the relative path of the other run leads nowhere
    done = cli("runs", "rm", "new", "--root", there, "--yes")
    assert done.exit_code == 0, done.stderr
    assert f"{there}/grpo/new is used by {there}/grpo/heir" in " ".join(done.stderr.split())


def test_what_cannot_be_removed_is_refused_before_anything_is(cli: Cli, runs: None) -> None:
    with open_run("grpo", {"run": {"name": "now"}}) as run:
        assert_refused(cli("runs", "rm", "new", "now", "--yes"), "is running")
        assert Path("runs/grpo/new/run.json").is_file()
        run.finish()
    Path("runs/grpo/link").symlink_to(Path("runs/grpo/new").resolve())
    assert "is a link" in cli("runs", "rm", "runs/grpo/link", "--yes").stderr
    assert cli("runs", "rm", "nothing", "--yes").exit_code == 2
    Path("runs/grpo/middle/run.json").write_text("{")
    assert cli("runs", "rm", "runs/grpo/middle", "--yes").exit_code == 0, "a damaged run can go"
    assert not Path("runs/grpo/middle").exists()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"dataset": {"name": "humanml", "root": "data/mocap"}}, "humanml data/mocap"),
        ({"data": ["a", "b"]}, "a b"),
        ({"data": "episodes"}, "episodes"),
        ({"dataset": {}, "data": "", "env": {"name": "reach"}}, "reach"),
        ({}, ""),
    ],
)
def test_the_data_of_a_run_in_words(config: dict[str, Any], words: str) -> None:
    assert data_of(config) == words
