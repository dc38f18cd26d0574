"""A policy and the text model it was trained with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.text_to_motion.grpo.algorithms.base import Reference
from motionkit.text_to_motion.mdm.open import open_encoder, open_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MDMOptions

Make = Callable[..., MDMPolicy]


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text model in the local cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def trained(make_policy: Make, clip: Path, tmp_path: Path) -> Path:
    """A policy folder."""
    return make_policy(encoder=open_encoder("clip", str(clip))).save(tmp_path / "policy")


def test_the_folder_it_was_trained_with_is_used_again(trained: Path, clip: Path) -> None:
    policy = open_policy(MDMOptions(checkpoint=str(trained)))
    assert policy.encoder.source == str(clip)
    assert policy.inputs["text_model"] == open_encoder("clip", str(clip)).fingerprint


def test_another_text_model_is_refused(trained: Path, clip: Path, other_clip: Path) -> None:
    with pytest.raises(MotionkitError, match="trained with another clip text model") as error:
        open_policy(MDMOptions(checkpoint=str(trained), text_model=str(other_clip)))
    told = error.value
    assert told.code == 2
    assert str(other_clip) in told.message
    assert str(clip) in told.why
    for folder in (clip, other_clip):
        assert open_encoder("clip", str(folder)).fingerprint in told.why
    # What the fix says: the user vouches for it in the description itself.
    document = json.loads((trained / "policy.json").read_text())
    document["text"]["fingerprint"] = open_encoder("clip", str(other_clip)).fingerprint
    (trained / "policy.json").write_text(json.dumps(document))
    assert open_policy(MDMOptions(checkpoint=str(trained), text_model=str(other_clip))).encoder.source == str(
        other_clip
    )


def test_the_same_model_at_another_place_is_the_same(trained: Path, clip: Path, tmp_path: Path) -> None:
    shutil.copytree(clip, tmp_path / "moved")
    policy = open_policy(MDMOptions(checkpoint=str(trained), text_model=str(tmp_path / "moved")))
    assert policy.encoder.source == str(tmp_path / "moved")


def test_a_reference_of_another_text_model_is_refused(make_policy: Make, trained: Path, other_clip: Path) -> None:
    policy = make_policy(encoder=open_encoder("clip", str(other_clip)))
    with pytest.raises(MotionkitError, match="it has another text model") as error:
        Reference(policy, open_policy(MDMOptions(checkpoint=str(trained))))
    assert error.value.code == 2
    Reference(open_policy(MDMOptions(checkpoint=str(trained))), open_policy(MDMOptions(checkpoint=str(trained))))


def test_a_text_model_that_is_gone_is_said_so(make_policy: Make, clip: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    shutil.copytree(clip, place)
    folder = make_policy(encoder=open_encoder("clip", str(place))).save(tmp_path / "policy")
    place.rename(tmp_path / "moved")
    with pytest.raises(MotionkitError) as error:
        open_policy(MDMOptions(checkpoint=str(folder)))
    assert str(place) in error.value.message
    assert "--policy.text-model DIR" in error.value.fix
    assert open_policy(MDMOptions(checkpoint=str(folder), text_model=str(tmp_path / "moved")))


def test_a_description_never_sends_for_a_model(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is for hub ids that the user types."""
    document = json.loads((trained / "policy.json").read_text())
    document["text"]["model"] = "somebody/something"
    (trained / "policy.json").write_text(json.dumps(document))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("it asked the network"))
    with pytest.raises(MotionkitError, match="cannot open the text model 'somebody/something'"):
        open_policy(MDMOptions(checkpoint=str(trained)))


def test_descriptions_without_a_comparable_fingerprint_open_as_before(trained: Path, other_clip: Path) -> None:
    document = json.loads((trained / "policy.json").read_text())
    document["text"] = {"encoder": "clip", "fingerprint": "clip-0123456789abcdef"}
    (trained / "policy.json").write_text(json.dumps(document))
    policy = open_policy(MDMOptions(checkpoint=str(trained), text_model=str(other_clip)))
    assert torch.isfinite(policy.encoder.encode(["a man walks"]).tokens).all()
