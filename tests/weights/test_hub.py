"""Ids of the Hugging Face hub in place of folders, and what is sent there, against a stand-in of its HTTP interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import Result

from motionkit import load_policy, load_reward, weights
from motionkit.contracts.open_model import open_model, trained_on
from motionkit.errors import MotionkitError
from motionkit.report.card import hub_files, write_hub_folder
from motionkit.starter import weights_path
from tests.made.hub import Hub, serving

from ..made.commands import assert_refused


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    from huggingface_hub import constants

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with serving() as found:
        monkeypatch.setattr(constants, "ENDPOINT", found.address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", found.address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        yield found


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_policy_is_opened_by_its_id(hub: Hub) -> None:
    hub.repositories["someone/walks"] = stored(weights_path("mdm"))
    ours, theirs = load_policy("starter"), load_policy("someone/walks")
    for name, value in ours.network.state_dict().items():
        assert torch.equal(value, theirs.network.state_dict()[name])
    assert open_model("someone/walks").what.startswith("a policy of kind mdm")
    assert not trained_on("someone/walks").complete


def test_a_reward_is_opened_by_its_id(hub: Hub) -> None:
    hub.repositories["someone/tmr"] = stored(weights_path("tmr"))
    reward = load_reward("tmr-dense", weights="someone/tmr")
    assert reward.name == "tmr-dense"
    assert any("someone/tmr/resolve/" in line for line in hub.asked)


def test_commands_take_ids(hub: Hub, cli: Callable[..., Result]) -> None:
    hub.repositories["someone/walks"] = stored(weights_path("mdm"))
    hub.repositories["someone/tmr"] = stored(weights_path("tmr"))
    few = ["--inference-timesteps", "2"]
    done = cli("generate", "a person walks", "walk.html", "--policy.checkpoint", "someone/walks", *few)
    assert done.exit_code == 0, done.stderr
    assert Path("walk.html").stat().st_size > 10_000
    planned = cli("grpo", "--policy.checkpoint", "someone/walks", "--reward.weights", "someone/tmr", "--dry-run")
    assert planned.exit_code == 0, planned.stderr
    assert_refused(
        cli("generate", "a person walks", "walk.bvh", "--policy.checkpoint", "someone/nothing", *few),
        "someone/nothing does not exist",
    )


def test_code_in_a_repository_is_named_and_not_downloaded(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    content = stored(weights_path("mdm"))
    hub.repositories["someone/code"] = {**content, "handler.py": b"raise SystemExit('executed')", "x.pkl": b"\x80"}
    folder = weights.located("someone/code")
    assert sorted(path.name for path in folder.iterdir()) == sorted(content)
    assert not any(line.endswith((".py", ".pkl")) for line in hub.asked)
    assert "someone/code holds code, handler.py and 1 more: it was neither downloaded nor run" in caplog.text


def test_a_path_is_never_asked_for(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for path in ("runs/mine", "./a/b", "~/a", "a/b/c", "starter", "", "/a/b", "a//b", "a/../b"):
        assert weights.located(path) == Path(path).expanduser()
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "name").mkdir()
    assert weights.located("org/name") == Path("org/name")
    assert hub.asked == []


def test_what_the_hub_does_not_have_is_an_error(hub: Hub) -> None:
    with pytest.raises(MotionkitError) as caught:
        load_policy("someone/nothing")
    assert caught.value.code == 2
    assert "hf download someone/nothing" in caught.value.fix


def test_without_a_network_the_cache_is_used(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["someone/tmr"] = stored(weights_path("tmr"))
    first = weights.located("someone/tmr")
    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nobody answers
        assert weights.located("someone/tmr") == first
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.asked.clear()
    assert weights.located("someone/tmr") == first
    with pytest.raises(MotionkitError, match="someone/other"):
        weights.located("someone/other")
    assert hub.asked == []


def test_an_export_is_sent_and_opened_again(hub: Hub, tmp_path: Path) -> None:
    what, files = write_hub_folder("starter", tmp_path / "out")
    assert what == "a text-to-motion diffusion policy"
    assert weights.push(tmp_path / "out", "me/walks", hub_files(tmp_path / "out")) == f"{hub.address}/me/walks"
    assert hub.private == {"me/walks": True}
    assert hub.tokens == {"Bearer hf_test"}
    assert hub.repositories["me/walks"] == {name: (tmp_path / "out" / name).read_bytes() for name in files}
    ours, theirs = load_policy("starter"), load_policy("me/walks")
    assert all(map(torch.equal, ours.network.state_dict().values(), theirs.network.state_dict().values()))


@pytest.mark.parametrize(
    ("offline", "token", "word"),
    [("", None, "logged in"), ("1", None, "nothing"), ("1", "hf", "nothing")],
)
def test_nothing_is_sent_without_a_login_or_offline(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: str, token: str | None, word: str
) -> None:
    write_hub_folder("starter", tmp_path / "out")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: token)
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    with pytest.raises(MotionkitError, match=word):
        weights.push(tmp_path / "out", "me/walks", ["README.md"])
    assert hub.asked == []


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b/c", "http://x/y", "walks", "me/" + "w" * 300, "me/a--b", "me/..", "/me/walks", "me/walks/", ""],
)
def test_what_is_no_id_is_refused_before_anything_is_looked_at(
    name: str, hub: Hub, tmp_path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write_hub_folder("starter", out)
    for offline in ("", "1"):
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
        for more in ([], ["--dry-run"]):
            assert_refused(cli("push", out, name, *more), "is not an id of the Hugging Face hub")
    assert hub.asked == []


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda out: (out / "handler.py").write_text("print()"), "handler.py"),
        (lambda out: (out / "model.safetensors").unlink(), "model.safetensors"),
        (lambda out: _link(out / "model.safetensors"), "damaged: model.safetensors"),
        (lambda out: [path.unlink() for path in out.iterdir()], "export.json"),
    ],
)
def test_a_folder_with_something_else_is_not_sent(tmp_path: Path, change: Callable[[Path], object], word: str) -> None:
    out = tmp_path / "out"
    write_hub_folder("starter", out)
    assert hub_files(out) == ["README.md", "model.safetensors", "policy.json"]
    change(out)
    with pytest.raises(MotionkitError, match=word):
        hub_files(out)
