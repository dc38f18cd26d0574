"""Reward gradient: how `motionkit grpo` learns from a reward that can be differentiated, on a page. Its default.

    python examples/pages/reward_gradient.py

A motion is a function of noise and weights, x_0 = ODE(x_T; theta), and the reward one of the motion. So the gradient of
the mean reward is exact: no advantages, no log-probabilities. Beside it, the clips of the dataset are learned as in
`motionkit pretrain mdm`, and the policy is held to what it was. After each update the weights are those of
`GRPO(policy, reward, algorithm="reward-gradient", dataset=dataset, seed=0).step(prompts)`, to the bit (tests/pages).

Shapes: N motions, one of each prompt, or M of them; T frames, J joints, D features a frame; B clips.
"""

import numpy as np
import torch

from motionkit import load_dataset, load_policy, load_reward
from motionkit.kernels import physics_sums
from motionkit.metrics import joint_speed
from motionkit.motion import MotionBatch
from motionkit.nn import adapter_parameters, adapters_merged, adapters_off
from motionkit.rl import DDIM, NoiseSource, StepPlan, length_mask, roughness, stable_hash, valid_dims
from motionkit.text_to_motion.mdm.losses import clip_losses
from motionkit.text_to_motion.mdm.train import MdmBatches

SEED = 0
UPDATES = 10  # the command: 240
PROMPTS = 16  # of an update
CLIPS = 16  # of an update
RATE, RISE = 5e-3, 10  # the command: after the rise it falls along a cosine to 2.5e-4
DATA, HOLD, SMOOTH, JERK, SKATE = 2.0, 4.0, 5.0, 0.2, 0.02  # weights of the terms beside the reward

dataset = load_dataset("starter")
policy = load_policy("starter", dataset=dataset)
reward = load_reward("tmr-dense")
schedule = policy.schedule  # x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) eps, with the product abar_t of 1 - beta

# Trained are low-rank adapters (LoRA): W x becomes W x + (16 / 8) B A x, with B = 0 at first. All else is frozen.
policy.adapt(r=8, alpha=16.0, dropout=0.0, targets=("attn", "text"), seed=SEED)
policy.network.eval()
trained = adapter_parameters(policy.network)
adam = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.99), weight_decay=0.0)
# The command also averages the weights, 0.97 of the old and 0.03 of the new ones, and keeps the average.

noise = NoiseSource(SEED)  # a number is a function of seed, update, prompt and timestep, not of the batch
clips = MdmBatches(
    dataset.clips("train"), policy.normalizer, batch_size=CLIPS, steps=len(schedule), max_length=policy.max_length,
    seed=SEED, random_crop=dataset.random_crop,
)  # fmt: skip
# The command measures held-out prompts before, on the way and after, by a judge that is not trained on.
prompts = dataset.prompts("train")
# The command: a new order in every epoch, and prompts of similar length in an update.
order = np.random.default_rng((SEED, 0)).permutation(len(prompts))
batches = [[prompts[place] for place in order[PROMPTS * u : PROMPTS * (u + 1)]] for u in range(UPDATES)]

