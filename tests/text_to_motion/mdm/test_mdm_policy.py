"""What the policy promises, on small untrained networks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.nn import adapters_off
from motionkit.rl import DDIM, NoiseSource, StepPlan, rollout, stable_hash
from motionkit.text import CachedEncoder, Prompt
from motionkit.text_to_motion.mdm.open import new_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MDMSettings

Make = Callable[..., MDMPolicy]
PROMPTS = [
    Prompt(("a man walks", "he jumps"), (22, 18), "a"),
    Prompt(("a man waves",), (40,), "b"),
    Prompt(("a man walks", "he turns", "he sits"), (10, 9, 8), "c"),
]
LENGTHS = torch.tensor([prompt.length for prompt in PROMPTS])
TIMESTEP = torch.tensor([3, 49, 0])
SHAPES: dict[str, dict[str, object]] = {
    "stock": {},
    "decoder": {"arch": "trans_dec"},
    "decoder with time token": {"arch": "trans_dec", "emb_trans_dec": True},
    "starter": {"patch_size": 4, "clause_frames": True},
    "patches": {"patch_size": 3},
    "overlap": {"patch_size": 4, "patch_overlap": True, "clause_frames": True},
}


def _noise(frames: int = 40) -> Tensor:
    return torch.randn(3, frames, 263, generator=torch.Generator().manual_seed(4))


def _valid(frames: int = 40) -> Tensor:
    return torch.arange(frames) < LENGTHS[:, None]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@torch.no_grad()
def test_guidance_in_one_batch_is_two_passes(make_policy: Make, shape: dict[str, object]) -> None:
    policy = make_policy(**shape)
    x, condition = _noise(), policy.condition(PROMPTS)
    with_text = policy.predict(x, TIMESTEP, condition, LENGTHS)
    without = policy.predict(x, TIMESTEP, condition, LENGTHS, guidance=0.0)
    both = policy.predict(x, TIMESTEP, condition, LENGTHS, guidance=2.5)
    assert torch.allclose(both, without + 2.5 * (with_text - without), atol=1e-6)
    assert (with_text - without).abs().max() > 1e-3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@torch.no_grad()
def test_exact_padding(make_policy: Make, shape: dict[str, object]) -> None:
    """Padding changes no bit, and a sample alone at its own length is the sample in a batch."""
    policy = make_policy(**shape)
    x, condition = _noise(), policy.condition(PROMPTS)
    out = policy.predict(x, TIMESTEP, condition, LENGTHS, guidance=2.0)
    dirty = x.masked_fill(~_valid()[..., None], float("nan"))
    assert torch.equal(out[_valid()], policy.predict(dirty, TIMESTEP, condition, LENGTHS, guidance=2.0)[_valid()])
    for i, prompt in enumerate(PROMPTS):
        row = torch.tensor([i])
        alone = policy.predict(
            x[row, : prompt.length], TIMESTEP[row], condition.select(row), LENGTHS[row], guidance=2.0
        )
        assert torch.allclose(alone, out[row, : prompt.length], atol=2e-6)


@torch.no_grad()
def test_overlapping_patches_add_up(make_policy: Make) -> None:
    """Token s writes frames 4 s - 2 to 4 s + 6, of which only those of the motion remain."""
    policy = make_policy(patch_size=4, patch_overlap=True)
    head = policy.network.output_process["poseFinal"]
    written: list[Tensor] = []
    with head.register_forward_hook(lambda *given: written.append(given[2])):
        out = policy.predict(_noise(), TIMESTEP, policy.condition(PROMPTS), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        slow = torch.zeros(100, 263)
        for token in range(-(-length // 4)):
            slow[4 * token + 8 : 4 * token + 16] += written[0][row, token].view(8, 263)
        assert torch.allclose(out[row, :length], slow[10 : 10 + length], atol=1e-6)


@torch.no_grad()
def test_full_padding_attends_to_all_frames(make_policy: Make) -> None:
    policy = make_policy(padding="full")
    assert policy.frames(LENGTHS) == 60
    x, condition = _noise(60), policy.condition(PROMPTS)
    out = policy.predict(x, TIMESTEP, condition, LENGTHS)
    assert torch.equal(out, policy.predict(x, TIMESTEP, condition, torch.full((3,), 60)))
    with pytest.raises(ValueError, match="60 frames"):
        policy.predict(x[:, :40], TIMESTEP, condition, LENGTHS)


@torch.no_grad()
def test_clauses_and_windows_matter(make_policy: Make) -> None:
    policy = make_policy(patch_size=4, clause_frames=True)
    x, timestep, lengths = _noise()[:1], TIMESTEP[:1], LENGTHS[:1]

    def ask(segments: tuple[str, ...], frames: tuple[int, ...]) -> Tensor:
        return policy.predict(x, timestep, policy.condition([Prompt(segments, frames)]), lengths)

    base = ask(("a man walks", "he jumps"), (22, 18))
    assert not torch.allclose(ask(("he jumps", "a man walks"), (22, 18)), base, atol=1e-3)
    assert not torch.allclose(ask(("a man walks", "he jumps"), (10, 30)), base, atol=1e-4)
    assert torch.equal(policy.condition([PROMPTS[0]]).windows, torch.tensor([[[0, 22], [22, 40]]]))


@torch.no_grad()
def test_a_clause_reaches_its_own_tokens_only(make_policy: Make) -> None:
    policy = make_policy(patch_size=4, clause_frames=True)
    seen: list[Tensor] = []
    policy.network.seqTransEncoder.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for segments in (("a man walks", "he jumps"), ("a man walks", "he sits")):
        policy.predict(_noise()[:1], TIMESTEP[:1], policy.condition([Prompt(segments, (22, 18))]), LENGTHS[:1])
    changed = (seen[0] != seen[1]).any(-1)[0].tolist()
    # The prefix token, then ten tokens of four frames; the one that starts at frame 20 still belongs to the first.
    assert changed == [False] + [False] * 6 + [True] * 4


@torch.no_grad()
def test_without_text_all_clauses_are_the_same(make_policy: Make) -> None:
    policy = make_policy(patch_size=4, clause_frames=True)
    out = []
    for segments in (("a man walks", "he jumps"), ("he sits", "he turns")):
        condition = policy.condition([Prompt(segments, (22, 18))])
        out.append(
            policy.network(
                _noise()[:1], TIMESTEP[:1], condition.text, condition.mask,
                windows=condition.windows, drop=torch.tensor([True]),
            )
        )  # fmt: skip
    assert torch.equal(out[0], out[1])


def test_each_text_is_encoded_once_and_order_does_not_matter(
    make_policy: Make, source: SimpleNamespace, hash_encoder: object
) -> None:
    """Test 17 of the RL sheet."""
    policy = make_policy(patch_size=4, clause_frames=True)
    bare = new_policy(policy.settings, dataset=source, encoder=hash_encoder)
    hash_encoder.asked.clear()
    first = policy.condition(PROMPTS)
    assert hash_encoder.asked == ["a man walks", "he jumps", "a man waves", "he turns", "he sits"]
    policy.condition(PROMPTS * 2)
    assert len(hash_encoder.asked) == 5
    without_cache = bare.condition(PROMPTS)
    assert torch.equal(first.text, without_cache.text)
    turned = policy.condition(PROMPTS[::-1])
    assert torch.equal(turned.text, first.text.flip(0))
    assert torch.equal(turned.mask, first.mask.flip(0))


def test_gradients_do_not_depend_on_the_split(make_policy: Make) -> None:
    """Test 16 of the RL sheet, on the policy: micro-batches of 1, 3 and 6, and timesteps looped or flattened."""
    policy = make_policy(patch_size=4, clause_frames=True)
    condition, x = policy.condition(PROMPTS), _noise()
    weights = torch.randn(6, 40, 263, generator=torch.Generator().manual_seed(5)) * _valid().repeat(2, 1)[..., None]
    rows, steps = torch.arange(3).repeat(2), torch.tensor([3, 3, 3, 30, 30, 30])

    def gradients(size: int) -> tuple[float, list[Tensor]]:
        policy.network.zero_grad()
        total = 0.0
        for part in torch.arange(6).split(size):
            index = rows[part]
            out = policy.predict(x[index], steps[part], condition.select(index), LENGTHS[index], guidance=1.5)
            loss = (out * weights[part]).sum() / 1000
            loss.backward()
            total += float(loss.detach())
        return total, [p.grad.clone() for p in policy.network.parameters()]

    reference = gradients(6)
    for size in (1, 3):
        loss, grads = gradients(size)
        assert loss == pytest.approx(reference[0], rel=1e-5, abs=1e-6)
        for mine, theirs in zip(grads, reference[1], strict=True):
            assert (mine - theirs).norm() <= 1e-5 * theirs.norm() + 1e-7


@torch.no_grad()
def _samples(policy: MDMPolicy) -> Tensor:
    plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=5)
    condition = policy.condition(PROMPTS)
    keys = torch.tensor([stable_hash(prompt.key) for prompt in PROMPTS])
    start = NoiseSource(0).start(0, keys, torch.zeros(3, dtype=torch.int64), (40, 263))
    predict = lambda x, t: policy.predict(x, t, condition, LENGTHS, guidance=2.5)  # noqa: E731
    return rollout(predict, plan, start, lambda t: torch.zeros(()), record=False).x0


def test_sampling_is_unmoved_by_adapters_and_training_code(make_policy: Make) -> None:
    """Test 22 of the RL sheet: the evaluation sampler gives the same bits before and after RL code took hold."""
    policy = make_policy(patch_size=4, clause_frames=True)
    before = hashlib.sha256(_samples(policy).numpy().tobytes()).hexdigest()
    policy.adapt(r=4, alpha=8.0)
    assert hashlib.sha256(_samples(policy).numpy().tobytes()).hexdigest() == before
    with torch.no_grad():
        for name, parameter in policy.network.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.05)
    assert hashlib.sha256(_samples(policy).numpy().tobytes()).hexdigest() != before
    with adapters_off(policy.network):
        assert hashlib.sha256(_samples(policy).numpy().tobytes()).hexdigest() == before


def test_network_is_in_eval_mode(make_policy: Make) -> None:
    policy = make_policy()
    assert not any(module.training for module in policy.network.modules())
    policy.adapt(r=2, alpha=2.0, dropout=0.5)
    assert not any(module.training for module in policy.network.modules())
    x, condition = _noise(), policy.condition(PROMPTS)
    with torch.no_grad():
        once, twice = (policy.predict(x, TIMESTEP, condition, LENGTHS) for _ in range(2))
    assert torch.equal(once, twice)


def test_half_precision_body_keeps_a_float_head(make_policy: Make) -> None:
    policy = make_policy()
    x, condition = _noise(), policy.condition(PROMPTS)
    with torch.no_grad():
        exact = policy.predict(x, TIMESTEP, condition, LENGTHS)
        policy.autocast = torch.bfloat16
        half = policy.predict(x, TIMESTEP, condition, LENGTHS)
    assert half.dtype == torch.float32
    assert 0 < (half - exact).abs().max() < 0.1


def test_refusals(make_policy: Make, source: SimpleNamespace) -> None:
    policy = make_policy()
    with pytest.raises(MotionkitError, match="at most 60"):
        policy.condition([Prompt(("a man walks on",), (61,))])
    for change, word in (({"text_width": 99}, "12 features"), ({"features": 251}, "statistics 263")):
        with pytest.raises(MotionkitError, match=word):
            MDMPolicy(
                policy.settings.model_copy(update=change), policy.network, normalizer=policy.normalizer,
                skeleton=policy.skeleton, encoder=policy.encoder, fps=20.0,
            )  # fmt: skip
    for change, word in (
        ({"latent_dim": 18, "num_heads": 4}, "num_heads"),
        ({"patch_size": 3, "patch_overlap": True}, "patch_overlap"),
    ):
        with pytest.raises(ValueError, match=word):
            MDMSettings.model_validate(change)
    assert isinstance(policy.encoder, CachedEncoder)
