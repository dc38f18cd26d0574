"""`pretrain mdm`: batches, learning, resume, what it writes, what it refuses."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from motionkit import load_dataset
from motionkit.config import Chosen, Group, as_recorded, choose_one
from motionkit.contracts.dataset import TextClip, TextMotionDataset, record_of
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, Normalizer, Skeleton, features_to_joints, mirror_features
from motionkit.rl import Schedule
from motionkit.runs import Run, open_run
from motionkit.starter._catalogue import captions
from motionkit.text import CachedEncoder, Prompt
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.evaluation.points import kept_points
from motionkit.text_to_motion.evaluator.files import save_evaluator
from motionkit.text_to_motion.mdm import open as factory
from motionkit.text_to_motion.mdm.losses import diffusion_loss, joint_velocity_loss, velocity_loss
from motionkit.text_to_motion.mdm.open import open_policy
from motionkit.text_to_motion.mdm.settings import MDMOptions, PretrainMDMSettings
from motionkit.text_to_motion.mdm.train import MdmBatches, PretrainMDM, _require_space, mirrored
from motionkit.training.memory import Alive

from ...made import starter_evaluator
from ...made.plain import plain
from ...made.texts import HashEncoder
from ...made.toy_clips import write_toy

ACTIONS = ("walks", "jumps", "sits", "waves")


@plain(TextMotionDataset)
class Toy:
    """Each action is a posture that sways."""

    name, skeleton, fps, max_length, random_crop = "toy", HUMANML, 20.0, 48, True
    normalizer = Normalizer(torch.zeros(263), torch.ones(263))

    def __init__(self, count: int = 48, captions: Sequence[tuple[str, ...]] = ()) -> None:
        captions = captions or [(f"a man {action}", f"he {action}") for action in ACTIONS]
        generator = torch.Generator().manual_seed(0)
        postures = torch.randn(len(ACTIONS), 263, generator=generator)
        self._clips = []
        for i in range(count):
            length = 17 + int(torch.randint(40, (), generator=generator))
            sway = 0.1 * torch.randn(length, 263, generator=generator)
            action = i % len(ACTIONS)
            self._clips.append(TextClip(f"{i:03d}", postures[action] + sway, captions[action]))

    def clips(self, split: str) -> list[TextClip]:
        """Return all clips."""
        return self._clips

    def prompts(self, split: str, *, k_segments: int = 0, seed: int = 0) -> list[Prompt]:
        """Nobody asks."""
        return []


class Given(Chosen):
    """A slot's content that needs no registry."""

    dataset: Any = None

    @property
    def label(self) -> str:
        """Name."""
        return self.name

    def build(self, **runtime: Any) -> Any:
        """Return the dataset."""
        return self.dataset


def _settings(dataset: Any = None, **changes: Any) -> PretrainMDMSettings:
    chosen = Given("datasets", "toy", Group())
    object.__setattr__(chosen, "dataset", dataset or Toy())
    shape = {"layers": 1, "latent_dim": 32, "num_heads": 2, "ff_size": 32, "patch_size": 4, "diffusion_steps": 10}
    values: dict[str, Any] = {
        "dataset": chosen,
        "device": "cpu",
        "model": shape,
        "text": {"encoder": "minilm"},
        "train": {"batch_size": 8, "val_every": 3},
        "run": {"num_steps": 6},
        "checkpoint": {"every": 2},
        "optim": {"learning_rate": 3e-3, "warmup_steps": 2},
    }
    return PretrainMDMSettings.model_validate(values | changes)


@pytest.mark.parametrize(("asked", "stored"), [(None, None), (0, None), (4, 4), (10, None)])
def test_the_policy_stores_in_how_many_steps_it_is_sampled(asked: int | None, stored: int | None) -> None:
    trainer = PretrainMDM(_settings(train={"batch_size": 8, "sampling_steps": asked}))
    trainer.prepare()
    assert trainer.policy.sampling_steps == stored


