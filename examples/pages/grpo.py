"""GRPO on a motion diffusion model: how `motionkit grpo --algorithm grpo` learns, on a page.

    python examples/pages/grpo.py

A few motions are sampled for each prompt and scored. What is better than the others of its group is made likelier.
After each update the weights are those of `GRPO(policy, reward, seed=0).step(prompts)`, to the bit (tests/pages).

Shapes: N motions (prompts x group), T frames, D features a frame, K segments (the actions that a prompt asks for),
S noisy steps of the sampler, M pairs of a step and a motion.
"""

from functools import partial

import numpy as np
import torch

from motionkit import load_dataset, load_policy, load_reward
from motionkit.motion import MotionBatch
from motionkit.nn import adapter_parameters, adapters_off
from motionkit.rl import (
    DDIM,
    LowPass,
    NoiseSource,
    StepPlan,
    leave_one_out,
    length_mask,
    linear_surrogate,
    rollout,
    roughness,
    segment_bounds,
    segment_frames,
    stable_hash,
    step_products,
    valid_dims,
    weighted_mean,
)

SEED = 0
UPDATES = 10  # the command: 160
PROMPTS, GROUP = 32, 2  # prompts of an update, motions of a prompt
MICRO = 64  # pairs in a forward and backward pass
RATE = 2e-3  # the command: falls along a cosine to 1e-4
SMOOTH = 20.0  # weight of the penalty on trembling

dataset = load_dataset("starter")
policy = load_policy("starter", dataset=dataset)
reward = load_reward("tmr-dense")

# Trained are low-rank adapters (LoRA): W x becomes W x + (16 / 8) B A x, with B = 0 at first. All else is frozen.
policy.adapt(r=8, alpha=16.0, dropout=0.0, targets=("attn", "text"), seed=SEED)
policy.network.eval()  # dropout would make every ratio random
trained = adapter_parameters(policy.network)
adam = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.99), weight_decay=0.0)
# The command also averages the weights, 0.97 of the old and 0.03 of the new ones, and keeps the average.

# A motion is sampled in five steps x' = a x0_hat(x, t) + b x + sigma eps. The first two have sigma > 0: each draws from
# a Gaussian around a x0_hat + b x, which has a density: these steps are what is learned. The others are deterministic,
# and the last one ends at x0_hat.
plan = StepPlan.build(policy.schedule, DDIM(eta=1.0), steps=policy.schedule.early(5), window=range(2))
# All motions of a prompt begin at the same x_T. Motions 2 i and 2 i + 1 have opposite eps below 3 Hz, and the same
# above.
slow = LowPass(3.0, policy.fps)
noise = NoiseSource(SEED, initial="group", antithetic=True, low_pass=slow)

# The command measures held-out prompts before, on the way and after, by a judge that is not trained on.
prompts = dataset.prompts("train")
order = np.random.default_rng((SEED, 0)).permutation(len(prompts))  # the command: a new order in every epoch
batches = [[prompts[place] for place in order[PROMPTS * u : PROMPTS * (u + 1)]] for u in range(UPDATES)]

for update, asked in enumerate(batches):
    # Sample: N = P G motions, the G of a prompt in a row.
    group = torch.arange(len(asked)).repeat_interleave(GROUP)  # [N]
    number = torch.arange(GROUP).repeat(len(asked))  # [N], the place in the group
    texts = [prompt for prompt in asked for _ in range(GROUP)]
    lengths = torch.tensor([prompt.length for prompt in texts])  # [N]
    keys = torch.tensor([stable_hash(prompt.key) for prompt in texts])  # [N], of the noise
    condition = policy.condition(asked).select(group)  # the encoded texts
    shape = (policy.frames(lengths), policy.normalizer.mean.shape[-1])  # (T, D)
    mask = length_mask(lengths, shape[0])  # [N, T], False at padding
    with torch.no_grad():
        start = noise.start(update, keys, number, shape)
        steps = noise.steps(update, keys, number, shape, lengths)
        done = rollout(partial(policy.predict, condition=condition, lengths=lengths), plan, start, steps)

        # Score: a number for each segment of each motion.
        features = policy.normalizer.denormalize(done.x0)  # [N, T, D]
        motions = MotionBatch(features, lengths, skeleton=policy.skeleton, fps=policy.fps)
        scores = reward.score(motions, texts)  # total [N], segments [N, K]

    # Credit: the score of a segment minus the mean of the others of its group, over the spread of the whole batch.
    bounds = segment_bounds([prompt.bounds for prompt in texts])  # [N, K, 2] first frame and end; (0, 0): no segment
    valid = (bounds[..., 1] > 0) & scores.total.isfinite()[:, None]  # [N, K]
    advantage = leave_one_out(scores.segments, group, valid=valid, std_floor=0.02, clip=5.0).values  # [N, K]

    adam.zero_grad()
    # The policy gradient. A step x' has the log-ratio log pi(x') - log pi_old(x') = s <eps, d> - s^2 / 2 |d|^2 with d =
    # x0_hat - x0_hat_old and s = a / sigma. The page leaves the factor s out, so that each step counts alike. And as
    # the motions of a prompt differ in the slow part of eps alone, only that part stands for eps.
    pairs = torch.arange(done.trajectory.num_pairs)  # S N of them
    for chunk in pairs.split(MICRO):
        rows = done.trajectory.pairs(chunk)  # x_t, eps, x0_old [M, T, D]; timestep, sample [M]
        n = rows.sample
        x0 = policy.predict(rows.x_t, rows.timestep, condition.select(n), lengths[n])
        along, _ = step_products(x0, rows.x0_old, slow(rows.eps, lengths[n]), mask[n])  # [M, T]: <slow eps, d>
        # Each segment has its own frames and its own advantage. Its sum is over the square root of its size, by which
        # it grows with the noise; `share` then lets the segments of a motion add up to the term of the whole motion.
        owned = segment_frames(bounds[n], shape[0]) & mask[n][:, None]  # [M, K, T]
        size = owned.sum(-1).float() * shape[1]  # [M, K], numbers in a segment
        log_ratio = torch.einsum("mkt,mt->mk", owned.float(), along) / size.clamp(min=1).sqrt()
        share = (size / valid_dims(mask[n], shape[1])[:, None]).sqrt()  # [M, K], 0 where there is no segment
        # -min(r A, clip(r, 0.8, 1.2) A) is PPO's surrogate, with r = exp(log_ratio) of this scaled ratio. With one pass
        # over a rollout d is 0 and r is 1: the gradient is that of -(1 + log_ratio) A, and that of |d|^2 is 0.
        loss = weighted_mean(linear_surrogate(log_ratio, advantage[n]), share, total=len(pairs))
        loss.backward()  # gradients of the chunks add up

    # The noise of this gradient makes motions tremble long before it changes what they do. So the change from the model
    # as it was must be smooth: a small second difference over time. Every fourth motion in turn, at all its states.
    quarter = torch.arange(update % 4, done.visited.num_pairs, 4)
    for chunk in quarter.split(MICRO):
        x_t, timestep, n = done.visited.pairs(chunk)
        x0 = policy.predict(x_t, timestep, condition.select(n), lengths[n])
        with torch.no_grad(), adapters_off(policy.network):
            before = policy.predict(x_t, timestep, condition.select(n), lengths[n])
        (SMOOTH * roughness(x0 - before, mask[n]).sum() / len(quarter)).backward()

    norm = torch.nn.utils.clip_grad_norm_(trained, 1.0)
    adam.step()
    print(f"update {update}: reward {float(scores.total.mean()):.4f}, gradient {float(norm):.4f}")
