"""``motionkit doctor --released``: what is expected, what is there, and one root for all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from motionkit.text_to_motion import released
from motionkit.text_to_motion.released import RELEASES, Expected, Release, look

from ..made.commands import assert_refused

Cli = Callable[..., Result]
ROOT = Path(__file__).parents[2]

SMALL = (
    Release(
        "model", "--policy.checkpoint", "somewhere", (
            Expected(("save/model.pt",), 5, hashlib.sha256(b"model").hexdigest()),
            Expected(("save/args.json", "save/old.json"), md5=hashlib.md5(b"{}").hexdigest()),
        ),
    ),
    Release("data", "--dataset.root", "elsewhere", lists=(("data/train.txt", 2),), folders=(("data/npy", ".npy", 2),)),
    Release("more", "--evaluator", "there", (Expected(("finest.tar",)),), needed=False),
)  # fmt: skip


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


WHOLE = {
    "save/model.pt": "model", "save/old.json": "{}", "data/train.txt": "a\n\nb\n",
    "data/npy/a.npy": "", "data/npy/b.npy": "",
}  # fmt: skip


def states(root: Path) -> dict[str, str]:
    return {one.path: f"{one.state} {one.text}" for one in look(root)}


def test_files_are_compared_with_what_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "RELEASES", SMALL)
    found = states(tmp_path)
    assert set(found) == {"save/model.pt", "save/args.json", "data/train.txt", "data/npy", "finest.tar"}
    assert found["save/args.json"] == "miss is not there (or save/old.json)"
    assert all(text.startswith("miss") for text in found.values())
    put(tmp_path, WHOLE)
    found = states(tmp_path)
    assert found["save/model.pt"] == "ok 5 bytes, sha256 as published"
    assert found["save/old.json"] == "ok 2 bytes, md5 as published"
    assert found["data/train.txt"] == "ok 2 clips"
    assert found["data/npy"] == "ok 2 files"
    put(tmp_path, {"save/model.pt": "modem", "save/args.json": "[]", "data/train.txt": "a"})
    (tmp_path / "data/npy/a.npy").unlink()
    found = states(tmp_path)
    assert "sha256 is not the published" in found["save/model.pt"]
    assert "md5 is not the published" in found["save/args.json"], "the first place counts"
    assert found["data/train.txt"] == "warn lists 1 clip, the published split 2"
    assert found["data/npy"] == "warn 1 file, the splits name 2"
    put(tmp_path, {"save/model.pt": "mod"})
    assert "has 3 bytes, published are 5" in states(tmp_path)["save/model.pt"]


def test_the_command_says_what_is_missing_and_where_it_comes_from(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released, "RELEASES", SMALL)
    refused = cli("doctor", "--released", "--root", tmp_path)
    assert refused.exit_code == 1
    assert "2 of 2 downloads that training needs are incomplete: model, data" in refused.stderr
    assert "from somewhere" in refused.stdout
    put(tmp_path, WHOLE)
    done = cli("doctor", "--released", "--root", tmp_path)
    assert done.exit_code == 0, "the evaluator is not needed to train"
    assert "from there" in done.stdout
    assert "next: motionkit grpo --config" in done.stdout
    (tmp_path / "my.toml").write_text(f'root = "{tmp_path}"\n')
    document = json.loads(cli("doctor", "--released", "--config", tmp_path / "my.toml", "--json").stdout)
    assert (document["status"], document["root"]) == ("done", str(tmp_path))
    assert document["files"][0] == {
        "release": "model", "state": "ok", "path": "save/model.pt", "text": "5 bytes, sha256 as published"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--released", "--root", "nowhere"], "there is no folder nowhere"),
        (["--released", "--config", "none.toml"], "none.toml does not exist"),
        (["--released", "--config", "empty.toml"], "names no root"),
        (["--released", "--config", "empty.toml", "--root", "."], "both given"),
        (["--root", "."], "acts with --released only"),
    ],
)
def test_what_is_refused(cli: Cli, words: list[str], said: str) -> None:
    Path("empty.toml").write_text("[run]\n")
    assert_refused(cli("doctor", *words), said)


def test_every_path_of_the_settings_of_example_03_is_one_that_is_looked_for(cli: Cli) -> None:
    text = (ROOT / "examples/03-text-to-motion-grpo/released.toml").read_text(encoding="utf-8")
    named = [part.split('"')[0] for part in text.split('"${root}/')[1:]]
    known = [path for release in RELEASES if release.needed for file in release.files for path in file.paths]
    assert len(named) == 6
    assert all(any(path == name or path.startswith(f"{name}/") for path in known) for name in named)


def test_a_settings_file_names_one_root(cli: Cli) -> None:
    Path("data").mkdir()
    file = Path("my.toml")
    file.write_text('root = "data"\n[dataset]\nname = "humanml"\nroot = "${root}/HumanML3D"\n')
    assert_refused(cli("grpo", "--config", file, "--dry-run"), "data/HumanML3D")
    file.write_text('[dataset]\nname = "humanml"\nroot = "${root}/HumanML3D"\n')
    assert "data/HumanML3D" not in cli("grpo", "--config", file, "--dry-run").stderr
    file.write_text('root = "data"\n[dataset]\nname = "humanml"\nroot = "${base}/HumanML3D"\n')
    assert "refers to base, which is not in the file" in cli("grpo", "--config", file, "--dry-run").stderr
