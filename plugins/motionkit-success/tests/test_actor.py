"""Hostile documents of actors: no network of their size is made before the weights are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit_success.actor import Actor, load_actor, save_actor, shifted
from motionkit_success.actor_settings import ActorSpec

MLP: dict[str, Any] = {
    "kind": "mlp",
    "width": 8,
    "state_size": 3,
    "cameras": {},
    "low": [-1],
    "high": [1],
    "choices": 0,
}
PIXELS: dict[str, Any] = {**MLP, "kind": "pixels", "cameras": {"camera": [16, 16]}}
CHOICES: dict[str, Any] = {**MLP, "choices": 4, "low": [], "high": []}


@pytest.mark.parametrize("spec", [MLP, PIXELS, CHOICES])
def test_an_actor_has_at_least_the_weights_that_its_spec_says(spec: dict[str, Any], tmp_path: Path) -> None:
    actor = Actor(ActorSpec.model_validate(spec))
    assert actor.spec.weights <= sum(one.numel() for one in actor.tensors().values())
    save_actor(tmp_path, actor)
    assert load_actor(tmp_path).spec == actor.spec


@pytest.mark.parametrize(
    ("spec", "change", "why"),
    [
        (MLP, {"width": 4096}, "it is of 33"), (MLP, {"state_size": 1_000_000}, "it is of 16"),
        (MLP, {"state_size": 1_000_000, "width": 16_384}, "which are too many"),
        (CHOICES, {"choices": 1_000_000, "width": 16_384}, "which are too many"),
        (MLP, {"state_size": 0}, "it has none"), (PIXELS, {"cameras": {}}, "it has none"),
        (PIXELS, {"cameras": {f"c{number}": [8192, 8192] for number in range(64)}}, "too many pixels"),
        (MLP, {"low": [], "high": []}, "one of n choices"), (MLP, {"high": [1, 2]}, "one of n choices"),
        (MLP, {"low": [2]}, "above the highest"), (MLP, {"high": [1e308]}, "beyond float32"),
    ],
)  # fmt: skip
def test_a_document_of_another_size_is_refused_before_anything_is_made(
    spec: dict[str, Any], change: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_actor(tmp_path, Actor(ActorSpec.model_validate(spec)))
    path = tmp_path / "actor.json"
    document = json.loads(path.read_text())
    document["spec"] |= change
    path.write_text(json.dumps(document))
    made: list[object] = []
    monkeypatch.setattr(Actor, "__init__", lambda *_, **__: made.append(1))
    with pytest.raises(MotionkitError) as error:
        load_actor(tmp_path)
    assert why in error.value.why
    assert not made


def test_pictures_are_moved_each_by_itself_with_their_edge_repeated() -> None:
    pictures = torch.rand(40, 3, 7, 9)
    torch.manual_seed(0)
    found = shifted(pictures, 2)
    seen = set()
    for before, after in zip(pictures, found, strict=True):
        padded = torch.nn.functional.pad(before[None], (2, 2, 2, 2), mode="replicate")[0]
        crops = {(y, x): padded[:, y : y + 7, x : x + 9] for y in range(5) for x in range(5)}
        (place,) = [place for place, crop in crops.items() if torch.equal(crop, after)]
        seen.add(place)
    assert len(seen) > 15


def test_pictures_are_moved_in_training_alone() -> None:
    actor = Actor(ActorSpec.model_validate(PIXELS))
    features = actor.network.features_extractor
    features.shift = 2
    pictures = torch.rand(8, 3, 16, 16)
    actor.network.set_training_mode(False)
    still = features(pictures)
    assert torch.equal(features(pictures), still)
    actor.network.set_training_mode(True)
    assert not torch.equal(features(pictures), still)
    features.shift = 0
    assert torch.equal(features(pictures), still)
