"""A policy with a body and features of its own: sampled, written, drawn, trained; prompts without clips for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import Result

import motionkit
from conftest import Site
from motionkit import load_dataset, starter
from motionkit.contracts.reward import moved, rows
from motionkit.errors import MotionkitError
from motionkit.geometry import yaw_matrix
from motionkit.motion import HUMANML, JointMotion, Motion, MotionBatch, Representation, joints_to_features
from motionkit.rl import NoiseSource
from motionkit.testing import check_dataset, check_policy
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.export import export_motions, generate
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.evaluation.points import track
from motionkit.text_to_motion.generating import generate_motions, plan_steps, sample
from motionkit.text_to_motion.grpo.settings import GrpoOptimSettings
from motionkit.text_to_motion.rewards.ask import ask
from motionkit.text_to_motion.rewards.mix import unscored

from ..made.commands import assert_refused
from ..sample_pole import High, Pole, PoleOptions, PolePolicy
from .grpo.toy import PROMPTS, engine

SOURCE = Path(__file__).parents[1] / "sample_pole.py"


@torch.no_grad()
def made(policy: PolePolicy) -> MotionBatch:
    """Return motions of all prompts."""
    return sample(policy, PROMPTS, plan_steps(policy), NoiseSource(0)).motions


def test_joints_and_headings_are_those_of_the_representation() -> None:
    motions = made(PolePolicy())
    assert motions.features.shape == (4, 20, 5)
    assert motions.joints.shape == (4, 20, 3, 3)
    hand = motions.features[0, 3, :3] + yaw_matrix(motions.headings[0, 3]) @ torch.tensor([0.0, 1.0, 0.5])
    torch.testing.assert_close(motions.joints[0, 3, 2], hand)
    for same in (rows(motions, [1, 0]), moved(motions, torch.device("cpu")), motions.detach()):
        assert same.skeleton is motions.skeleton
    torch.testing.assert_close(rows(motions, [1, 0]).joints, motions.joints[[1, 0]])


def test_its_own_number_of_steps_is_spaced_as_it_says() -> None:
    policy = PolePolicy()
    assert plan_steps(policy).timesteps.tolist() == policy.schedule.visited("even", 5)
    policy.spacing = "early"
    assert plan_steps(policy).timesteps.tolist() == policy.schedule.visited("early", 5)


def test_motions_have_the_rotations_of_the_representation() -> None:
    policy = PolePolicy()
    (clip,) = generate_motions(policy, PROMPTS[:1], plan_steps(policy), guidance=1.0)
    assert isinstance(clip.motion, Motion)
    assert clip.features is not None
    assert clip.features.shape == (16, 5)
    joints = policy.skeleton.positions(clip.features)
    torch.testing.assert_close(clip.positions(), joints.double(), atol=1e-6, rtol=0)


def test_a_folder_of_motions_and_its_files_hold_rotations(tmp_path: Path) -> None:
    policy = PolePolicy()
    entries = generate(policy, PROMPTS[:2], tmp_path / "out", plan_steps(policy), guidance=1.0)
    assert [entry["motion"] for entry in entries] == ["motions/0000_00.npz", "motions/0001_00.npz"]
    export_motions(tmp_path / "out", ["bvh"])
    assert (tmp_path / "out" / "motions.html").stat().st_size > 1000
    native = motionkit.read(tmp_path / "out" / entries[1]["motion"])
    (written,) = (tmp_path / "out" / "bvh").glob("fall_rise*.bvh")
    bvh = motionkit.read(written, up="y", units="cm")
    assert native.motion.names == Pole.joint_names
    assert native.fps == 30.0
    assert native.texts[0] == "fall, then rise"
    torch.testing.assert_close(bvh.positions()[:, :3], native.positions(), atol=1e-4, rtol=0)


def test_motions_of_a_point_are_kept_as_joints_and_drawn(tmp_path: Path) -> None:
    motions = made(PolePolicy())
    Shown.first(motions, PROMPTS, unscored(PROMPTS), 1, 2).save(tmp_path / "point.npz")
    shown = Shown.load(tmp_path / "point.npz")
    drawn = track("b", shown, 1)
    assert drawn.names == Pole.joint_names
    assert drawn.parents == Pole.parents
    torch.testing.assert_close(drawn.positions.float(), motions.joints[1, :20])


@pytest.mark.parametrize("algorithm", ["grpo", "reward-gradient", "easytune"])
def test_it_learns_by_its_joints(algorithm: str) -> None:
    policy = PolePolicy()
    grpo = engine(policy, High(), algorithm=algorithm, optim=GrpoOptimSettings(learning_rate=0.05))
    first = grpo.step(PROMPTS)["reward/mean"]
    for _ in range(8):
        last = grpo.step(PROMPTS)["reward/mean"]
    assert last > first + 0.02


def test_a_motion_of_several_blocks_is_refused() -> None:
    policy = PolePolicy()
    with pytest.raises(MotionkitError, match="61 frames"):
        list(generate_motions(policy, [Prompt(("rise",), (61,))], plan_steps(policy)))


def test_extras_of_a_prompt_reach_a_policy_that_reads_them_and_are_refused_by_others() -> None:
    policy, asked = PolePolicy(), Prompt(("rise",), (8,), extras={"heading": 1.5})
    with pytest.raises(MotionkitError, match="heading"):
        list(generate_motions(policy, [asked], plan_steps(policy)))
    with pytest.raises(MotionkitError, match="heading"):
        engine(policy, High()).step([asked])
    seen: list[object] = []
    policy.extras = ("heading",)
    policy.condition = lambda prompts: seen.extend(prompts) or PolePolicy.condition(policy, prompts)  # type: ignore[assignment, func-returns-value, method-assign]
    made = list(generate_motions(policy, [asked], plan_steps(policy)))
    assert len(made) == 1
    assert [prompt.extras["heading"] for prompt in seen] == [1.5, 1.5]  # type: ignore[attr-defined]


@pytest.fixture
def pole(site: Site) -> None:
    """Install the package."""
    groups = {"policies": "pole = sample_pole:policy", "datasets": "pole-texts = sample_pole:dataset"}
    groups["rewards"] = "high = sample_pole:reward"
    points = "".join(f"[motionkit.{group}]\n{line}\n" for group, line in groups.items())
    site.install("pole-pkg", points, sample_pole=SOURCE.read_text())


ASKED = ("grpo", "--policy", "pole", "--dataset", "pole-texts", "--reward", "high", "--batch-size", "4")


@pytest.mark.usefixtures("pole")
def test_prompts_without_clips_train_a_policy_from_the_command_line(cli: Callable[..., Result]) -> None:
    check_dataset("pole-texts")
    check_policy("pole")
    done = cli(*ASKED, "--num-steps", "3", "--out", "run")
    assert done.exit_code == 0, done.output
    assert "prompts and no clips" in done.output
    assert "pretrain" not in done.output  # nothing can be trained on prompts alone
    page = Path("run/report.html").read_text()
    assert "not measured" in page
    assert "no judge" in page
    assert "height of the hand" in page
    assert "distance of hands" not in page  # one value of all motions has no interval
    again = cli("grpo", "--resume", "run", "--num-steps", "4")
    assert again.exit_code == 0, again.output
    asked = ("generate", "--policy", "pole", "--policy.checkpoint", "run/policy", "--dataset", "pole-texts")
    made = cli(*asked, "--limit", "2", "out", "--to", "glb")
    assert made.exit_code == 0, made.output
    assert len(list(Path("out/glb").glob("*.glb"))) == 2


REFUSED = [
    ("movement", ("--reward", "movement"), "reference clips"),
    ("physics without references", ("--reward", "physics"), "--reward.r-s"),
    ("several actions in a row", ("--k-segments", "2"), "--k-segments"),
    ("a retrieval model of another body", ("--reward", "tmr-dense"), "humanml"),
    ("another rate", ("--dataset", "starter"), "frames per second"),
]


@pytest.mark.usefixtures("pole")
@pytest.mark.parametrize(("more", "word"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_prompts_without_clips_cannot_give_is_refused(
    cli: Callable[..., Result], more: Sequence[str], word: str
) -> None:
    result = cli(*ASKED, *more, "--num-steps", "1", "--out", "run")
    assert result.exit_code == 2, result.output
    assert word in result.output
    assert not Path("run").exists()


@pytest.mark.usefixtures("pole")
def test_prompts_without_clips_are_measured(cli: Callable[..., Result]) -> None:
    folders = ["a", "b"]
    for number, folder in enumerate(folders):
        policy = PolePolicy()
        with torch.no_grad():
            policy.network["linear2"].bias[1] += number
        policy.save(Path(folder))
    asked = ("--policy", "pole", "--dataset", "pole-texts", "--limit", "8")
    done = cli("eval", "text-to-motion", "a", *asked, "--replications", "2", "--out", "out", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    figures = document["metrics"]
    assert document["prompts"] == 8
    assert len(figures["hand"]["values"]) == 2
    assert figures["hand"]["values"][0] != figures["hand"]["values"][1]
    assert figures["hands_apart"]["mean"] > 0
    assert figures["grip"]["why"] == "a pole has no fingers"
    assert "no clips" in figures["fid"]["why"]
    assert figures["path"]["mean"] > 0
    assert document["ground_truth"] == {}
    page = Path("out/evaluation.html").read_text()
    assert "height of the hand" in page
    assert "Mean height of the hand. Unit m; better: up." in page

    # By hand: the same prompts, noise and sampler.
    prompts = [replace(one, key=f"{one.key}/0") for one in load_dataset("pole-texts").prompts("val")[:8]]
    opened = PolePolicy(PoleOptions(checkpoint=Path("a")))
    with torch.no_grad():
        motions = sample(opened, prompts, plan_steps(opened, "ddpm"), NoiseSource(0), guidance=2.5).motions
    heights = [
        float(joints[:length, 2, 1].mean()) for joints, length in zip(motions.joints, motions.lengths, strict=True)
    ]
    assert figures["hand"]["values"][0] == pytest.approx(sum(heights) / 8, abs=1e-5)

    done = cli("eval", "compare", *folders, *asked, "--judge", "high", "--json")
    assert done.exit_code == 0, done.output
    quantities = json.loads(done.stdout)["quantities"]
    low, high = (quantities["hand"]["means"][name] for name in folders)
    assert low == pytest.approx(sum(heights) / 8, abs=1e-5)
    assert quantities["hand"]["differences"]["b"]["delta"] == pytest.approx(high - low)
    assert quantities["reward/high"]["differences"]["b"]["n"] == 8
    assert quantities["hands_apart"]["differences"] == {}
    assert quantities["fid"]["means"] is None


@pytest.mark.usefixtures("pole")
@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("starter",), "frames per second"),
        (("a", "--policy", "pole", "--evaluator", "starter"), "an evaluator"),
        (("a", "--policy", "pole", "--k-segments", "2"), "--k-segments"),
    ],
)
def test_what_cannot_be_measured_without_clips_is_refused(
    cli: Callable[..., Result], more: Sequence[str], word: str
) -> None:
    PolePolicy().save(Path("a"))
    assert_refused(cli("eval", "text-to-motion", *more, "--dataset", "pole-texts"), word)


@pytest.mark.usefixtures("pole")
def test_published_figures_are_of_clips(cli: Callable[..., Result]) -> None:
    PolePolicy().save(Path("a"))
    asked = ("--policy", "pole", "--dataset", "pole-texts", "--published")
    assert_refused(cli("eval", "compare", "a", *asked), "published figures compare with clips")


@pytest.mark.usefixtures("pole")
@pytest.mark.parametrize("model", ["mdm", "tmr", "t2m-evaluator"])
def test_nothing_is_pretrained_on_prompts_alone(cli: Callable[..., Result], model: str) -> None:
    result = cli("pretrain", model, "--dataset", "pole-texts", "--out", "run")
    assert result.exit_code == 2, result.output
    assert "clips" in result.output


class Points(Representation):
    """HumanML3D's joints in another order, and one more, as places in the world."""

    order = (*reversed(range(22)),)
    name, parents, feet, width = "points", tuple(range(-1, 22)), (11, 14), 69
    joint_names = tuple(f"j{number}" for number in range(23))
    humanml = order

    def positions(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return ``[..., T, 23, 3]``."""
        return features.unflatten(-1, (23, 3))

    def headings(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return zeros."""
        return torch.zeros(features.shape[:-1])


def points_of(clips: Sequence[Tensor]) -> MotionBatch:
    """Return clips ``[T, 22, 3]`` at 30 fps as `Points`, with NaN in the padding."""
    rows = [torch.cat([clip.flip(1), clip[:, :1]], 1).flatten(1) for clip in clips]
    features = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=torch.nan)
    return MotionBatch(features, torch.tensor([len(row) for row in rows]), skeleton=Points(), fps=30.0)


