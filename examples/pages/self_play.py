"""Self-play of captions and masks: how `motionkit sa2va-rl` learns, on a page.

    python examples/pages/self_play.py

One model captions regions of images and draws masks of captions. In loop 1 it captions a region, and its partner, an
average of its own weights, draws a mask of that caption, which should be the region. In loop 2 it draws a mask of a
caption, and the partner captions that mask, which should be the caption. What is better than the other samples of its
region is made likelier (GRPO). After each update the weights are those of `SelfPlay.step` with the command's defaults,
to the bit (tests/pages).

Shapes: N samples (regions x group) in each loop, L words of a caption, Z numbers of a prompt, h x w cells of a mask.
"""

import numpy as np
import torch

from motionkit import load_dataset, load_policy, load_reward
from motionkit.contracts.reward import TextBatch
from motionkit.nn import EMA
from motionkit.rl import RowNoise, group_std, kl_k3, linear_surrogate, weighted_mean
from motionkit.training.learner import cosine_rate
from motionkit_regions.evaluation.known import look_up
from motionkit_regions.evaluation.measure import open_task
from motionkit_regions.pretrain import mask_loss, regions_of_part, supervised_loss
from motionkit_regions.self_play.step import trainable
from motionkit_regions.self_play.turns import batch_of

SEED = 0
UPDATES = 10  # the command: 500
REGIONS, GROUP = 8, 8  # regions of an update, samples of each
KL, LISTEN, LEARN = 0.2, 0.5, 1.0  # weights beside the surrogate

data = load_dataset("shapes")  # drawn images; 7 % of the regions to train on have a caption that may be read
policy = load_policy("starter", name="tiny-sa2va", dataset=data)
iou, contrast, brevity = load_reward("iou"), load_reward("contrast"), load_reward("brevity", dataset=data)
meteor = load_reward("meteor")

named = [pair for part in trainable(policy).values() for pair in part]  # all else is frozen
trained = [parameter for _, parameter in named]
adam = torch.optim.AdamW(trained, lr=5e-4, betas=(0.9, 0.999), weight_decay=0.0)
rate = cosine_rate(5e-4, warmup=10, total=500, final=0.1)
start = EMA(named, 0.0)  # never updated: the weights as they are now, to which the KL is measured
partner = EMA(named, 0.95, warmup=True)  # 0.95 of the old weights, less in the first 170 updates

captioned = data.captioned("train")  # numbers of the regions with a caption
order = np.random.default_rng((SEED, 0)).permutation(data.count("train"))
groups = torch.arange(REGIONS).repeat_interleave(GROUP)  # [N]
with torch.no_grad():
    first = open_task(policy, data.regions("train", captioned[:256]))
    sigma = 0.5 * float(policy.prompts(first.seen, first.captions).std(0).mean())


def advantage_of(reward):
    """Advantages within each region's group ``[N, 1]``, and which samples have something to learn from ``[N]``."""
    advantage = group_std(reward, groups, std_floor=0.02).values
    return advantage[:, None], (advantage.view(REGIONS, GROUP) != 0).any(1).repeat_interleave(GROUP)


def surrogate(log_ratio, kl, decisions, advantage, alive):
    """The loss of N samples of several decisions ``[N, S]``: every decision that counts weighs the same.

    PPO's -min(r A, clip(r, 0.8, 1.28) A) has the gradient of -(1 + log r) A at r = 1, where a single pass stays.
    """
    weight = (decisions & alive[:, None]).float()
    count = max(1, int(weight.sum()))
    return weighted_mean(linear_surrogate(log_ratio, advantage), weight, count) + KL * weighted_mean(kl, weight, count)


