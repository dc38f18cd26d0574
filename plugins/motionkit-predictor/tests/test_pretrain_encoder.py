"""`pretrain mpl-encoder`: targets, losses, probes, learning, resume, what it writes and refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip, Motion
from motionkit.rigs import leg_length, soft_gait, soft_period
from motionkit.runs import next_commands, peek
from motionkit.starter import Order, perform
from motionkit_predictor.data.clips import clip_set, cut_windows
from motionkit_predictor.data.files import _motion, open_clip_set
from motionkit_predictor.encoder.network import (
    EncoderSizes,
    MotionEncoder,
    Scales,
    encoder_inputs,
    load_encoder,
    open_encoder,
)
from motionkit_predictor.encoder.probe import (
    Baseline,
    Frames,
    Probe,
    Sums,
    frames_of,
    measure,
    phase_of,
    probe_table,
    probe_verdict,
)
from motionkit_predictor.encoder.settings import PretrainEncoderSettings
from motionkit_predictor.encoder.train import (
    FrameBatches,
    PretrainEncoder,
    gait_loss,
    gait_weights,
    period_loss,
    pose_loss,
)
from tests.made.training import run_in_parts, run_trainer

NAMES = ("walk/normal", "run/normal", "jump/high", "wave/right", "jog/forward", "walk/fast")


def moved(name: str, frames: int, seed: int) -> Motion:
    return _motion(perform([Order(name, frames, seed)], fps=30.0)[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighteen clips of one skeleton, two thirds to train on."""
    out = tmp_path_factory.mktemp("clips")
    for number in range(18):
        split = "val" if number >= 12 else "train"
        write_mpl_npz(
            out / f"c{number:02d}.npz", Clip(moved(NAMES[number % 6], 70, number), split=split), source_hash=""
        )
    return out


def settings(data: Path, **changes: Any) -> PretrainEncoderSettings:
    base: dict[str, Any] = {
        "run": {"epochs": 30}, "data": (str(data),), "model": {"width": 64, "layers": 2}, "device": "cpu",
        "train": {"batch_size": 4, "val_every": 10}, "optim": {"learning_rate": 3e-3, "warmup_steps": 5},
        "checkpoint": {"every": 2},
    }  # fmt: skip
    return PretrainEncoderSettings(**{**base, **changes})


trained = partial(run_trainer, PretrainEncoder, "pretrain mpl-encoder")


@pytest.fixture(scope="module")
def finished(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, *trained(settings(folder), out)


def test_it_learns_more_than_its_baselines_say(finished: tuple[Path, Any, Any]) -> None:
    _, _, parts = finished
    found = parts["metrics"]
    assert found["encoder/period_deg"] < 0.5 * found["encoder/period_deg_constant"]
    assert found["encoder/gait_balanced"] > found["encoder/gait_balanced_prior"] + 0.3
    assert found["encoder/pose_deg"] < found["encoder/pose_deg_hold"]
    assert parts["heldout"]["encoder/skill"]["delta"] > 0.3
    assert [row[0] for row in parts["table"]["rows"]][:2] == ["phase, degrees", "gait, accuracy"]
    assert "baselines" in parts["verdict"]


def test_the_best_and_the_last_encoder_open(finished: tuple[Path, Any, Any]) -> None:
    out, trainer, parts = finished
    best, last = open_encoder(out), load_encoder(out / "encoder-last")
    document = json.loads((out / "encoder/encoder.json").read_text())
    assert document["step"] == parts["best_step"]
    assert document["heldout"]["encoder/skill"] == round(parts["metrics"]["encoder/skill"], 4)
    found = measure(best, trainer.held_out, trainer.baseline).figures()
    assert found == pytest.approx(parts["metrics"])
    assert measure(last, trainer.held_out, trainer.baseline).figures()["encoder/skill"] <= found["encoder/skill"]
    assert best.names == trainer.clips.names
    clip = trainer.clips.split("val")[0]
    inputs = encoder_inputs(clip.state.map(torch.Tensor.float), best.fps, history=best.sizes.history)
    torch.testing.assert_close(inputs, trainer.held_out.inputs(torch.arange(70)), atol=1e-4, rtol=1e-4)


def test_what_to_type_next(finished: tuple[Path, Any, Any], folder: Path) -> None:
    out, _, _ = finished
    assert f"motionkit train-mpl --encoder {out} --data {folder}" in next_commands(peek(out))


def test_epochs_become_steps(finished: tuple[Path, Any, Any], folder: Path) -> None:
    _, trainer, _ = finished
    assert trainer.batches.per_epoch == math.ceil(12 * 70 / 128)
    assert trainer.settings.run.num_steps == 30 * trainer.batches.per_epoch
    few = PretrainEncoder(settings(folder, run={"num_steps": 5}))
    few.prepare()
    assert few.settings.run.num_steps == 5


def test_resume_gives_the_same_bits(folder: Path, tmp_path: Path) -> None:
    short = {"epochs": 2}
    every = {"batch_size": 8, "val_every": 1}
    config = settings(folder, run=short, train=every)
    whole, first = trained(config, tmp_path / "whole")
    parts, second = run_in_parts(PretrainEncoder, "pretrain mpl-encoder", config, tmp_path / "parts", stop_after=3)
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, parts.encoder.state_dict()[name]), name
    assert first == second
    for place in ("encoder", "encoder-last"):
        both = [tmp_path / run / place / "model.safetensors" for run in ("whole", "parts")]
        assert both[0].read_bytes() == both[1].read_bytes()


