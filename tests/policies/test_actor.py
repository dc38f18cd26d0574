"""An actor's document from a stranger: nothing of the size that it speaks of is made before the weights say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from motionkit.errors import MotionkitError
from motionkit.policies.actor._settings import ActorSpec
from motionkit.policies.actor.api import Actor, load_actor, save_actor

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
        (MLP, {"width": 4096}, "it speaks of 33"), (MLP, {"state_size": 1_000_000}, "it speaks of 16"),
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
