"""Held-out motions in the space of an evaluator that no training read: R@3, style accuracy and KID, by segment.

KID is `motionkit.metrics.kid`, which is unbiased for few motions; a Frechet distance of 64 numbers is not below some
hundred motions. Style accuracy is measured where captions name styles (`styles_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.metrics import KernelDistance, match_hits
from motionkit.motion import MotionBatch
from motionkit.page.wording import count
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import encode_clips
from motionkit.text_to_motion.evaluation.real_motions import RealAnswers, RealMotions
from motionkit.text_to_motion.evaluation.set_figures import Floats, SetFigure, pair_kid
from motionkit.text_to_motion.evaluation.styles import style_chance, style_hits, styles_of
from motionkit.text_to_motion.evaluator.model import T2MEvaluator
from motionkit.text_to_motion.rewards.joint_space import segment_crops
from motionkit.tracking import FEWEST

LATENTS = "latents"
"""Name of the embeddings in `Measured.sets`."""

_BATCH = 32  # candidates of R-precision


class _Answer(NamedTuple):
    """A reference motion of a prompt."""

    latents: NDArray[np.float32] | None  # [K, E]; None if the prompt has none
    clips: tuple[int, ...]  # numbers of the clips that it is made of


class ByEvaluator:
    """What an evaluator says of held-out motions.

    Args:
        evaluator: In eval mode, with the stored tokens of the captions.
        real: Reference motions of the prompts' split.
        captions: Captions of the data, among which styles are looked for.
    """

    def __init__(self, evaluator: T2MEvaluator, real: RealMotions, captions: Iterable[str] = ()) -> None:
        self.evaluator = evaluator
        self._real = real
        self._styles = styles_of(captions)
        self._answers: dict[str, _Answer] = {}
        self._clips: tuple[list[int], Tensor] | None = None

    @torch.no_grad()
    def embed(self, motions: MotionBatch, prompts: Sequence[Prompt], most: int) -> Tensor:
        """Return the latents of the segments of N motions, ``[N, K, E]``; NaN where there is none.

        Args:
            motions: N motions.
            prompts: What each of them was asked for.
            most: Most segments of a prompt, K.
        """
        rows = segment_crops(prompts, motions.lengths.tolist())
        latents = self.evaluator.encode_crops(motions.features, [crop for row in rows for crop in row])
        result = latents.mu.new_full((len(rows), most, self.evaluator.latent), torch.nan)
        owner = [(row, number) for row, crops in enumerate(rows) for number in range(len(crops))]
        place = torch.tensor(owner, device=result.device).T
        result[place[0], place[1]] = torch.where(latents.finite[:, None], latents.mu, torch.nan)
        return result

    def know(self, prompts: Sequence[Prompt], found: RealAnswers | None) -> None:
        """Embed the reference motions of prompts, which are known from then on.

        Args:
            prompts: The prompts.
            found: What `RealMotions.answers` returned for them.
        """
        self._answers |= {prompt.key: _Answer(None, ()) for prompt in prompts}
        if found is not None:
            most = max(len(prompt.segments) for prompt in prompts)
            latents = self.embed(found.motions, found.prompts, most).float().cpu().numpy()
            for place, row, clips in zip(found.places, latents, found.clips, strict=True):
                self._answers[prompts[place].key] = _Answer(row, clips)

    def answers(self, prompts: Sequence[Prompt]) -> NDArray[np.float32]:
        """Return the latents of a reference motion of each prompt, ``[P, 1, K, E]``; NaN where it has none."""
        most = max(len(prompt.segments) for prompt in prompts)
        if new := [prompt for prompt in prompts if prompt.key not in self._answers]:
            self.know(new, self._real.answers(new, device=self.evaluator.mean.device))
        result = np.full((len(prompts), 1, most, self.evaluator.latent), np.nan, np.float32)
        for place, prompt in enumerate(prompts):
            if (row := self._answers[prompt.key].latents) is not None:
                result[place, 0, : min(most, len(row))] = row[:most]
        return result

    @torch.no_grad()
    def columns(self, latents: Floats, prompts: Sequence[Prompt]) -> dict[str, NDArray[np.float64]]:
        """Return quantities by prompt and sample, each ``[P, S]``, the mean over segments; NaN where none counts.

        ``r_precision_3``: whether the motion of a segment is among the 3 nearest of 32 to its text. The 32 are segments
        in a row, of one sample of each prompt; a remainder is left out. ``style``: `style_hits`. One with less than
        20 prompts that count is left out.

        Args:
            latents: ``[P, S, K, E]``.
            prompts: P prompts.
        """
        places = [(row, number) for row, prompt in enumerate(prompts) for number in range(len(prompt.segments))]
        texts = [prompt.segments[number] for prompt in prompts for number in range(len(prompt.segments))]
        rows, numbers = np.array(places).T
        hits = np.full((2, *latents.shape[:3]), np.nan)
        for sample in range(latents.shape[1]):
            motions = torch.from_numpy(latents[rows, sample, numbers]).to(self.evaluator.mean.device)
            known = motions.isfinite().all(-1).cpu()
            kept = known.nonzero()[:, 0].tolist()
            if len(kept) >= _BATCH:
                encoded = self.evaluator.encode_texts([texts[place] for place in kept])
                near = match_hits(encoded, motions[kept])[2].cpu().numpy()
                whole = kept[: len(near)]
                hits[0, rows[whole], sample, numbers[whole]] = near
            styled = style_hits(self._styles, texts, motions, self.evaluator.encode_texts)
            hits[1, rows, sample, numbers] = styled.numpy()
        result = {}
        for name, values in zip(("r_precision_3", "style"), hits, strict=True):
            there = np.isfinite(values)
            if int(there.any(axis=(1, 2)).sum()) >= FEWEST:
                total = there.sum(2)
                mean = np.where(there, values, 0.0).sum(2) / np.maximum(total, 1)
                result[name] = np.where(total > 0, mean, np.nan)
        return result

    def chances(self, prompts: Sequence[Prompt]) -> dict[str, float]:
        """Return what guessing reaches, by the names of `columns`."""
        texts = [text for prompt in prompts for text in prompt.segments]
        return {"r_precision_3": 3 / _BATCH, "style": style_chance(self._styles, texts)}

    def kid(self, before: Floats, after: Floats, prompts: Sequence[Prompt]) -> SetFigure | None:
        """Return the kernel distance of the motions of P prompts to the clips of the split, before and after.

        The figure of the reference is that of reference motions of the prompts to the clips that none of them is made
        of; it is None where these are fewer than 20.

        Args:
            before: ``[P, S, K, E]``.
            after: The same of other motions.
            prompts: P prompts.

        Returns:
            None if there are fewer than 20 segments or clips.
        """
        numbers, clips = self._pool()
        one, two = (latents.reshape(len(prompts), -1, latents.shape[-1]) for latents in (before, after))
        known = np.isfinite(one).all(-1) & np.isfinite(two).all(-1)
        if min(int(known.sum()), len(clips)) < FEWEST:
            return None
        answers = torch.from_numpy(self.answers(prompts).reshape(-1, self.evaluator.latent))
        answers = answers[answers.isfinite().all(1)]
        used = {clip for prompt in prompts for clip in self._answers[prompt.key].clips}
        others = clips[[place for place, number in enumerate(numbers) if number not in used]]
        enough = min(len(answers), len(others)) >= FEWEST
        real = KernelDistance(answers, others).of(torch.ones(len(answers))) if enough else None
        return SetFigure(pair_kid(one, two, clips), real)

    def words(self, measured: Mapping[str, Floats]) -> str:
        """Return how many segments and clips KID compares, for the caption of a table."""
        segments = int(np.isfinite(measured[LATENTS]).all(-1).sum()) if LATENTS in measured else 0
        clips = len(self._pool()[0])
        words = f"{count(segments, 'segment')} against {count(clips, 'clip')}"
        return f"KID of {words}" if min(segments, clips) >= FEWEST else f"no KID: {words} are too few"

    def _pool(self) -> tuple[list[int], Tensor]:
        """Return the numbers of the clips that motions are compared with, and their latents ``[M, E]``."""
        if self._clips is None:
            with torch.no_grad():
                clips = self._real.spread()
                latents = encode_clips(self.evaluator, [features.float() for features in clips.values()]).cpu()
            good = latents.isfinite().all(1) & (latents != 0).any(1)  # zeros: too short to be encoded
            rows = good.nonzero()[:, 0].tolist()
            self._clips = [[*clips][row] for row in rows], latents[rows]
        return self._clips
