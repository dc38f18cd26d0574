"""Rewards: TMR-SOMA, the error of constraints and the hinges of the G1, with their gradients; refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import roma
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.ask import ask
from motionkit_policy_kimodo.policy import KimodoPolicy
from motionkit_policy_kimodo.qpos import from_angles, hinges, robot_axes
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.rewards import G1Hinges, KimodoConstraints, KimodoTmr
from motionkit_policy_kimodo.settings import ConstraintRewardOptions, HingeOptions, KimodoOptions, TmrOptions
from motionkit_policy_kimodo.skeletons import body
from motionkit_policy_kimodo.texts import TextTable, write_vectors

Tensors = Callable[[str], dict[str, Tensor]]


def _clip(tensors: Tensors, frames: int = 40) -> MotionBatch:
    known = tensors("representation_soma.npz")
    features = known["features"][:frames].repeat(2, 1, 1)
    features[1, 30:] = torch.nan
    features.requires_grad_()
    return MotionBatch(features, torch.tensor([frames, 30]), skeleton=KimodoRepresentation(body("soma30")), fps=30.0)


def _finite(motions: MotionBatch, total: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(total.sum(), motions.features)
    assert gradient[motions.mask].isfinite().all()
    assert not gradient[~motions.mask].any()
    return gradient


def test_tmr(tensors: Tensors, recorded: Path, make_table: Callable[..., Path]) -> None:
    reward = KimodoTmr(TmrOptions(weights=str(recorded / "tiny_tmr"), embeddings=make_table(16)))
    motions = _clip(tensors)
    prompts = [Prompt(("a person walks",), (40,)), Prompt(("A person waves.",), (30,))]
    total = ask(reward, motions, prompts).total
    made = reward.retrieval.motions(motions.joints, motions.lengths)
    texts = reward.retrieval.texts(["A person walks.", "A person waves."])
    assert_close(total, (made * texts).sum(1) / 2 + 0.5)
    assert _finite(motions, total)[motions.mask].any()
    assert set(reward.inputs) == {"weights", "embeddings"}


def test_tmr_refuses_other_bodies(recorded: Path, make_table: Callable[..., Path]) -> None:
    reward = KimodoTmr(TmrOptions(weights=str(recorded / "tiny_tmr"), embeddings=make_table(16)))
    representation = KimodoRepresentation(body("g1"))
    g1 = MotionBatch(torch.zeros(1, 10, 417), torch.tensor([10]), skeleton=representation, fps=30.0)
    human = MotionBatch(torch.zeros(1, 10, 263), torch.tensor([10]), skeleton=HUMANML, fps=20.0)
    for motions, said in ((g1, "the g1 body"), (human, "30 frames per second")):
        with pytest.raises(MotionkitError, match=said):
            ask(reward, motions, [Prompt(("A person walks.",), (10,))])


def _file(path: Path, constraints: list[dict[str, object]]) -> str:
    path.write_text(json.dumps(constraints))
    return str(path)


def test_constraints_by_hand(tensors: Tensors, tmp_path: Path) -> None:
    motions = _clip(tensors)
    made = body("soma30")
    root = motions.joints[0, [3, 9], 0].detach()
    path = {
        "type": "root2d",
        "frame_indices": [3, 9],
        "smooth_root_2d": (root[:, [0, 2]] + torch.tensor([0.3, 0.4])).tolist(),
    }
    rest = {"local_joints_rot": torch.zeros(1, 30, 3).tolist(), "root_positions": [[0.0, 1.0, 0.0]]}
    hand = {"type": "left-hand", "frame_indices": [5], **rest}
    prompts = [
        Prompt(("A person walks.",), (40,), extras={"constraints": _file(tmp_path / "a.json", [path, hand])}),
        Prompt(("A person walks.",), (30,)),
    ]
    target = made.joints(torch.eye(3).repeat(1, 30, 1, 1), torch.tensor([[0.0, 1.0, 0.0]]))
    off = (motions.joints[0, 5] - target[0])[list(made.hands[0])].norm(dim=-1).mean()
    expected = {"all": (0.5 + off) / 2, "path": torch.tensor(0.5), "effectors": off}
    for of, error in expected.items():
        scores = ask(KimodoConstraints(ConstraintRewardOptions(of=of)), motions, prompts)
        assert_close(scores.total[0], -error, atol=1e-5, rtol=0)
        assert scores.applying.tolist() == [True, False]
    gradient = _finite(motions, scores.total)
    assert gradient[0, 5].any()
    assert not gradient[0, 6].any()


def test_constraints_refuse_other_motions() -> None:
    human = MotionBatch(torch.zeros(1, 10, 263), torch.tensor([10]), skeleton=HUMANML, fps=20.0)
    with pytest.raises(MotionkitError, match="humanml body"):
        KimodoConstraints(ConstraintRewardOptions()).score(human, [Prompt(("A person walks.",), (10,))])


def _g1(features: Tensor, lengths: tuple[int, ...]) -> MotionBatch:
    return MotionBatch(features, torch.tensor(lengths), skeleton=KimodoRepresentation(body("g1")), fps=30.0)


def test_hinges(tensors: Tensors) -> None:
    made, known = KimodoRepresentation(body("g1")), tensors("g1_qpos.npz")
    prompts = [Prompt(("A robot walks.",), (50,)), Prompt(("A robot walks.",), (30,))]
    local, root = known["local_rot_mats"], known["root_positions"]
    joints, mounts, _, limits = hinges()
    axes = robot_axes().float()
    angles = (roma.rotmat_to_rotvec(mounts.float() @ local[:, joints]) * axes).sum(-1)
    kept = from_angles(angles.clamp(*limits.float().unbind(-1)), local[:, 0], robot=True)
    free, robot = (made.encode(made.body.world(turns), root).repeat(2, 1, 1) for turns in (local, kept))
    reward = G1Hinges(HingeOptions())
    assert_close(ask(reward, _g1(robot, (50, 30)), prompts).total, torch.zeros(2), atol=1e-5, rtol=0)

    # By hand, from the vector of each joint in the frame of its link.
    vectors = roma.rotmat_to_rotvec(mounts.float() @ local[:30, joints])
    angles = angles[:30]
    off = (vectors.square().sum(-1) - angles.square()).clamp(min=0).sqrt()
    past = angles - angles.clamp(*limits.float().unbind(-1))
    free[1, 30:] = torch.nan
    motions = _g1(free.requires_grad_(), (50, 30))
    scores = ask(reward, motions, prompts)
    assert_close(scores.total[1], -(off + past.abs()).mean(), atol=1e-5, rtol=0)
    assert_close(scores.parts["off_axis"] + scores.parts["past_limits"], -scores.total)
    assert (scores.parts["off_axis"] > 0.01).all()

    # A step along the gradient helps; positions have none, rotations do.
    gradient = _finite(motions, scores.total)
    assert not gradient[:, :30, made.parts["positions"]].any()
    better = torch.where(motions.mask[..., None], free + 3.0 * gradient, free).detach()
    assert (ask(reward, _g1(better, (50, 30)), prompts).total > scores.total).all()


def test_hinges_have_limits() -> None:
    made, turns = KimodoRepresentation(body("g1")), torch.eye(3).repeat(1, 34, 1, 1)
    places = torch.zeros(2, 3)
    angles = hinges()[3][:, 1].float().repeat(2, 1)
    angles[:, int(angles[0].argmin())] += 0.29  # of 29, so that the mean is 0.01
    local = from_angles(angles, turns[:, 0].repeat(2, 1, 1), robot=True)
    features = made.encode(made.body.world(local), places)[None]
    scores = G1Hinges(HingeOptions()).score(_g1(features, (2,)), [Prompt(("A robot walks.",), (2,))])
    assert_close(scores.parts["past_limits"], torch.tensor([0.01]), atol=1e-5, rtol=0)
    assert_close(scores.parts["off_axis"], torch.zeros(1), atol=1e-4, rtol=0)


def test_hinges_refuse_other_bodies(tensors: Tensors) -> None:
    with pytest.raises(MotionkitError, match="of the g1 body"):
        ask(G1Hinges(HingeOptions()), _clip(tensors), [Prompt(("A person walks.",), (40,))] * 2)


def test_a_run_on_hinges(
    cli: Callable[..., Result], checkpoint: Path, make_table: Callable[..., Path], texts: Path, soma: KimodoOptions
) -> None:
    words = ("--dataset", "kimodo-prompts", "--dataset.path", str(texts), "--batch-size", "2", "--reward", "g1-hinges")
    g1 = ("--policy.checkpoint", str(checkpoint), "--policy.embeddings", str(make_table(8, name="g1.safetensors")))
    done = cli("grpo", "--policy", "kimodo", *g1, *words, "--num-steps", "2", "--out", "run")
    assert done.exit_code == 0, done.output
    assert "reward-gradient" in done.output
    human = ("--policy.checkpoint", soma.checkpoint, "--policy.embeddings", str(make_table(16)))
    done = cli("grpo", "--policy", "kimodo", *human, *words, "--num-steps", "2", "--out", "other")
    assert done.exit_code == 2
    assert "of the g1 body" in " ".join(done.output.split())
    assert not Path("other").exists()


def test_vectors_are_those_of_the_policy_of_the_motions(
    tensors: Tensors, recorded: Path, soma: KimodoOptions, make_table: Callable[..., Path]
) -> None:
    prompts = [Prompt(("A person walks.",), (40,)), Prompt(("A person waves.",), (30,))]
    motions = _clip(tensors)
    reward = KimodoTmr(TmrOptions(weights=str(recorded / "tiny_tmr")))
    with pytest.raises(MotionkitError, match="no text vectors"):
        ask(reward, motions, prompts)
    KimodoPolicy(KimodoOptions(checkpoint=soma.checkpoint, embeddings=make_table(16, "Another.", name="b.safetensors")))
    motions.skeleton = KimodoPolicy(soma).skeleton
    given = KimodoTmr(TmrOptions(weights=str(recorded / "tiny_tmr"), embeddings=soma.embeddings))
    assert_close(ask(reward, motions, prompts).total, ask(given, motions, prompts).total)
    first = ask(reward, motions, prompts).total.detach()
    other = make_table(16, name="c.safetensors")
    write_vectors(other, {text: -vector for text, vector in TextTable(other).vectors.items()}, encoder="another")
    motions.skeleton = KimodoPolicy(soma.model_copy(update={"embeddings": other})).skeleton
    again = KimodoTmr(TmrOptions(weights=str(recorded / "tiny_tmr"), embeddings=other))
    assert_close(ask(reward, motions, prompts).total, ask(again, motions, prompts).total)
    assert (
        float((ask(reward, motions, prompts).total.detach() - first).abs().min()) > 1e-3
    )  # not those of the first policy
    motions.skeleton = KimodoPolicy(soma).skeleton
    assert_close(ask(reward, motions, prompts).total, first)
    assert set(reward.inputs) == {"weights"}
    assert set(given.inputs) == {"weights", "embeddings"}


def test_a_run_on_both(cli: Callable[..., Result], asked: tuple[str, ...], recorded: Path, tmp_path: Path) -> None:
    known = recorded / "tiny_soma" / "chain_constraints.json"
    words = ("A person walks.", "A person waves.", "A man sits down.")
    rows = [f"{text},2,,{known}" for text in words]
    (tmp_path / "texts.csv").write_text("\n".join(["text,seconds,heading,constraints", *rows]))
    done = cli(
        *asked, "--dataset.path", str(tmp_path / "texts.csv"), "--reward", "kimodo-tmr", "--reward.weights",
        str(recorded / "tiny_tmr"), "--reward", "kimodo-constraints", "--num-steps", "2", "--out", "run",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "reward-gradient" in done.output
