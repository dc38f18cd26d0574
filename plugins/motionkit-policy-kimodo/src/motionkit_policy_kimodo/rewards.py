"""Rewards: likeness to the text by TMR-SOMA, the error of constraints, and hinges and balance of the G1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit.contracts.reward import Reward, RewardScores
from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.runs import fingerprint_files, fingerprint_tensors
from motionkit.text import Prompt
from motionkit_policy_kimodo import FPS
from motionkit_policy_kimodo.balance import balance
from motionkit_policy_kimodo.constraints import Constraint, placed_joints, read_constraints
from motionkit_policy_kimodo.mjcf import read_robot
from motionkit_policy_kimodo.qpos import off_hinges, on_robot
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.settings import BalanceOptions, ConstraintRewardOptions, HingeOptions, TmrOptions
from motionkit_policy_kimodo.texts import COMMAND, TextTable
from motionkit_policy_kimodo.tmr import read_retrieval, scores

_SMALL = 1e-8  # square metres; keeps the gradient of an exact place finite


class KimodoTmr(Reward):
    """Cosine of motion and text in TMR-SOMA, halved, plus a half: 0 to 1. Differentiable in the joints.

    It reads the 30 joints of SOMA at 30 frames per second.

    Args:
        options: Options of the reward.
        device: Where the model goes.
        **runtime: What else every reward factory gets; unused.
    """

    name, features = "kimodo-tmr", "soma30"
    bounds = (0.0, 1.0)

    def __init__(self, options: TmrOptions, *, device: torch.device | str = "cpu", **runtime: Any) -> None:
        self.table = TextTable(options.embeddings) if options.embeddings is not None else None
        self.retrieval = read_retrieval(options.weights, self.table)
        self.retrieval.model.to(device)

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of the weights, and of text vectors that are not the policy's."""
        weights = {"weights": fingerprint_tensors(self.retrieval.model.state_dict())}
        return weights if self.table is None else {**weights, "embeddings": self.table.fingerprint}

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions."""
        if motions.fps != FPS:
            raise MotionkitError(f"TMR-SOMA reads {FPS:g} frames per second, these motions have {motions.fps:g}.")
        body = motions.skeleton
        table = self.table or (body.texts if isinstance(body, KimodoRepresentation) else None)
        if table is None:
            raise MotionkitError(
                "the reward kimodo-tmr has no text vectors, and these motions are of no policy whose it could take.",
                fix=f"{COMMAND}, then --reward.embeddings OUT",
            )
        if table is not self.retrieval.model.text_model:  # motions of another policy come with another table
            self.retrieval.model.read_texts_by(table)
        texts = self.retrieval.texts([prompt.text for prompt in prompts])
        return RewardScores(scores(texts, self.retrieval.motions(motions.joints, motions.lengths)))


class KimodoConstraints(Reward):
    """Minus the error of constraints in metres, on the frames that they name; 0 is none. Differentiable in the joints.

    The error of a constraint is the mean distance of its joints, of a path that of the pelvis over the ground; a
    motion's is the mean over its constraints. Motions of prompts without constraints are left out.

    Args:
        options: Options of the reward.
        **runtime: What every reward factory gets; unused.
    """

    name = "kimodo-constraints"

    def __init__(self, options: ConstraintRewardOptions, **runtime: Any) -> None:
        self.options = options
        self._read = cache(self._constraints)

    def _constraints(self, path: str, body: KimodoRepresentation) -> list[Constraint]:
        kinds = {"path": (True,), "effectors": (False,), "all": (True, False)}[self.options.of]
        return [one for one in read_constraints(Path(path), body) if (one.type == "root2d") in kinds]

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions."""
        body = of_kimodo(motions, f"the reward {self.name}")
        errors, applies = [], []
        for joints, prompt in zip(motions.joints, prompts, strict=True):
            path = prompt.extras.get("constraints")
            off = [_error(one, joints, body) for one in (self._read(str(path), body) if path else ())]
            errors.append(torch.stack(off).mean() if off else joints.new_zeros(()))
            applies.append(bool(off))
        return RewardScores(-torch.stack(errors), applies=torch.tensor(applies, device=motions.device))


