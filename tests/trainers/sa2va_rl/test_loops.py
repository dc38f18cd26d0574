"""The identities of self-play: ratios, gradients, groups without variance, partners, and what is trained."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.datasets.shapes._dataset import Shapes
from motionkit.errors import MotionkitError
from motionkit.evaluation.regions import Task, as_it_is, masks_at
from motionkit.nn import EMA
from motionkit.policies.regions import RegionSettings
from motionkit.policies.regions.api import ShapesPolicy
from motionkit.rl import RowNoise, Surrogate, group_std, kl_k3
from motionkit.trainers.sa2va_rl import Sa2vaRlSettings
from motionkit.trainers.sa2va_rl._loops import CaptionToMask, MaskToCaption
from motionkit.trainers.sa2va_rl._trainable import trainable
from motionkit.trainers.sa2va_rl._trainer import Sa2vaRl, _normalised


@pytest.fixture
def policy() -> ShapesPolicy:
    torch.manual_seed(0)
    return ShapesPolicy(RegionSettings(width=16, layers=1, vision=8, channels=8, prompt=6), Shapes().words)


def task(policy: ShapesPolicy, count: int = 3, times: int = 4) -> Task:
    found = Shapes().regions("train", np.arange(count))
    with torch.no_grad():
        seen = policy.see(found.images)
    return Task(seen, masks_at(found.masks, policy.mask_size), found.captions).repeated(times)


def noise(rows: int = 12) -> RowNoise:
    return RowNoise((0,), rows)


def uniform(policy: ShapesPolicy, rows: Task) -> torch.Tensor:
    return noise(len(rows.masks)).uniform(policy.longest)


def test_ratios_are_one_and_kl_is_zero_at_first(policy: ShapesPolicy) -> None:
    for loop in (MaskToCaption(policy, 0.7, kl_k3), CaptionToMask(policy, 0.5)):
        terms = loop.play(task(policy), as_it_is, as_it_is, noise()).terms()
        assert terms.log_ratio.abs().max() < 1e-6
        assert terms.kl.abs().max() < 1e-6


def test_kl_is_positive_once_the_policy_has_moved(policy: ShapesPolicy) -> None:
    named = [pair for own in trainable(policy).values() for pair in own]
    start = EMA(named, 0.0)
    with torch.no_grad():
        for _, parameter in named:
            parameter += 0.05 * torch.randn_like(parameter)
    for loop in (MaskToCaption(policy, 1.0, kl_k3), CaptionToMask(policy, 0.5)):
        terms = loop.play(task(policy, times=16), as_it_is, start.applied, noise(48)).terms()
        assert bool((terms.kl >= -1e-6).all())
        assert terms.kl[terms.mask].mean() > 1e-4
        # Pulled to the start: a step against the gradient of the KL lowers it.
        terms.kl[terms.mask].mean().backward()
        with torch.no_grad():
            for _, parameter in named:
                if parameter.grad is not None:
                    parameter -= 1e-3 * parameter.grad / parameter.grad.norm().clamp(min=1e-9)
        assert loop.play(task(policy, times=16), as_it_is, start.applied, noise(48)) is not None


def test_words_are_scored_from_the_logits_they_were_drawn_from(policy: ShapesPolicy) -> None:
    rows = task(policy)
    said = policy.sample_captions(
        rows.seen, rows.masks, temperature=0.7, noise=noise(len(rows.masks)).uniform(policy.longest)
    )
    scores = policy.score_words(rows.seen, rows.masks, said.ids, temperature=0.7)
    # One word after the other, each from the words before it.
    for place in range(said.ids.shape[1]):
        head = policy.score_words(rows.seen, rows.masks, said.ids[:, : place + 1], temperature=0.7)
        assert torch.allclose(head.log_prob[:, place], scores.log_prob[:, place], atol=1e-5)
    ends = [len(text.split()) + int(ended) for text, ended in zip(said.texts, said.ended.tolist(), strict=True)]
    assert scores.mask.sum(1).tolist() == ends
    alone = policy.score_words(rows.seen.select(torch.tensor([2])), rows.masks[2:3], said.ids[2:3], temperature=0.7)
    assert torch.allclose(alone.log_prob[0], scores.log_prob[2], atol=1e-5)


def test_the_gradient_of_loop_2_is_that_of_a_gaussian(policy: ShapesPolicy) -> None:
    """d/dmu of the surrogate is -A (z - mu) / sigma^2, over the numbers of a prompt and the samples."""
    sigma = 0.5
    mu = torch.randn(4, 6, requires_grad=True)
    drawn = noise(4).normal(6)
    assert torch.equal(drawn[0], -drawn[1])
    z, old, advantage = mu.detach() + sigma * drawn, mu.detach(), torch.tensor([1.0, -0.5, 0.2, -0.7])
    log_ratio = ((z - old).square() - (z - mu).square()).mean(1, keepdim=True) / (2 * sigma**2)
    Surrogate().loss(log_ratio, advantage, torch.ones(4, 1), total=4).backward()
    assert torch.allclose(mu.grad, -advantage[:, None] * (z - old) / sigma**2 / 6 / 4, atol=1e-6)


def settings(**changes: Any) -> Sa2vaRlSettings:
    base: dict[str, Any] = {
        "run": {"num_steps": 2}, "rollout": {"batch_size": 2, "group_size": 4}, "threads": 1,
        "heldout": {"regions": 8, "every": 1}, "loops": {"supervised": 0.0},
    }  # fmt: skip
    for name, value in changes.items():
        base[name] = {**base.get(name, {}), **value} if isinstance(value, dict) else value
    return Sa2vaRlSettings.model_validate(base)


def trainer(policy: ShapesPolicy, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Sa2vaRl:
    from motionkit.policies.regions import _store

    monkeypatch.setattr(_store, "open_regions", lambda options, **_: policy)
    made = Sa2vaRl(settings(**changes))
    made.prepare()
    return made


def gradients(policy: ShapesPolicy) -> Mapping[str, torch.Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in policy.network.named_parameters()
        if parameter.grad is not None
    }


def test_a_loop_without_weight_does_nothing(policy: ShapesPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for second in (0.0, 1.0):
        made = trainer(
            policy, monkeypatch, loops={"mask_to_caption": 1.0, "caption_to_mask": second, "supervised": 0.0}
        )
        rows = task(policy, 2, 4)
        played = {}
        for loop in (MaskToCaption(policy, 1.0, kl_k3), CaptionToMask(policy, 0.5)):
            if made.weights[loop.name]:
                one = loop.play(rows, as_it_is, as_it_is, noise(len(rows.captions)))
                played[loop.name] = (one, *made._advantages(loop.name, one, 1, {}))
        policy.network.zero_grad()
        made._loss(played, rows, {}).backward()
        found[second] = gradients(policy)
    alone, both = found[0.0], found[1.0]
    assert not [name for name in alone if name.startswith(("text_hidden", "grounding")) and alone[name].abs().max() > 0]
    reached = [name for name, value in both.items() if name.startswith("text_hidden") and value.abs().max() > 0]
    assert reached  # loop 2 reaches what turns a state into a prompt
    # The decoder is loop 2's environment: only the anchor trains it.
    assert not [name for name in both if name.startswith("grounding") and both[name].abs().max() > 0]


def test_groups_without_variance_have_no_gradient_at_all(policy: ShapesPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(policy, monkeypatch, objective={"kl_coef": 1.0, "entropy": 0.1})
    rows = task(policy, 2, 4)
    start = EMA(made.named, 0.0)
    with torch.no_grad():
        for _, parameter in made.named:
            parameter += 0.05 * torch.randn_like(parameter)
    played = {}
    for loop in (MaskToCaption(policy, 1.0, kl_k3), CaptionToMask(policy, 0.5)):
        one = loop.play(rows, as_it_is, start.applied, noise(len(rows.captions)))
        flat = group_std(torch.ones(8), torch.arange(2).repeat_interleave(4))
        assert int(flat.zero_variance) == 2
        alive = (flat.values.view(2, 4) != 0).any(1).repeat_interleave(4)
        played[loop.name] = (one, flat.values, alive)
    policy.network.zero_grad()
    made._loss(played, rows, {}).backward()
    assert all(float(value.abs().max()) == 0 for value in gradients(policy).values())


def test_snapshots_swap_to_the_bit(policy: ShapesPolicy) -> None:
    named = [pair for own in trainable(policy).values() for pair in own]
    start = EMA(named, 0.0)
    before = {name: value.clone() for name, value in policy.tensors().items()}
    with torch.no_grad():
        for _, parameter in named:
            parameter.mul_(1.5)
    moved = {name: value.clone() for name, value in policy.tensors().items()}
    with start.applied():
        assert all(torch.equal(value, before[name]) for name, value in policy.tensors().items())
    assert all(torch.equal(value, moved[name]) for name, value in policy.tensors().items())


def test_only_the_parts_that_are_named_are_trained(policy: ShapesPolicy) -> None:
    found = trainable(policy)
    assert list(found) == ["projector", "language model", "text to prompt", "mask decoder"]
    names = {name for own in found.values() for name, _ in own}
    for name, parameter in policy.network.named_parameters():
        assert parameter.requires_grad == (name in names)
        assert (name in names) != name.startswith(("vision_model", "grounding_encoder.sam_encoder"))
    policy.groups = {"nothing": ("no_such_part.*",)}
    with pytest.raises(MotionkitError, match="no parameters in its nothing"):
        trainable(policy)


@pytest.mark.parametrize(("how", "weights"), [
    ("token", [[1, 1, 1], [1, 0, 0]]), ("sequence", [[1 / 3, 1 / 3, 1 / 3], [1, 0, 0]]),
    ("length", [[1 / 3, 1 / 3, 1 / 3], [1 / 3, 0, 0]]),
])  # fmt: skip
def test_normalisations(how: str, weights: list[list[float]]) -> None:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    weight, total = _normalised(mask, how)
    assert torch.allclose(weight, torch.tensor(weights, dtype=torch.float32))
    assert total == (4 if how == "token" else 2)


def test_a_caption_cannot_smuggle_special_words(policy: ShapesPolicy) -> None:
    ids = policy.encode(["a red [SEG] circle <end> at the top", "nonsense <pad>"])
    assert 2 not in ids.tolist()[0]
    assert policy.words.decode(ids)[0].startswith("a red circle")
    rows = task(policy, 1, 32)
    said = policy.sample_captions(
        rows.seen, rows.masks, temperature=5.0, noise=noise(len(rows.masks)).uniform(policy.longest)
    )
    assert not torch.isin(said.ids, torch.tensor([2, 3])).any()


def test_an_empty_mask_is_an_empty_text(policy: ShapesPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = task(policy, 1, 4)
    monkeypatch.setattr(policy, "draw", lambda seen, prompts: torch.full((len(seen), 24, 24), -1.0))
    played = CaptionToMask(policy, 0.5).play(rows, nullcontext, nullcontext, noise(len(rows.captions)))
    assert played.made.texts.texts == [""] * 4
    assert played.metrics["empty_mask_frac"] == 1.0


def test_noise_of_a_share_is_that_of_the_whole() -> None:
    for draw in (lambda noise: noise.uniform(3), lambda noise: noise.normal(3)):
        whole = draw(RowNoise((1, 2), 8))
        parts = [draw(RowNoise((1, 2), 8, slice(first, first + 4))) for first in (0, 4)]
        assert torch.equal(torch.cat(parts), whole)


def test_a_small_region_does_not_vanish() -> None:
    mask = np.zeros((32, 32), bool)
    mask[3, 5] = True
    assert masks_at([mask], (8, 8))[0].nonzero().tolist() == [[0, 1]]
    assert not masks_at([np.zeros((32, 32), bool)], (8, 8)).any()
    half = np.zeros((4, 4), bool)
    half[:, :3] = True
    assert masks_at([half], (2, 2))[0].tolist() == [[True, True], [True, True]]
    half[0] = half[1, 2] = False  # half of the upper left cell is left, and nothing of the upper right one
    assert masks_at([half], (2, 2))[0].tolist() == [[True, False], [True, True]]