for update, asked in enumerate(batches):
    adam.zero_grad()
    adam.param_groups[0]["lr"] = RATE * min(1.0, (update + 1) / RISE)
    lengths = torch.tensor([prompt.length for prompt in asked])  # [N]
    keys = torch.tensor([stable_hash(prompt.key) for prompt in asked])  # [N]
    number = torch.zeros(len(asked), dtype=torch.int64)  # [N], the first motion of each prompt
    condition = policy.condition(asked)  # the encoded texts
    shape = (policy.frames(lengths), policy.normalizer.mean.shape[-1])  # (T, D)
    mask = length_mask(lengths, shape[0])  # [N, T], False at padding

    # Sample in five deterministic steps: four near the noisy end, and from there to x0. The graph goes through all.
    steps = schedule.drawn_around(schedule.early(5), np.random.default_rng((SEED, update, 1)))  # others each time
    plan = StepPlan.build(schedule, DDIM(eta=0.0), steps=steps)
    x = noise.start(update, keys, number, shape)  # [N, T, D]
    with adapters_merged(policy.network):  # the same function in fewer products
        # At each t of the plan: x0 = policy.predict(x, t, condition, lengths), then x = c_x0 x0 + c_xt x; at last x0.
        x = policy.denoise(x, plan, condition, lengths)

    # The reward, the mean over motions.
    features = policy.normalizer.denormalize(x)
    motions = MotionBatch(features, lengths, skeleton=policy.skeleton, fps=policy.fps)
    scores = reward.score(motions, asked)
    known = scores.total[scores.total.isfinite()]  # at most [N]: a reward may leave motions out
    policy_loss = -known.sum() / len(known)
    # What the reward does not see: jerk over speed, which does not fall by moving less (nor by walking faster, as the
    # speed is that of the joints around the root), and feet that slide.
    skate, jerk = physics_sums(motions.joints, lengths, fps=policy.fps, feet=policy.skeleton.feet)  # [N], m/s and m/s^3
    local = motions.joints - motions.joints[:, :, :1]  # [N, T, J, 3], seen from the root
    rough = (jerk + 1e-3).log() - (joint_speed(local, lengths, policy.fps) + 1e-2).log()  # [N]
    physics = (JERK * rough + SKATE * skate).sum() / len(skate)
    (policy_loss + physics).backward()  # before the next terms, so that two graphs are never in memory

    # Hold to the model as it was, at the motions noised to any timestep: every second motion of an update, even and odd
    # places in turn. The change d is to be smooth at all timesteps, and small (d^2 times abar_t) where there is little
    # noise, since details are decided there. Draws are for all N, so that they do not depend on the half.
    m = torch.arange(update % 2, len(asked), 2)  # [M]
    t = torch.as_tensor(np.random.default_rng((SEED, update)).integers(len(schedule), size=len(asked)))[m]
    signal = schedule.gather("alphas_cumprod", t, 3)  # abar_t, [M, 1, 1]
    x_t = signal.sqrt() * x.detach()[m] + (1 - signal).sqrt() * noise.start(-2 - update, keys[m], m, shape)
    with adapters_merged(policy.network):
        now = policy.predict(x_t, t, condition.select(m), lengths[m])
    with torch.no_grad(), adapters_off(policy.network):
        before = policy.predict(x_t, t, condition.select(m), lengths[m])
    d = now - before  # [M, T, D]
    square = d.square().sum(-1).masked_fill(~mask[m], 0.0).sum(1) / valid_dims(mask[m], shape[1])  # [M], mean of d^2
    smooth = SMOOTH * roughness(d, mask[m]).sum() / len(m)
    (smooth + (HOLD * signal[:, 0, 0] * square).sum() / len(m)).backward()

    # Learn the clips: the error of x_0 from a noised clip, of its differences in time, and of its joints' velocities.
    # Noisy timesteps count once, others by their signal-to-noise ratio, up to five times.
    batch = clips(update + 1)
    own = length_mask(batch.lengths, batch.x0.shape[1])  # [B, T]
    x_t = schedule.noised(batch.x0, batch.timestep, batch.noise)  # [B, T, D]
    with adapters_merged(policy.network):
        x0 = policy.predict(x_t, batch.timestep, policy.condition(batch.prompts), batch.lengths)
    losses = clip_losses(x0, batch.x0, own, policy)  # [B] each
    error = losses["diffusion"] + losses["velocity"] + losses["joint_velocity"]
    weight = schedule.snr.clamp(1.0, 5.0)[batch.timestep].float()  # [B]
    data = DATA * (weight * error).mean()
    data.backward()

    norm = torch.nn.utils.clip_grad_norm_(trained, 1.0)
    adam.step()
    print(f"update {update}: reward {-policy_loss.item():.4f}, supervised loss {data.item():.4f}")
