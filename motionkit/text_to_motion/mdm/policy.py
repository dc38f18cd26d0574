"""MDM as a diffusion policy: prompts in, x0 predictions out; and DiP, which continues a prefix block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit import starter
from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, DataRecord, Normalizer, Skeleton, joints_to_features, read_features
from motionkit.rl import Schedule, StepNoise, StepPlan, length_mask, stable_hash
from motionkit.runs import fingerprint, fingerprint_tensors
from motionkit.text import KnownTexts, Prompt, TextEncoder, TextRecord, proof
from motionkit.text_to_motion.generating import TextToMotionPolicy
from motionkit.text_to_motion.mdm.files import KIND, STATS, write_policy
from motionkit.text_to_motion.mdm.network import MDMCondition, MDMNetwork
from motionkit.text_to_motion.mdm.settings import MDMSettings, Padding
from motionkit.text_to_motion.policy import Condition

_SPLITS = ("test", "val", "train")
_OFFSETS = 5  # a prefix begins at one of the first 5 frames of a clip, as in the original's evaluation
_STANDING = "bow/slight"  # a movement of the starter that begins upright, arms down
LONGEST = 100_000  # frames; the model has no limit, since its positions start again with every block


class MDMPolicy(TextToMotionPolicy):
    """An MDM network with everything needed to use it (see `motionkit.text_to_motion.policy.DiffusionPolicy`).

    Args:
        settings: Shape of the network.
        network: The network, which is put into eval mode.
        normalizer: Statistics of its feature space.
        skeleton: Body of its features.
        encoder: Text encoder of width ``settings.text_width``.
        fps: Frames per second.
        max_length: Longest motion in frames.
        padding: ``exact`` masks keys beyond a sample's length, ``full`` lets padded frames attend and runs at
            `max_length`; without effect on networks trained with mask_frames, which are always ``exact``.
        trained_on: Dataset it was trained on, if known.
        guidance: Recommended guidance scale, such as that of the ``grpo`` run that tuned it.
        sampling_steps: Recommended number of sampling steps; None: all.
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
        self._captions: Mapping[str, str] = {}  # What texts are read as

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
        """Return the tensors of a checkpoint: the network's, with adapters separate, and the statistics."""
        return {**super().tensors(), f"{STATS}mean": self.normalizer.mean, f"{STATS}std": self.normalizer.std}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the network from the result of `tensors`, in place."""
        super().load_tensors({name: value for name, value in tensors.items() if not name.startswith(STATS)})

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the policy to a folder that `motionkit.load_policy` opens, and return the folder.

        Without `tensors` only policy.json is written, for a run whose checkpoints hold the tensors.
        """
        return write_policy(folder, self.document(), self.tensors() if tensors else None)

    def __repr__(self) -> str:
        steps, device = self.settings.diffusion_steps, self.device
        data = f"{self.trained_on.name}, " if self.trained_on is not None else ""
        return f"{type(self).__name__}({data}{steps} steps, {self.fps:g} fps, {device})"

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of the inputs that options name, by option; independent of their paths."""
        text = proof(self.encoder.fingerprint)
        result = {
            "checkpoint": fingerprint_tensors(self.network.state_dict()),
            "stats": fingerprint(self.normalizer.mean, self.normalizer.std),
        }
        return result | ({"text_model": text} if text else {})

    def known_texts(self) -> KnownTexts | None:
        """Return the texts that it was trained on; known for the starter's policy only, else None."""
        known = self.trained_on is not None and self.trained_on.name == "starter" and self.encoder.name == "stored"
        if not known:
            return None
        return KnownTexts(*starter.embeddings(), self.encoder, meanings=[entry.captions for entry in starter.CATALOGUE])

    def read_as(self, captions: Mapping[str, str]) -> None:
        """From now on read a text (key) as a known one; what was given before is forgotten."""
        self._captions = dict(captions)

    def frames(self, lengths: Tensor) -> int:
        """Return the T to sample `lengths` (``[N]``) at: their maximum, or `max_length` in ``full`` mode."""
        return self.max_length if self.padding == "full" else super().frames(lengths)

    def spare(self, length: int) -> int:
        """Return how many frames more than `length` to sample, which are cut off afterwards.

        With `patch_overlap` two tokens write every frame but those of the last half token, which one alone writes: a
        joint of the starter's motions moves there three times as fast as before. One token more that is half full
        mends it.
        """
        size = self.settings.patch_size
        filled = (length - 1) % size + 1  # frames of the last token
        if not self.settings.patch_overlap or filled <= size // 2:
            return 0
        return size - filled + size // 2

    def condition(self, prompts: Sequence[Prompt]) -> MDMCondition:
        """Encode prompts; each distinct text is encoded once and cached for the life of the policy."""
        for prompt in prompts:
            if prompt.length > self.max_length:
                raise MotionkitError(
                    f"{prompt.text!r} asks for {prompt.length} frames, the policy makes at most {self.max_length}.",
                    fix=f"shorten --durations to {self.max_length / self.fps:.1f} s in total.",
                )
        if self._captions:
            read = self._captions.get
            prompts = [replace(one, segments=tuple(read(text, text) for text in one.segments)) for one in prompts]
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
        self,
        x: Tensor,  # [N, T, D] float32, normalised; in ``exact`` mode padding may hold anything
        timestep: Tensor,  # [N] int64 indices into `schedule`
        condition: Condition,  # N rows, of `condition`
        lengths: Tensor,  # [N] int64 on x's device
        *,
        guidance: float = 1.0,  # classifier-free guidance scale; both passes share one batch unless it is 1
    ) -> Tensor:
        """Predict x0 for noisy motions, ``[N, T, D]`` float32."""
        assert isinstance(condition, MDMCondition), "the condition is that of this policy"
        mask = self._frame_mask(x, lengths)
        if guidance == 1.0:
            return self._run(x, timestep, condition, mask, None)
        count = x.shape[0]
        # Rows 0..N-1 with text, N..2N-1 without.
        drop = torch.arange(2 * count, device=x.device) >= count
        both = None if mask is None else mask.repeat(2, 1)
        out = self._run(x.repeat(2, 1, 1), timestep.repeat(2), condition.repeat(2), both, drop)
        with_text, plain = out[:count], out[count:]
        # Classifier-free guidance (Ho and Salimans 2022) on x0: G(x) = x_uncond + s (x_cond - x_uncond).
        return plain + guidance * (with_text - plain)

    def denoise(
        self,
        x: Tensor,
        plan: StepPlan,
        condition: Condition,
        lengths: Tensor,
        *,
        guidance: float = 1.0,
        noise: StepNoise | None = None,
    ) -> Tensor:
        """Take all steps of a plan; see `DiffusionPolicy.denoise`, whose result it has up to rounding."""
        assert isinstance(condition, MDMCondition), "the condition is that of this policy"
        # In tokens the state is in float32 and has no prefix, and a class with predictions of its own is not asked.
        own = type(self).predict is not MDMPolicy.predict
        if own or self.autocast is not None or condition.prefix is not None:
            return super().denoise(x, plan, condition, lengths, guidance=guidance, noise=noise)
        out: Tensor = self.network.denoise(
            x.detach().to(torch.float32),
            plan.rows(),
            condition.text,
            condition.mask,
            windows=condition.windows,
            frame_mask=self._frame_mask(x, lengths),
            guidance=guidance,
            noise=noise,
        )
        return out

    def _frame_mask(self, x: Tensor, lengths: Tensor) -> Tensor | None:
        # [N, T], True = valid; in full mode padding is attended to, as in the original's evaluation.
        if self.padding == "exact":
            return length_mask(lengths, x.shape[1])
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


