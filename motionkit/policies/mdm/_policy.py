"""MDM as a diffusion policy: prompts in, x0 predictions out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from motionkit import starter, weights
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord, Normalizer, Skeleton
from motionkit.nn import add_adapters
from motionkit.policies.base import Condition
from motionkit.policies.generating import TextToMotionPolicy
from motionkit.policies.mdm._condition import MDMCondition
from motionkit.policies.mdm._document import KIND
from motionkit.policies.mdm._network import MDMNetwork
from motionkit.policies.mdm._settings import MDMSettings, Padding
from motionkit.policies.mdm._store import STATS, write_policy
from motionkit.rl import Schedule
from motionkit.runs import fingerprint, fingerprint_tensors
from motionkit.text import KnownTexts, Prompt, TextEncoder, TextRecord, proof


class MDMPolicy(TextToMotionPolicy):
    """An MDM network with everything needed to use it (see `motionkit.policies.base.DiffusionPolicy`).

    Args:
        settings: Shape of the network and its diffusion.
        network: The network; put into eval mode here.
        normalizer: Statistics of its feature space.
        skeleton: Body of its features.
        encoder: Text encoder of width ``settings.text_width``.
        fps: Frames per second.
        max_length: Longest motion in frames.
        padding: ``exact`` masks keys beyond a sample's own length, ``full`` lets padded frames attend and runs at
            `max_length`; without effect on networks trained with mask_frames, which are always ``exact``.
        trained_on: Dataset it was trained on; None where that is not known.
        guidance: Guidance scale that it is meant to be sampled with, such as that of the run of ``grpo`` that tuned it;
            None where there is none.
        sampling_steps: In how many steps it is meant to be sampled; None takes all.
    """

    def __init__(
        self,
        settings: MDMSettings,
        network: MDMNetwork,
        *,
        normalizer: Normalizer,
        skeleton: Skeleton,
        encoder: TextEncoder,
        fps: float,
        max_length: int = 196,
        padding: Padding = "exact",
        trained_on: DataRecord | None = None,
        guidance: float | None = None,
        sampling_steps: int | None = None,
    ) -> None:
        if encoder.width != settings.text_width:
            raise MotionkitError(
                f"text encoder {encoder.name!r} has {encoder.width} features, the policy reads {settings.text_width}.",
                fix=f"use the encoder it was trained with ({settings.text_encoder}).",
            )
        if normalizer.mean.shape[-1] != settings.features:
            raise MotionkitError(
                f"the policy has {settings.features} features per frame, the statistics {normalizer.mean.shape[-1]}.",
                why="their bodies differ: 263 is the 22-joint HumanML3D body, 251 the 21-joint KIT body.",
                fix="choose the dataset (or policy.stats) that the checkpoint was trained on.",
            )
        self.settings = settings
        self.network = network.eval()
        self.schedule = Schedule.named(settings.noise_schedule, settings.diffusion_steps).shifted(settings.noise_shift)
        self.normalizer = normalizer
        self.skeleton = skeleton
        self.encoder = encoder
        self.fps = fps
        self.max_length = max_length
        self.padding: Padding = "exact" if settings.mask_frames else padding
        self.trained_on = trained_on
        self.guidance = guidance
        self.sampling_steps = sampling_steps
        self.autocast: torch.dtype | None = None
        self.lora: Mapping[str, object] | None = None

    def adapt(
        self, *, r: int, alpha: float, dropout: float = 0.0, targets: Sequence[str] = ("attn", "ffn"), seed: int = 0
    ) -> None:
        """Add LoRA adapters and freeze the rest; see `motionkit.nn.add_adapters`."""
        add_adapters(self.network, r=r, alpha=alpha, dropout=dropout, targets=targets, seed=seed)
        self.lora = {"r": r, "alpha": alpha, "dropout": dropout, "targets": list(targets)}

    def document(self) -> dict[str, Any]:
        """Return the content of policy.json: everything about the policy except its tensors."""
        return {
            "schema": 1,
            "kind": KIND,
            "settings": self.settings.model_dump(mode="json"),
            "skeleton": self.skeleton.name,
            "fps": self.fps,
            "max_length": self.max_length,
            "padding": self.padding,
            "guidance": self.guidance,
            "sampling_steps": self.sampling_steps,
            "text": TextRecord.of(self.encoder).model_dump(),
            "trained_on": None if self.trained_on is None else self.trained_on.model_dump(),
            "lora": None if self.lora is None else dict(self.lora),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return everything a checkpoint needs: the network's tensors (adapters beside their base), the statistics."""
        return {
            **self.network.state_dict(),
            f"{STATS}mean": self.normalizer.mean,
            f"{STATS}std": self.normalizer.std,
        }

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back the network's part of what `tensors` returned, in place.

        Raises:
            MotionkitError: A tensor is missing, unknown, or has another shape.
        """
        own = {name: value for name, value in tensors.items() if not name.startswith(STATS)}
        weights.load_strict(self.network, own, "the checkpoint")

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the policy as a folder that `motionkit.load_policy` opens.

        Args:
            folder: Made when it is missing.
            tensors: False writes policy.json only, for a run whose checkpoints hold the tensors.

        Returns:
            `folder`.
        """
        return write_policy(folder, self.document(), self.tensors() if tensors else None)

    def __repr__(self) -> str:
        steps, device = self.settings.diffusion_steps, next(self.network.parameters()).device
        data = f"{self.trained_on.name}, " if self.trained_on is not None else ""
        return f"{type(self).__name__}({data}{steps} steps, {self.fps:g} fps, {device})"

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of the inputs that options name, by option; independent of their paths."""
        text = proof(self.encoder.fingerprint)
        found = {
            "checkpoint": fingerprint_tensors(self.network.state_dict()),
            "stats": fingerprint(self.normalizer.mean, self.normalizer.std),
        }
        return found | ({"text_model": text} if text else {})

    def known_texts(self) -> KnownTexts | None:
        """Return the texts that it was trained on; None where they are not known, which is so but for the starter's."""
        known = self.trained_on is not None and self.trained_on.name == "starter" and self.encoder.name == "stored"
        return KnownTexts(*starter.embeddings(), self.encoder) if known else None

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return self.network.pe.device

    def frames(self, lengths: Tensor) -> int:
        """Return the T to sample `lengths` (``[N]``) at: their maximum, or `max_length` in ``full`` mode."""
        return self.max_length if self.padding == "full" else int(lengths.max())

    def condition(self, prompts: Sequence[Prompt]) -> MDMCondition:
        """Encode prompts; each distinct text is encoded once and cached for the life of the policy.

        Raises:
            MotionkitError: A prompt is longer than `max_length`.
        """
        for prompt in prompts:
            if prompt.length > self.max_length:
                raise MotionkitError(
                    f"{prompt.text!r} asks for {prompt.length} frames, the policy makes at most {self.max_length}.",
                    fix=f"shorten --durations to {self.max_length / self.fps:.1f} s in total.",
                )
        if self.settings.clause_frames:
            return self._clauses(prompts)
        features = self.encoder.encode([prompt.text for prompt in prompts]).to(self.device)
        return MDMCondition(features.tokens, features.mask)

    def _clauses(self, prompts: Sequence[Prompt]) -> MDMCondition:
        # One vector per clause: [sum K_i, 1, F], scattered below to [N, max K, F] with a mask.
        features = self.encoder.encode([text for prompt in prompts for text in prompt.segments])
        count, widest = len(prompts), max(len(prompt.segments) for prompt in prompts)
        text = torch.zeros(count, widest, self.settings.text_width)
        mask = torch.zeros(count, widest, dtype=torch.bool)
        windows = torch.zeros(count, widest, 2, dtype=torch.int64)
        row = 0
        for i, prompt in enumerate(prompts):
            size = len(prompt.segments)
            text[i, :size] = features.tokens[row : row + size, 0]
            mask[i, :size] = True
            windows[i, :size] = torch.tensor(prompt.bounds)
            row += size
        return MDMCondition(text, mask, windows).to(self.device)

    def predict(
        self, x: Tensor, timestep: Tensor, condition: Condition, lengths: Tensor, *, guidance: float = 1.0
    ) -> Tensor:
        """Predict x0 for noisy motions.

        Args:
            x: ``[N, T, D]`` float32, normalised; in ``exact`` mode padding may hold anything.
            timestep: ``[N]`` int64 indices into `schedule`.
            condition: N rows.
            lengths: ``[N]`` int64 on x's device.
            guidance: Classifier-free guidance scale; both passes share one batch unless it is 1.

        Returns:
            ``[N, T, D]`` float32.
        """
        assert isinstance(condition, MDMCondition), "a policy reads what its own `condition` returns"
        mask = self._frame_mask(x, lengths)
        if guidance == 1.0:
            return self._run(x, timestep, condition, mask, None)
        count = x.shape[0]
        # Rows 0..N-1 with text, N..2N-1 without.
        drop = torch.arange(2 * count, device=x.device) >= count
        both = None if mask is None else mask.repeat(2, 1)
        out = self._run(x.repeat(2, 1, 1), timestep.repeat(2), condition.repeat(2), both, drop)
        with_text, without = out[:count], out[count:]
        # Classifier-free guidance (Ho and Salimans 2022) on x0: G(x) = x_uncond + s (x_cond - x_uncond).
        return without + guidance * (with_text - without)

    def _frame_mask(self, x: Tensor, lengths: Tensor) -> Tensor | None:
        if self.padding == "exact":
            return torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        if x.shape[1] != self.max_length:
            raise ValueError(f"full padding runs at {self.max_length} frames, got {x.shape[1]}")
        return None

    def _run(
        self, x: Tensor, timestep: Tensor, condition: MDMCondition, mask: Tensor | None, drop: Tensor | None
    ) -> Tensor:
        context = torch.autocast(x.device.type, dtype=self.autocast) if self.autocast is not None else nullcontext()
        with context:
            out: Tensor = self.network(
                x,
                timestep,
                condition.text,
                condition.mask,
                windows=condition.windows,
                frame_mask=mask,
                drop=drop,
                prefix=condition.prefix,
            )
        return out

    def to(self, device: torch.device | str) -> Self:
        """Move network and statistics."""
        self.network.to(device)
        self.normalizer = self.normalizer.to(device)
        return self