@pytest.fixture(autouse=True)
def _no_text_model(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in: Callable[..., CachedEncoder] = lambda *a, **k: CachedEncoder(HashEncoder(8, "minilm"))  # noqa: E731
    monkeypatch.setattr(factory, "open_encoder", stand_in)
    monkeypatch.setattr("motionkit.text_to_motion.mdm.train.open_encoder", stand_in)


@pytest.mark.parametrize("clutter", [0.0, 1.0])
def test_a_step_makes_the_tensors_that_were_forecast(clutter: float) -> None:
    shape = {"layers": 4, "latent_dim": 64, "num_heads": 2, "ff_size": 128, "patch_size": 1, "diffusion_steps": 10}
    trainer = PretrainMDM(_settings(train={"batch_size": 8, "clutter": clutter}, model=shape))
    trainer.prepare()
    expected = trainer.forecast
    assert str(expected) == trainer.describe()["step"]
    assert expected.seconds > 0
    longest = 48 if clutter else max(min(48, len(clip.features)) for clip in trainer._train_clips)
    clip = replace(trainer._train_clips[0], features=torch.randn(longest, 263))
    batches = MdmBatches([clip] * 8, trainer.policy.normalizer, batch_size=8, steps=10, max_length=48, seed=0)
    trainer._step(batches(1), 1)
    with Alive() as alive:
        trainer._step(batches(2), 2)
    parts = expected.parts
    made = expected.peak - parts["weights"] - parts["average"] - 2 / 3 * parts["gradients and AdamW"]
    assert made == pytest.approx(alive.most, rel=0.1)


def _train(settings: PretrainMDMSettings, out: Path, *, stop_at: int = 0, resume: bool = False) -> dict[str, Any]:
    trainer = PretrainMDM(settings)
    trainer.prepare()
    snapshot = settings.model_dump(mode="json")
    if resume:
        recorded = partial(as_recorded, type(settings))
        run = Run.resume(out, snapshot, shape_keys=trainer.shape_keys, recorded=recorded)
    else:
        run = Run.create("pretrain mdm", snapshot, out=out)
    with run:
        if stop_at:
            run.listeners.append(lambda step, _: os.kill(os.getpid(), signal.SIGINT) if step == stop_at else None)
        return run.finish(trainer.train(run))


def _batches(dataset: Toy, **options: Any) -> MdmBatches:
    values = {"batch_size": 5, "steps": 10, "max_length": 48, "seed": 3} | options
    return MdmBatches(dataset.clips("train"), dataset.normalizer, **values)


def test_an_epoch_sees_every_clip_once_in_batches_of_similar_length() -> None:
    toy = Toy(200)
    batches = _batches(toy, batch_size=5, max_length=60)
    means = {round(float(clip.features.double().sum()), 3) for clip in toy.clips("train")}
    spans, seen = [], set()
    for step in range(1, batches.per_epoch + 1):
        batch = batches(step)
        spans.append(int(batch.lengths.max() - batch.lengths.min()))
        seen |= {round(float(x.double().sum()), 3) for x in batch.x0}
    assert len(seen & means) == 200
    assert max(spans) <= 15


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    one, other = _batches(Toy()), _batches(Toy())
    other(17)
    for step in (1, 9, 30, 2):
        mine, theirs = one(step), other(step)
        assert all(torch.equal(getattr(mine, k), getattr(theirs, k)) for k in ("x0", "noise", "timestep", "drop"))
        assert mine.prompts == theirs.prompts
    assert not torch.equal(one(1).noise, _batches(Toy(), seed=4)(1).noise)


def test_long_clips_are_cropped_and_padding_is_zero() -> None:
    batch = _batches(Toy(), max_length=20)(1)
    assert int(batch.lengths.max()) <= 20
    mask = torch.arange(batch.x0.shape[1]) < batch.lengths[:, None]
    assert not batch.x0[~mask].any()
    assert batch.x0[mask].abs().sum(-1).min() > 0


def test_clutter_stands_beside_a_clip_and_carries_no_loss() -> None:
    batches = _batches(Toy(), clutter=1.0, grid=4, max_length=100)
    counts, firsts = set(), set()
    for step in range(1, 30):
        batch = batches(step)
        for row, prompt in enumerate(batch.prompts):
            assert int(batch.lengths[row]) == prompt.length <= 100
            own = batch.own[row].nonzero().flatten()
            window = (int(own[0]), int(own[-1]) + 1)
            assert len(own) == window[1] - window[0]
            assert window in prompt.bounds
            assert window[0] % 4 == 0
            counts.add(len(prompt.segments))
            firsts.add(prompt.bounds.index(window))
    assert counts == {1, 2, 3}
    assert firsts == {0, 1, 2}
    plain = _batches(Toy())(1)
    assert all(len(prompt.segments) == 1 for prompt in plain.prompts)
    assert torch.equal(plain.own.sum(1), plain.lengths)


def test_clutter_comes_by_the_batch() -> None:
    batches = _batches(Toy(), batch_size=48, clutter=0.3, grid=4, max_length=100)
    widest = [max(len(prompt.segments) for prompt in batches(step).prompts) for step in range(1, 201)]
    # Of 48 clips in a batch with clutter some have two neighbours; without it none has any.
    assert set(widest) == {1, 3}
    assert abs(widest.count(3) / 200 - 0.3) < 4 * (0.3 * 0.7 / 200) ** 0.5
    assert all(len(prompt.segments) == 1 for batch in batches.fixed() for prompt in batch.prompts)


def test_noisy_timesteps_come_more_often() -> None:
    def late(early: float) -> float:
        batches = _batches(Toy(), batch_size=48, steps=50, early=early)
        return float(torch.stack([(batches(step).timestep >= 40).float().mean() for step in range(1, 31)]).mean())

    assert abs(late(0.0) - 0.2) < 0.05
    assert abs(late(1.0) - (10 / 49) ** 0.5) < 0.06


def test_share_without_text() -> None:
    batches = _batches(Toy(), batch_size=48, cond_drop=0.25)
    share = torch.stack([batches(step).drop.float().mean() for step in range(1, 41)]).mean()
    assert abs(float(share) - 0.25) < 4 * (0.25 * 0.75 / (48 * 40)) ** 0.5
    assert not any(batch.drop.any() for batch in _batches(Toy(), cond_drop=1.0).fixed())


def test_loss_ignores_padding() -> None:
    x0, predicted = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    mask = torch.tensor([[True, True, True, True], [True, False, False, False]])
    dirty = predicted.masked_fill(~mask[..., None], float("nan"))
    expected = torch.stack([(predicted[0] - x0[0]).square().mean(), (predicted[1, 0] - x0[1, 0]).square().mean()])
    assert torch.allclose(diffusion_loss(dirty, x0, mask), expected)


def test_it_learns_what_texts_mean(tmp_path: Path) -> None:
    shape = {"layers": 1, "latent_dim": 32, "num_heads": 2, "ff_size": 32, "diffusion_steps": 10, "noise_shift": 1.0}
    # The published losses: as joints, these random postures spin.
    train = {"batch_size": 8, "val_every": 0, "ema": 0.9, "clutter": 0.0, "velocity": 0.0, "joint_velocity": 0.0,
             "max_weight": 1.0}  # fmt: skip
    optim = {"learning_rate": 5e-3, "warmup_steps": 5, "weight_decay": 0.0}
    settings = _settings(Toy(24), run={"num_steps": 300}, model=shape, train=train, optim=optim)
    document = _train(settings, tmp_path / "run")
    loss = document["heldout"]["loss"]
    assert loss["after"] < 0.5 * loss["before"]
    policy = open_policy(MDMOptions(checkpoint=str(tmp_path / "run")))
    prompts = [Prompt((f"a man {action}",), (32,)) for action in ACTIONS]
    x = torch.randn(4, 32, 263, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        out = policy.predict(x, torch.full((4,), 9), policy.condition(prompts), torch.full((4,), 32)).mean(1)
    postures = torch.stack([clip.features.mean(0) for clip in Toy().clips("train")[:4]])
    assert torch.equal(torch.cdist(out, postures).argmin(1), torch.arange(4))


def _weights(path: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(path)


def test_a_run_from_before_mirror_images_goes_on(tmp_path: Path) -> None:
    _train(_settings(), tmp_path / "run", stop_at=3)
    file = tmp_path / "run/config.json"
    table = json.loads(file.read_text())
    del table["train"]["mirror"]
    file.write_text(json.dumps(table))
    assert _train(_settings(), tmp_path / "run", resume=True)["status"] == "done"


def test_stop_and_resume_give_the_same_bits(tmp_path: Path) -> None:
    whole = _train(_settings(), tmp_path / "whole")
    stopped = _train(_settings(), tmp_path / "parts", stop_at=3)
    assert (stopped["status"], stopped["steps"]) == ("interrupted", 3)
    resumed = _train(_settings(), tmp_path / "parts", resume=True)
    assert resumed["heldout"] == whole["heldout"]
    for name in ("policy/model", "checkpoints/step-00000006/model", "checkpoints/step-00000006/ema",
                 "checkpoints/step-00000006/optimizer"):  # fmt: skip
        one, two = _weights(tmp_path / f"whole/{name}.safetensors"), _weights(tmp_path / f"parts/{name}.safetensors")
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one), name
    lines = [
        [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in path.read_text().splitlines()]
        for path in (tmp_path / "whole/metrics.jsonl", tmp_path / "parts/metrics.jsonl")
    ]
    assert lines[0] == lines[1]
    assert [line["step"] for line in lines[0] if "val/loss/diffusion" in line] == [3, 6]
    for kept in (kept_points(tmp_path / name) for name in ("whole", "parts")):
        assert list(kept) == [0, 3, 6]
        motions = [Shown.load(path) for path in kept.values()]
        assert [len(one.texts) for one in motions] == [4, 4, 4]
        assert not any(
            (one == motions[0].features[0]).all() for one in (motions[1].features[0], motions[2].features[0])
        )
    for one, two in zip(*(kept_points(tmp_path / name).values() for name in ("whole", "parts")), strict=True):
        assert all((a == b).all() for a, b in zip(Shown.load(one).features, Shown.load(two).features, strict=True))
    # Without them the run has the same bits.
    _train(_settings(motions=0), tmp_path / "without")
    assert kept_points(tmp_path / "without") == {}
    one, two = (_weights(tmp_path / name / "policy/model.safetensors") for name in ("whole", "without"))
    assert all(torch.equal(one[key], two[key]) for key in one)
    text = (tmp_path / "without/metrics.jsonl").read_text()
    assert [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in text.splitlines()] == lines[0]


def test_the_policy_is_the_average_and_complete(tmp_path: Path) -> None:
    _train(_settings(), tmp_path / "run")
    saved = _weights(tmp_path / "run/policy/model.safetensors")
    average = _weights(tmp_path / "run/checkpoints/step-00000006/ema.safetensors")
    live = _weights(tmp_path / "run/checkpoints/step-00000006/model.safetensors")
    assert all(torch.equal(saved[name], average[name]) for name in average)
    assert any(not torch.equal(saved[name], live[name]) for name in average)
    policy = open_policy(MDMOptions(checkpoint=str(tmp_path / "run")))
    assert policy.settings.mask_frames
    assert policy.settings.text_width == 8


class Broken(Toy):
    """A dataset with something wrong in one split."""

    def __init__(self, split: str, clips: list[TextClip]) -> None:
        super().__init__()
        self._split, self._broken = split, clips

    def clips(self, split: str) -> list[TextClip]:
        """Return the broken clips for one split."""
        return self._broken if split == self._split else super().clips(split)


NAN = TextClip("bad", torch.full((20, 263), float("nan")), ("a man walks",))


@pytest.mark.parametrize(
    ("split", "clips", "word"),
    [
        ("train", [], "0 clips in its train"),
        ("val", [], "0 clips in its val"),
        ("train", [NAN], "'bad'"),
        ("val", [TextClip("mute", torch.zeros(20, 263), ())], "'mute'"),
    ],
)
def test_refusals(split: str, clips: list[TextClip], word: str) -> None:
    with pytest.raises(MotionkitError, match=word) as error:
        PretrainMDM(_settings(Broken(split, clips))).prepare()
    assert error.value.code == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"latent_dim": 30, "num_heads": 4}}, "multiple of num_heads"),
        ({"model": {"arch": "trans_dec"}}, "needs arch trans_enc"),
        ({"train": {"sampling_steps": 11}}, "is 11, and model.diffusion_steps is 10: use 0 to 10"),
        ({"text": {"encoder": "distilbert"}}, "one token per word"),
    ],
)
def test_impossible_shapes(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(MotionkitError) as error:
        PretrainMDM(_settings(**changes)).prepare()
    assert message in str(error.value)


def test_a_diverging_loss_stops_the_run(tmp_path: Path) -> None:
    settings = _settings(optim={"learning_rate": 1e30, "warmup_steps": 0, "grad_clip": 0})
    with pytest.raises(MotionkitError) as error:
        _train(settings, tmp_path / "run")
    assert error.value.code == 1
    assert "--learning-rate below 1e+30" in error.value.fix


def test_mirror_images_are_trained_on_too() -> None:
    toy = Toy(16, captions=[("a man waves his left hand", "un homme salue de la main gauche")] * len(ACTIONS))
    trainer = PretrainMDM(_settings(toy, train={"batch_size": 8, "mirror": True}))
    trainer.prepare()
    batches = trainer._batches()
    assert batches.per_epoch == 4
    texts = [text for step in range(1, 5) for prompt in batches(step).prompts for text in prompt.segments]
    assert "a man waves his right hand" in texts
    clip = toy.clips("train")[0]
    (image,) = mirrored([clip], HUMANML)
    assert image.captions == ("a man waves his right hand",)  # sides in other languages are not read
    assert torch.equal(mirror_features(image.features, HUMANML), clip.features)
    assert not mirrored([TextClip("x", clip.features, clip.captions[1:])], HUMANML)
    plain = PretrainMDM(_settings(toy))
    plain.prepare()
    assert plain._batches().per_epoch == 2


def test_velocity_loss_sees_jitter_and_not_an_offset() -> None:
    x0 = torch.zeros(2, 6, 3)
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    offset, jitter = x0 + 0.5, x0 + 0.5 * torch.tensor([1.0, -1.0] * 3)[None, :, None]
    jitter[1, 4:] = torch.nan
    assert torch.equal(velocity_loss(offset, x0, mask), torch.zeros(2))
    torch.testing.assert_close(velocity_loss(jitter, x0, mask), torch.ones(2))
    assert torch.equal(velocity_loss(jitter[:, :1], x0[:, :1], mask[:, :1]), torch.zeros(2))


def test_training_can_start_from_a_policy(tmp_path: Path) -> None:
    first = _settings(run={"num_steps": 3})
    _train(first, tmp_path / "first")
    start = open_policy(MDMOptions(checkpoint=str(tmp_path / "first"))).network.state_dict()
    trainer = PretrainMDM(_settings(init=str(tmp_path / "first"), seed=9))
    trainer.prepare()
    assert all(torch.equal(value, start[name]) for name, value in trainer.policy.network.state_dict().items())
    with pytest.raises(MotionkitError, match="layers"):
        PretrainMDM(_settings(init=str(tmp_path / "first"), model={"layers": 2, "latent_dim": 16})).prepare()
    # No tensor depends on the noise: a policy can be trained on with another shift, which is then its own.
    shape = {"layers": 1, "latent_dim": 32, "num_heads": 2, "ff_size": 32, "patch_size": 4, "diffusion_steps": 10}
    settings = _settings(init=str(tmp_path / "first"), model=shape | {"noise_shift": 2.0})
    trainer = PretrainMDM(settings)
    trainer.prepare()
    assert all(torch.equal(value, start[name]) for name, value in trainer.policy.network.state_dict().items())
    assert torch.equal(trainer.policy.schedule.betas, Schedule.cosine(10).shifted(2.0).betas)


def test_patches_overlap_where_they_can() -> None:
    def overlap(**model: Any) -> bool:
        return PretrainMDMSettings.model_validate({"model": model}).model.network(0.1).patch_overlap

    assert (overlap(), overlap(patch_size=3), overlap(patch_size=4, patch_overlap=False)) == (True, False, False)
    with pytest.raises(MotionkitError) as error:
        overlap(patch_size=1, patch_overlap=True)
    assert "needs an even patch_size, not 1" in str(error.value)


def _walk_of(body: Skeleton, frames: int, count: int) -> tuple[Tensor, Normalizer]:
    """Return random normalised features that turn and travel, and their statistics."""
    generator = torch.Generator().manual_seed(3)
    normalizer = Normalizer(
        torch.randn(body.width, generator=generator), 0.1 + torch.rand(body.width, generator=generator)
    )
    return 0.3 * torch.randn(count, frames, body.width, generator=generator), normalizer


@pytest.mark.parametrize("body", [HUMANML, KIT])
def test_joint_velocity_loss_is_that_of_the_joints_in_the_world(body: Skeleton) -> None:
    predicted, normalizer = _walk_of(body, 9, 3)
    # Beside a body that stands still, the error is the velocity itself, which features_to_joints also knows.
    still = normalizer.denormalize(predicted[:, :1]).repeat(1, 9, 1)
    still[..., :3] = 0.0
    x0 = normalizer.normalize(still)
    lengths = torch.tensor([9, 5, 1])
    mask = torch.arange(9) < lengths[:, None]
    predicted = predicted.masked_fill(~mask[..., None], float("nan")).requires_grad_()
    loss = joint_velocity_loss(predicted, x0, mask, normalizer=normalizer, skeleton=body, fps=20.0)
    expected = []
    for row, length in enumerate(lengths.tolist()):
        joints = features_to_joints(normalizer.denormalize(predicted[row, :length]), body)
        speeds = [(joints[t + 1] - joints[t]).mul(20.0).square().mean() for t in range(length - 1)]
        expected.append(torch.stack(speeds).mean() if speeds else torch.zeros(()))
    assert torch.allclose(loss, torch.stack(expected), rtol=1e-4)
    mine, slow = (torch.autograd.grad(value.sum(), predicted, retain_graph=True)[0] for value in (loss, sum(expected)))
    assert torch.allclose(mine, slow, rtol=1e-3, atol=1e-4 * float(slow.abs().max()))
    assert not mine[~mask].any()


def test_joint_velocity_loss_in_metres_per_second() -> None:
    body, frames = HUMANML, 12
    normalizer = Normalizer(torch.zeros(body.width), torch.full((body.width,), 0.5))
    still = torch.randn(1, 1, body.width, generator=torch.Generator().manual_seed(0)).repeat(1, frames, 1)
    still[..., :3] = 0.0
    mask = torch.ones(1, frames, dtype=torch.bool)

    def loss(changed: Tensor) -> float:
        one, other = normalizer.normalize(changed), normalizer.normalize(still)
        return float(joint_velocity_loss(one, other, mask, normalizer=normalizer, skeleton=body, fps=20.0))

    sliding = still.clone()
    sliding[..., 1] = 0.05  # metres per frame
    assert loss(sliding) == pytest.approx((0.05 * 20) ** 2 / 3, rel=1e-4)
    lifted, one_joint = still.clone(), still.clone()
    lifted[..., 4:67] += 0.3
    lifted[..., 3] += 0.3
    assert loss(lifted) == pytest.approx(0.0, abs=1e-6)  # a place is not a velocity
    one_joint[..., 4] += 0.02 * torch.tensor([1.0, -1.0] * (frames // 2))
    assert loss(one_joint) == pytest.approx((0.04 * 20) ** 2 / 3 / 22, rel=1e-4)
    # A heading that is wrong from one frame on is wrong once, and not in all frames behind it.
    straight, turned = still.clone(), still.clone()
    straight[..., 2] = turned[..., 2] = 0.05
    turned[:, 2, 0] = 0.3
    pair = [normalizer.normalize(part) for part in (turned, straight)]
    later = mask.clone()
    later[:, :3] = False
    assert joint_velocity_loss(*pair, later, normalizer=normalizer, skeleton=body, fps=20.0) == 0
    assert joint_velocity_loss(*pair, mask, normalizer=normalizer, skeleton=body, fps=20.0) > 0.01


def test_timesteps_weigh_as_much_as_their_signal(tmp_path: Path) -> None:
    shape = {"layers": 1, "latent_dim": 32, "num_heads": 2, "ff_size": 32, "diffusion_steps": 10, "dropout": 0.0}
    shape["noise_shift"] = 1.0
    train = {"batch_size": 8, "joint_velocity": 0.7, "velocity": 0.3, "max_weight": 4.0}
    settings = _settings(model=shape, train=train)
    trainer = PretrainMDM(settings)
    trainer.prepare()
    snr = trainer.policy.schedule.snr
    assert torch.equal(trainer._weight, snr.clamp(1, 4))
    assert (float(trainer._weight[0]), float(trainer._weight[-1])) == (4, 1)
    batch = trainer._batches()(1)
    with torch.no_grad():
        parts = trainer._losses(batch)
        one = torch.stack([
            min(max(float(snr[t]), 1.0), 4.0) * (parts["diffusion"][i] + 0.3 * parts["velocity"][i]
                                                 + 0.7 * parts["joint_velocity"][i])
            for i, t in enumerate(batch.timestep.tolist())
        ]).mean()  # fmt: skip
    document = _train(settings, tmp_path / "run", stop_at=1)
    assert document["steps"] == 1
    first = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[0])
    assert first["loss/total"] == pytest.approx(float(one), rel=1e-3)
    assert first["loss/joint_velocity"] == pytest.approx(float(parts["joint_velocity"].mean()), rel=1e-3)


def test_without_a_judge_fid_is_in_the_space_of_the_evaluator_of_these_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy").mkdir()
    toy = load_dataset("humanml", root=write_toy(tmp_path / "toy"))
    settings = _settings(toy, train={"batch_size": 8, "samples": 8, "val_every": 0})
    before = _train(settings, tmp_path / "before")
    assert "heldout/fid" not in before["metrics"]
    with open_run("pretrain t2m-evaluator", {"run": {"out": "runs/evaluator"}, "dataset": {"name": "humanml"}}) as run:
        record = {"trained_on": record_of(toy).model_dump()}
        save_evaluator(run.artifact("evaluator"), starter_evaluator.make(toy), extra=record)
        run.finish()
    with caplog.at_level(logging.INFO, "motionkit"):
        after = _train(settings, tmp_path / "after")
    assert "FID is measured at the end: evaluator runs/evaluator, trained on these data" in caplog.text
    assert after["metrics"]["heldout/fid"] > 0
    assert "heldout/judge/mean" not in after["metrics"]
    rows = {row[0]: row for row in after["table"][1]["rows"]}
    assert "FID in the evaluator's space" in rows
    assert "judge" not in rows
    assert "jerk (m/s^3)" in rows
    one, other = (
        safetensors.torch.load_file(tmp_path / name / "policy/model.safetensors") for name in ("before", "after")
    )
    assert all(torch.equal(one[name], other[name]) for name in one), "measuring changes no bit of what is trained"


def test_the_judge_that_is_named_measures_fid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "motionkit"):
        PretrainMDM(_settings()).prepare()
    assert (
        "FID will not be measured: no judge is named (--judge tmr-dense --judge.weights DIR), and no fin" in caplog.text
    )
    assert "(motionkit pretrain t2m-evaluator --dataset toy)" in caplog.text
    judge = choose_one("rewards", "tmr-dense", {"weights": "starter:judge"})
    # The starter stores the embeddings of its captions, so the judge reads them without a text model.
    known = Toy(captions=[(text,) for text in captions()[: len(ACTIONS)]])
    settings = _settings(known, judge=judge, train={"batch_size": 8, "samples": 4, "val_every": 0})
    document = _train(settings, tmp_path / "run")
    assert document["metrics"]["heldout/fid"] > 0
    trainer = PretrainMDM(settings)
    trainer.prepare()
    assert any(name.startswith("judge.") for name in trainer.inputs)
    with pytest.raises(MotionkitError, match="--judge physics"):
        _require_space(choose_one("rewards", "physics", {}), object())  # type: ignore[arg-type]
