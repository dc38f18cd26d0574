"""A package with a policy whose body and features are its own, prompts without clips for it, and a reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from motionkit.config import Group
from motionkit.contracts.dataset import PromptDataset
from motionkit.contracts.reward import RewardScores
from motionkit.geometry import yaw_matrix
from motionkit.motion import Motion, MotionBatch, Normalizer, Representation
from motionkit.nn import merged_state
from motionkit.plugins import Component, Metric
from motionkit.rl import Schedule, length_mask
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import TextToMotionPolicy


class Pole(Representation):
    """A pole that stands and turns: place of the foot (3), cosine and sine of the heading; metres in the world."""

    name, joint_names, parents, feet, width = "pole", ("foot", "arm", "hand"), (-1, 0, 1), (0,), 5
    offsets = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]])

    def positions(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return ``[..., T, 3, 3]``."""
        if lengths is not None:
            valid = length_mask(lengths, features.shape[-2])
            features = torch.where(valid[..., None], features, torch.ones(5))
        turned = (yaw_matrix(self.headings(features))[..., None, :, :] @ self.offsets[..., None])[..., 0]
        return (features[..., None, :3] + turned.cumsum(-2)).to(features)

    def headings(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return ``[..., T]``."""
        return torch.atan2(features[..., 4], features[..., 3])

    def motion(self, features: Tensor, joints: Tensor, fps: float) -> Motion:
        """Return the motion with its rotations."""
        turns = torch.eye(3, dtype=torch.float64).repeat(len(features), 3, 1, 1)
        turns[:, 0] = yaw_matrix(self.headings(features)).double()
        offsets = self.offsets.double()
        places = offsets.repeat(len(features), 1, 1)
        places[:, 0] = features[:, :3].double()
        return Motion(self.joint_names, self.parents, offsets, turns, places, fps)


class PoleOptions(Group):
    """Options of the policy."""

    checkpoint: Path | None = Field(None, description="Folder that the policy was saved to.")


class Condition:
    """Rows of numbers, one for each prompt."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, index: Tensor) -> Condition:
        """Return some rows."""
        return Condition(self.rows[index])


class PoleMeasures:
    """How high the hand is, how far apart the motions are, and what cannot be measured."""

    def parts(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> dict[str, Tensor]:
        """Return the mean place of the hand, ``[N, 3]``."""
        places = torch.where(motions.mask[..., None], motions.joints[:, :, 2], 0.0)
        return {"hand": places.sum(1) / motions.lengths[:, None]}

    def figures(self, parts: Mapping[str, Tensor], prompts: Sequence[Prompt]) -> dict[str, Tensor | str]:
        """Return a value of each motion, one of all, and a reason."""
        assert len(parts["hand"]) == len(prompts)
        return {"hand": parts["hand"][:, 1], "hands_apart": parts["hand"].std(), "grip": "a pole has no fingers"}


class PolePolicy(TextToMotionPolicy):
    """Each frame for itself, by the length of the text."""

    measures = PoleMeasures()
    spacing: Literal["early", "even"] = "even"
    joins = False
    sampling_steps = 5

    def __init__(
        self, options: PoleOptions | None = None, *, device: torch.device | str = "cpu", dataset: object = None
    ) -> None:
        self.skeleton, self.fps, self.max_length, self.autocast = Pole(), 30.0, 60, None
        self.schedule = Schedule.cosine(20)
        self.normalizer = Normalizer(torch.tensor([0.0, 1, 0, 0, 0]), torch.ones(5))
        parts = {"embed_text": nn.Linear(1, 16), "linear1": nn.Linear(6, 16), "linear2": nn.Linear(16, 5)}
        self.network = nn.ModuleDict(parts).eval()
        draw = torch.Generator().manual_seed(0)
        for values in self.network.parameters():
            nn.init.normal_(values, std=0.3, generator=draw)
        if options is not None and options.checkpoint is not None:
            self.load_tensors(load_file(options.checkpoint / "policy.safetensors"))

    def condition(self, prompts: Sequence[Prompt]) -> Condition:
        """Return the length of each text."""
        return Condition(torch.tensor([[len(prompt.text) / 20] for prompt in prompts]))

    def predict(self, x: Tensor, timestep: Tensor, condition: Any, lengths: Tensor, *, guidance: float = 1.0) -> Tensor:
        """Predict x0."""
        x = torch.where(length_mask(lengths, x.shape[1])[..., None], x, 0.0)
        time = (timestep[:, None, None] / 20).expand(-1, x.shape[1], 1)
        inside = self.network["linear1"](torch.cat([x, time], -1)) + self.network["embed_text"](condition.rows)[:, None]
        made: Tensor = self.network["linear2"](torch.tanh(inside))
        return made

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write them."""
        folder.mkdir(parents=True, exist_ok=True)
        if tensors:
            save_file(merged_state(self.network), folder / "policy.safetensors")
        return folder


class NoOptions(Group):
    """No options."""


class Texts(PromptDataset):
    """Texts of different length and seconds."""

    name, fps, max_length = "pole-texts", 30.0, 60

    def __init__(self, options: NoOptions | None = None) -> None:
        self.options = options

    def listed(self, split: str) -> list[Prompt]:
        """Return twelve prompts for each split."""
        return [Prompt((f"{split} {'o' * number}",), (12 + number,), f"{split}{number}") for number in range(12)]


class High:
    """Rewards a high hand, differentiably, by the joints alone."""

    name = "high"

    def __init__(self, options: NoOptions | None = None, *, dataset: object = None, device: object = "cpu") -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions."""
        height = torch.where(motions.mask, motions.joints[..., 2, 1], 0.0)
        return RewardScores(height.sum(1) / motions.lengths)


policy = Component(
    summary="a pole",
    options=PoleOptions,
    factory="sample_pole:PolePolicy",
    metrics=(
        Metric("heldout/hand", "m", "up", "Mean height of the hand.", "height of the hand", short=True),
        Metric("heldout/hands_apart", "m", "none", "Deviation of the hands' places.", "distance of hands", short=True),
        Metric("heldout/grip", "N", "up", "Force of the fingers.", short=True),
    ),
)
dataset = Component(summary="texts for poles", options=NoOptions, factory="sample_pole:Texts")
reward = Component(summary="high hands", options=NoOptions, factory="sample_pole:High", gradient=True)