# The command measures held-out regions before and after, by a judge: the model as it was.
for update in range(UPDATES):
    step = update + 1
    index = order[REGIONS * update : REGIONS * step]
    with torch.no_grad():
        # Loop 1. A caption of each region, word by word; noise has a row of its own for each sample.
        one = open_task(policy, data.regions("train", index)).repeated(GROUP)
        noise = RowNoise((SEED, step, 0), REGIONS * GROUP).uniform(policy.longest)
        said = policy.sample_captions(one.seen, one.masks, noise=noise)
        old = policy.score_words(one.seen, one.masks, said.ids).log_prob  # [N, L]
        with start.applied():
            reference = policy.score_words(one.seen, one.masks, said.ids).log_prob
        with partner.applied():
            drawn = policy.draw(one.seen, policy.prompts(one.seen, said.texts))  # [N, h, w], above 0 is inside
        masks = batch_of(drawn, one.masks, one.others)
        texts = TextBatch(said.texts, [[""]] * len(said.texts), drawn.device, said.ended.tolist())
        # The mask is the region, and no other object of the image; and the caption is short.
        paid = torch.stack([reward.score(masks, ()).total for reward in (iou, contrast)])
        reward_1 = torch.stack([*paid, brevity.score(texts, ()).total]).sum(0)  # [N]

        # Loop 2. A prompt of the mask decoder, z = mu + sigma eps; RowNoise draws normal numbers in pairs of opposite
        # sign. Up to half of the captions are of objects that the image does not show: nothing is to be drawn, and a
        # caption of nothing earns nothing.
        index = regions_of_part(captioned, REGIONS, step, SEED, 1)
        shown = open_task(policy, data.regions("train", index))
        absent = look_up(data, "train", index[: REGIONS // 2]).absent
        asked = tuple(absent[n] if n < len(absent) and absent[n] else text for n, text in enumerate(shown.captions))
        wanted = shown.masks.clone()
        wanted[[n for n, text in enumerate(absent) if text]] = False
        two, asked = shown.repeated(GROUP), tuple(text for text in asked for _ in range(GROUP))
        wanted = wanted.repeat_interleave(GROUP, 0)  # [N, h, w]
        mu_old = policy.prompts(two.seen, asked)  # [N, Z]
        with start.applied():
            mu_start = policy.prompts(two.seen, asked)
        z = mu_old + sigma * RowNoise((SEED, step, 1), REGIONS * GROUP).normal(policy.action_size)
        masks = batch_of(policy.draw(two.seen, z), wanted, two.others)
        with partner.applied():
            answer = policy.sample_captions(two.seen, masks.masks, temperature=0.0).texts
        heard = [text if mask.any() else "" for text, mask in zip(answer, masks.masks, strict=True)]
        truth = [[text if mask.any() else ""] for text, mask in zip(asked, wanted, strict=True)]
        texts = TextBatch(heard, truth, z.device)
        reward_2 = meteor.score(texts, ()).total + iou.score(masks, ()).total  # [N]

    # The gradient of loop 1: its words; and the policy's own mask of its caption is learned (cross-entropy and Dice),
    # times the reward, which counts as 1 from there on.
    advantage, alive = advantage_of(reward_1)
    now = policy.score_words(one.seen, one.masks, said.ids)
    loss_1 = surrogate(now.log_prob - old, kl_k3(reference - now.log_prob), now.mask, advantage, alive)
    drawn = policy.draw(one.seen, policy.prompts(one.seen, said.texts))
    loss_1 = loss_1 + (LISTEN * reward_1.clamp(0, 1) * mask_loss(drawn, one.masks)).mean()

    # Of loop 2: the log-ratio and the KL of two Gaussians of one sigma, over the Z numbers of a prompt: sums over so
    # many would leave every clip range.
    advantage, alive = advantage_of(reward_2)
    mu = policy.prompts(two.seen, asked)
    log_ratio = ((z - mu_old).square() - (z - mu).square()).mean(1, keepdim=True) / (2 * sigma**2)  # [N, 1]
    kl = (mu - mu_start).square().mean(1, keepdim=True) / (2 * sigma**2)
    loss_2 = surrogate(log_ratio, kl, torch.ones_like(kl, dtype=torch.bool), advantage, alive)
    drawn = policy.draw(two.seen, policy.prompts(two.seen, asked))
    loss_2 = loss_2 + (LEARN * reward_2.clamp(0, 1) * mask_loss(drawn, wanted)).mean()

    # The anchor: captions and masks of the data, learned as they are.
    anchor = supervised_loss(policy, shown.seen, shown.masks, shown.captions)

    adam.zero_grad()
    torch.stack([loss_1, loss_2, anchor]).sum().backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    adam.param_groups[0]["lr"] = rate(update)
    adam.step()
    partner.update()
    print(f"update {update}: rewards {float(reward_1.mean()):.3f} and {float(reward_2.mean()):.3f}")
