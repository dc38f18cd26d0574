"""The card of a model and the folder it lies in: what is said, and that no folder of the machine is named."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from motionkit import load_policy, load_reward
from motionkit.errors import MotionkitError
from motionkit.report.card import write_hub_folder
from motionkit.runs import TrainedOn, open_run
from motionkit.starter import weights_path
from motionkit.text_to_motion.evaluation.heldout import Shown

Cli = Callable[..., Result]


def make(out: Path, **config: Any) -> Path:
    """Make a finished run of `grpo` with the starter's weights."""
    block = {"before": 0.5, "after": 0.6, "delta": 0.1, "ci95": [0.05, 0.15], "n": 64, "real": 0.8}
    skate = {**block, "before": 0.2, "after": 0.3}
    given = {
        "run": {"out": str(out)}, "seed": 3, "dataset": {"name": "humanml", "root": "/home/someone/mocap"},
        "reward": {"tmr-dense": {"weights": "/home/someone/tmr", "alpha": 0.25}}, **config,
    }  # fmt: skip
    origins = {"dataset.root": "flag", "reward.tmr-dense.weights": "flag", "reward.tmr-dense.alpha": "flag"}
    with open_run("grpo", given, argv=["/home/someone/bin/motionkit", "grpo"], origins=origins) as run:
        policy = run.artifact("policy")
        shutil.copytree(weights_path("mdm"), policy)
        document = json.loads((policy / "policy.json").read_text())
        document["trained_on"] = {"name": "humanml", "root": "/home/someone/mocap", "statistics": "12ab"}
        document["text"]["model"] = "/home/someone/minilm"
        (policy / "policy.json").write_text(json.dumps(document))
        TrainedOn.of(["0a" * 16, "0b" * 16]).write(policy)
        rewards = {"tmr-dense": {"sentence": "tmr-dense does not see: counts; sees: movement"}}
        run.annotate(sensitivity={"rewards": rewards, "table": {"columns": [], "rows": []}})
        rows = [["reward", "0.5", "0.6", "0.8"]]
        run.annotate(tables=[{"title": "Held out", "columns": ["", "before", "after", "reference"], "rows": rows}])
        run.finish({"heldout": {"reward": block, "skate": skate}})
    return out


def test_a_card_says_what_the_run_found(tmp_path: Path) -> None:
    out = tmp_path / "model"
    what, files = write_hub_folder(str(make(tmp_path / "first")), out, license="cc-by-4.0")
    assert what == "a text-to-motion diffusion policy"
    assert files == ["README.md", "model.safetensors", "policy.json", "trained-on.json"]
    text = (out / "README.md").read_text()
    head, title = text.split("---\n\n", 1)[0], text.split("---\n\n", 1)[1]
    assert head.startswith("---\nlibrary_name: motionkit\nlicense: cc-by-4.0\ntags:\n")
    assert title.startswith("# Text-to-motion diffusion policy (first)\n")
    for words in (
        "made by `motionkit grpo`",
        "- Data set: mocap (layout humanml).",
        "- Who published it has not said where they come from and what their licence is.",
        "- 2 clips, episodes or pictures, by fingerprint",
        "The reward rose from 0.500 to 0.600",
        "|  | before | after | reference |\n| --- | --- | --- | --- |\n| reward | 0.5 | 0.6 | 0.8 |",
        "## What its reward does not see\n\n- tmr-dense does not see: counts; sees: movement.",
        "- Worse than before: skate (m/s) (0.200 to 0.300).",
        "| `reward.tmr-dense.alpha` | 0.25 |",
        "| `dataset.root` | mocap |",
        "motionkit generate",
        "`cc-by-4.0`, chosen by who published it",
    ):
        assert words in text, words


