"""Success classifiers: what they compute, what they store, and what they refuse."""

from __future__ import annotations

import json

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.runs import open_run
from motionkit_success.classifier import (
    Card,
    Check,
    SuccessClassifier,
    load_classifier,
    newest_classifier_run,
    read_pretrained,
    save_classifier,
    start_from,
)
from motionkit_success.classifier_network import SuccessNetwork, as_images
from motionkit_success.resnet10 import ResNet10

ONE = {"base_camera": (64, 64)}
TWO = {"front": (16, 16), "hand.left": (24, 32)}


def frames(cameras, count=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(0, 256, (count, *size, 3), generator=generator, dtype=torch.uint8)
        for name, size in cameras.items()
    }


def make(architecture="small", cameras=TWO, **more):
    torch.manual_seed(0)
    made = SuccessClassifier.make(Card(architecture=architecture, cameras=cameras, **more))
    made.network.eval()
    return made


def guide_state(cameras=("base_camera",), grid=2):
    """What the guide's trainer saves, by the names of its code."""
    torch.manual_seed(1)
    state = {}
    for camera in cameras:
        for name, value in ResNet10().state_dict().items():
            state[f"encoders.{camera}.resnet_backbone.{name}"] = value
        state[f"encoders.{camera}.resnet_backbone.fc.weight"] = torch.zeros(1000, 512)
        state[f"encoders.{camera}.resnet_backbone.fc.bias"] = torch.zeros(1000)
        state[f"encoders.{camera}.pooling_layer.kernel"] = torch.randn(512, grid, grid, 8)
        state[f"encoders.{camera}.mlp.0.weight"] = torch.randn(256, 4096) / 64
        state |= {f"encoders.{camera}.mlp.{name}": torch.zeros(256) for name in ("0.bias", "1.bias")}
        state[f"encoders.{camera}.mlp.1.weight"] = torch.ones(256)
    state["classifier.0.weight"] = torch.randn(256, 256 * len(cameras)) / 16
    state |= {"classifier.0.bias": torch.zeros(256), "classifier.2.bias": torch.zeros(256)}
    state |= {"classifier.2.weight": torch.ones(256), "classifier.4.weight": torch.randn(1, 256)}
    return state | {"classifier.4.bias": torch.zeros(1)}


def test_sizes_are_those_of_the_guide_without_its_unused_layer():
    count = sum(value.numel() for value in guide_state().values())
    assert count == 6_551_081  # measured on the guide's code
    network = SuccessNetwork("resnet10", ONE)
    own = sum(parameter.numel() for parameter in network.parameters())
    assert own == count - 513_000
    frozen = sum(parameter.numel() for parameter in network.backbones()[0].parameters())
    assert own - frozen == 1_132_289


@pytest.mark.parametrize("architecture", ["small", "resnet10"])
def test_each_camera_matters_and_chunks_do_not(architecture, monkeypatch):
    made, seen = make(architecture), frames(TWO)
    logits = made.logits(seen)
    assert logits.shape == (5,)
    for camera in TWO:
        other = {**seen, camera: frames(TWO, seed=9)[camera]}
        assert not torch.allclose(made.logits(other), logits)
    monkeypatch.setattr("motionkit_success.classifier.CHUNK", 2)
    torch.testing.assert_close(made.logits(seen), logits)
    made.network.train()  # dropout is off all the same, and the mode comes back
    torch.testing.assert_close(made.logits(seen), logits)
    assert made.network.training
    assert made.logits(frames(TWO, 0)).shape == (0,)


def test_what_it_said_before_stays_and_is_what_its_network_says():
    made, many, few = make(), frames(TWO, 70), frames(TWO, 3, seed=1)
    said = made.logits(many)
    kept = said.clone()
    made.logits(few)  # pictures become floats in memory that the next ones take too
    assert torch.equal(said, kept)
    for seen in (many, few, frames(TWO, 66, seed=2)):
        with torch.no_grad():
            expected = made.network({name: as_images(values) for name, values in seen.items()})
        torch.testing.assert_close(made.logits(seen), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [(64, 64), (33, 47), (16, 18), (9, 8)])
