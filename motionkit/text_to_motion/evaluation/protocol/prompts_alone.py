"""Policies measured on prompts without clips: physics and a policy's own measures; the rest needs reference motions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.metrics import joint_speed, root_path
from motionkit.motion.corpus.ids import Split
from motionkit.rl import NoiseSource
from motionkit.runs import fingerprint
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.judge import require_fit
from motionkit.text_to_motion.evaluation.protocol.compare import Comparison, paired
from motionkit.text_to_motion.evaluation.protocol.figures import QUANTITIES, Sheet, physics_figures
from motionkit.text_to_motion.evaluation.protocol.measure import (
    Amount,
    Replication,
    Sampling,
    amount_of,
    reward_columns,
)
from motionkit.text_to_motion.generating import sample
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.trained import prompt_fingerprint

Progress = Callable[[int], None]


@dataclass(frozen=True)
class PromptsAlone:
    """Inputs of an evaluation on prompts without clips, in place of `run.Opened`."""

    prompts: Sequence[Prompt]
    name: str  # of the dataset
    dataset: str  # the plugin that reads it
    called: str  # the data in words
    split: Split

    by: ClassVar[str] = ""
    about: ClassVar[None] = None

    @classmethod
    def of(
        cls,
        dataset: TextMotionDataset,
        split: Split,
        policies: Mapping[str, DiffusionPolicy],
        *,
        label: str,
        called: str,
        k_segments: int = 0,
        seed: int = 0,
    ) -> PromptsAlone:
        """Open the prompts of a split, and check that they fit the policies."""
        prompts = list(dataset.prompts(split, k_segments=k_segments, seed=seed))
        if not prompts:
            raise MotionkitError(f"the {split} split of {dataset.name} has nothing to ask for.")
        for policy in policies.values():
            require_fit(policy, prompts, fps=dataset.fps, label=label)
        return cls(prompts, dataset.name, label, called, split)

    @property
    def count(self) -> int:
        """Number of prompts."""
        return len(self.prompts)

    @property
    def marks(self) -> dict[str, str]:
        """Fingerprint of the prompts."""
        return {"dataset": fingerprint(*map(prompt_fingerprint, self.prompts))}

    @property
    def facts(self) -> dict[str, str]:
        """The data in words, for the page."""
        return {"dataset": f"{self.called}, {self.split} split: {self.count} prompts without clips"}

    def amount(self, mode: str, protocol: str, *, starter: bool, replications: int, limit: int) -> tuple[str, Amount]:
        """Return the name of the mode, and its amount: every prompt once, unless there is a mode or a number."""
        once = 1 if mode == "auto" else 0
        name, amount = amount_of(
            mode, "whole", starter=False, available=self.count, replications=replications or once,
            limit=min(limit, self.count),
        )  # fmt: skip
        return name, replace(amount, mm_prompts=0)

    def measurement(self, amount: Amount, *, seed: int, batch: int, rewards: RewardMix | None = None) -> OnPrompts:
        """Return the measurement that replications share."""
        return OnPrompts(self, amount, seed=seed, batch=batch, rewards=rewards)


class OnPrompts:
    """Everything that replications on prompts alone share."""

    def __init__(
        self,
        opened: PromptsAlone,
        amount: Amount,
        *,
        seed: int,  # seed of the noise
        batch: int,  # motions that are sampled at once
        rewards: RewardMix | None = None,  # rewards that are measured as well
    ) -> None:
        self.amount, self.seed, self.batch, self.rewards = amount, seed, batch, rewards
        # Batches of similar lengths need little padding.
        self.prompts = sorted(opened.prompts[: amount.prompts], key=lambda prompt: prompt.length)
        self.missing = dict.fromkeys(QUANTITIES, f"{opened.name} has prompts and no clips")

    def replicate(
        self, policy: DiffusionPolicy, how: Sampling, replication: int, progress: Progress | None = None
    ) -> Replication:
        """Measure a policy; there are no reference motions."""
        return Replication(self.measured(policy, how, replication, progress)[0], Sheet())

    @torch.no_grad()
    def measured(
        self, policy: DiffusionPolicy, how: Sampling, replication: int, progress: Progress | None = None
    ) -> tuple[Sheet, dict[str, Tensor]]:
        """Return the figures of a policy, and the values ``[P]`` of those that each motion has."""
        asked = [replace(prompt, key=f"{prompt.key}/{replication}") for prompt in self.prompts]
        columns: dict[str, list[Tensor]] = {}
        parts: dict[str, list[Tensor]] = {}
        for first in range(0, len(asked), self.batch):
            some = asked[first : first + self.batch]
            motions = sample(policy, some, how.plan, NoiseSource(self.seed), guidance=how.guidance).motions
            values = {
                **reward_columns(self.rewards, motions, some),
                **physics_figures(motions),
                "speed": joint_speed(motions.joints, motions.lengths, motions.fps),
                "path": root_path(motions.joints, motions.lengths),
            }
            own = {} if policy.measures is None else policy.measures.parts(motions, some)
            for kept, found in ((columns, values), (parts, own)):
                for name, part in found.items():
                    kept.setdefault(name, []).append(part)
            if progress is not None:
                progress(len(some))
        figures: dict[str, Tensor | str] = {name: torch.cat(values) for name, values in columns.items()}
        if policy.measures is not None:
            whole = {name: torch.cat(values) for name, values in parts.items()}
            figures |= policy.measures.figures(whole, asked)
        sheet, every = Sheet(), dict[str, Tensor]()
        for name, value in figures.items():
            if isinstance(value, str):
                sheet.missing[name] = value
            elif bool(value.isfinite().any()):
                sheet.values[name] = float(value[value.isfinite()].double().mean())
                if value.ndim:
                    every[name] = value
        sheet.missing |= {name: why for name, why in self.missing.items() if name not in sheet.values}
        return sheet, every

    def compare(
        self, policies: Mapping[str, tuple[DiffusionPolicy, Sampling]], *, progress: Progress | None = None
    ) -> Comparison:
        """Sample every policy with the same prompts and noise, and compare each with the first, paired by prompt."""
        found = {name: self.measured(policy, how, 0, progress) for name, (policy, how) in policies.items()}
        sheets = {name: sheet for name, (sheet, _) in found.items()}
        means, pairs = paired(sheets, {name: values for name, (_, values) in found.items()})
        missing = {name: why for sheet in sheets.values() for name, why in sheet.missing.items() if name not in means}
        return Comparison([*found], means, pairs, {}, missing, {}, len(self.prompts))
