"""Prompts of files as a dataset, for `grpo`, `generate` and `eval`; and with motions of their own, for training on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from motionkit.contracts.dataset import PromptDataset, Split, TextClip
from motionkit.errors import MotionkitError
from motionkit.motion import Normalizer, ReadOptions, joints_to_features
from motionkit.rl import stable_hash
from motionkit.runs import fingerprint
from motionkit.text import Prompt
from motionkit_policy_kimodo import FPS, LONGEST, SHORTEST
from motionkit_policy_kimodo.clips import encode_all
from motionkit_policy_kimodo.motions import of_kimodo, read_g1, read_kimodo
from motionkit_policy_kimodo.network import EPSILON
from motionkit_policy_kimodo.prompts import Asked, read_prompts
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.settings import PromptOptions
from motionkit_policy_kimodo.skeletons import Body, as_soma30, body, soma30_rows, soma_skeleton
from motionkit_policy_kimodo.texts import clean

_SKATE, _JERK = 0.17, 450.0  # m/s and m/s^3, as the rewards measure them


class KimodoPrompts(PromptDataset):
    """Texts and seconds of a file or folder; a text, as Kimodo cleans it, is in one split alone.

    Args:
        options: Options of the plugin.
    """

    name, fps, max_length = "kimodo-prompts", FPS, LONGEST

    def __init__(self, options: PromptOptions) -> None:
        if options.path is None:
            raise MotionkitError("no prompts are named.", fix="--dataset.path texts.txt")
        self.options = options
        asked = read_prompts(options.path)
        texts = sorted({clean(row.texts[0]) for row in asked}, key=stable_hash)
        if len(texts) < len(_SPLITS):
            raise MotionkitError(
                f"{options.path} has {len(texts)} texts.", why="each split needs one of its own.", fix="add texts."
            )
        held = max(1, min(round(options.held_out * len(texts) / 2), (len(texts) - 1) // 2))
        place = {text: _SPLITS[min(number // held, 2)] for number, text in enumerate(texts)}
        self._listed: dict[str, list[Prompt]] = {split: [] for split in _SPLITS}
        for number, row in enumerate(asked):
            self._listed[place[clean(row.texts[0])]].append(self._prompt(row, number))

    def _prompt(self, row: Asked, number: int) -> Prompt:
        if len(row.texts) > 1:
            raise MotionkitError(
                f"{row.origin} has {len(row.texts)} prompts in a row, which are not trained on.", fix="leave it out."
            )
        seconds = row.seconds[0] if row.seconds else self.options.seconds
        if seconds is None:
            raise MotionkitError(
                f"{row.origin} has no seconds.",
                fix="write them after a tab, or in the column seconds; or give --dataset.seconds 5 to all.",
            )
        frames = int(seconds * self.fps)  # as Kimodo counts them
        if not SHORTEST <= frames <= LONGEST:
            raise MotionkitError(
                f"{row.origin}: {seconds:g} s; Kimodo makes {SHORTEST / FPS:.1f} to {LONGEST / FPS:g} s.",
                fix="give other seconds.",
            )
        return Prompt((row.texts[0],), (frames,), f"{number}/{clean(row.texts[0])}", extras=row.extras)

    def listed(self, split: Split) -> Sequence[Prompt]:
        """Return the prompts of a split."""
        return self._listed[split]

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of the prompts."""
        return {"path": fingerprint(repr(self._listed))}

    def physics_reference(self) -> tuple[float, float]:
        """Return foot skate (m/s) and jerk (m/s^3) of a clip of Kimodo's demo, a dance."""
        return _SKATE, _JERK


class KimodoClips(KimodoPrompts):
    """The true motions of cases of the benchmark, of SOMA, in features as HumanML3D's: for audits of rewards.

    Args:
        options: Options of the plugin.
    """

    name, has_clips, skeleton = "kimodo-clips", True, soma_skeleton()

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the clips of a split."""
        found = [prompt for prompt in self.listed(split) if "truth" in prompt.extras]
        return [TextClip(prompt.key, self._features(prompt.extras["truth"]), prompt.segments) for prompt in found]

    def _features(self, file: str) -> Tensor:
        joints = as_soma30(read_kimodo(Path(file), ReadOptions())[0].motion.positions())
        if joints.shape[1] != self.skeleton.joints:
            raise MotionkitError(f"{file} has {joints.shape[1]} joints, SOMA 30 or 77.", fix="leave its folder out.")
        return joints_to_features(joints[: self.max_length + 1].float(), self.skeleton, target=False)

    @property
    def normalizer(self) -> Normalizer:  # type: ignore[override]
        """Mean and Std of the train split."""
        rows = torch.cat([clip.features for clip in self.clips("train")])
        return Normalizer(rows.mean(0), rows.std(0).clamp(min=1e-3))


class KimodoMotions(KimodoPrompts):
    """Prompts with a motion each, of one of Kimodo's bodies and at its rate: nothing is retargeted.

    Args:
        options: Options of the plugin; the file is a CSV with the column ``motion``.
    """

    name, has_clips = "kimodo-motions", True

    def __init__(self, options: PromptOptions) -> None:
        super().__init__(options)
        prompts = [prompt for split in _SPLITS for prompt in self.listed(split)]
        if lacking := [prompt.key for prompt in prompts if "truth" not in prompt.extras]:
            raise MotionkitError(
                f"{options.path} names no motion for {lacking[0]!r:.80}.", fix="write a file in the column motion."
            )
        motions = [_opened(Path(prompt.extras["truth"])) for prompt in prompts]
        bodies = {made.name: made for made, _ in motions}
        if len(bodies) > 1:
            raise MotionkitError(
                f"the motions of {options.path} are of the bodies {', '.join(bodies)}.", fix="write a file of each."
            )
        (made,) = bodies.values()
        representation = KimodoRepresentation(made, self.fps)
        self.skeleton = representation  # type: ignore[assignment]
        features = encode_all([placed for _, placed in motions], representation)
        self._features = dict(zip((prompt.key for prompt in prompts), features, strict=True))

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of the prompts and their motions."""
        return {"path": fingerprint(repr(self._listed), *self._features.values())}

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the clips of a split, in Kimodo's features."""
        return [TextClip(prompt.key, self._features[prompt.key], (prompt.text,)) for prompt in self.listed(split)]

    @property
    def normalizer(self) -> Normalizer:  # type: ignore[override]
        """Mean and standard deviation of the training clips, as Kimodo divides by them."""
        frames = torch.cat([clip.features for clip in self.clips("train")])
        return Normalizer(frames.mean(0), (frames.var(0) + EPSILON).sqrt())


def _opened(path: Path) -> tuple[Body, tuple[Tensor, Tensor]]:
    """Return the body of a motion, its rotations in the world and the root's places; of SOMA its 30 joints count."""
    (clip,) = (read_g1 if path.suffix == ".csv" else read_kimodo)(path, ReadOptions())
    motion, made, local = of_kimodo(clip)
    if made.name == "soma77":
        made, local = body("soma30"), local[:, soma30_rows()]
    return made, (made.world(local), motion.translations[:, 0])


_SPLITS: tuple[Split, ...] = ("test", "val", "train")
