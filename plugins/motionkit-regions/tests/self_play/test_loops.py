"""The identities of self-play: ratios, gradients, groups without variance, partners, and what is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.nn import EMA
from motionkit.rl import RowNoise, Surrogate, group_std
from motionkit_regions.checks import check_loop
from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.evaluation.measure import Task, Weights, as_it_is, masks_at
from motionkit_regions.policy import Candidates, WordScores
from motionkit_regions.self_play.loop import Loop, Played, Turn
from motionkit_regions.self_play.loops import CaptionToMaskOptions, MaskToCaptionOptions
from motionkit_regions.self_play.play import LoopRewards, Scored, loss_of, normalised, roll_out
from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.step import trainable
from motionkit_regions.self_play.turns import CaptionToMask, MaskToCaption, exact_kl
from motionkit_regions.small import ShapesPolicy
from motionkit_regions.small_settings import RegionSettings


class Offering(ShapesPolicy):
    """Offers three masks of a prompt, scored by its first numbers."""

    def candidates(self, seen: Any, prompts: torch.Tensor) -> Candidates:
        logits = self.draw(seen, prompts)
        return Candidates(torch.stack([logits, logits + 1, -logits], 1), 3 * prompts[:, :3])


@pytest.fixture
def policy() -> Offering:
    torch.manual_seed(0)
    return Offering(RegionSettings(width=16, layers=1, vision=8, channels=8, prompt=6), Shapes().words)


def all_loops(policy: Offering) -> dict[str, Loop]:
    """Every loop that has log-probabilities, with each of its ways, and without a loss beside these."""
    found: dict[str, Loop] = {
        f"words-{kl}": MaskToCaption(MaskToCaptionOptions(kl=kl, listen=0), policy=policy) for kl in ("k3", "exact")
    }
    for action in ("gaussian", "multimask", "bernoulli"):
        found[action] = CaptionToMask(CaptionToMaskOptions(action=action, learn=0), policy=policy)
    return found


def play(loop: Loop, rows: Task, start: Weights = as_it_is, temperature: float = 1.0) -> Played:
    turn = Turn(as_it_is, start, noise(len(rows.captions)), temperature, {"spread": 1.0})
    return loop.play(rows, turn)


def moved(policy: ShapesPolicy, by: float = 0.05) -> EMA:
    """Move all trained weights; returns those before."""
    named = [pair for own in trainable(policy).values() for pair in own]
    start = EMA(named, 0.0)
    with torch.no_grad():
        for _, parameter in named:
            parameter += by * torch.randn_like(parameter)
    return start


def task(policy: ShapesPolicy, count: int = 3, times: int = 4) -> Task:
    found = Shapes().regions("train", np.arange(count))
    with torch.no_grad():
        seen = policy.see(found.images)
    return Task(seen, masks_at(found.masks, policy.mask_size), found.captions).repeated(times)


def noise(rows: int = 12) -> RowNoise:
    return RowNoise((0,), rows)


def uniform(policy: ShapesPolicy, rows: Task) -> torch.Tensor:
    return noise(len(rows.masks)).uniform(policy.longest)


@pytest.mark.parametrize("name", ["words-k3", "words-exact", "gaussian", "multimask", "bernoulli"])
def test_ratios_are_one_and_kl_is_zero_at_first(policy: Offering, name: str) -> None:
    terms = play(all_loops(policy)[name], task(policy), temperature=0.7).terms()
    assert terms.log_ratio.abs().max() < 1e-6
    assert terms.kl.abs().max() < 1e-6
    assert not terms.log_ratio[~terms.mask].any()


@pytest.mark.parametrize("name", ["words-k3", "words-exact", "gaussian", "multimask", "bernoulli"])
def test_kl_is_positive_once_the_policy_has_moved_and_pulls_it_back(policy: Offering, name: str) -> None:
    """The old code added ``log p_start - log p`` to the loss, whose gradient pushes away: here a step pulls back."""
    trainable(policy)
    start = moved(policy)
    rows, loop = task(policy, times=16), all_loops(policy)[name]
    played = play(loop, rows, start.applied)
    terms = played.terms()
    assert bool((terms.kl >= -1e-6).all())
    before = terms.kl[terms.mask].mean()
    assert before > 1e-5
    before.backward()
    with torch.no_grad():
        for parameter in policy.network.parameters():
            if parameter.grad is not None:
                parameter -= 1e-2 * parameter.grad
    after = played.terms()
    assert after.kl[after.mask].mean() < before


def test_the_exact_kl_is_what_k3_estimates(policy: Offering) -> None:
    """Over many samples of one region the mean of k3 is the mean of the exact KL of the words that were met."""
    start = moved(policy, 0.02)
    rows = task(policy, 1, 1500)
    with torch.no_grad():
        found = [
            play(loop, rows, start.applied).terms()
            for name, loop in all_loops(policy).items() if name.startswith("words")
        ]  # fmt: skip
    k3, exact = (float(one.kl[one.mask].mean()) for one in found)
    assert k3 == pytest.approx(exact, rel=0.1)
    single = exact_kl(*(
        WordScores(torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), chances.log()[None, None])
        for chances in (torch.tensor([0.7, 0.3, 0.0]), torch.tensor([0.5, 0.5, 0.0]))
    ))  # fmt: skip
    assert float(single) == pytest.approx(0.7 * np.log(0.7 / 0.5) + 0.3 * np.log(0.3 / 0.5), abs=1e-6)


def test_the_gradient_of_a_choice_of_masks(policy: Offering) -> None:
    """d/ds of log softmax(s / tau) at the chosen k is (1[k] - p) / tau; the loss is its weighted mean."""
    rows = task(policy, 2, 4)
    scores = torch.randn(8, 3, requires_grad=True)
    logits = torch.randn(8, 3, 24, 24)
    policy.candidates = lambda seen, prompts: Candidates(logits, scores)  # type: ignore[method-assign]
    tau = 0.5
    loop = CaptionToMask(CaptionToMaskOptions(action="multimask", tau=tau), policy=policy)
    played = play(loop, rows)
    chosen = torch.stack([(played.made.masks.masks == (logits[:, k] > 0)).flatten(1).all(1) for k in range(3)], 1)
    assert chosen.sum(1).tolist() == [1] * 8
    advantage = torch.linspace(-1, 1, 8)
    terms = played.terms()
    Surrogate().loss(terms.log_ratio, advantage, torch.ones(8, 1), total=8).backward()
    wanted = -advantage[:, None] * (chosen.float() - (scores / tau).softmax(1)) / tau / 8
    assert scores.grad is not None
    assert torch.allclose(scores.grad, wanted.detach(), atol=1e-6)


def test_the_gradient_of_pixels(policy: Offering, monkeypatch: pytest.MonkeyPatch) -> None:
    """d/dl of log Bernoulli(a; l) is a - sigmoid(l), over the number of pixels."""
    rows = task(policy, 1, 4)
    logits = torch.randn(4, 24, 24, requires_grad=True)
    monkeypatch.setattr(policy, "draw", lambda seen, prompts: logits)
    played = play(CaptionToMask(CaptionToMaskOptions(action="bernoulli"), policy=policy), rows)
    advantage = torch.tensor([1.0, -1.0, 0.5, -0.5])
    terms = played.terms()
    Surrogate().loss(terms.log_ratio, advantage, torch.ones(4, 1), total=4).backward()
    inside = played.made.masks.masks.float()
    assert logits.grad is not None
    wanted = -advantage[:, None, None] * (inside - logits.sigmoid()) / 24**2 / 4
    assert torch.allclose(logits.grad, wanted.detach(), atol=1e-7)
    share = float(inside.mean())
    assert share == pytest.approx(float(logits.detach().sigmoid().mean()), abs=0.05)


def test_the_supervised_action_weighs_low_rewards_more(policy: Offering) -> None:
    rows = task(policy, 1, 2)
    played = play(CaptionToMask(CaptionToMaskOptions(action="supervised"), policy=policy), rows)
    assert played.direct is not None
    loss = played.direct(torch.tensor([0.0, 1.0]))
    assert loss.requires_grad
    first, second = loss.tolist()
    assert first == pytest.approx(2 * second, rel=1e-5)


def test_a_policy_with_one_mask_has_no_choice(policy: Offering) -> None:
    plain = ShapesPolicy(policy.settings, policy.words.words, network=policy.network)
    with pytest.raises(MotionkitError, match="offers several masks"):
        CaptionToMask(CaptionToMaskOptions(action="multimask"), policy=plain)


@pytest.mark.parametrize("name", ["mask-to-caption", "caption-to-mask"])
def test_contract(name: str) -> None:
    check_loop(name)


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


def scored(policy: Offering, name: str, rows: Task, start: Weights = as_it_is) -> Scored:
    made = settings()
    loop, rewards = {
        "loop1": (all_loops(policy)["words-k3"], made.loop1_reward),
        "loop2": (all_loops(policy)["gaussian"], made.loop2_reward),
    }[name]
    turn = Turn(as_it_is, start, noise(len(rows.captions)), 1.0, {"spread": 1.0})
    pay = LoopRewards(rewards, name, torch.device("cpu"))
    return roll_out(name, loop, pay, rows, turn, group=4, floor=0.0)


def gradients(policy: ShapesPolicy) -> Mapping[str, torch.Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in policy.network.named_parameters()
        if parameter.grad is not None
    }


def test_what_each_loop_reaches(policy: Offering) -> None:
    trainable(policy)
    rows = task(policy, 2, 4)
    found = {}
    for name in ("loop1", "loop2"):
        policy.network.zero_grad()
        loss_of(name, scored(policy, name, rows), settings().objective)[0].backward()
        found[name] = {part.split(".")[0] for part, value in gradients(policy).items() if value.abs().max() > 0}
    assert found == {"loop1": {"mlp1", "language_model"}, "loop2": {"mlp1", "language_model", "text_hidden_fcs"}}
    # The decoder is loop 2's environment: only the anchor trains it.


@pytest.mark.parametrize("name", ["loop1", "loop2"])
def test_groups_without_variance_have_no_gradient_at_all(policy: Offering, name: str) -> None:
    """Neither of the surrogate, nor of the KL, nor of the entropy."""
    trainable(policy)
    rows, start = task(policy, 2, 4), moved(policy)
    found = scored(policy, name, rows, start.applied)
    flat = group_std(torch.ones(8), torch.arange(2).repeat_interleave(4))
    assert int(flat.zero_variance) == 2
    dead = replace(found, advantages=flat.values, alive=torch.zeros(8, dtype=torch.bool))
    loss_of(name, dead, settings(objective={"kl_coef": 1.0, "entropy": 0.1}).objective)[0].backward()
    assert all(float(value.abs().max()) == 0 for value in gradients(policy).values())
    policy.network.zero_grad()
    one = replace(found, alive=torch.arange(8) < 4)  # the other group is as if it were not there
    loss_of(name, one, settings(objective={"kl_coef": 1.0}).objective)[0].backward()
    assert any(float(value.abs().max()) > 0 for value in gradients(policy).values())


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
    weight, total = normalised(mask, how)
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
    played = play(all_loops(policy)["gaussian"], rows)
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