def clips_at_30() -> list[Tensor]:
    """Return two of the starter's motions."""
    made = [starter.generate(name, frames=41) for name in ("walk", "wave/right")]
    motions = [JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(one.joints), 20.0) for one in made]
    return [motion.resample(30.0).joints[: 60 - 7 * number] for number, motion in enumerate(motions)]


def test_motions_are_brought_to_humanml_one_by_one_as_in_a_batch() -> None:
    clips = clips_at_30()
    brought = points_of(clips).humanml
    assert brought.skeleton is HUMANML
    assert brought.fps == 20.0
    for row, clip in enumerate(clips):
        even = JointMotion(HUMANML.joint_names, HUMANML.parents, clip, 30.0).resample(20.0).joints
        expected = joints_to_features(even, HUMANML)
        assert int(brought.lengths[row]) == len(expected)
        torch.testing.assert_close(brought.features[row, : len(expected)], expected)
    assert brought.humanml is brought


def test_padding_has_no_part_in_the_gradient_of_what_is_brought() -> None:
    motions = points_of(clips_at_30())
    motions.features.requires_grad_()
    brought = motions.humanml
    brought.features[brought.mask].square().sum().backward()
    gradient = motions.features.grad
    assert gradient is not None
    assert bool(gradient[motions.mask].isfinite().all())
    assert bool((gradient[~motions.mask] == 0).all())
    assert bool((gradient[0, :, :66] != 0).any())


def test_a_reward_of_humanml_scores_motions_of_another_body_that_has_the_joints() -> None:
    reward, clips = motionkit.load_reward("tmr-dense"), clips_at_30()
    prompts = [
        Prompt(("the person walks forward.",), (len(clips[0]),)),
        Prompt(("a person waves with the left hand.", "the person walks forward."), (30, len(clips[1]) - 30)),
    ]
    motions = points_of(clips)
    scores = ask(reward, motions, prompts)
    lengths = motions.humanml.lengths.tolist()
    scaled = [replace(prompts[0], frames=(lengths[0],)), replace(prompts[1], frames=(20, lengths[1] - 20))]
    torch.testing.assert_close(scores.total, ask(reward, motions.humanml, scaled).total)
    assert float(scores.total[0]) > 0.6
    with pytest.raises(MotionkitError, match="pole"):
        ask(reward, made(PolePolicy()), PROMPTS)