def test_a_card_says_of_the_data_what_its_user_says(tmp_path: Path, cli: Cli) -> None:
    run = make(tmp_path / "first")
    words = ("export", run, "model", "--to", "hub")
    done = cli(*words, "--data-source", "our studio, [2024](http://evil) <img src=x>", "--data-license", "cc-by-nc-4.0")
    assert done.exit_code == 0, done.stderr
    text = Path("model", "README.md").read_text()
    assert "- Source, by who published it: our studio, [2024]\\(http://evil) &lt;img src=x>." in text
    assert "- Licence of the data, by who published it: `cc-by-nc-4.0`." in text
    assert "has not said" not in text
    assert "datasets:" not in text
    assert cli(*words, "--overwrite", "--data-source", "someone/some-mocap").exit_code == 0
    text = Path("model", "README.md").read_text()
    assert "\ndatasets:\n- someone/some-mocap\n---\n" in text
    assert "- Who published it has not said what their licence is." in text
    assert cli("export", "starter", "other", "--to", "mdm", "--data-source", "x").exit_code == 2


def test_a_card_says_the_licence_that_lay_in_the_folder_of_the_data(tmp_path: Path) -> None:
    run = make(tmp_path / "first")
    document = json.loads((run / "policy" / "policy.json").read_text())
    document["trained_on"]["licence"] = "CC BY-NC 4.0 <img src=x>"
    (run / "policy" / "policy.json").write_text(json.dumps(document))
    write_hub_folder(str(run), tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text()
    assert "- Licence of the data, by the file in their folder: CC BY-NC 4.0 &lt;img src=x>." in text
    assert "- Who published it has not said where they come from." in text
    assert json.loads((tmp_path / "model" / "policy.json").read_text())["trained_on"]["licence"].startswith("CC BY-NC")


def test_a_card_of_the_starter_says_that_no_data_are_captured(tmp_path: Path) -> None:
    write_hub_folder("starter", tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text()
    assert (
        "- Data set: the starter pack of motionkit. Its motions are computed by code; no captured data is in it."
        in text
    )
    assert "has not said" not in text
    assert "motionkit generate 'a person walks | a person waves' motion.html --policy.checkpoint FOLDER" in text


def test_the_first_command_asks_for_what_the_policy_knows(tmp_path: Path) -> None:
    run = make(tmp_path / "first")
    write_hub_folder(str(run), tmp_path / "unknown")
    text = (tmp_path / "unknown" / "README.md").read_text()
    assert 'motionkit generate "TEXT" motion.html' in text
    assert "TEXT is a caption like those that it was trained on." in text
    assert "a person walks" not in text
    motion = ([np.zeros((4, 263), np.float32)], ["salsa dance | it's a walk"], [[(0, 2), (2, 4)]], [1.0], [[1.0, 1.0]])
    shown = Shown(*motion, skeleton="humanml", fps=20.0)
    (run / "heldout").mkdir()
    shown.save(run / "heldout" / "after.npz")
    write_hub_folder(str(run), tmp_path / "known")
    text = (tmp_path / "known" / "README.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("motionkit generate")]
    assert shlex.split(line)[2] == "salsa dance | it's a walk"
    assert 'load_policy("FOLDER").generate("salsa dance | it\'s a walk")' in text


def test_names_of_folders_are_text_in_a_card(tmp_path: Path) -> None:
    write_hub_folder(str(make(tmp_path / "run<b>x")), tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text()
    assert "# Text-to-motion diffusion policy (run&lt;b&gt;x)\n" in text
    odd = make(tmp_path / "odd", dataset={"name": "humanml", "root": "/home/someone/![a]<i>*m*"})
    document = json.loads((odd / "policy" / "policy.json").read_text())
    (odd / "policy" / "policy.json").write_text(json.dumps({**document, "trained_on": {}}))
    write_hub_folder(str(odd), tmp_path / "other")
    text = (tmp_path / "other" / "README.md").read_text()
    assert "- Data set: !\\[a\\]&lt;i&gt;\\*m\\* (layout humanml)." in text
    assert "<i>" not in text


def test_a_layout_is_not_taken_for_the_data(tmp_path: Path) -> None:
    """A model that was copied has no folder left; its layout's name is that of a known dataset."""
    run = make(tmp_path / "first", dataset={"name": "humanml"})
    document = json.loads((run / "policy" / "policy.json").read_text())
    document["trained_on"]["root"] = ""
    (run / "policy" / "policy.json").write_text(json.dumps(document))
    write_hub_folder(str(run), tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text()
    assert "- Data set: a folder in the layout humanml, whose name is not recorded." in text


def test_nothing_in_the_folder_names_the_machine(tmp_path: Path) -> None:
    write_hub_folder(str(make(tmp_path / "first")), tmp_path / "model")
    for path in (tmp_path / "model").iterdir():
        content = path.read_bytes()
        assert b"/home/someone" not in content, path.name
        assert str(tmp_path).encode() not in content, path.name
    assert "license: other" in (tmp_path / "model" / "README.md").read_text()
    assert "None was chosen" in (tmp_path / "model" / "README.md").read_text()


def test_a_control_is_called_one(tmp_path: Path) -> None:
    write_hub_folder(str(make(tmp_path / "first", control={"shuffle": True})), tmp_path / "model")
    assert "This run is a negative control" in (tmp_path / "model" / "README.md").read_text()
    plain = str(make(tmp_path / "second"))
    write_hub_folder(plain, tmp_path / "beside", control=str(tmp_path / "first"))
    assert "| change of | this run | control |\n| --- | --- | --- |\n| reward | +0.100 | +0.100 |" in (
        (tmp_path / "beside" / "README.md").read_text()
    )
    with pytest.raises(MotionkitError, match="is no control of"):
        write_hub_folder(plain, tmp_path / "third", control=plain)


@pytest.mark.parametrize(("name", "what"), [("tmr", "TMR"), ("evaluator", "evaluator"), ("regions", "regions")])
def test_other_models_have_cards(name: str, what: str, tmp_path: Path) -> None:
    said, files = write_hub_folder(str(weights_path("tmr").parent / name), tmp_path / "model")
    assert what in said
    assert "model.safetensors" in files
    assert "The run that made it is not here." in (tmp_path / "model" / "README.md").read_text()


def test_the_folder_is_taken_where_a_model_is(tmp_path: Path) -> None:
    write_hub_folder("starter", tmp_path / "policy")
    assert load_policy(str(tmp_path / "policy")).generate("a person walks", seed=1)
    write_hub_folder(str(weights_path("tmr")), tmp_path / "tmr")
    assert load_reward("tmr-dense", weights=str(tmp_path / "tmr")).name == "tmr-dense"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MotionkitError):
        write_hub_folder(str(tmp_path / "empty"), tmp_path / "model")
    assert not (tmp_path / "model").exists()
    base = tmp_path / "sa2va"
    base.mkdir()
    (base / "policy.json").write_text(json.dumps({"kind": "sa2va", "base": {"place": "/models/sa2va"}}))
    (base / "model.safetensors").write_bytes(b"")
    with pytest.raises(MotionkitError, match="a Sa2VA in a folder of this machine"):
        write_hub_folder(str(base), tmp_path / "model")


def test_the_commands(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = cli("export", "starter", "model", "--to", "hub", "--license", "mit")
    assert done.exit_code == 0, done.stderr
    assert "next: motionkit push model ORG/NAME" in done.stderr
    assert cli("export", "starter", "model", "--to", "hub").exit_code == 2
    assert cli("export", "starter", "other", "--to", "mdm", "--license", "mit").exit_code == 2
    planned = cli("push", "model", "me/walks", "--dry-run", "--json")
    assert json.loads(planned.stdout)["plan"]["would_send"] == ["README.md", "model.safetensors", "policy.json"]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused = cli("push", "model", "me/walks")
    assert refused.exit_code == 2
    assert "nothing is sent" in refused.stderr
    Path("model", "handler.py").write_text("")
    assert "handler.py, which the export did not write" in cli("push", "model", "me/walks", "--dry-run").stderr
