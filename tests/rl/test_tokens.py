"""Mix, group advantages, surrogate and KL on a policy that writes up to two tokens: nothing in them knows diffusion."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from motionkit.contracts.reward import RewardScores, TextBatch
from motionkit.errors import MotionkitError
from motionkit.rl import Surrogate, kl_k3, leave_one_out, shuffled, weighted_mean
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.mix import RewardMix

WORDS = ("", "a", "b", "c")  # token 0 ends the text: nothing is decided after it
WANTED = "b a"


class TwoTokens(nn.Module):
    """A softmax over the first token, and one over the second for each first token."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        count = len(WORDS)
        self.first = nn.Parameter(0.3 * torch.randn(count, generator=generator))
        self.second = nn.Parameter(0.3 * torch.randn(count, count, generator=generator))

    def log_prob(self, tokens: Tensor) -> Tensor:
        """Return ``[N, 2]`` log-probabilities of ``[N, 2]`` tokens; NaN where nothing was decided."""
        first = self.first.log_softmax(0)[tokens[:, 0]]
        second = self.second.log_softmax(1)[tokens[:, 0], tokens[:, 1]]
        return torch.where(decided(tokens), torch.stack([first, second], 1), torch.nan)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Return ``[count, 2]`` tokens."""
        first = torch.multinomial(self.first.softmax(0), count, replacement=True, generator=generator)
        second = torch.multinomial(self.second.softmax(1)[first], 1, generator=generator)[:, 0]
        return torch.stack([first, second], 1)


def decided(tokens: Tensor) -> Tensor:
    """Return ``[N, 2]`` bool: the second token exists unless the first one ended the text."""
    return torch.stack([torch.ones_like(tokens[:, 0]), tokens[:, 0]], 1) > 0


def every_text() -> Tensor:
    """Return each text once as tokens: 13 of them, "" and the 12 that begin with a word."""
    tokens = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    return tokens[(tokens[:, 0] > 0) | (tokens[:, 1] == 0)]


class Wanted:
    """1 for the wanted text."""

    name = "wanted"

    def score(self, samples: TextBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(
            torch.tensor([float(t in r) for t, r in zip(samples.texts, samples.references, strict=True)])
        )


class Short:
    """1 for no text at all, 0 for two words."""

    name = "short"

    def score(self, samples: TextBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(torch.tensor([1 - len(text.split()) / 2 for text in samples.texts]))


MIX = RewardMix([(Wanted(), 1.0), (Short(), 0.1)])


def score(tokens: Tensor) -> Tensor:
    """Return the mixed reward ``[N]`` of texts."""
    texts = [" ".join(WORDS[token] for token in row if token) for row in (tokens * decided(tokens)).tolist()]
    asked = [Prompt(("write",), (1,))] * len(texts)
    return MIX.score(TextBatch(texts, [[WANTED]] * len(texts)), asked).total


def exact_value(policy: TwoTokens) -> Tensor:
    """Return the expected reward, over all texts."""
    tokens = every_text()
    return (policy.log_prob(tokens).nansum(1).exp() * score(tokens)).sum()


def gradient(policy: TwoTokens) -> Tensor:
    parts = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("on_policy", [True, False])
def test_gradient_of_a_batch_by_hand(on_policy: bool) -> None:
    """-1/N sum A (one-hot - softmax) over the decided tokens; what is not decided is NaN and changes nothing."""
    policy = TwoTokens()
    tokens = policy.sample(64, torch.Generator().manual_seed(1))
    mask, advantage = decided(tokens), leave_one_out(score(tokens), torch.arange(64) // 16).values
    assert not bool(mask.all())
    now = policy.log_prob(tokens)
    Surrogate(on_policy=on_policy).loss(now - now.detach(), advantage, mask.float(), total=64).backward()
    first, second = torch.zeros(4), torch.zeros(4, 4)
    for (one, two), worth in zip(tokens.tolist(), advantage.tolist(), strict=True):
        first -= worth / 64 * (torch.eye(4)[one] - policy.first.detach().softmax(0))
        if one:
            second[one] -= worth / 64 * (torch.eye(4)[two] - policy.second.detach()[one].softmax(0))
    torch.testing.assert_close(policy.first.grad, first, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(policy.second.grad, second, atol=1e-6, rtol=1e-5)


def test_gradient_is_that_of_the_expected_reward() -> None:
    """Many samples of one group, leave-one-out, no scale: the gradient of the sum over all texts, to 2 %."""
    policy, count = TwoTokens(), 200_000
    (-exact_value(policy)).backward()
    exact = gradient(policy)
    policy.zero_grad()
    tokens = policy.sample(count, torch.Generator().manual_seed(0))
    advantage = leave_one_out(score(tokens), torch.zeros(count, dtype=torch.int64), scale="none", clip=None).values
    now = policy.log_prob(tokens)
    Surrogate().loss(now - now.detach(), advantage, decided(tokens).float(), total=count).backward()
    assert (gradient(policy) - exact).norm().item() < 0.02 * exact.norm().item()


def test_kl_over_all_texts_is_the_sum_over_tokens() -> None:
    """Weighted by their probabilities, the estimates of all texts add up to KL(policy || reference)."""
    policy, reference, tokens = TwoTokens(0), TwoTokens(1), every_text()
    with torch.no_grad():
        ours, theirs = policy.log_prob(tokens), reference.log_prob(tokens)
        estimate = kl_k3(theirs - ours)
        chance = ours.nansum(1).exp()
        assert chance.sum().item() == pytest.approx(1.0, abs=1e-6)
        assert bool((estimate[decided(tokens)] >= 0).all())
        exact = (chance * (ours - theirs).nansum(1)).sum()
        mean = weighted_mean(estimate, chance[:, None] * decided(tokens), total=1)
    assert mean.item() == pytest.approx(exact.item(), abs=1e-6)
    assert exact.item() > 0.01


def train(control: str, seed: int) -> tuple[float, float]:
    """Return the expected reward before and after 60 updates of two passes each, with a KL to the start."""
    policy, reference = TwoTokens(seed), TwoTokens(seed).requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=2.0)
    surrogate, generator = Surrogate(on_policy=False), torch.Generator().manual_seed(seed)
    groups = torch.arange(128) // 16
    before = exact_value(policy).item()
    for step in range(60):
        tokens = policy.sample(128, generator)
        weight = decided(tokens).float()
        advantage = leave_one_out(score(tokens), groups).values
        if control == "shuffled":
            advantage = shuffled(advantage, seed, step)
        old = policy.log_prob(tokens).detach()
        for _ in range(2):
            now = policy.log_prob(tokens)
            kl = weighted_mean(kl_k3(reference.log_prob(tokens) - now), weight, total=128)
            optimizer.zero_grad()
            (surrogate.loss(now - old, advantage, weight, total=128) + 0.01 * kl).backward()
            optimizer.step()
    measured = surrogate.measure(policy.log_prob(tokens) - old, advantage, weight)
    assert all(bool(value.isfinite()) for value in measured.values())
    return before, exact_value(policy).item()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_and_shuffled_advantages_do_not(seed: int) -> None:
    before, after = train("real", seed)
    assert before < 0.2
    assert after > 0.8
    assert train("shuffled", seed)[1] < 0.3


@pytest.mark.parametrize("on_policy", [True, False])
def test_a_decision_that_was_not_made_has_no_gradient(on_policy: bool) -> None:
    log_ratio = torch.tensor([[0.1, float("nan")], [0.2, float("inf")]], requires_grad=True)
    weight = torch.tensor([[1.0, 0.0], [0.5, 0.0]])
    Surrogate(on_policy=on_policy).loss(log_ratio, torch.tensor([1.0, -1.0]), weight, total=2).backward()
    assert log_ratio.grad is not None
    assert log_ratio.grad[:, 1].tolist() == [0.0, 0.0]
    assert bool((log_ratio.grad[:, 0] != 0).all())


def test_shapes_that_do_not_fit_are_refused() -> None:
    two, one = torch.zeros(3, 2), torch.zeros(3)
    for log_prob, advantage, old, word in (
        (two, torch.zeros(2), two, "do not fit together"),
        (two, one, one[:, None], "do not fit together"),
        (two, torch.zeros(3, requires_grad=True), two, "detached"),
    ):
        with pytest.raises(MotionkitError, match=word):
            Surrogate().loss(log_prob, advantage, old, total=3)