class G1Hinges(Reward):
    """Minus how far the joints of the G1 are off their hinges, in radians; 0 is what the robot can take.

    The rotation across the axis of each hinge, and what its angle is past a limit: a mean over hinges and frames.
    Differentiable in the rotations.

    Args:
        options: It has none.
        **runtime: What every reward factory gets; unused.
    """

    name, features = "g1-hinges", "g1"

    def __init__(self, options: HingeOptions, **runtime: Any) -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions."""
        body = of_kimodo(motions, f"the reward {self.name}")
        local = body.body.local(body.rotations(motions.features, motions.lengths))  # [N, T, 34, 3, 3]
        off, past = (_mean(each.mean(-1), motions) for each in off_hinges(local))
        return RewardScores(-(off + past), parts={"off_axis": off, "past_limits": past})


class G1Balance(Reward):
    """Minus the metres by which the G1 is out of balance, a mean over frames; 0 is balanced. No simulator runs.

    The motion is reduced to the robot's hinges. With a foot on the ground the zero-moment point must be in the hull of
    the feet; with none the centre of mass must fall, and what lacks to free fall counts, a whole g as a metre. See
    `motionkit_policy_kimodo.balance`. Differentiable in rotations and places.

    Args:
        options: Name the robot file, which gives masses and foot shapes.
        **runtime: What every reward factory gets; unused.
    """

    name, features = "g1-balance", "g1"

    def __init__(self, options: BalanceOptions, **runtime: Any) -> None:
        if options.mjcf is None:
            raise MotionkitError(
                "the reward g1-balance has no robot file.",
                why="masses and foot shapes of the G1 are in none of motionkit's.",
                fix="--reward.mjcf FILE, the G1 for MuJoCo; Kimodo brings one (kimodo/assets).",
            )
        self.file, self.robot = options.mjcf, read_robot(options.mjcf)

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of the robot file."""
        return {"mjcf": fingerprint_files(self.file, [self.file])}

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions."""
        made = of_kimodo(motions, f"the reward {self.name}")
        local = on_robot(made.body.local(made.rotations(motions.features, motions.lengths)))  # [N, T, 34, 3, 3]
        rotations = made.body.world(local)
        joints = made.body.joints(rotations, made.root(motions.features, motions.lengths))
        found = balance(self.robot, rotations, joints, motions.lengths, motions.fps)
        parts = {"balanced": found.balanced.to(joints), "airborne": found.airborne.detach()}
        means = {name: _mean(values, motions) for name, values in parts.items()}
        return RewardScores(-_mean(found.error, motions), parts=means)


def of_kimodo(motions: MotionBatch, who: str) -> KimodoRepresentation:
    """Return the representation of motions of Kimodo; refuse others, of which `who` reads none."""
    body = motions.skeleton
    if not isinstance(body, KimodoRepresentation):
        raise MotionkitError(
            f"{who} reads motions of Kimodo, these are of the {body.name} body.",
            fix="use it with --policy kimodo.",
        )
    return body


def _mean(values: Tensor, motions: MotionBatch) -> Tensor:
    """Return the means ``[N]`` over the frames of motions of values ``[N, T]``."""
    return torch.where(motions.mask, values, 0.0).sum(1) / motions.lengths


def _error(constraint: Constraint, joints: Tensor, body: KimodoRepresentation) -> Tensor:
    """Return the mean error in metres of the joints ``[T, J, 3]`` of a motion."""
    at = joints[constraint.frames.to(joints.device)]
    if constraint.joints is None:
        off = at[:, 0, [0, 2]] - constraint.path.to(at)
    else:
        placed = placed_joints(constraint, body.body)
        off = at[:, placed] - constraint.joints[:, placed].to(at)
    return off.square().sum(-1).add(_SMALL).sqrt().mean()
