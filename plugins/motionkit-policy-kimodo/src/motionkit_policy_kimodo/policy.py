"""Kimodo as a diffusion policy: prompts in, x0 predictions out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.contracts.dataset import Split, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.rl import Schedule
from motionkit.runs import fingerprint_files, fingerprint_tensors, write_model
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import TextToMotionPolicy
from motionkit_policy_kimodo import FPS, LONGEST, SHORTEST
from motionkit_policy_kimodo.constraints import observe, read_constraints
from motionkit_policy_kimodo.files import DOCUMENT, copy_beside, export_checkpoint, read_checkpoint
from motionkit_policy_kimodo.metrics import KimodoMeasures
from motionkit_policy_kimodo.network import STEPS, Conditions, Guidance
from motionkit_policy_kimodo.prompts import radians
from motionkit_policy_kimodo.settings import KimodoOptions
from motionkit_policy_kimodo.texts import COMMAND, TextTable
from motionkit_policy_kimodo.tmr import read_retrieval

_KEPT = 256  # constraints of prompts in memory


class KimodoPolicy(TextToMotionPolicy):
    """A model of Kimodo with everything needed to use it (see `motionkit.text_to_motion.policy.DiffusionPolicy`).

    Args:
        options: Options of the plugin.
        device: Where it goes.
        dataset: Gives the prompts; Kimodo needs nothing else of it.
    """

    joins = False
    spacing: Literal["early", "even"] = "even"
    sampler: Literal["ddpm", "ddim"] = "ddim"
    extras = ("heading", "constraints", "truth")
    measures: KimodoMeasures

    def __init__(
        self,
        options: KimodoOptions,
        *,
        device: torch.device | str = "cpu",
        dataset: TextMotionDataset | None = None,
    ) -> None:
        if not options.checkpoint or options.reference:
            raise MotionkitError(
                "one model is opened, by --policy.checkpoint; a reference has no effect here."
                if options.reference
                else "no Kimodo model is named.",
                fix="--policy.checkpoint nvidia/Kimodo-SOMA-RP-v1.1, or its folder",
            )
        opened = read_checkpoint(options.checkpoint, smplx=options.body, root_gradient=options.root_gradient)
        self.opened, self.options = opened, options
        self.network, self.normalizer, self.skeleton = opened.network, opened.normalizer, opened.representation
        self.schedule = Schedule.cosine(STEPS)
        self.fps, self.max_length = self.skeleton.fps, LONGEST
        self.autocast: torch.dtype | None = None
        self.guidance, self.sampling_steps = opened.record.guidance, opened.record.sampling_steps
        self.trained_on = opened.record.trained_on
        config: Literal["separated", "regular", "nocfg"] = opened.config.values["cfg_type"] or "nocfg"
        self.kind = options.cfg_type or config
        table = options.embeddings or opened.record.embeddings
        if table is None:
            raise MotionkitError(
                "no text vectors are named.",
                why="Kimodo's text encoder takes 17 GB; its vectors are made once, before.",
                fix=f"{COMMAND}, then --policy.embeddings OUT",
            )
        self.texts = self.skeleton.texts = TextTable(table, self.network.shape.text_width)
        self.measures = KimodoMeasures(read_retrieval(options.retrieval, self.texts) if options.retrieval else None)
        self._observed = lru_cache(maxsize=_KEPT)(self._observe)
        self.to(device)
        if dataset is not None and not dataset.has_clips:
            # Texts without a vector and constraints that do not fit are refused here, before a run exists.
            for split in get_args(Split):
                for prompt in dataset.prompts(split):
                    self.condition([prompt])

    def __repr__(self) -> str:
        return f"KimodoPolicy({self.skeleton.name}, {self.fps:g} fps, {self.device})"

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of the inputs that options name, by option; independent of their paths."""
        marks = {"checkpoint": fingerprint_tensors(self.network.state_dict()), "embeddings": self.texts.fingerprint}
        if (judge := self.measures.retrieval) is not None:
            marks["retrieval"] = fingerprint_tensors(judge.model.state_dict())
        files = {"body": self.options.body, "constraints": self.options.constraints}
        return marks | {name: fingerprint_files(path, [path]) for name, path in files.items() if path is not None}

    def condition(self, prompts: Sequence[Prompt]) -> Conditions:
        """Look up the vectors of prompts; their first headings and constraints are those of their extras."""
        for prompt in prompts:
            self._require(prompt)
        features = self.texts.encode([prompt.text for prompt in prompts])
        heading = torch.tensor([self._heading(prompt) for prompt in prompts])
        paths = [prompt.extras.get("constraints") or self.options.constraints for prompt in prompts]
        observed = mask = None
        if any(paths):
            # [N, T, D] for T frames of the longest prompt that has constraints; an empty mask for those that have none.
            none = torch.zeros(0, self.skeleton.width), torch.zeros(0, self.skeleton.width, dtype=torch.bool)
            asked = zip(prompts, paths, strict=True)
            given = [self._observed(path, prompt.length) if path else none for prompt, path in asked]
            observed, mask = (pad_sequence(list(part), batch_first=True) for part in zip(*given, strict=True))
        return Conditions(features.tokens, features.mask, heading, observed, mask).to(self.device)

    def _require(self, prompt: Prompt) -> None:
        if len(prompt.segments) > 1:
            raise MotionkitError(
                f"{prompt.text!r} is {len(prompt.segments)} prompts in a row; Kimodo is asked for one at a time.",
                fix="make them one by one, or say them in one sentence: A person walks, then waves.",
            )
        if not SHORTEST <= prompt.length <= self.max_length:
            raise MotionkitError(
                f"{prompt.text!r} asks for {prompt.length} frames, Kimodo makes {SHORTEST} to {self.max_length}.",
                fix=f"ask for at most {LONGEST / FPS:g} s (--durations).",
            )

    def _heading(self, prompt: Prompt) -> float:
        value = radians(prompt.extras.get("heading", self.options.heading), repr(prompt.text))
        if value and not self.network.shape.heading:
            raise MotionkitError(
                f"{prompt.text!r} has a first heading, which this model does not read.",
                why="input_first_heading_angle is false in its config.yaml.",
                fix="leave the heading out.",
            )
        return value

    def _observe(self, path: str | Path, frames: int) -> tuple[Tensor, Tensor]:
        constraints = read_constraints(Path(path), self.skeleton)
        values, mask = observe(constraints, self.skeleton, frames, origin=str(path))
        return self.normalizer.to("cpu").normalize(values), mask

    def predict(self, x: Tensor, timestep: Tensor, condition: Any, lengths: Tensor, *, guidance: float = 1.0) -> Tensor:
        """Predict x0 for noisy motions, ``[N, T, D]`` float32; `guidance` is that of the text."""
        context = torch.autocast(x.device.type, dtype=self.autocast) if self.autocast is not None else nullcontext()
        how = Guidance(self.kind, guidance, self.options.constraint_guidance)
        with context:
            return how.predict(self.network, x, timestep, lengths, condition.at(x.shape[1])).float()

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write config, statistics and policy.json; the network's tensors too, or its checkpoints hold them."""
        kept = {name: getattr(self, name) for name in ("guidance", "sampling_steps", "trained_on", "lora")}
        record = self.opened.record.model_copy(update={**kept, "embeddings": self.texts.path.resolve()})
        copy_beside(self.opened, folder)
        content = record.model_dump(mode="json", by_alias=True)
        write_model(folder, DOCUMENT, content, self.tensors() if tensors else None)
        return folder

    def to(self, device: torch.device | str) -> Self:
        """Move network, statistics and TMR-SOMA."""
        if self.measures.retrieval is not None:
            self.measures.retrieval.model.to(device)
        return super().to(device)


def export(path: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write a run or policy in the layout of Kimodo's folders; return the file of weights, and nothing that is lost."""
    opened = read_checkpoint(path)
    out = export_checkpoint(opened, folder, overwrite=overwrite)
    return out / opened.record.file, []