def test_an_unfinished_run_opens_with_its_last_checkpoint(folder: Path, tmp_path: Path) -> None:
    trainer, _ = trained(settings(folder, run={"epochs": 5}), tmp_path / "run", stop_after=4)
    assert torch.equal(open_encoder(tmp_path / "run").body[0].weight, trainer.encoder.body[0].weight)
    assert not (tmp_path / "run/encoder/model.safetensors").exists()


def test_targets_are_those_of_each_clip_alone(folder: Path) -> None:
    clips = open_clip_set([str(folder)], 0.0)
    chosen = clips.split("train")
    frames = frames_of(clips, chosen, history=3, ahead=4, period="hilbert")
    assert len(frames) == 12 * 70
    second = chosen[1]
    rows = slice(70, 140)
    assert frames.rows[70].tolist() == [70, 70, 70]
    assert frames.rows[73].tolist() == [73, 72, 71]
    period, sure = soft_period(second.state.contacts, method="hilbert", fps=30.0)
    torch.testing.assert_close(frames.period[rows], period.float())
    torch.testing.assert_close(frames.confidence[rows], sure.float())
    leg = leg_length(clips.names, clips.parents, second.offsets)
    gait = soft_gait(second.state.steps, second.state.contacts, 30.0, leg)
    torch.testing.assert_close(frames.gait[rows], gait.float())
    assert frames.has_pose[rows].tolist() == [True] * 66 + [False] * 4
    turn = second.state.rotations[14] @ second.state.rotations[10].mT
    torch.testing.assert_close(frames.turns[80, :, :3], (turn[..., 0] - torch.eye(3)[0]).float())
    assert frames.turns[136:140].abs().max() == 0


def test_labels_of_the_data_come_before_the_formula() -> None:
    motion = moved("walk/normal", 20, 0)
    action = torch.zeros(20, 4)
    action[:8, 3] = 1
    labelled = Clip(replace(motion, tracks={**motion.tracks, "action": action}), split="train")
    unknown = Clip(replace(motion, tracks={"contacts": motion.tracks["contacts"]}), split="train")
    clips = clip_set("made", [("a", labelled), ("b", unknown)], 30.0)
    frames = frames_of(clips, clips.clips, history=2, ahead=1, period="edges")
    assert frames.gait[:8, 3].tolist() == [1.0] * 8
    torch.testing.assert_close(frames.gait[8:20], frames.gait[28:40])
    assert frames.gait[20:28, 3].max() < 0.1


