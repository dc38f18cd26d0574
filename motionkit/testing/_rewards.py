"""The contract of a reward, and the small samples that it scores: motions, images, masks, texts, and their prompts.

`padded` and `spoiled` change a sample in ways that must not affect the other scores. Checks of policies and trainers
use the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from motionkit import plugins
from motionkit.contracts.reward import FrameBatch, MaskBatch, Record, Reward, RewardScores, TextBatch, contents, rows
from motionkit.contracts.scoring import answer_of, fault_of, valid_segments
from motionkit.motion import HUMANML, MotionBatch, Skeleton, feature_width
from motionkit.plugins import Component, reads_of
from motionkit.testing._component import Findings, check_component, component_of, options_of
from motionkit.text import Prompt

TOLERANCE = 1e-4

TEXTS = (
    "a man walks forward.",
    "a person jumps up.",
    "a woman waves with the left hand.",
    "the person sits down.",
)
"""Texts whose embeddings the starter pack stores, so that checks of its policy need no text model."""


def sample_motions(
    *, count: int = 4, frames: int = 48, skeleton: Skeleton = HUMANML, fps: float = 20.0, seed: int = 0
) -> MotionBatch:
    """Return smooth random motions of different lengths; padding is NaN.

    Example:
        >>> sample_motions(count=2, frames=12).features.shape
        torch.Size([2, 12, 263])
    """
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(count, frames, feature_width(skeleton), generator=generator) * 0.02
    features = steps.cumsum(dim=1)
    features[..., 3] = 0.9 + 0.1 * features[..., 3]  # root height in metres
    lengths = torch.tensor([frames - 4 * (index % 3) for index in range(count)])
    batch = MotionBatch(features, lengths, skeleton=skeleton, fps=fps)
    features[~batch.mask] = torch.nan
    return MotionBatch(features, lengths, skeleton=skeleton, fps=fps)


def sample_prompts(motions: MotionBatch) -> list[Prompt]:
    """Return one prompt per motion with one, two or three segments in turn, and the motion's length.

    Example:
        >>> [len(prompt.segments) for prompt in sample_prompts(sample_motions(count=4))]
        [1, 2, 3, 1]
    """
    prompts = []
    for index, length in enumerate(motions.lengths.tolist()):
        count = 1 + index % 3
        segments = tuple(TEXTS[(index + k) % len(TEXTS)] for k in range(count))
        frames = tuple(length * (k + 1) // count - length * k // count for k in range(count))
        prompts.append(Prompt(segments, frames, key=f"sample-{index}"))
    return prompts


def sample_record(reads: str) -> Record:
    """Return four small samples of a type of record.

    Args:
        reads: ``motion``, ``image``, ``mask`` or ``text``.

    Raises:
        ValueError: It is none of these.
    """
    generator = torch.Generator().manual_seed(0)
    match reads:
        case "motion":
            return sample_motions()
        case "image":
            frames = torch.randint(0, 256, (4, 6, 16, 16, 3), generator=generator, dtype=torch.uint8)
            return FrameBatch(frames, torch.tensor([6, 5, 4, 6]))
        case "mask":
            # Discs of different sizes against shifted discs: all overlap, none is empty.
            y, x = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
            distance = ((x - 7) ** 2 + (y - 7) ** 2).float().sqrt()
            reference_distance = ((x - 9) ** 2 + (y - 7) ** 2).float().sqrt()
            radius = torch.tensor([3.0, 4.0, 5.0, 6.0])[:, None, None]
            return MaskBatch(
                distance < radius, reference_distance < 4.0 + 0 * radius, torch.tensor([0.9, 0.4, 0.7, 0.2])
            )
        case "text":
            return TextBatch(list(TEXTS), [(TEXTS[0], text.upper()) for text in TEXTS])
    raise ValueError(f"no reward reads {reads!r}: motion, image, mask or text.")


def prompts_for(record: Record) -> list[Prompt]:
    """Return one prompt per sample; those of motions have one, two and three segments in turn."""
    if isinstance(record, MotionBatch):
        return sample_prompts(record)
    return [Prompt((TEXTS[index % len(TEXTS)],), (1,), key=f"sample-{index}") for index in range(len(record))]


def equal(first: Any, second: Any) -> bool:
    """Whether two records hold the same values; NaN equals NaN."""
    pairs = zip(contents(first).values(), contents(second).values(), strict=True)
    return all(
        torch.equal(value.nan_to_num(7.0), other.nan_to_num(7.0))
        if isinstance(value, Tensor)
        else list(value) == list(other)
        for value, other in pairs
    )


def padded(record: Any) -> Iterator[tuple[Any, str]]:
    """Yield copies with other padding, and with more of it; nothing for records without padding."""
    if isinstance(record, MotionBatch):
        filled = record.features.clone()
        filled[~record.mask] = 1e3
        yield _motions(record, filled, record.lengths), "What stands in the padding changes the score."
        more = torch.full_like(record.features[:, :5], torch.nan)
        longer = torch.cat([record.features, more], dim=1)
        yield _motions(record, longer, record.lengths), "More padding changes the score."
    if isinstance(record, FrameBatch):
        black = record.frames.clone()
        black[~record.mask] = 0
        yield replace(record, frames=black), "What stands in the padding changes the score."
        longer = torch.cat([record.frames, torch.full_like(record.frames[:, :2], 255)], dim=1)
        yield replace(record, frames=longer), "More padding changes the score."


def spoiled(record: Any) -> Any:
    """Return a copy whose first sample is unusable: a motion of NaN, black frames, an empty mask, no text."""
    copy = rows(record, range(len(record)))
    if isinstance(copy, MotionBatch):
        copy.features[0] = torch.nan
    elif isinstance(copy, FrameBatch):
        copy.frames[0] = 0
    elif isinstance(copy, MaskBatch):
        copy.masks[0] = False
        if copy.confidence is not None:
            copy.confidence[0] = torch.nan
    else:
        copy = replace(copy, texts=["", *copy.texts[1:]])
    return copy


def _motions(record: MotionBatch, features: Tensor, lengths: Tensor) -> MotionBatch:
    return MotionBatch(features, lengths, skeleton=record.skeleton, fps=record.fps)


def check_reward(
    reward: str | Component | Reward,
    *,
    options: dict[str, Any] | None = None,
    dataset: object = None,
    reads: str = "motion",
    samples: Record | None = None,
    prompts: Sequence[Prompt] | None = None,
) -> None:
    """Check what training relies on in every reward.

    One finite float32 score per sample; the same scores for the same input; no influence of padding (NaN included),
    of the order of the batch, or of the other samples; a sample that is unusable spoils only its own score; the input
    stays unchanged; per-segment scores, if there are any, have the total as their mean. Scores of samples that the
    reward does not apply to (`RewardScores.applies`) are ignored. ``async def score`` and ``threads`` are used as in
    training.

    Args:
        reward: Its name, its component, or a built reward.
        options: Options to build it with.
        dataset: Dataset to build it with, for rewards that need one.
        reads: What a built reward reads; a component names it.
        samples: Samples to score; by default small random motions, images, masks or texts.
        prompts: Their prompts.

    Raises:
        AssertionError: Lists all violations, a sentence each.

    Example:
        >>> from motionkit import load_reward
        >>> check_reward(load_reward("physics", r_s=0.1, r_j=100.0))
    """
    if isinstance(reward, str):
        check_component("rewards", reward)
    if isinstance(reward, (str, Component)):
        component = component_of("rewards", reward)
        reads = reads_of("rewards", component)
        built = cast(
            "Reward", plugins.build("rewards", component, options_of(component, options), dataset=dataset, device="cpu")
        )
    else:
        built = reward
    batch = samples if samples is not None else sample_record(reads)
    questions = list(prompts) if prompts is not None else prompts_for(batch)
    # What is checked may lack it.
    name = getattr(built, "name", None)
    findings = Findings(f"reward {(name or type(built).__name__)!r}")
    findings.expect(isinstance(name, str), "It needs a 'name'; metrics are logged under it.")
    everyone = range(len(batch))
    before = rows(batch, everyone)
    scores = _score(built, batch, questions)
    if _check_shape(findings, scores, questions):
        findings.expect(equal(batch, before), "It changes what it is given.")
        again = _total(built, rows(before, everyone), questions)
        total = _totals(scores)
        findings.expect(torch.equal(again, total), "Scoring the same samples twice gives different scores.")
        _check_independence(findings, built, before, questions, total)
        _check_segments(findings, scores, questions)
    findings.close()


def _score(reward: Reward, batch: Record, prompts: Sequence[Prompt]) -> RewardScores:
    """Call the reward; it need not return scores."""
    with torch.no_grad():
        return cast("RewardScores", answer_of(reward, batch, prompts))


def _totals(scores: RewardScores) -> Tensor:
    """Return the totals, 0 for samples that the reward does not apply to."""
    return torch.where(scores.applying, scores.total, 0.0)


def _total(reward: Reward, batch: Record, prompts: Sequence[Prompt]) -> Tensor:
    return _totals(_score(reward, batch, prompts))


def _check_shape(findings: Findings, scores: RewardScores, prompts: Sequence[Prompt]) -> bool:
    fault = fault_of(scores, valid_segments(prompts, torch.device("cpu")))
    if not findings.expect(not fault, f"It returns {fault}."):
        return False
    return all(
        [
            findings.expect(scores.total.dtype == torch.float32, f"total must be float32, is {scores.total.dtype}."),
            findings.expect(
                bool(_totals(scores).isfinite().all()),
                "total is not finite for ordinary samples; does padding leak in?",
            ),
        ]
    )


def _check_independence(
    findings: Findings, reward: Reward, batch: Record, prompts: list[Prompt], total: Tensor
) -> None:
    for changed, sentence in padded(batch):
        findings.expect(is_near(_total(reward, changed, prompts), total), sentence)
    order = list(range(len(batch)))[::-1]
    turned = _total(reward, rows(batch, order), [prompts[i] for i in order])
    findings.expect(is_near(turned[order], total), "The order of the batch changes the scores.")
    alone = [_total(reward, rows(batch, [i]), [prompts[i]]) for i in range(len(batch))]
    findings.expect(is_near(torch.cat(alone), total), "A sample scored alone gets another score than in a batch.")
    spread = _total(reward, spoiled(batch), prompts)
    findings.expect(is_near(spread[1:], total[1:]), "A sample that is unusable changes the scores of the others.")


def _check_segments(findings: Findings, scores: RewardScores, prompts: Sequence[Prompt]) -> None:
    if scores.segments is None:
        return
    counts = torch.tensor([len(prompt.segments) for prompt in prompts])
    is_segment = torch.arange(scores.segments.shape[1]) < counts[:, None]
    findings.expect(bool((scores.segments[~is_segment] == 0).all()), "segments must be 0 past a sample's last segment.")
    mean = (scores.segments * is_segment).sum(dim=1) / counts
    applying = scores.applying
    equal = is_near(mean[applying], scores.total[applying])
    findings.expect(equal, "The mean of a sample's segments must be its total.")


def is_near(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors are equal within `TOLERANCE`, as scores and predictions in other batches must be."""
    return bool(torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE))
