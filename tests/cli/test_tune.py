"""`motionkit tune-bayes` end to end, on a trainer that is a formula."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from filelock import FileLock
from typer.testing import Result

from ..made.forks import Forked, Forks

Cli = Callable[..., Result]
Start = Callable[[Sequence[object]], Forked]
SHORT = ("--trainer", "tuned", "--base-set", "run.num_steps=3", "--jobs", "1", "--seeds", "2", "--sampler", "random")
PLACE = Path("runs/tune/a")


def document(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def start(forks: Forks, tuned: ModuleType) -> Start:
    """Start the command in a process of its own, here."""
    # What is in front of the import path: the package of the fixture `tuned`.
    return lambda words: forks.start("motionkit", "tune-bayes", *map(str, words), **beside(tuned))


def beside(tuned: ModuleType) -> dict[str, Any]:
    """Return what lets another process import the trainer."""
    assert tuned.__file__
    folder = str(Path(tuned.__file__).parent)
    return {"path": [folder], "environment": {"PYTHONPATH": folder}}


def until(what: Callable[[], bool]) -> None:
    """Wait for something, at most two minutes."""
    end = time.monotonic() + 120
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_search_ends_with_better_settings(cli: Cli, tuned: ModuleType) -> None:
    done = cli("tune", "--bayes", *SHORT, "--trials", 12, "--name", "a", "--json", "--pruner", "none")
    found = document(done)
    assert (found["command"], found["status"]) == ("tune-bayes", "done")
    assert len(found["trials"]) == 12
    base = {"shape.x": 0.2, "shape.rate": 1e-3, "shape.depth": 2}
    assert found["trials"][0]["params"] == base
    assert found["baseline"]["params"] == base
    assert found["baseline"]["value"] == pytest.approx(0.3)
    values = [one["value"] for one in found["trials"]]
    assert found["best"]["value"] == max(values) > 0.3
    assert found["best"]["params"] == found["trials"][values.index(max(values))]["params"]
    assert found["best"]["repeated"]["seeds"] == [1, 2]
    shape = tuned.Shape(**{key[6:]: value for key, value in found["best"]["params"].items()})
    assert found["best"]["repeated"]["values"] == [tuned.value_of(shape, seed) for seed in (1, 2)]
    assert found["outcome"] == "better"
    assert (found["sampler"], found["storage"], found["seeds"]) == ("random", "journal", 2)
    assert abs(sum(found["importances"].values()) - 1) < 1e-6
    assert " 1/12  trial 0, the base: 0.3000" in done.stderr
    history = json.loads((PLACE / "history.json").read_text())
    assert history["trials"] == found["trials"]
    assert "<polyline" in (PLACE / "report.html").read_text()
    again = document(cli("tuned", "--config", PLACE / "best.toml", "--json"))
    assert again["heldout"]["skill"]["after"] == found["best"]["value"]
    assert document(cli("tuned", "--config", PLACE / "best.json", "--json"))["steps"] == 3


def test_trials_keep_settings_and_metrics_and_only_the_best_its_model(cli: Cli, tuned: ModuleType) -> None:
    found = document(cli("tune-bayes", *SHORT, "--trials", 6, "--name", "a", "--json"))
    best = found["best"]["number"]
    for number in range(6):
        folder = PLACE / "trials" / f"trial-{number:05d}"
        assert (folder / "metrics.jsonl").read_text()
        config = json.loads((folder / "config.json").read_text())
        assert config["shape"]["x"] == found["trials"][number]["params"]["shape.x"]
        assert not (folder / "checkpoints").exists()
        assert (folder / "policy").exists() == (number == best)


def test_two_processes_do_the_trials_once_each_and_tell_of_them(
    cli: Cli, tuned: ModuleType, forked_workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motionkit.tuning.progress._EVERY", 0.05)
    # No further seeds: they would start the processes once more.
    words = ["--trainer", "tuned", "--base-set", "run.num_steps=3", "--sampler", "random", "--seeds", "0"]
    words += ["--base-set", "wait=0.2"]
    done = cli("tune-bayes", *words, "--trials", 7, "--jobs", 2, "--name", "a", "--json")
    found = document(done)
    assert re.search("trial 0, the base: step [0-3] of 3", done.stderr)
    assert "/7  trial" in done.stderr
    assert [one["number"] for one in found["trials"]] == list(range(7))
    assert all(one["state"] in ("complete", "pruned") for one in found["trials"])
    assert len({one["params"]["shape.x"] for one in found["trials"]}) == 7
    assert [path.name for path in (PLACE / "workers").iterdir() if path.is_dir()] == []


def test_a_killed_search_goes_on_and_loses_nothing(cli: Cli, start: Start) -> None:
    """Killed in the middle of a trial; the resumed search has the trials of one that nothing disturbed."""
    slow = [*SHORT, "--trials", "6", "--base-set", "wait=0.15", "--pruner", "none"]
    process = start([*slow, "--name", "a"])
    third = PLACE / "trials" / "trial-00002" / "metrics.jsonl"
    until(lambda: third.exists() and third.read_text() != "")
    process.kill()
    process.communicate()
    done = cli("tune-bayes", "--resume", PLACE, "--json")
    found = document(done)
    assert "trials that were cut off are run again: 2" in done.stderr
    states = [one["state"] for one in found["trials"]]
    assert states == ["complete"] * 6
    straight = document(cli("tune-bayes", *SHORT, "--trials", 6, "--name", "b", "--json", "--pruner", "none"))
    for key in ("number", "params", "value", "watched"):
        assert [one[key] for one in found["trials"]] == [one[key] for one in straight["trials"]]


def test_a_search_that_was_killed_at_its_last_trials_repeats_them(cli: Cli, start: Start) -> None:
    """The trials with further seeds: one that was cut off was neither repeated nor missed by anybody."""
    slow = [*SHORT, "--trials", "3", "--base-set", "wait=0.15", "--pruner", "none"]
    process = start([*slow, "--name", "a"])
    first = PLACE / "seeds" / "base-seed-1" / "metrics.jsonl"
    until(lambda: first.exists() and first.read_text() != "")
    process.kill()
    process.communicate()
    found = document(cli("tune-bayes", "--resume", PLACE, "--json"))
    assert found["best"]["repeated"]["seeds"] == found["baseline"]["repeated"]["seeds"] == [1, 2]


@pytest.mark.parametrize("line", ['{"op_code": 99, "worker_id": "x"}', "text"])
def test_a_journal_with_a_foreign_line_is_an_error_that_names_it(cli: Cli, tuned: ModuleType, line: str) -> None:
    words = [*SHORT, "--trials", "1", "--name", "a"]
    assert cli("tune-bayes", *words).exit_code == 0
    with (PLACE / "journal.log").open("a") as file:
        file.write(line + "\n")
    refused = cli("tune-bayes", "--resume", PLACE, "--trials", 2)
    said = " ".join(refused.stderr.split())
    assert "error: the storage runs/tune/a" in said
    assert "copy the study's folder again" in said
    assert "bug" not in said


def test_a_search_does_not_go_on_with_other_data(cli: Cli, tuned: ModuleType) -> None:
    Path("data.txt").write_text("clips")
    words = [*SHORT, "--trials", "2", "--base-set", "data=data.txt", "--name", "a"]
    assert cli("tune-bayes", *words).exit_code == 0
    Path("kept.txt").write_text("clips")
    Path("data.txt").write_text("other")
    for more in (["--resume", PLACE, "--trials", 3], [*words, "--trials", 3]):
        refused = cli("tune-bayes", *more)
        assert refused.exit_code == 2
        assert "the content of data has changed since the run began" in " ".join(refused.stderr.split())
    stored = [*words[:-2], "--storage", "sqlite:///t.db", "--name"]
    assert cli("tune-bayes", *stored, "b").exit_code == 0
    Path("data.txt").write_text("clips")
    refused = cli("tune-bayes", *stored, "b", "--out", "elsewhere")
    assert refused.exit_code == 2
    assert cli("tune-bayes", "--resume", PLACE, "--trials", 3).exit_code == 0


def test_settings_that_kill_their_process_twice_have_failed(cli: Cli, tuned: ModuleType, forked_workers: None) -> None:
    Path("space.json").write_text('{"shape.x": [-1.0, -0.5]}')
    words = ["--trainer", "tuned", "--base-set", "trap=crash", "--base-set", "run.num_steps=3", "--seeds", "0"]
    words += ["--jobs", "2", "--trials", "3", "--space", "space.json", "--sampler", "random", "--name", "a"]
    done = cli("tune-bayes", *words, "--json")
    found = document(done)
    states = [one["state"] for one in found["trials"]]
    assert states.count("failed") >= 1
    assert states.count("complete") + states.count("failed") == len(states) == 3
    reasons = {one["reason"] for one in found["trials"] if one["state"] == "failed"}
    assert reasons == {"its process was killed, twice with these settings"}


def test_a_signal_ends_it_and_resume_goes_on(cli: Cli, start: Start) -> None:
    # No further seeds: they would start the processes once more.
    words = [*SHORT, "--trials", "4", "--base-set", "wait=0.3", "--jobs", "2", "--seeds", "0", "--name", "a", "--json"]
    process = start(words)
    first = PLACE / "trials" / "trial-00000" / "metrics.jsonl"
    until(lambda: first.exists() and first.read_text() != "")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert json.loads(out)["status"] == "interrupted"
    assert "motionkit tune-bayes --resume runs/tune/a" in err
    found = document(cli("tune-bayes", "--resume", PLACE, "--jobs", 1, "--json"))
    assert sum(one["state"] in ("complete", "pruned") for one in found["trials"]) == 4


def test_the_same_name_goes_on_with_more_trials(cli: Cli, tuned: ModuleType) -> None:
    first = document(cli("tune-bayes", *SHORT, "--trials", 2, "--name", "a", "--json"))
    found = document(cli("tune-bayes", *SHORT, "--trials", 5, "--name", "a", "--json"))
    assert [one["number"] for one in found["trials"]] == list(range(5))
    # Further seeds are of what is the best now.
    assert found["best"]["number"] > first["best"]["number"]
    shape = tuned.Shape(**{key[6:]: value for key, value in found["best"]["params"].items()})
    assert found["best"]["repeated"]["values"] == [tuned.value_of(shape, seed) for seed in (1, 2)]
    other = cli("tune-bayes", *SHORT, "--trials", 5, "--name", "a", "--base-set", "shape.depth=3")
    assert other.exit_code != 0
    assert "with other settings, space, value or data" in other.stderr
    fresh = document(cli("tune-bayes", *SHORT, "--trials", 2, "--name", "a", "--overwrite", "--json"))
    assert len(fresh["trials"]) == 2


@pytest.mark.parametrize(
    ("trap", "state", "said"),
    [
        ("diverge", "diverged", "mpl/skill is nan at step 2"),
        ("error", "diverged", "the gradient has not been finite"),
        ("refuse", "failed", "x and depth do not fit together."),
    ],
)
def test_a_trial_that_goes_wrong_is_recorded_and_the_search_goes_on(
    cli: Cli, tuned: ModuleType, trap: str, state: str, said: str
) -> None:
    found = document(
        cli(
            "tune-bayes",
            *SHORT,
            "--trials",
            8,
            "--base-set",
            f"trap={trap}",
            "--name",
            "a",
            "--json",
            "--pruner",
            "none",
        )
    )
    bad = [one for one in found["trials"] if one["params"]["shape.x"] < 0]
    assert 0 < len(bad) < 7
    assert {one["state"] for one in bad} == {state}
    assert all(said in one["reason"] and one["value"] is None for one in bad)
    assert {one["state"] for one in found["trials"] if one["params"]["shape.x"] >= 0} == {"complete"}


def test_trials_that_fall_behind_are_pruned(cli: Cli, tuned: ModuleType) -> None:
    words = ["--trainer", "tuned", "--base-set", "run.num_steps=9", "--jobs", "1", "--seeds", "0", "--sampler", "tpe"]
    found = document(cli("tune-bayes", *words, "--trials", 14, "--name", "a", "--json"))
    assert (found["sampler"], found["pruner"]) == ("tpe", "hyperband")
    pruned = [one for one in found["trials"] if one["state"] == "pruned"]
    assert pruned
    assert all("is behind other trials" in one["reason"] and len(one["watched"]) < 9 for one in pruned)


def test_where_every_trial_fails_the_command_fails(cli: Cli, tuned: ModuleType) -> None:
    done = cli("tune-bayes", *SHORT, "--trials", 50, "--base-set", "trap=silent", "--name", "a", "--json")
    assert done.exit_code == 1
    error = json.loads(done.stdout)["error"]
    assert "no trial of 5 succeeded" in error["message"]
    assert "its summary has no heldout.skill.after" in error["why"]
    assert json.loads((PLACE / "run.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"shape.y": [0, 1]}', "shape.y is not a setting of tuned"),
        ('{"shape.x": [1, 0]}', "1 to 0 is not a range"),
        ('{"shape.x": [0, 1, "log"]}', "begins above 0"),
        ('{"shape.x": 3}', "is not a list"),
        ('{"shape.depth": [1.5, 4, "int"]}', "not whole numbers"),
        ('{"shape.kind": ["plain"]}', "one choice is not a choice"),
        ('{"shape.kind": [0, 1]}', "shape.kind is 'plain' in the base settings"),
        ("{}", "is empty"),
        ("[1]", "list"),
        ('{"shape.x": [0, 1', "space.json"),
    ],
)
def test_a_malformed_space_is_refused_before_anything_is_made(
    cli: Cli, tuned: ModuleType, text: str, said: str
) -> None:
    Path("space.json").write_text(text)
    done = cli("tune-bayes", *SHORT, "--space", "space.json")
    assert done.exit_code == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--space", "nothing.json"], "does not exist"),
        (["--base", "nothing.toml"], "does not exist"),
        (["--base-set", "shape.xx=1"], "did you mean shape.x?"),
        (["--trial-set", "shape.xx=1"], "did you mean shape.x?"),
        (["--data", "nothing"], "nothing does not exist"),
        (["--trainer", "tunde"], "tuned"),
        (["--trainer", "tuned-plain"], "give one with --space FILE"),
        (["--sampler", "random", "--pruner", "median", "--watch", ""], "needs a metric to watch"),
        (["--storage", "nosuch://x"], "cannot be used"),
        (["--trials", "0"], "--trials"),
        (["--write-config", "no/such/folder.toml"], "there is no folder"),
    ],
)
def test_bad_input_exits_with_two(cli: Cli, tuned: ModuleType, words: list[str], said: str) -> None:
    done = cli("tune-bayes", *SHORT[:2], *words)
    assert done.exit_code == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("runs").exists()


def test_the_space_holds_the_base(cli: Cli, tuned: ModuleType) -> None:
    Path("space.toml").write_text('[shape]\nx = [0.5, 1.0]\nkind = ["round", "plain"]\n')
    done = cli("tune-bayes", *SHORT[:-2], "--space", "space.toml", "--trials", 3, "--name", "a", "--json")
    found = document(done)
    assert "shape.x: the base has 0.2, so the space was widened to hold it" in done.stderr
    assert found["trials"][0]["params"] == {"shape.x": 0.2, "shape.kind": "plain"}
    assert found["sampler"] == "tpe"
    assert "the space has choices" in done.stderr


def test_the_result_is_merged_into_a_settings_file(cli: Cli, tuned: ModuleType) -> None:
    Path("mine.toml").write_text("# mine\nseed = 0 # fixed\n\n[shape]\nx = 0.2 # as measured\n\n[run]\nnum_steps = 3\n")
    words = ["--trainer", "tuned", "--base", "mine.toml", "--jobs", "1", "--sampler", "random", "--seeds", "1"]
    done = cli("tune-bayes", *words, "--trials", 8, "--name", "a", "--write-config", "mine.toml")
    assert done.exit_code == 0, done.stderr
    text = Path("mine.toml").read_text()
    assert text.startswith("seed = 0\n")
    assert Path("mine.toml.bak").read_text().startswith("# mine\nseed = 0 # fixed\n")
    assert "num_steps = 3" in text
    assert "- shape.x = 0.2\n" in done.stderr
    assert "+ shape.depth = " in done.stderr
    best = json.loads((PLACE / "run.json").read_text())["summary"]["best"]
    again = document(cli("tuned", "--config", "mine.toml", "--json"))
    assert again["heldout"]["skill"]["after"] == best["value"]


def test_a_config_stays_where_nothing_beats_it(cli: Cli, tuned: ModuleType) -> None:
    before = '{"shape": {"x": 0.7, "rate": 0.01, "depth": 4}} // the best there is'
    Path("mine.json").write_text(before)
    done = cli("tune-bayes", *SHORT, "--base", "mine.json", "--trials", 4, "--name", "a", "--write-config", "mine.json")
    assert done.exit_code == 0, done.stderr
    assert "Nothing beat the base settings" in done.stderr
    assert Path("mine.json").read_text() == before
    # There is nothing to compare the base with.
    assert "further seeds" not in done.stderr
    assert not (PLACE / "seeds").exists()
    assert json.loads((PLACE / "run.json").read_text())["summary"]["baseline"]["repeated"] is None


def test_the_result_holds_the_searched_settings_and_the_base_as_given(
    cli: Cli, tuned: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the search fixes for its trials is not the user's: neither where the best wins nor where the base does."""
    from motionkit.contracts.search import Range, Search

    space = {"shape.x": Range(-1.0, 1.0)}
    monkeypatch.setattr(
        tuned, "search",
        lambda settings: Search(
            space, value="heldout.skill.after", base={"shape.depth": 3, "shape.kind": "round"}, trial={"log.every": 2}
        ),
    )  # fmt: skip
    words = [*SHORT, "--name", "a", "--json"]
    found = document(cli("tune-bayes", *words, "--trials", 8, "--base-set", "shape.rate=0.01"))
    assert found["outcome"] == "better"
    best = found["best"]["params"]["shape.x"]
    expected = {"run": {"num_steps": 3}, "shape": {"rate": 0.01, "x": best}}
    assert json.loads((PLACE / "best.json").read_text()) == expected
    assert tomllib.loads((PLACE / "best.toml").read_text()) == expected
    words = [*words, "--trials", "3", "--base-set", "shape.x=0.7", "--overwrite", "--write-config", "new.json"]
    assert document(cli("tune-bayes", *words))["outcome"] == "base"
    assert json.loads((PLACE / "best.json").read_text()) == {"run": {"num_steps": 3}, "shape": {"x": 0.7}}
    assert not Path("new.json").exists()