def test_losses_have_their_known_values() -> None:
    period = torch.tensor([[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]])
    sure = torch.tensor([[1.0, 0.0], [0.5, 0.0]])
    said = torch.tensor([[1.0, 9.0, 1.0, 9.0], [1.0, 9.0, 2.0, 9.0]])
    # left foot only: squares 1 and 0 at weight 1, 0 and 4 at weight 0.5; weights 3 in all
    assert float(period_loss(said, period, sure)) == pytest.approx((1 + 0.5 * 4) / 3)
    assert float(period_loss(said, period, torch.zeros(2, 2))) == 0.0
    gait = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0]])
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.125, 0.125]] * 3))
    plain = torch.ones(4)
    expected = (math.log(2) + 0.5 * (math.log(2) + math.log(4))) / 2
    assert float(gait_loss(logits, gait, plain)) == pytest.approx(expected)
    weights = gait_weights(gait)
    assert float(weights[1] / weights[0]) == pytest.approx(math.sqrt(3))
    assert float((weights * gait.sum(0)).sum() / gait.sum()) == pytest.approx(1.0)
    assert gait_weights(torch.zeros(3, 4)).tolist() == [1.0] * 4
    turns, scale = torch.zeros(2, 1, 6), torch.full((6,), 0.5)
    turns[0] = 1.0  # two deviations: smooth L1 is 1.5
    assert float(pose_loss(torch.zeros(2, 1, 6), turns, scale, torch.tensor([True, False]))) == pytest.approx(1.5)
    assert float(pose_loss(torch.zeros(2, 1, 6), turns, scale, torch.tensor([True, True]))) == pytest.approx(0.75)
    assert float(pose_loss(torch.zeros(2, 1, 6), turns, scale, torch.tensor([False, False]))) == 0.0


