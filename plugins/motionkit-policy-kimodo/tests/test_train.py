"""`pretrain kimodo`: clips at its rate, its loss, constraint masks; trained, resumed to the bit, opened, exported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from typer.testing import Result

from motionkit import load_dataset
from motionkit.errors import MotionkitError
from motionkit.formats import WriteOptions
from motionkit.geometry import matrix_from_rotvec
from motionkit.kernels import physics_sums
from motionkit.motion import HUMANML, Clip, Motion, with_frame_after
from motionkit.rl import length_mask
from motionkit.testing import check_dataset
from motionkit.training.memory import Alive
from motionkit_policy_kimodo.clips import encode_clips, own_body, resampled, write_starter_table
from motionkit_policy_kimodo.constraints import PARTS, columns_of
from motionkit_policy_kimodo.dataset import KimodoMotions
from motionkit_policy_kimodo.motions import write_g1, write_kimodo
from motionkit_policy_kimodo.policy import KimodoPolicy
from motionkit_policy_kimodo.qpos import from_angles
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.settings import KimodoOptions, PretrainKimodoSettings, PromptOptions
from motionkit_policy_kimodo.skeletons import body
from motionkit_policy_kimodo.train import _WEIGHTS, PretrainKimodo, kimodo_loss, random_mask, random_way


def test_a_spline_keeps_its_frames_and_is_smooth() -> None:
    time = torch.arange(21, dtype=torch.float64) / 20
    joints = torch.stack([(4 * time).sin(), (3 * time).cos(), time], dim=1)[:, None]
    made = resampled(joints, 20.0, 30.0)
    assert made.shape == (31, 1, 3)
    assert_close(made[::3], joints[::2])
    at = torch.arange(31, dtype=torch.float64) / 30
    assert_close(made[3:-3, 0, 0], (4 * at).sin()[3:-3], atol=1e-3, rtol=0)
    assert resampled(joints, 30.0, 30.0) is joints


@pytest.mark.parametrize("name", ["own", "soma30"])
def test_clips_on_a_body(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path))
    clips = load_dataset("starter", clips=24).clips("train")[:2]
    made = own_body(clips[0], HUMANML) if name == "own" else body(name)
    representation = KimodoRepresentation(made)
    features = encode_clips(clips, HUMANML, 20.0, representation)
    for clip, encoded in zip(clips, features, strict=True):
        before = with_frame_after(clip.features, HUMANML)
        joints = representation.positions(encoded)
        assert len(encoded) == int((len(before) - 1) * 1.5) + 1
        length = torch.tensor([len(encoded)])
        _, jerk = physics_sums(joints[None], length, fps=30, feet=made.feet)
        _, real = physics_sums(before[None], torch.tensor([len(before)]), fps=20, feet=HUMANML.feet)
        assert 0.5 < float(jerk / real) < 2
        if name == "own":
            assert_close(joints[::3], before[::2].float()[: len(joints[::3])], atol=0.01, rtol=0)
    again = encode_clips(clips, HUMANML, 20.0, representation)
    assert all(torch.equal(one, other) for one, other in zip(features, again, strict=True))


def test_masks_of_constraints() -> None:
    representation = KimodoRepresentation(body("soma30"))
    assert columns_of(representation, "root2d").tolist() == [0, 2, 3, 4]
    assert len(columns_of(representation, "fullbody")) == 5 + 90
    assert len(columns_of(representation, PARTS[2])) == 5 + 2 * 3 + 6
    draw = torch.Generator().manual_seed(0)
    sizes = {int(random_mask(representation, 12, draw).any(1).sum()) for _ in range(60)}
    assert sizes == set(range(1, 13))
    drawn = [random_mask(representation, 12, draw).any(0).nonzero().flatten().tolist() for _ in range(60)]
    assert {tuple(columns) for columns in drawn} >= {(0, 2), (0, 2, 3, 4)}
    whole = [bool(random_mask(representation, 40, draw, dense=0.5).any(1).all()) for _ in range(60)]
    assert 15 < sum(whole) < 45
    assert not any(bool(random_mask(representation, 40, draw).any(1).all()) for _ in range(60))
    assert len({tuple(columns) for columns in drawn}) == 2 + 1 + len(PARTS)
    points = [random_mask(representation, 12, draw, points=1.0) for _ in range(60)]
    assert {int(mask.any(1).sum()) for mask in points} == {1, 2, 3}
    assert all(mask.any(0).nonzero().flatten().tolist() == [0, 2] for mask in points)
    # Without them the numbers that are drawn stay the same.
    one, other = (torch.Generator().manual_seed(1) for _ in range(2))
    assert torch.equal(random_mask(representation, 12, one), random_mask(representation, 12, other, points=0.0))
    some = [int(random_mask(representation, 12, draw, points=0.5).any(1).sum()) for _ in range(200)]
    assert 110 < sum(count <= 3 for count in some) < 190


def test_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path))
    train = {"batch_size": 4, "headings": 0, "early": 1, "early_power": 9, "text_noise": 0.5, "cond_drop": 0}
    dataset = {"name": "starter", "clips": 50, "val_clips": 1}
    model = {"latent": 8, "feedforward": 8, "layers": 1, "norm_first": True}
    settings = PretrainKimodoSettings.model_validate(
        {"dataset": dataset, "model": model, "train": train, "device": "cpu"}
    )
    trainer = PretrainKimodo(settings)
    trainer.prepare()
    assert trainer.policy.network.shape.norm_first
    batches = [trainer._batch(step) for step in range(1, 13)]  # an epoch
    assert torch.equal(trainer._batch(9).noise, batches[8].noise)
    lengths = torch.stack([batch.lengths for batch in batches])
    assert float((lengths.amax(1) - lengths.amin(1)).float().mean()) < 0.25 * float(lengths.max() - lengths.min())
    every = sorted(len(clip) for clip in trainer._features["train"])
    left = len(every) - lengths.numel()
    assert left == 2
    assert set(lengths.flatten().tolist()) <= set(every)
    assert all(float(batch.conditions.heading.abs().max()) == 0 for batch in batches)
    known = torch.stack(list(trainer.policy.texts.vectors.values()))
    off = [float((batch.conditions.text[:, 0] - known[:, None]).square().mean(-1).amin(0).max()) for batch in batches]
    assert all(0.2 < value < 0.3 for value in off)  # 0.5 squared
    plain = batches[0]
    trainer.settings = settings.model_copy(update={"train": settings.train.model_copy(update={"bent": 0.5})})
    bent = trainer._batch(1)
    assert plain.conditions.mask is not None
    assert bent.conditions.observed is not None
    told = plain.conditions.mask.any(-1).any(-1)
    assert 0 < int(told.sum()) < len(told)
    moved = (bent.x0 - plain.x0)[..., [0, 2]].abs().amax((1, 2)) > 0.01
    assert torch.equal(moved, told)  # those without constraints are as the text says
    assert torch.equal(bent.conditions.observed, bent.x0)
    assert sum(float((batch.timestep > 900).float().mean()) for batch in batches) / len(batches) > 0.65


def test_a_step_makes_the_tensors_that_were_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path))
    settings = PretrainKimodoSettings.model_validate(
        {
            "dataset": {"name": "starter", "clips": 50, "val_clips": 1},
            "model": {"latent": 64, "feedforward": 128, "layers": 2},
            "train": {"batch_size": 8, "headings": 0},
            "device": "cpu",
        }
    )
    trainer = PretrainKimodo(settings)
    trainer.prepare()
    before = torch.get_rng_state()
    expected = trainer._forecast()
    assert torch.equal(torch.get_rng_state(), before)
    assert f"{expected.peak / 1e6:.1f} MB" in str(trainer.describe()["step"])
    longest = max(trainer._features["train"], key=len)
    trainer._features["train"] = [longest] * 8
    trainer._captions["train"] = trainer._captions["train"][:8]
    trainer._step(1)
    with Alive() as alive:
        trainer._step(2)
    parts = expected.parts
    made = expected.peak - parts["weights"] - parts["average"] - 2 / 3 * parts["gradients and AdamW"]
    assert made == pytest.approx(alive.most, rel=0.1)


def test_loss(soma: KimodoOptions) -> None:
    policy = KimodoPolicy(soma)
    draw = torch.Generator().manual_seed(0)
    x0, lengths = torch.randn(2, 9, 369, generator=draw), torch.tensor([9, 4])
    off = x0.clone()
    off[~length_mask(lengths, 9)] = torch.nan
    assert float(kimodo_loss(off, x0, lengths, policy)["total"]) == 0
    off[..., policy.skeleton.parts["velocities"]] += 0.5
    losses = kimodo_loss(off, x0, lengths, policy)
    assert_close(losses["velocities"], torch.tensor(0.125))
    assert_close(losses["total"], torch.tensor(3 * 0.125))  # joints come from rotations


def test_loss_of_speeds(soma: KimodoOptions) -> None:
    policy, lengths = KimodoPolicy(soma), torch.tensor([9, 4])
    x0 = torch.randn(2, 9, 369, generator=torch.Generator().manual_seed(0))
    time = torch.arange(9.0) / 30
    # Metres that the whole body is moved ahead by: not at all with time, evenly, and ever faster.
    for way, speed, force in ((torch.full((9,), 0.2), 0.0, 0.0), (0.4 * time, 0.4, 0.0), (2.5 * time**2, None, 0.5)):
        off = policy.normalizer.denormalize(x0)
        off[..., 0] += way
        made = policy.normalizer.normalize(off)
        losses = kimodo_loss(made, x0, lengths, policy, velocities=2.0, accelerations=3.0)
        if speed is not None:
            assert_close(losses["joint_velocities"], torch.tensor(speed**2 / 2 / 3), atol=1e-5, rtol=0)
        assert_close(losses["joint_accelerations"], torch.tensor(force**2 / 2 / 3), atol=1e-4, rtol=0)
        paper = kimodo_loss(made, x0, lengths, policy)
        more = 2 * losses["joint_velocities"] + 3 * losses["joint_accelerations"]
        assert_close(losses["total"], paper["total"] + more)
        assert not {"joint_velocities", "joint_accelerations"} & set(paper)
    pair = torch.randn(1, 2, 369)  # two frames have no acceleration
    assert kimodo_loss(pair, pair + 0.1, torch.tensor([2]), policy, accelerations=1.0)["total"].isfinite()


def test_loss_where_constraints_are_given(soma: KimodoOptions) -> None:
    policy, lengths = KimodoPolicy(soma), torch.tensor([9, 4, 6])
    draw = torch.Generator().manual_seed(0)
    x0, made = (torch.randn(3, 9, 369, generator=draw) for _ in range(2))
    made[1, 4:] = torch.nan  # padding
    mask = torch.zeros(x0.shape, dtype=torch.bool)
    mask[0, 3, [0, 2]] = True
    mask[1, :4] = random_mask(policy.skeleton, 4, draw)
    paper, losses = (kimodo_loss(made, x0, lengths, policy, given=weight, mask=mask) for weight in (0.0, 7.0))
    expected = 0.0
    for name, part in policy.skeleton.parts.items():
        each = []
        for row in range(3):  # the third has none
            if mask[row, :, part].any():
                off = (made - x0)[row, :, part][mask[row, :, part]].abs()
                each.append(float(torch.where(off < 1, off.square() / 2, off - 0.5).mean()))
        expected += _WEIGHTS[name] * sum(each) / max(len(each), 1)
    assert_close(float(losses["given"]), expected, rtol=1e-5, atol=0)
    assert_close(losses["total"], paper["total"] + 7 * losses["given"])
    assert "given" not in paper
    assert "given" not in kimodo_loss(made, x0, lengths, policy, given=7.0, mask=torch.zeros_like(mask))


def test_ways_that_the_text_does_not_tell() -> None:
    representation, draw = KimodoRepresentation(body("soma30")), torch.Generator().manual_seed(0)
    ways = torch.stack([random_way(61, 0.5, draw) for _ in range(200)])
    assert not ways[:, 0].any()
    assert 0.45 < float(ways.abs().max()) <= 0.5
    assert_close(ways[:, -1].std(), torch.tensor(0.5 / 3**0.5), atol=0.02, rtol=0)
    assert float(ways.diff(n=3, dim=1).abs().max()) < 1e-6  # of the second degree
    turns = matrix_from_rotvec(0.3 * torch.randn(61, 30, 3, generator=draw))
    features = representation.encode(turns, torch.randn(61, 3, generator=draw).cumsum(0) / 30)
    carried = representation.carried(features, ways[0])
    joints, before = (representation.positions(some) for some in (carried, features))
    assert_close((joints - before)[..., [0, 2]], ways[0][:, None].expand(-1, 30, -1), atol=1e-5, rtol=0)
    assert_close(joints[..., 1], before[..., 1])
    velocities = carried[:, representation.parts["velocities"]].unflatten(-1, (-1, 3))
    assert_close(velocities, representation.moving(joints)[0], atol=1e-3, rtol=0)
    assert_close(representation.rotations(carried), representation.rotations(features))


def test_pretrain(cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    small = [f"--set=model.{name}={size}" for name, size in {"latent": 16, "feedforward": 16, "layers": 1}.items()]
    small += ["--set=train.val_clips=3", "--set=train.samples=2", "--dataset.clips", "24", "--batch-size", "4"]
    done = cli("pretrain", "kimodo", *small, "--num-steps", "3", "--out", "run", "--set", "checkpoint.every=2")
    assert done.exit_code == 0, done.output
    assert "--policy kimodo" in done.output
    copytree("run", "again", symlinks=True)
    resumed = cli("pretrain", "kimodo", "--resume", "again/checkpoints/step-00000002")
    assert resumed.exit_code == 0, resumed.output
    whole, other = (load_file(Path(run) / "policy" / "model.safetensors") for run in ("run", "again"))
    assert all(torch.equal(value, other[name]) for name, value in whole.items())
    config = json.loads(Path("again/config.json").read_text())
    del config["train"]["headings"]  # as before batches of like lengths
    Path("again/config.json").write_text(json.dumps(config))
    earlier = cli("pretrain", "kimodo", "--resume", "again/checkpoints/step-00000002")
    assert earlier.exit_code == 2
    assert "--init again" in " ".join(earlier.output.split())
    policy = KimodoPolicy(KimodoOptions(checkpoint="run"))
    (clip,) = policy.generate("a person walks backward", durations=[1.0], inference_timesteps=3)
    assert isinstance(clip.motion, Motion)
    assert clip.motion.names == HUMANML.joint_names
    assert policy.skeleton.humanml == tuple(range(22))
    written = cli("export", "run", "official", "--to", "kimodo")
    assert written.exit_code == 0, written.output
    start = ["--init", "official", "--embeddings", "run/policy/texts.safetensors"]
    going_on = cli("pretrain", "kimodo", *small[3:], *start, "--lora", "--num-steps", "2", "--out", "on")
    assert going_on.exit_code == 0, going_on.output
    assert any("lora" in name for name in load_file("on/policy/model.safetensors"))
    start = ["--init", "run", *start[2:], "--set", "train.stage=root", "--set", "train.constraints=1"]
    path = cli("pretrain", "kimodo", *small[3:], *start, "--num-steps", "2", "--set", "train.points=1", "--out", "path")
    assert path.exit_code == 0, path.output
    told = load_file("path/policy/model.safetensors")
    moved = {name.partition(".")[0] for name, value in told.items() if not torch.equal(value, whole[name])}
    assert moved == {"root_model"}


def test_the_first_stage_alone_predicts_the_root_of_both(soma: KimodoOptions) -> None:
    policy, draw = KimodoPolicy(soma), torch.Generator().manual_seed(0)
    x, lengths, timestep = torch.randn(2, 9, 369, generator=draw), torch.tensor([9, 4]), torch.tensor([999, 3])
    text = policy.texts.encode(list(policy.texts.vectors)[:2])
    mask = torch.stack([random_mask(policy.skeleton, 9, draw, points=1.0) for _ in range(2)])
    given = {"text": text.tokens, "text_mask": text.mask, "heading": torch.zeros(2), "observed": x, "mask": mask}
    root = policy.network(x, timestep, lengths, **given, root_only=True)
    assert torch.equal(root, policy.network(x, timestep, lengths, **given)[..., :5])


def test_vectors_are_needed(cli: Callable[..., Result], soma: KimodoOptions, tmp_path: Path) -> None:
    lacking = cli("pretrain", "kimodo", "--init", soma.checkpoint, "--dataset.clips", "24", "--out", "run")
    assert lacking.exit_code == 2, lacking.output
    assert "kimodo-embed" in lacking.output
    table = write_starter_table(tmp_path / "starter.safetensors")
    wrong = cli(
        "pretrain",
        "kimodo",
        "--init",
        soma.checkpoint,
        "--embeddings",
        str(table),
        "--dataset.clips",
        "24",
        "--set",
        "train.val_clips=1",
        "--out",
        "run",
    )
    assert wrong.exit_code == 2, wrong.output
    assert "384 numbers, the model reads 16" in wrong.output


@pytest.fixture
def robots(tmp_path: Path) -> Path:
    """Write motions of the G1 as npz and CSV, and their table: a text each."""
    draw = torch.Generator().manual_seed(0)
    rows = ["text,seconds,motion"]
    for number in range(8):
        angles = 0.2 * torch.randn(1, 29, generator=draw) * torch.linspace(0, 1, 12 + number)[:, None]
        local = from_angles(angles, torch.eye(3).expand(len(angles), 3, 3), robot=number % 2 == 0)
        clip = Clip(body("g1").motion(local, torch.zeros(len(angles), 3), 30.0))
        name = f"{number}.csv" if number % 2 else f"{number}.kimodo.npz"
        (write_g1 if number % 2 else write_kimodo)(tmp_path / name, [clip], WriteOptions())
        rows.append(f"A robot moves {number} times.,{(12 + number) / 30 + 0.01:.3f},{name}")
    (tmp_path / "robots.csv").write_text("\n".join(rows))
    return tmp_path / "robots.csv"


def test_clips_of_its_own_body(robots: Path) -> None:
    dataset = KimodoMotions(PromptOptions(path=robots))
    check_dataset(dataset)
    clips = [clip for split in ("train", "val", "test") for clip in dataset.clips(split)]
    assert len(clips) == 8
    assert dataset.skeleton.name == "g1"
    for clip in clips:
        number = int(clip.captions[0].split()[3])
        assert clip.features.shape == (12 + number, 417)
    assert KimodoMotions(PromptOptions(path=robots)).inputs == dataset.inputs


def test_a_small_model_of_the_robot(
    robots: Path, cli: Callable[..., Result], soma: KimodoOptions, make_table: Callable[..., Path]
) -> None:
    table = make_table(16, *(f"A robot moves {number} times." for number in range(8)))
    words = ["--dataset", "kimodo-motions", "--dataset.path", str(robots), "--embeddings", str(table)]
    small = [f"--set=model.{name}={size}" for name, size in {"latent": 16, "feedforward": 16, "layers": 1}.items()]
    small += ["--set=train.samples=1", "--batch-size", "4", "--num-steps", "2"]
    done = cli("pretrain", "kimodo", *words, *small, "--out", "run")
    assert done.exit_code == 0, done.output
    policy = KimodoPolicy(KimodoOptions(checkpoint="run"))
    assert policy.skeleton.name == "g1"
    (clip,) = policy.generate("A robot moves 1 times.", durations=[0.5], inference_timesteps=3)
    assert clip.motion.names == body("g1").joint_names
    assert clip.motion.radii == body("g1").radii
    written = cli("export", "run", "official", "--to", "kimodo")
    assert written.exit_code == 0, written.output
    other = cli("pretrain", "kimodo", *words, "--init", soma.checkpoint, "--num-steps", "2", "--out", "other")
    assert other.exit_code == 2
    assert "the model is of soma30" in " ".join(other.output.split())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("3.csv", ""), "names no motion"),
        (("motion\n", "other\n"), "names no motion"),
        (("3.csv", "none.csv"), "none.csv"),
        (("3.csv", "human.kimodo.npz"), "of the bodies"),
    ],
)
def test_clips_that_are_refused(change: tuple[str, str], said: str, robots: Path, recorded: Path) -> None:
    with np.load(recorded / "representation_soma.npz") as known:
        turns, root = torch.from_numpy(known["global_rot_mats"]), torch.from_numpy(known["posed_joints"][:, 0])
    human = body("soma30").motion(body("soma30").local(turns.double()), root, 30.0)
    write_kimodo(robots.parent / "human.kimodo.npz", [Clip(human)], WriteOptions())
    robots.write_text(robots.read_text().replace(*change))
    with pytest.raises(MotionkitError) as refused:
        KimodoMotions(PromptOptions(path=robots))
    assert said in refused.value.sentence()
