"""Policy 'demo': the heavy half."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from motionkit.motion import HUMANML, Normalizer
from motionkit.nn import merged_state
from motionkit.rl import Schedule
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import TextToMotionPolicy
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from motionkit_policy_demo import Options

TEXT, STEPS = 32, 50


class Network(nn.Module):
    """An example to replace: each frame for itself, through one hidden layer."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.embed_text = nn.Linear(TEXT + 1, hidden)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor, timestep: Tensor, text: Tensor) -> Tensor:
        """Predict x0 ``[N, T, D]``."""
        time = timestep[:, None] / STEPS
        known = self.embed_text(torch.cat([text, time], 1))[:, None]  # [N, 1, hidden], the same for each frame
        x0: Tensor = self.linear2(torch.tanh(self.linear1(x) + known))
        return x0


@dataclass(frozen=True)
class Condition:
    """Encoded prompts: ``[N, TEXT]``."""

    text: Tensor

    def __len__(self) -> int:
        return len(self.text)

    def select(self, index: Tensor) -> Self:
        """Return some rows, repeats allowed."""
        return type(self)(self.text[index])


class DemoPolicy(TextToMotionPolicy):
    """A diffusion policy; see motionkit.text_to_motion.policy.DiffusionPolicy, whose other methods it inherits.

    LoRA adapts embed_text as ``text``, linear1 and linear2 as ``ffn``.
    """

    def __init__(self, options: Options, *, device: torch.device | str = "cpu", dataset: object = None) -> None:
        self.skeleton, self.fps, self.max_length, self.autocast = HUMANML, 20.0, 196, None
        self.schedule = Schedule.cosine(STEPS)
        width = self.skeleton.width
        self.normalizer = Normalizer(torch.zeros(width), torch.ones(width))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.network = Network(width, options.hidden).eval()
        if options.checkpoint is not None:
            self.load_tensors(load_file(options.checkpoint))
        self.to(device)

    def condition(self, prompts: Sequence[Prompt]) -> Condition:
        """Encode prompts: one number for each word, by its checksum. Put your text encoder here."""
        text = torch.zeros(len(prompts), TEXT)
        for row, prompt in zip(text, prompts, strict=True):
            for word in " ".join(prompt.segments).lower().split():
                row[zlib.crc32(word.encode()) % TEXT] += 1.0
        return Condition(text.to(self.device))

    def predict(self, x: Tensor, timestep: Tensor, condition: Any, lengths: Tensor, *, guidance: float = 1.0) -> Tensor:
        """Predict x0; guidance moves away from the prediction without a text."""
        known: Tensor = self.network(x, timestep, condition.text)
        if guidance == 1.0:
            return known
        blind: Tensor = self.network(x, timestep, torch.zeros_like(condition.text))
        return blind + guidance * (known - blind)

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the weights, adapters merged into them, from which Options.checkpoint opens the policy again."""
        folder.mkdir(parents=True, exist_ok=True)
        if tensors:
            save_file(merged_state(self.network), folder / "policy.safetensors")
        return folder