class Prefixes:
    """Chooses the prefix of each prompt: the frames that the first block of DiP continues.

    They are the given frames, else the start of the motion that the prompt describes if the dataset has it, else a
    person who stands still. The start is at one of the first 5 frames, chosen by the prompt's key.

    Args:
        frames: C, length of a prefix.
        skeleton: Body of the prefixes.
        fps: Frames per second.
        given: ``[T >= C, D]`` features, not normalised; the last C are the prefix of all prompts.
        clips: The dataset's ``clips(split)``.
    """

    def __init__(
        self,
        frames: int,
        *,
        skeleton: Skeleton,
        fps: float,
        given: Tensor | None = None,
        clips: Callable[[Any], Sequence[TextClip]] | None = None,
    ) -> None:
        self._frames, self._fps, self._skeleton, self._clips = frames, fps, skeleton, clips
        self._given = given
        if given is not None and (len(given) < frames or not bool(given[-frames:].isfinite().all())):
            raise MotionkitError(
                f"the prefix has {len(given)} frames, or values that are not finite; the policy continues {frames}.",
                fix="give --policy.prefix a longer motion.",
            )
        if given is None and clips is None:
            self._standing()
        self._known: dict[str, dict[str, Tensor]] = {}

    def of(self, prompts: Sequence[Prompt]) -> Tensor:
        """Return ``[N, C, D]`` features, not normalised."""
        if self._given is not None:
            return self._given[-self._frames :].expand(len(prompts), -1, -1)
        return torch.stack([self._start(prompt) for prompt in prompts])

    def _start(self, prompt: Prompt) -> Tensor:
        # A caption of a clip has the key "clip#number"; a prompt joined from clips starts like the first of them.
        names = [prompt.key, prompt.key.rpartition("#")[0], *prompt.source_ids[:1]]
        if self._clips is not None and prompt.source_ids:
            for split in _SPLITS:
                known = self._split(split)
                for name in names:
                    if name in known:
                        start = stable_hash(f"prefix {prompt.key}") % min(_OFFSETS, len(known[name]) - self._frames + 1)
                        return known[name][start : start + self._frames]
        return self._standing()

    def _split(self, split: str) -> Mapping[str, Tensor]:
        """Return the starts of a split's clips by id, read once."""
        if split not in self._known:
            starts: dict[str, Tensor] = {}
            try:
                clips = self._clips(split) if self._clips is not None else ()
            except MotionkitError:  # a dataset without this split, so the prompts are of another one
                clips = ()
            for clip in clips:
                if len(clip.features) >= self._frames:
                    start = clip.features[: self._frames + _OFFSETS - 1].float()
                    starts.setdefault(clip.key, start)
                    starts.setdefault(clip.source or clip.key, start)
            self._known[split] = starts
        return self._known[split]

    def _standing(self) -> Tensor:
        if self._skeleton is not HUMANML:
            raise MotionkitError(
                f"the policy continues a motion, and has no motion to start from for the {self._skeleton.name} body.",
                fix="--policy.prefix FILE.npy (features, not normalised), or a dataset.",
            )
        return standing(self._frames, self._fps)