def test_without_gradients_it_computes_the_same(size):
    network = make(cameras={"front": size}).network
    images = {"front": as_images(frames({"front": size}, 6)["front"])}
    expected = network(images).detach()
    kept = images["front"].clone()
    for count in (6, 2, 4):
        with torch.no_grad():
            found = network({"front": images["front"][:count]})
        torch.testing.assert_close(found, expected[:count], atol=1e-6, rtol=0)
    assert torch.equal(images["front"], kept)
    convolutions = [layer for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)]
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in convolutions:
            seen = torch.randn(2, layer.in_channels, *size, generator=draw)
            torch.testing.assert_close(layer(seen), torch.nn.Conv2d.forward(layer, seen), atol=1e-5, rtol=0)


def test_probabilities_are_calibrated_and_the_threshold_counts():
    made, seen = make(), frames(TWO)
    made.update(temperature=2.0, bias=-1.0)
    expected = 1 / (1 + torch.exp(-(made.logits(seen) / 2 - 1)))
    torch.testing.assert_close(made.probabilities(seen), expected)
    made.update(threshold=float(expected.sort().values[2]))
    assert int((made.probabilities(seen) >= made.threshold).sum()) == 3


@pytest.mark.parametrize(
    ("cameras", "kind", "word"),
    [
        ({"front": (16, 16), "side": (8, 8)}, torch.uint8, "hand.left 24x32.*side 8x8"),
        ({**TWO, "front": (16, 20)}, torch.uint8, "16x20"),
        (TWO, torch.float32, "float32"),
    ],
)
def test_frames_that_do_not_fit_are_refused(cameras, kind, word):
    with pytest.raises(MotionkitError, match=word):
        make().probabilities({name: values.to(kind) for name, values in frames(cameras).items()})


def test_frames_of_other_cameras_are_left_out():
    assert make().probabilities(frames({**TWO, "extra": (9, 9)})).shape == (5,)


@pytest.mark.parametrize("architecture", ["small", "resnet10"])
def test_a_folder_gives_the_same_classifier_back(tmp_path, architecture):
    made = make(
        architecture, temperature=1.7, threshold=0.8, bias=-0.2, label_rule="success after the step",
        environment={"name": "reach"}, checks=(Check(name="a", status="fail", value=0.5, limit="x", meaning="y"),),
    )  # fmt: skip
    save_classifier(tmp_path / "classifier", made)
    for place in (tmp_path / "classifier", tmp_path / "classifier/model.safetensors"):
        again = load_classifier(place)
        assert again.card == made.card
        assert torch.equal(again.probabilities(frames(TWO)), made.probabilities(frames(TWO)))
    assert [check.name for check in again.card.failed] == ["a"]


def test_the_checkpoint_of_a_run_brings_its_own_threshold(tmp_path):
    made = make()
    with open_run("reward-train", {"run": {"out": str(tmp_path / "run")}}) as run:
        save_classifier(run.artifact("classifier"), made, tensors=False)
        made.update(threshold=0.9, temperature=3.0)
        run.save(7, {"model": made.tensors()}, {})
        assert load_classifier(tmp_path / "run").card.threshold == 0.9
        made.update(threshold=0.7)
        save_classifier(run.artifact("classifier"), made)
        run.finish()
    assert load_classifier(tmp_path / "run").threshold == 0.7
    old = load_classifier(tmp_path / "run/checkpoints/step-00000007")
    assert (old.card.threshold, old.card.temperature) == (0.9, 3.0)


def fails(out):
    with open_run("reward-train", {"run": {"out": str(out)}}) as run:
        save_classifier(run.artifact("classifier"), make())
        raise RuntimeError("it fails")


def test_the_newest_finished_run_is_found(tmp_path):
    root = tmp_path / "runs"
    assert newest_classifier_run(root) is None
    with open_run("reward-train", {"run": {"out": str(root / "reward-train/first")}}) as run:
        save_classifier(run.artifact("classifier"), make())
        run.finish()
    with pytest.raises(RuntimeError):
        fails(root / "reward-train/second")
    assert newest_classifier_run(root).name == "first"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kind": "mpl-encoder"}, "success classifier"),
        ({"cameras": {"front": [16, 100_000], "hand.left": [24, 32]}}, "damaged"),
        ({"cameras": {"front": [16, 64], "hand.left": [24, 32]}}, "does not fit"),
        ({"temperature": 0}, "damaged"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, change, word):
    save_classifier(tmp_path, make())
    path = tmp_path / "classifier.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(MotionkitError, match=word):
        load_classifier(tmp_path)