class Oracle(MotionEncoder):
    """Knows the truth: its features are the number of the frame, which a column of what it reads holds."""

    def __init__(self, frames: Frames, wrong: float = 0.0) -> None:
        joints = frames.turns.shape[1]
        super().__init__(EncoderSizes(width=8, layers=1, ahead=3), [f"j{n}" for n in range(joints)], 30.0,
                         Scales.neutral(joints))  # fmt: skip
        self.frames, self.wrong = frames, wrong

    def forward(self, inputs: torch.Tensor, *, noise: torch.Tensor | None = None) -> torch.Tensor:
        return inputs[:, :1].long()

    def period(self, hidden: torch.Tensor) -> torch.Tensor:
        phase = phase_of(self.frames.period[hidden[:, 0]]) + self.wrong
        return torch.cat([phase.sin(), phase.cos()], dim=-1)

    def gait(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.frames.gait[hidden[:, 0]]

    def turns(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.frames.turns[hidden[:, 0]]


def test_a_perfect_encoder_has_no_error_and_the_baselines_have() -> None:
    clips = clip_set("made", [(name, Clip(moved(name, 60, 1), split="train")) for name in NAMES], 30.0)
    frames = frames_of(clips, clips.clips, history=1, ahead=3, period="hilbert")
    numbered = replace(frames, features=frames.features.clone())
    numbered.features[:, 0] = torch.arange(len(frames))
    found = measure(Oracle(frames), numbered, Baseline.of(frames)).figures()
    assert found["encoder/period_deg"] == pytest.approx(0.0, abs=1e-4)
    assert found["encoder/gait_accuracy"] == found["encoder/gait_balanced"] == 1.0
    assert found["encoder/pose_deg"] == pytest.approx(0.0, abs=0.05)  # float32 close to no angle
    assert found["encoder/skill"] == pytest.approx(1.0, abs=0.01)
    assert found["encoder/gait_balanced_prior"] == pytest.approx(0.25)
    assert found["encoder/period_deg_constant"] > 60
    assert found["encoder/pose_deg_hold"] > found["encoder/pose_deg_velocity"] > 0.5
    half = measure(Oracle(frames, wrong=math.pi / 4), numbered, Baseline.of(frames)).figures()
    assert half["encoder/period_deg"] == pytest.approx(45.0, abs=1e-3)
    sure = measure(Oracle(frames), numbered, Baseline.of(frames)).intervals()
    assert set(sure) == {f"encoder/{name}" for name in (
        "period_deg_constant", "gait_accuracy_prior", "gait_balanced_prior", "pose_deg_hold", "pose_deg_velocity",
    )}  # fmt: skip
    for name, (low, high) in sure.items():
        own = found[name.rpartition("_")[0]]
        assert low <= own - found[name] <= high
    assert probe_verdict(found, sure, 20) == "the encoder beats all 5 baselines on held-out clips."
    worse = sure | {"encoder/pose_deg_hold": (0.1, 0.3), "encoder/pose_deg_velocity": (-0.2, 0.1)}
    assert probe_verdict(found, worse, 20) == (
        "the encoder does not beat 2 of 5 baselines on held-out clips: the pose held (pose ahead, degrees), "
        "constant angular velocity (pose ahead, degrees)."
    )
    rows = probe_table(found, worse, 20, "")["rows"]
    assert [row[-1] for row in rows] == ["better"] * 3 + ["worse", "no change"]
    assert rows[-1][-2] == "-0.200 to +0.100"
    assert "1 held-out take is too few" in probe_verdict(found, {}, 1)
    assert "19 held-out takes are too few" in probe_verdict(found, sure, 19)
    assert {row[-1] for row in probe_table(found, sure, 19, "")["rows"]} == {"too few"}
    close = sure | {"encoder/pose_deg_hold": (-0.0004, -0.0001)}
    assert probe_table(found, close, 20, "")["rows"][3][-1] == "no change", "the interval as printed contains 0"


def test_clips_of_one_take_are_one_item() -> None:
    made = [(f"a{number}", Clip(moved(name, 60, 1), split="val", group="a0" if number < 3 else "")) for number, name in
            enumerate(NAMES)]  # fmt: skip
    clips = clip_set("made", made, 30.0)
    frames = frames_of(clips, clips.clips, history=1, ahead=3, period="hilbert")
    assert measure(Oracle(frames), frames, Baseline.of(frames)).takes == len(NAMES) - 2
    windows = cut_windows(clips.clips, past=4, future=8, stride=4)
    assert windows.takes.tolist() == [0, 0, 0, *range(1, len(NAMES) - 2)]


def test_intervals_are_those_of_clips_that_are_drawn_again() -> None:
    """Against a slow bootstrap: all sums of the drawn clips, one draw at a time."""
    random = torch.Generator().manual_seed(3)
    clips, count = 12, 40.0

    def sums(mean: float) -> Sums:
        poses = count * (mean + 0.05 * torch.randn(clips, generator=random).double())
        seen = torch.randint(1, 9, (clips, 4), generator=random).double()
        seen[:, 3] = 0  # a gait that no clip shows
        right = (seen * torch.rand(clips, 4, generator=random).double()).round()
        angles = torch.stack([poses, torch.full_like(poses, count)], dim=-1)
        return Sums(angles, right, seen, angles)

    own = sums(0.1)
    still = replace(sums(0.5), seen=own.seen)
    going = replace(own, poses=own.poses.flip(0))  # the same mean
    found = Probe(own, still, going).intervals(seed=1)

    def figure(one: Sums, name: str, drawn: torch.Tensor) -> float:
        if name == "pose_deg":
            return math.degrees(float(one.poses[drawn, 0].sum())) / float(one.poses[drawn, 1].sum())
        return float((one.right[drawn].sum(0)[:3] / one.seen[drawn].sum(0)[:3]).mean())

    for name, other, theirs in (("pose_deg", "hold", still), ("pose_deg", "velocity", going),
                                ("gait_balanced", "prior", still)):  # fmt: skip
        apart = []
        for _ in range(4000):
            drawn = torch.randint(clips, (clips,), generator=random)
            apart.append(figure(own, name, drawn) - figure(theirs, name, drawn))
        low, high = torch.quantile(torch.tensor(apart), torch.tensor([0.025, 0.975])).tolist()
        ends = found[f"encoder/{name}_{other}"]
        assert ends == pytest.approx((low, high), abs=0.15 * (high - low))
    assert found["encoder/pose_deg_hold"][1] < 0
    low, high = found["encoder/pose_deg_velocity"]
    assert low < 0 < high
    # A figure that one clip has, however many others there are, has no interval.
    rare = replace(own, angles=own.angles * (torch.arange(clips) == 4).double()[:, None])
    assert "encoder/period_deg_constant" not in Probe(rare, still, going).intervals()
    assert Probe(*(Sums(*(part[:1] for part in (one.angles, one.right, one.seen, one.poses)))
                   for one in (own, still, going))).intervals() == {}  # fmt: skip


def test_what_cannot_be_measured_is_left_out() -> None:
    clips = clip_set("made", [("a", Clip(moved("walk/normal", 40, 1), split="train"))], 30.0)
    frames = frames_of(clips, clips.clips, history=1, ahead=3, period="hilbert")
    nothing = replace(
        frames, confidence=torch.zeros_like(frames.confidence), gait=torch.zeros_like(frames.gait),
        has_pose=torch.zeros_like(frames.has_pose),
    )  # fmt: skip
    found = measure(Oracle(frames), nothing, Baseline.of(nothing)).figures()
    assert found == {"encoder/skill": 0.0}
    assert "nothing could be measured" in probe_verdict({}, {}, 0)


def test_batches_have_each_frame_once_per_epoch_and_follow_the_step_alone() -> None:
    def batches(seed: int = 0) -> FrameBatches:
        return FrameBatches(10, 4, 5, noise=0.1, hide=0.5, seed=seed)

    one = batches()
    assert one.per_epoch == 3
    drawn = torch.cat([one(step).index for step in (1, 2, 3)])
    assert drawn.unique().tolist() == list(range(10))
    assert len(drawn) == 12
    late, fresh = one(5), batches()(5)
    assert torch.equal(late.index, fresh.index)
    assert late.noise is not None
    assert fresh.noise is not None
    assert torch.equal(late.noise, fresh.noise)
    assert torch.equal(late.hidden, fresh.hidden)
    assert not torch.equal(batches(1)(5).index, late.index) or not torch.equal(batches(1)(5).hidden, late.hidden)


def test_clips_without_contacts_or_without_validation_train_too(tmp_path: Path, caplog: Any) -> None:
    for number in range(3):
        motion = moved("walk/normal", 40, number)
        names = tuple(f"joint{place}" if "ankle" in name or "foot" in name else name
                      for place, name in enumerate(motion.names))  # fmt: skip
        bare = replace(motion, names=names, tracks={})
        write_mpl_npz(tmp_path / f"c{number}.npz", Clip(bare, split="train"), source_hash="")
    trainer, parts = trained(settings(tmp_path, run={"epochs": 1}), tmp_path / "run")
    assert any("no foot contacts" in note for note in trainer.notes)
    assert any("no clip is for validation" in note for note in trainer.notes)
    assert parts["table"] == []
    assert open_encoder(tmp_path / "run").joints == 22


def test_clips_of_other_splits_only_are_refused(tmp_path: Path) -> None:
    write_mpl_npz(tmp_path / "a.npz", Clip(moved("walk/normal", 30, 0), split="test"), source_hash="")
    with pytest.raises(MotionkitError, match="train"):
        PretrainEncoder(settings(tmp_path)).prepare()


def test_settings_without_a_loss_and_of_too_many_weights_are_refused() -> None:
    for given, word in (
        ({"loss": {"period": 0, "gait": 0, "pose": 0}}, "nothing to learn"),
        ({"model": {"width": 16_384, "layers": 64}}, "too many weights"),
    ):
        with pytest.raises(ValueError, match=word):
            PretrainEncoderSettings.model_validate(given)


def test_contract(folder: Path, tmp_path: Path) -> None:
    from motionkit.testing import check_trainer

    few = settings(folder, run={"num_steps": 2}).model_dump(mode="json", exclude_unset=True)
    check_trainer("pretrain.mpl-encoder", tmp_path, settings=few)
