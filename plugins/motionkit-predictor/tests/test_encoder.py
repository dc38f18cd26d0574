"""The motion encoder: what it reads, what it says, its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import roma
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.runs import open_run, peek
from motionkit_predictor.encoder.network import (
    EncoderSizes,
    MotionEncoder,
    Scales,
    encoder_inputs,
    frame_features,
    load_encoder,
    newest_encoder_run,
    open_encoder,
    save_encoder,
    turn_residual,
)
from motionkit_predictor.states import MotionState

JOINTS, FPS = 4, 30.0
NAMES = ("hips", "spine", "head", "hand")
SIZES = EncoderSizes(width=16, layers=2, history=3, ahead=2, dropout=0.1)


def state(
    frames: int = 12, *, batch: tuple[int, ...] = (), seed: int = 0, dtype: torch.dtype = torch.float64
) -> MotionState:
    made = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*batch, *shape, generator=made, dtype=dtype)

    rotations = roma.rotvec_to_rotmat(drawn(frames, JOINTS, 3))
    return MotionState(rotations, drawn(frames, 3), drawn(frames), drawn(frames, 2).sigmoid())


def encoder(seed: int = 0, sizes: EncoderSizes = SIZES) -> MotionEncoder:
    torch.manual_seed(seed)
    one = state(40, dtype=torch.float32)
    scales = Scales.of([frame_features(one, FPS)], [one.rotations], sizes.ahead)
    made = MotionEncoder(sizes, NAMES, FPS, scales).eval()
    torch.nn.init.normal_(made.pose_head.weight, std=0.1)
    return made


def test_a_frame_is_read_as_a_slow_version_says() -> None:
    one = state(6)
    inputs = encoder_inputs(one, FPS, history=3)
    assert inputs.shape == (6, 2 + 3 * JOINTS + 3 * 6 * JOINTS)
    for frame in range(6):
        parts = [one.contacts[frame]]
        for joint in range(JOINTS):
            now, before = (one.rotations[max(0, place), joint] for place in (frame, frame - 1))
            parts.append(FPS * roma.rotmat_to_rotvec(now @ before.T))
        for back in range(3):
            pose = one.rotations[max(0, frame - back)]
            parts += [torch.cat([pose[joint][:, 0], pose[joint][:, 1]]) for joint in range(JOINTS)]
        torch.testing.assert_close(inputs[frame], torch.cat(parts))


def test_a_constant_turn_is_read_in_radians_per_second() -> None:
    angles = torch.arange(10, dtype=torch.float64) * 2.0 / FPS  # 2 rad/s, about an axis of its own
    axis = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    rotations = roma.rotvec_to_rotmat(angles[:, None, None] * axis).expand(10, JOINTS, 3, 3)
    still = MotionState(rotations, torch.zeros(10, 3), torch.ones(10), torch.ones(10, 2).double())
    velocity = frame_features(still, FPS)[:, 2 : 2 + 3 * JOINTS].unflatten(-1, (JOINTS, 3))
    torch.testing.assert_close(velocity[1:], (2.0 * axis).expand(9, JOINTS, 3))
    assert velocity[0].abs().max() == 0


@pytest.mark.parametrize("changed", [4, 9, 11])
def test_no_frame_reads_a_later_one(changed: int) -> None:
    one, other = state(12), state(12, seed=5)
    mixed = one.part(0, changed).then(other.part(changed))
    first, second = (encoder_inputs(each, FPS) for each in (one, mixed))
    assert torch.equal(first[:changed], second[:changed])
    assert (first[changed:] != second[changed:]).any(-1).all()


def test_neither_place_nor_direction_is_read() -> None:
    one = state(5)
    other = MotionState(one.rotations, one.steps + 3.0, one.heights + 1.0, one.contacts)
    assert torch.equal(encoder_inputs(one, FPS), encoder_inputs(other, FPS))


@pytest.mark.parametrize("history", [1, 3, 5])
def test_the_last_frames_are_enough_for_the_last_frame(history: int) -> None:
    one = state(12, batch=(2,), dtype=torch.float32)
    made = encoder(sizes=EncoderSizes(width=16, layers=1, history=history))
    whole = made(encoder_inputs(one, FPS, history=history))[:, -1]
    last = made(encoder_inputs(one.part(12 - made.reach), FPS, history=history))[:, -1]
    torch.testing.assert_close(last, whole)


def test_gradients_reach_the_rotations_and_are_finite_at_rest() -> None:
    made = encoder()
    one = state(6, batch=(2,), dtype=torch.float32)
    moving = one.rotations.clone().requires_grad_(True)
    still = one.rotations[:, :1].expand(-1, 6, -1, -1, -1).clone().requires_grad_(True)
    for rotations in (moving, still):
        inputs = encoder_inputs(MotionState(rotations, one.steps, one.heights, one.contacts), FPS)
        made.period(made(inputs)).sum().backward()
        assert rotations.grad is not None
        assert rotations.grad.isfinite().all()
        assert rotations.grad.abs().sum() > 0


def test_heads_have_their_shapes_and_ranges() -> None:
    made, one = encoder(), state(7, batch=(3,), dtype=torch.float32)
    hidden = made(encoder_inputs(one, FPS))
    assert hidden.shape == (3, 7, 16)
    assert made.period(hidden).shape == made.gait(hidden).shape == (3, 7, 4)
    assert made.period(100 * hidden).abs().max() <= 1
    ahead = made.pose(hidden, one.rotations)
    assert ahead.shape == one.rotations.shape
    torch.testing.assert_close(ahead @ ahead.mT, torch.eye(3).expand_as(ahead), atol=1e-5, rtol=0)
    torch.nn.init.zeros_(made.pose_head.weight)
    torch.testing.assert_close(made.pose(hidden, one.rotations), one.rotations, atol=1e-5, rtol=0)


def test_no_memory_a_frame_alone_gives_the_same_bits() -> None:
    made = encoder().double()
    inputs = encoder_inputs(state(9), FPS)
    alone = torch.stack([made(row[None])[0] for row in inputs])
    torch.testing.assert_close(alone, made(inputs), rtol=1e-12, atol=1e-12)


def test_scales_are_the_training_frames_with_a_floor() -> None:
    one = state(50)
    features = frame_features(one, FPS)
    features[:, 5] = 1.0  # a joint that never turns
    scales = Scales.of([features[:20], features[20:]], [one.rotations[:20], one.rotations[20:]], 2)
    torch.testing.assert_close(scales.mean, features.mean(0).float())
    parts = features.std(0, correction=0)
    assert scales.std[5] == pytest.approx(0.3 * float(parts[2 : 2 + 3 * JOINTS].median()), rel=1e-5)
    free = torch.arange(len(parts)) > 5
    torch.testing.assert_close(scales.std[free], parts[free].float())
    turns = torch.cat([part[2:] @ part[:-2].mT for part in (one.rotations[:20], one.rotations[20:])])
    rms = turn_residual(turns).flatten(-2).square().mean(0).sqrt()
    torch.testing.assert_close(scales.turn_std, rms.float())
    assert Scales.of([features[:1]], [one.rotations[:1]], 3).turn_std.min() > 0  # nothing that long


def test_a_saved_encoder_comes_back_bit_for_bit(tmp_path: Path) -> None:
    made = encoder()
    save_encoder(tmp_path / "e", made, extra={"heldout": {"encoder/skill": 0.5}})
    back = open_encoder(tmp_path / "e")
    assert (back.sizes, back.names, back.fps, back.training) == (made.sizes, made.names, made.fps, False)
    for name, value in made.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name
    inputs = encoder_inputs(state(dtype=torch.float32), FPS)
    assert torch.equal(back(inputs), made(inputs))
    assert json.loads((tmp_path / "e/encoder.json").read_text())["heldout"] == {"encoder/skill": 0.5}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "mpl"}, "describes a 'mpl', no motion encoder"),
        ({"fps": -1}, "fps: Input should be greater than 0"),
        ({"names": ["a", "a"]}, "two joints have one name"),
        ({"names": ["a", "b"]}, "shape"),
        ({"sizes": {**vars(SIZES), "width": 65_536}}, "shape"),
        ({"sizes": {**vars(SIZES), "layers": 1}}, "body.3.weight"),
        ({"sizes": {"width": 0}}, "sizes.width"),
    ],
)
def test_a_damaged_folder_is_refused(change: dict[str, object], said: str, tmp_path: Path) -> None:
    save_encoder(tmp_path, encoder())
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(MotionkitError) as caught:
        load_encoder(tmp_path)
    assert said in f"{caught.value.message} {caught.value.why}"


@pytest.mark.parametrize(("name", "value"), [("std", 0.0), ("mean", float("nan")), ("period_head.bias", float("inf"))])
def test_numbers_that_no_training_gives_are_refused(name: str, value: float, tmp_path: Path) -> None:
    made = encoder()
    made.state_dict()[name][0] = value
    save_encoder(tmp_path, made)
    with pytest.raises(MotionkitError, match="is damaged") as caught:
        load_encoder(tmp_path)
    assert name in caught.value.why


def test_what_is_no_encoder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "best_encoder.pt").write_bytes(b"x")
    with open_run("grpo", {"run": {"name": "other"}}) as run:
        run.finish()
    for path, said in {
        "nowhere": "there is no nowhere",
        "empty": "empty is no run",
        "best_encoder.pt": "is a file, no motion encoder",
        "runs/grpo/other": "is a run of motionkit grpo",
    }.items():
        with pytest.raises(MotionkitError, match=said) as caught:
            open_encoder(path)
        assert "motionkit pretrain mpl-encoder" in str(caught.value.fix)


def test_the_newest_finished_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert newest_encoder_run() is None
    for name in ("first", "second", "without"):
        with open_run("pretrain mpl-encoder", {"run": {"name": name}}) as run:
            if name != "without":
                save_encoder(run.artifact("encoder"), encoder())
            run.finish()

    def failing() -> None:
        with open_run("pretrain mpl-encoder", {"run": {"name": "third"}}) as run:
            save_encoder(run.artifact("encoder"), encoder())
            raise ValueError("fails")

    with pytest.raises(ValueError, match="fails"):
        failing()
    assert peek("runs/pretrain-mpl-encoder/third").status == "failed"
    newest = newest_encoder_run()
    assert newest is not None
    assert newest.name in ("first", "second")
    assert open_encoder(newest).names == NAMES


def test_an_encoder_says_why_it_does_not_fit() -> None:
    made = encoder()
    assert made.misfit(NAMES, 30.0) == ""
    assert "does not know tail" in made.misfit((*NAMES, "tail"), 30.0)
    assert "4 joints, not 3" in made.misfit(NAMES[:3], 30.0)
    assert "30 frames per second, not 25" in made.misfit(NAMES, 25.0)