@cache
def standing(frames: int, fps: float) -> Tensor:
    """Return ``[frames, 263]`` features, not normalised, of a person who stands still."""
    clip = starter.perform([starter.Order(_STANDING, 2, 0, tempo=1.0, size=1.0)], fps=fps)[0]
    joints = torch.from_numpy(clip.joints)[:1].expand(frames + 1, -1, -1)
    return joints_to_features(joints, HUMANML).float()


def read_prefix(path: Path, skeleton: Skeleton) -> Tensor:
    """Read ``[T, D]`` features, not normalised, from a .npy file such as those in new_joint_vecs."""
    if not path.is_file():
        raise MotionkitError(f"--policy.prefix {path} does not exist.", fix="give a .npy file of features.")
    return read_features(path, skeleton)


class DiPPolicy(MDMPolicy):
    """DiP: an MDM that makes a motion block by block, each continuing the last (arXiv:2410.03441).

    The network reads C clean frames and T noisy ones as one sequence. The C frames are not part of the motion; those of
    the first block come from `prefixes`, those of later blocks are the last C frames of the block before. Blocks have
    always T frames, as in training, and the last one is cut.

    Args:
        settings: As `MDMPolicy`, with context_len and pred_len.
        network: As `MDMPolicy`.
        prefixes: Chooses the prefixes of the first block.
        **rest: As `MDMPolicy`; `padding` has no effect.
    """

    def __init__(self, settings: MDMSettings, network: MDMNetwork, *, prefixes: Prefixes, **rest: Any) -> None:
        super().__init__(settings, network, **{**rest, "padding": "exact"})
        self.block = settings.pred_len  # T, frames of a block
        self.prefixes = prefixes

    def frames(self, lengths: Tensor) -> int:
        """Return the T to sample `lengths` (``[N]``) at: whole blocks."""
        return -(-int(lengths.max()) // self.block) * self.block

    def condition(self, prompts: Sequence[Prompt]) -> MDMCondition:
        """Encode prompts, with the prefix ``[N, C, D]`` of the first block."""
        prefix = self.prefixes.of(prompts).to(self.device)
        return replace(super().condition(prompts), prefix=self.normalizer.normalize(prefix))

    def continued(
        self,
        condition: Condition,  # of the block before
        x0: Tensor,  # [N, T, D] the block before, normalised
    ) -> MDMCondition:
        """Return the condition of the next block."""
        assert isinstance(condition, MDMCondition)
        assert condition.prefix is not None
        # A block may be shorter than the prefix, which then keeps some of its frames.
        both = torch.cat((condition.prefix, x0), dim=1)
        return replace(condition, prefix=both[:, -self.settings.context_len :])