@pytest.mark.parametrize("cameras", [("base_camera",), ("base_camera", "hand")])
def test_the_guides_checkpoint_loads_and_computes_what_its_code_does(tmp_path, cameras):
    state = guide_state(cameras)
    (tmp_path / "step_1000").mkdir()
    torch.save(
        {"epoch": 1, "global_step": 1000, "model_state_dict": state, "loss": 0.1, "accuracy": 0.9},
        tmp_path / "step_1000/checkpoint.pt",
    )
    made = load_classifier(tmp_path / "step_1000")
    assert made.card.cameras == dict.fromkeys(cameras, (64, 64))
    assert made.card.threshold == 0.5
    assert "step_1000" in made.card.origin
    seen = frames(dict.fromkeys(cameras, (64, 64)), 2)
    parts = []
    for camera in cameras:
        backbone = ResNet10()
        prefix = f"encoders.{camera}.resnet_backbone."
        backbone.load_state_dict(
            {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix) and ".fc." not in k}
        )
        features = backbone(seen[camera].permute(0, 3, 1, 2) / 255)
        pooled = torch.einsum("bchw,chwf->bcf", features, state[f"encoders.{camera}.pooling_layer.kernel"])
        hidden = pooled.reshape(2, 4096) @ state[f"encoders.{camera}.mlp.0.weight"].T
        parts.append(torch.tanh(torch.nn.functional.layer_norm(hidden, (256,))))
    hidden = torch.relu(torch.nn.functional.layer_norm(torch.cat(parts, 1) @ state["classifier.0.weight"].T, (256,)))
    expected = (hidden @ state["classifier.4.weight"].T).squeeze(1)
    torch.testing.assert_close(made.logits(seen), expected, rtol=1e-4, atol=1e-4)


class Evil:
    def __reduce__(self):
        return print, ("executed",)


def short_state():
    state = guide_state()
    del state["classifier.4.bias"]
    return {"model_state_dict": state}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "there is no"),
        (lambda: {"weight": torch.ones(2)}, "success classifier"),
        (short_state, "classifier.4.bias"),
        (lambda: {"model_state_dict": Evil()}, "not opened"),
    ],
)
def test_a_missing_or_other_checkpoint_is_an_error_never_a_random_classifier(tmp_path, capsys, content, word):
    path = tmp_path / "reward_model.pt"
    if content:
        torch.save(content(), path)
    with pytest.raises(MotionkitError) as caught:
        load_classifier(path)
    assert word in caught.value.sentence()
    assert "executed" not in capsys.readouterr().out


def test_a_folder_without_a_classifier_is_no_run(tmp_path):
    with pytest.raises(MotionkitError, match="no run"):
        load_classifier(tmp_path)


def test_a_pretrained_encoder_is_read_by_name_and_hashed(tmp_path):
    import hashlib

    torch.manual_seed(3)
    state = {**ResNet10().state_dict(), "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    assert len(state) == 38
    path = tmp_path / "resnet10_pretrained.pt"
    torch.save(state, path)
    tensors, origin = read_pretrained(path)
    assert origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    network = SuccessNetwork("resnet10", TWO)
    start_from(network, tensors)
    for backbone in network.backbones():
        assert torch.equal(backbone.conv1.weight, state["conv1.weight"])
    renamed = {("stem" + name if name == "conv1.weight" else name): value for name, value in state.items()}
    torch.save(renamed, path)
    with pytest.raises(MotionkitError) as caught:
        read_pretrained(path)
    assert "missing: conv1.weight" in caught.value.why
    assert "unknown: stemconv1.weight" in caught.value.why


def test_what_is_kept_outlives_inference_mode() -> None:
    made, images = make(), frames(TWO)
    with torch.inference_mode():
        first = made.probabilities(images).clone()
    assert torch.equal(made.probabilities(images), first)