def test_trials_that_run_are_told_of(cli: Cli, tuned: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first trial of a search took five minutes without a line."""
    monkeypatch.setattr("motionkit.tuning.progress._EVERY", 0.05)
    done = cli("tune-bayes", *SHORT, "--trials", "2", "--base-set", "wait=0.2", "--name", "a")
    assert done.exit_code == 0, done.stderr
    # In this process no step is missed.
    assert re.search("trial 0, the base: step 2 of 3  eta [0-9.]+ s", done.stderr)
    assert re.search(r"(best|base), seed [12]: step \d of 3", done.stderr)


def test_a_locked_storage_is_said(cli: Cli, tuned: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.tuning.storage.WAIT", 0.2)
    document(cli("tune-bayes", *SHORT, "--trials", 2, "--name", "a", "--json"))
    with FileLock(str(PLACE / "journal.log.lock")):
        done = cli("tune-bayes", "--resume", PLACE, "--trials", 3)
    assert done.exit_code in (1, 2)
    assert "is locked by another process" in done.stderr
    assert "fix  wait for that process" in done.stderr
    words = [*SHORT, "--trials", 2, "--name", "b", "--storage", "sqlite:///tune.db"]
    document(cli("tune-bayes", *words, "--json"))
    with sqlite3.connect("tune.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        done = cli("tune-bayes", *words, "--trials", 3)
    assert done.exit_code == 2
    assert "sqlite:///tune.db is locked by another process" in done.stderr


def test_a_database_without_its_driver_is_said(cli: Cli, tuned: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setitem(sys.modules, "psycopg2", ModuleType("psycopg2"))  # SQLAlchemy's own choice, an older one
    done = cli("tune-bayes", *SHORT, "--trials", 2, "--name", "a", "--storage", "postgresql://me:secret@127.0.0.1/none")
    assert done.exit_code == 2
    assert "the storage postgresql://me@127.0.0.1/none needs a driver" in done.stderr
    assert "[tune]" in done.stderr
    assert not PLACE.exists()


def test_another_machine_joins_by_name_and_storage(cli: Cli, tuned: ModuleType) -> None:
    """A second folder on the same storage: both have the same trials, and together no more than were asked for."""
    words = [*SHORT, "--name", "a", "--storage", f"sqlite:///{Path.cwd() / 'tune.db'}", "--json"]
    first = document(cli("tune-bayes", *words, "--trials", 3))
    Path("other").mkdir()
    os.chdir("other")
    second = document(cli("tune-bayes", *words, "--trials", 5))
    assert second["trials"][:3] == first["trials"]
    assert len(second["trials"]) == 5
    assert sorted(path.name for path in Path("runs/tune/a/trials").iterdir()) == ["trial-00003", "trial-00004"]
    assert second["baseline"]["repeated"] == first["baseline"]["repeated"]


def test_help_and_dry_run(cli: Cli, tuned: ModuleType) -> None:
    code = (
        "import sys\nfrom motionkit.cli import main\nsys.argv = ['motionkit', 'tune-bayes', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not {'torch', 'optuna', 'sqlalchemy', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    plan = document(cli("tune-bayes", *SHORT, "--dry-run", "--json"))
    assert plan["plan"]["space"]["shape.rate"] == [1e-4, 1e-1, "log"]
    assert not Path("runs").exists()


def test_a_second_process_of_the_folder_helps(cli: Cli, start: Start) -> None:
    words = [*SHORT, "--trials", "8", "--base-set", "wait=0.2", "--name", "a", "--json"]
    one = start(words)
    until(lambda: (PLACE / "trials").exists())
    two = cli("tune-bayes", *words)
    out, err = one.communicate(timeout=120)
    assert (one.returncode, two.exit_code) == (0, 0), err + two.stderr
    assert "this one takes trials of it" in two.stderr
    states = [each["state"] for each in json.loads(out)["trials"]]
    assert len(states) == 8
