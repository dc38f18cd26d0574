"""Every metric motionkit logs, defined once: unit, direction, meaning. Plugins define theirs in their `Component`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from motionkit.errors import MotionkitError
from motionkit.plugins import FREE, Direction, Metric, declared

# Metrics of text-to-motion policies: those of ``motionkit eval text-to-motion``, and of held-out prompts in a run.


Rows = tuple[tuple[str, str, Direction, str], ...]

EVALUATION: Rows = (
    (
        "eval/r_precision_1",
        "1",
        "up",
        "Texts whose own motion is the nearest of 32 (euclidean); a tie counts by its expectation.",
    ),
    ("eval/r_precision_2", "1", "up", "Texts whose own motion is among the 2 nearest of 32."),
    ("eval/r_precision_3", "1", "up", "Texts whose own motion is among the 3 nearest of 32."),
    ("eval/mm_dist", "1", "down", "Distance of a text to its own motion, mean over whole batches of 32."),
    ("eval/fid", "1", "down", "Frechet distance of the motions to the real ones of the split, both as Gaussians."),
    (
        "eval/kid",
        "1",
        "down",
        "Unbiased kernel distance to the real motions (cubic kernel), beside a FID of too few motions.",
    ),
    (
        "eval/fid_guide",
        "1",
        "down",
        "Frechet distance of composite motions to single clips, as the guide has it: different by construction.",
    ),
    ("eval/diversity", "1", "none", "Distance of 300 random pairs of motions; best near that of real motions."),
    ("eval/multimodality", "1", "none", "Distance of random pairs of motions of one text; more is more varied."),
    (
        "eval/movement",
        "1",
        "one",
        "Swing from 0.5 to 5 Hz of the joint that moves most in real clips of the action, as a share of theirs.",
    ),
    (
        "eval/statues",
        "1",
        "down",
        "Share of motions in which no joint moves 10 cm, relative to root and heading, where real ones do.",
    ),
    ("eval/side", "1", "up", "Share of motions whose caption names a limb's side in which that limb moves more."),
    (
        "eval/kinetic_fid",
        "1",
        "down",
        "Frechet distance of kinetic features to real motions (energies and accelerations of joints, AIST++'s FID_k), "
        "each feature in standard deviations of the real ones.",
    ),
    (
        "eval/npss",
        "1",
        "down",
        "Distance of the power spectra of joint positions, relative to root and heading, to those of the real motion "
        "of the prompt (Gopalakrishnan 2019).",
    ),
)
"""Figures of an evaluation: name, unit, direction, meaning."""

HELD_OUT: Rows = (
    ("heldout/reward/mean", "1", "up", "Reward on held-out prompts, evaluation sampler, paired noise."),
    ("heldout/reward/delta", "1", "up", "Reward on held-out prompts minus its value before training."),
    ("heldout/reward/<name>", "1", "up", "One reward's own score on held-out prompts."),
    ("heldout/judge/mean", "1", "up", "Score of the judge, which is never a reward, on held-out prompts."),
    ("heldout/judge/delta", "1", "up", "Score of the judge on held-out prompts minus its value before training."),
    ("heldout/judge/<name>", "1", "up", "One figure of the judge on held-out prompts."),
    ("heldout/physics/skate", "m/s", "down", "Speed of the feet along the floor while they touch it, held out."),
    (
        "heldout/physics/jerk",
        "m/s^3",
        "none",
        "Third derivative of joint positions of held-out samples; neither far above nor below real motion.",
    ),
    (
        "heldout/diversity",
        "1",
        "up",
        "Standard deviation over the samples of one prompt, mean over normalised features and prompts.",
    ),
    ("heldout/speed", "m/s", "none", "Mean speed of the joints of held-out samples; a fall is slower motion."),
    ("heldout/path", "m", "none", "Way of the root over the ground in held-out samples."),
    ("heldout/movement", "1", "one", "eval/movement of held-out samples, mean over their segments."),
    ("heldout/statues", "1", "down", "eval/statues of the segments of held-out samples."),
    ("heldout/side", "1", "up", "eval/side of the segments of held-out samples."),
    (
        "heldout/kinetic_fid",
        "1",
        "down",
        "Distance of speeds and accelerations of the joints from those of real clips, by segment: eval/kinetic_fid.",
    ),
    (
        "heldout/npss",
        "1",
        "down",
        "Distance of the power spectra of joints from those of the segments' own real clips: eval/npss.",
    ),
    ("heldout/fid", "1", "down", "Frechet distance of generated to real clips in the space of the judge."),
    ("heldout/<name>", "1", "none", "Another held-out figure, named by the evaluation."),
)
"""Figures of the same held-out prompts with the same noise, before and after training."""


_TABLE: Rows = (
    # an actor in an environment
    ("success/true", "1", "up", "Share of the newest episodes in which the environment saw success after some step."),
    ("success/predicted", "1", "none", "Share of the newest episodes in which the reward saw success."),
    ("success/gap", "1", "none", "Predicted minus true success; far from 0 the reward is pleased without the task."),
    ("success/watched", "1", "up", "True success of deterministic episodes from starts that training does not use."),
    ("success/episodes", "1", "none", "Episodes begun."),
    ("episodes/<class>", "1", "up", "Episodes of a class kept so far: positive with a success, negative without."),
    ("mining/frames", "1", "none", "Frames of the policy's own episodes with the environment's labels, so far."),
    ("mining/positives", "1", "up", "Those of them that are successes."),
    ("mining/precision", "1", "up", "Of this stretch's frames that paid the policy, how many are successes."),
    ("mining/recall", "1", "up", "Of this stretch's successes, how many paid the policy."),
    (
        "mining/average_precision",
        "1",
        "up",
        "Mean precision after the round, validation episodes of both kinds.",
    ),
    ("mining/threshold", "1", "none", "Probability from which a frame is a success, after the round."),
    ("ppo/environment_steps", "1", "none", "Steps of all copies of the environment so far."),
    ("ppo/negative_entropy", "nats", "none", "Minus the entropy of the policy, mean over the rollout."),
    ("ppo/kl_nats", "nats", "none", "KL from the policy of the rollout to the updated one, k3 estimate."),
    ("ppo/explained_variance", "1", "up", "Share of the returns' variance that the critic explains."),
    ("loss/value", "1", "down", "Squared error of the critic."),
    # one step of reinforcement learning
    ("loss/total", "1", "down", "What the optimiser minimised: the sum of the weighted losses."),
    ("loss/policy", "1", "down", "Policy-gradient surrogate alone; near zero by construction when on-policy."),
    ("loss/reward", "1", "down", "Minus the mean of the rewards that are followed by their gradient."),
    ("loss/kl", "1", "down", "KL penalty as it enters loss/total (coefficient included)."),
    (
        "loss/anchor",
        "1",
        "down",
        "Roughness over time of the difference to the reference's predictions, as it enters loss/total.",
    ),
    ("loss/physics", "1", "down", "Jerk and skate as they enter loss/total; with a physics reward, -log R_phy."),
    ("loss/hold", "1", "down", "Distance to the reference's predictions, as it enters loss/total."),
    ("loss/diversity", "1", "down", "Minus the log of the spread of a prompt's motions, as it enters loss/total."),
    ("reward/mean", "1", "up", "Weighted total reward, mean over the step's finite samples."),
    ("reward/std", "1", "none", "Standard deviation of the total reward over the step's samples."),
    ("reward/min", "1", "up", "Smallest total reward of the step."),
    ("reward/max", "1", "up", "Largest total reward of the step."),
    ("reward/group_std", "1", "none", "Standard deviation within a group, mean over groups: what the advantage uses."),
    ("reward/nan", "1", "down", "Samples whose reward was not finite; they carry no gradient."),
    ("reward/left_out", "1", "down", "Rewards without any finite score, left out of the step's total."),
    ("reward/<name>/mean", "1", "up", "One reward's own score before weighting, mean over the step."),
    ("reward/<name>/std", "1", "none", "Standard deviation of one reward over the step's samples."),
    ("reward/<name>/applies", "1", "none", "Share of the step's samples that a reward applies to, where it says so."),
    ("reward/<name>/<part>", "1", "none", "A part that one reward reports, mean over the step."),
    (
        "reward/correlation/<name>/<other>",
        "1",
        "none",
        "Pearson correlation of two rewards within the groups of the step; below 0 one is paid for with the other.",
    ),
    ("advantage/mean", "1", "none", "Mean advantage; zero up to rounding when nothing is clipped."),
    ("advantage/std", "1", "none", "Standard deviation of the advantages."),
    ("logp/current_per_dim", "nats/dim", "none", "Log-probability of the trained steps, mean over valid dimensions."),
    ("logp/reference_per_dim", "nats/dim", "none", "The same steps under the reference policy."),
    ("ratio/mean", "1", "none", "Mean probability ratio to the policy that sampled, as the objective uses it."),
    ("ratio/clip_fraction", "1", "none", "Share of (sample, timestep) pairs whose ratio was clipped."),
    ("ratio/log_nats", "nats", "none", "Largest absolute log-ratio, summed over a sample's valid dimensions."),
    ("audit/first_ratio_per_dim", "nats/dim", "none", "Largest |mean log-ratio| before the first update; 0 if sound."),
    ("kl/nats_per_dim", "nats/dim", "down", "Closed-form KL to the reference, mean over valid dimensions and steps."),
    ("kl/nats", "nats", "down", "Closed-form KL to the reference per timestep, summed over valid dimensions."),
    ("kl/coefficient", "1", "none", "Weight of the KL in the update, where it is adapted to a target."),
    ("grad/norm", "1", "none", "Norm of the gradient before clipping."),
    ("grad/left_out", "1", "down", "Updates of the step that were left out because their gradient was not finite."),
    ("optim/learning_rate", "1", "none", "Learning rate of the step."),
    ("group/zero_variance", "1", "down", "Share of groups whose samples all scored the same."),
    ("match/error", "1", "none", "Mean squared error of predictions to noised samples, normalised features."),
    (
        "pair/gap",
        "1",
        "none",
        "Reward of the better sample minus that of the worse, mean over the pairs that are kept.",
    ),
    ("pair/left_out", "1", "down", "Share of pairs whose rewards are too close to tell which is better."),
    ("pair/accuracy", "1", "up", "Share of pairs that the policy tells apart better than the reference does."),
    # physics of motions, everywhere
    ("physics/skate", "m/s", "down", "Horizontal foot speed while in contact, mean over samples."),
    ("physics/jerk", "m/s^3", "none", "Third derivative of joint positions; neither far above nor below real motion."),
    (
        "physics/penetration",
        "m",
        "down",
        "How far the lowest joint is below the floor, frames within 5 mm counted as 0; mean over frames and samples.",
    ),
    (
        "physics/float",
        "m",
        "none",
        "How far the lowest joint is above the floor, frames within 5 mm counted as 0; mean over frames and samples.",
    ),
    # motionkit eval text-to-motion, in the space of the evaluator
    *EVALUATION,
    # motionkit eval mpl: motion predictors at a horizon; joints without the root unless it says otherwise
    ("mpl/geo_deg", "deg", "down", "Angle between predicted and true local rotation at the horizon, mean over joints."),
    ("mpl/teacher_geo_deg", "deg", "down", "mpl/geo_deg when that frame is predicted from the true frames before it."),
    (
        "mpl/free_teacher_ratio",
        "1",
        "down",
        "mpl/geo_deg divided by mpl/teacher_geo_deg: how far the error grows when the model runs on its own.",
    ),
    (
        "loss/freerun",
        "1",
        "down",
        "Motion predictor: the weighted losses of a free run, without its weight.",
    ),
    ("loss/one_shot", "1", "down", "Motion predictor: the weighted losses of all frames at once."),
    ("loss_group/core", "1", "none", "Share of the core losses in the total; the guide aims at 0.65."),
    ("loss_group/aux", "1", "none", "Share of the auxiliary losses in the total; the guide aims at 0.05."),
    ("loss_group/long", "1", "none", "Share of free runs and latent consistency in the total; the guide aims at 0.30."),
    (
        "adaptive_loss/<name>/weight",
        "1",
        "none",
        "Factor that an adaptive method gives a loss, on top of its weight.",
    ),
    ("teacher/share", "1", "none", "Share of frames that are predicted from the true frame before."),
    ("freerun/weight", "1", "none", "Weight of the loss of free runs."),
    ("freerun/horizon", "frames", "none", "Frames of a free run in training."),
    ("mpl/geo_deg/<ms>", "deg", "down", "mpl/geo_deg so many ms ahead, on the validation clips while training."),
    ("mpl/teacher_geo_deg/<ms>", "deg", "down", "mpl/teacher_geo_deg so many ms ahead, on the validation clips."),
    ("mpl/skill", "1", "up", "1 - mpl/geo_deg divided by that of the last pose held; 0 is no better than it."),
    (
        "mpl/input_rot_geo_deg",
        "deg",
        "down",
        "mpl/geo_deg with the root, mean over the predicted frames before the horizon, which are fed back.",
    ),
    ("mpl/yaw_abs_deg", "deg", "down", "Angle between predicted and true heading at the horizon."),
    (
        "mpl/root_vel_mae",
        "m/s",
        "down",
        "Absolute error of the root's horizontal velocity at the horizon, seen from its heading, mean of both axes.",
    ),
    (
        "mpl/mpjpe_mm",
        "mm",
        "down",
        "Distance of predicted to true joints at the horizon, root at the origin and unturned, mean over all joints.",
    ),
    (
        "mpl/key_bone/<limb>/geo_deg",
        "deg",
        "down",
        "mpl/geo_deg of a hip, knee, ankle, shoulder, elbow or wrist.",
    ),
    (
        "mpl/npss",
        "1",
        "down",
        "Distance of the power spectra of 6D rotations up to the horizon, weighted by power (Gopalakrishnan 2019).",
    ),
    (
        "mpl/long/movement/<s>",
        "1",
        "up",
        "Movement of a free run over the 2 s before, as a share of that of real clips of the same label.",
    ),
    (
        "mpl/long/npss/<s>",
        "1",
        "down",
        "mpl/npss of free runs of so many seconds, where the truth goes on for as long.",
    ),
    ("mpl/long/slide/<s>", "m/s", "down", "Speed of the lower foot along the ground, over the 2 s before."),
    ("mpl/long/speed/<s>", "m/s", "none", "Speed of the root along the ground, over the 2 s before."),
    ("mpl/long/height/<s>", "m", "none", "Height of the root, over the 2 s before."),
    (
        "mpl/long/path_mean/<s>",
        "m",
        "down",
        "Distance of the root to the timed point of a drawn path, mean until then.",
    ),
    ("mpl/long/path_end/<s>", "m", "down", "Distance of the root to the timed point of a drawn path, then."),
    ("mpl/long/heading/<s>", "deg", "down", "Angle between the heading and that of a drawn path, mean until then."),
    ("mpl/contact_f1", "1", "up", "F1 of foot contacts above 0.5, both feet, all frames up to the horizon."),
    ("mpl/contact_auroc", "1", "up", "Chance that a frame with contact scores above one without, up to the horizon."),
    (
        "mpl/skate",
        "m/s",
        "none",
        "Horizontal speed of the predicted foot where the true one stands, up to the horizon; best near the truth's.",
    ),
    (
        "mpl/jerk_ratio",
        "1",
        "none",
        "Jerk of the predicted joints up to the horizon, from the last known frames on, over the truth's; best at 1.",
    ),
    # motionkit pretrain mpl-encoder: probes on the validation clips, each beside what needs no motion
    # self-play of captions and masks
    (
        "regions/cycle_iou_greedy",
        "1",
        "up",
        "IoU of a region and the policy's own mask of its caption of it; the caption is of the likeliest words.",
    ),
    ("regions/judge_iou_greedy", "1", "up", "The same with the mask of the policy as it started, never trained."),
    ("regions/cycle_iou", "1", "up", "IoU of a region and the policy's own mask of a caption that it sampled of it."),
    ("regions/judge_iou", "1", "up", "The same with the mask of the policy as it started, which is never trained."),
    (
        "regions/unique_greedy",
        "1",
        "up",
        "Share of captions of which all is true of the object and not all of any other one; a wrong word is a failure.",
    ),
    ("regions/unique", "1", "up", "regions/unique_greedy, of sampled captions."),
    (
        "regions/attributes_right_greedy",
        "1",
        "none",
        "Share of attributes that captions name as they are. The data's captions do not name all of them.",
    ),
    ("regions/attributes_wrong_greedy", "1", "down", "Share of attributes that captions name otherwise."),
    ("regions/attributes_wrong", "1", "down", "regions/attributes_wrong_greedy, of sampled captions."),
    ("regions/attributes_left_out_greedy", "1", "none", "Share of attributes that captions do not name."),
    (
        "regions/over_specified_greedy",
        "1",
        "none",
        "Share of captions that would still fit the object alone without one of their attributes; see the data's.",
    ),
    ("regions/words_greedy", "1", "none", "Words of a caption."),
    ("regions/words", "1", "none", "regions/words_greedy, of sampled captions."),
    ("regions/meteor_greedy", "1", "up", "METEOR of a caption of a region to the data's."),
    ("regions/meteor", "1", "up", "regions/meteor_greedy, of sampled captions."),
    ("regions/cider_greedy", "1", "up", "CIDEr-D of a caption to the data's, 0 to 10: n-grams weighted by how rare."),
    ("regions/cider", "1", "up", "regions/cider_greedy, of sampled captions."),
    ("regions/referring_iou", "1", "up", "IoU of a region and the policy's mask of the data's caption of it."),
    ("regions/ciou", "1", "up", "Pixels in both masks over pixels in either, of all regions; data's captions."),
    ("regions/giou", "1", "up", "Mean IoU of the masks of the data's captions."),
    ("regions/precision_<percent>", "1", "up", "Share of regions with an IoU of at least that, data's captions."),
    ("regions/<attribute>_right_greedy", "1", "none", "Share of captions that name the attribute as it is."),
    ("regions/<attribute>_wrong_greedy", "1", "down", "Share of captions that name the attribute otherwise."),
    ("regions/<attribute>_left_out_greedy", "1", "none", "Share of captions that do not name the attribute."),
    ("regions/no_target", "1", "up", "Share of captions of absent objects of which the policy draws nothing."),
    ("supervised/loss", "1", "down", "Loss of the data's own captions and masks, before its weight."),
    ("rollout/temperature", "1", "none", "Temperature that captions are sampled with."),
    ("balance/<loop>", "1", "none", "Factor on the weight of a loop, from its gradient or its progress."),
    ("grad/cos_<loop>_<other>", "1", "none", "Cosine between the gradients of two loops; below 0 they conflict."),
    ("<loop>/loss", "1", "down", "What a loop of self-play adds to loss/total, before its weight."),
    ("<loop>/policy_loss", "1", "none", "Clipped surrogate of a loop; 0 on average with one step for each rollout."),
    ("<loop>/kl_div", "1", "none", "KL of a loop's actions to the policy as it started: of a word, or of a number."),
    ("<loop>/reward_mean", "1", "up", "Reward of a loop, mean over the step."),
    ("<loop>/reward_std", "1", "none", "Standard deviation of a loop's reward within a group, mean over the groups."),
    ("<loop>/reward/<name>", "1", "up", "One reward of a loop before weighting, mean over the step."),
    ("<loop>/zero_std_frac", "1", "none", "Share of groups whose rewards are all equal: nothing is learned of them."),
    ("<loop>/clip_frac", "1", "none", "Share of a loop's decisions whose ratio was clipped."),
    ("<loop>/entropy", "1", "none", "Entropy of the distributions that words were drawn from, nats."),
    ("<loop>/caption_len", "1", "none", "Words of a sampled caption."),
    ("<loop>/distinct", "1", "none", "Distinct sampled captions over all of the step; towards 0 the policy collapses."),
    ("<loop>/cut", "1", "none", "Share of sampled captions that did not end before the longest length."),
    ("<loop>/empty_mask_frac", "1", "none", "Share of masks of a loop that are empty."),
    # success classifiers
    ("classifier/auroc", "1", "up", "Chance that a frame of success scores above another, validation episodes."),
    ("classifier/average_precision", "1", "up", "Mean precision over the frames of success, validation episodes."),
    ("classifier/loss", "nats", "down", "Binary cross-entropy of calibrated probabilities, validation episodes."),
    ("classifier/precision", "1", "up", "Share of frames above the threshold that are successes, validation episodes."),
    ("classifier/recall", "1", "up", "Share of successes above the threshold, validation episodes."),
    ("classifier/ece", "1", "down", "Expected calibration error in 15 bins, validation episodes."),
    (
        "classifier/threshold",
        "1",
        "none",
        "Probability from which a frame is a success, by validation episodes.",
    ),
    ("classifier/temperature", "1", "none", "What logits are divided by, fitted to validation episodes."),
    (
        "encoder/skill",
        "1",
        "up",
        "Mean over phase, gait and pose of 1 - error / baseline's error; 0 is no better.",
    ),
    ("encoder/period_deg", "deg", "down", "Angle between said and true phase of a foot, where the truth is sure."),
    ("encoder/period_deg_constant", "deg", "none", "encoder/period_deg of one phase for all frames."),
    ("encoder/gait_accuracy", "1", "up", "Share of frames whose gait is right."),
    ("encoder/gait_accuracy_prior", "1", "none", "encoder/gait_accuracy of the most frequent gait."),
    ("encoder/gait_balanced", "1", "up", "Mean over the gaits of the share of their frames that are right."),
    ("encoder/gait_balanced_prior", "1", "none", "encoder/gait_balanced of the most frequent gait."),
    (
        "encoder/pose_deg",
        "deg",
        "down",
        "Angle of said to true local rotation train.ahead later, mean over joints.",
    ),
    ("encoder/pose_deg_hold", "deg", "none", "encoder/pose_deg of the pose held."),
    ("encoder/pose_deg_velocity", "deg", "none", "encoder/pose_deg of constant angular velocity."),
    *HELD_OUT,
    # supervised training
    ("loss/diffusion", "1", "down", "Masked mean squared error of predicted x0, normalised features."),
    ("loss/velocity", "1", "down", "Masked mean squared error of predicted frame-to-frame differences."),
    ("loss/recons", "1", "down", "Smooth L1 between decoded and true motions, normalised features."),
    ("loss/kl_latent", "nats", "down", "KL of the latents to the prior and between the text and motion encoders."),
    ("loss/latent", "1", "down", "Smooth L1 between text and motion latents."),
    ("loss/contrastive", "nats", "down", "InfoNCE over the batch, false negatives filtered."),
    ("loss/negatives", "nats", "down", "Softplus of what changed copies of a clip or caption score above their pair."),
    (
        "loss/hinge",
        "1",
        "down",
        "Evaluator: squared distance of true pairs, and of false ones what they lack to the margin.",
    ),
    ("loss/nce", "nats", "down", "Evaluator: InfoNCE of distances over the batch, equal captions left out."),
    ("loss/period", "1", "down", "Squares of the soft period's errors, weighed by its confidence."),
    ("loss/gait", "nats", "down", "Cross-entropy of the soft gait, rare gaits weighed up."),
    ("loss/pose", "1", "down", "Smooth L1 of the turns to the pose ahead, in deviations."),
    ("loss/<name>", "1", "down", "Another part of loss/total, named by its trainer."),
    ("val/loss", "1", "down", "The training loss on the validation split."),
    ("val/loss/<name>", "1", "down", "One part of the training loss on the validation split."),
    (
        "retrieval/<direction>/<name>",
        "1",
        "none",
        "Another retrieval figure; those that end in _chance are what guessing reaches.",
    ),
    ("time/step", "s", "down", "Wall-clock seconds of the step."),
    ("time/cpu", "s", "down", "CPU seconds of the step, all threads."),
    ("time/rollout", "s", "down", "Seconds of sampling."),
    ("time/reward", "s", "down", "Seconds of scoring."),
    ("time/update", "s", "down", "Seconds of forward, backward and optimiser."),
    ("data/epoch", "epochs", "none", "Passes over the training split so far."),
    ("tune/value", "1", "none", "What the trial of a search reached; its study.json says whether higher is better."),
    ("tune/best", "1", "none", "The best that a search has reached so far."),
)


def _retrieval() -> Iterator[Metric]:
    ways = {"t2m": ("Text to motion", "motion"), "m2t": ("Motion to text", "text")}
    sets = {
        "": "among all clips",
        "_same": "among all clips, captions that say the same count as right",
        "_32": "in batches of 32",
        "_32_short": "in batches of 32, motions cropped to the length of a segment",
    }
    for way, (title, truth) in ways.items():
        for tag, where in sets.items():
            for first in (1, 2, 3, 10):
                meaning = f"{title} retrieval {where}: true {truth} ranked in the first {first}."
                yield Metric(f"retrieval/{way}/r{first}{tag}", "%", "up", meaning)
            yield Metric(f"retrieval/{way}/medr{tag}", "rank", "down", f"{title} retrieval {where}: median rank.")


METRICS: dict[str, Metric] = {metric.name: metric for metric in (*(Metric(*row) for row in _TABLE), *_retrieval())}
"""All definitions by name, in the order of listings."""


@lru_cache
def _patterns() -> tuple[tuple[re.Pattern[str], Metric], ...]:
    found = [(metric.pattern, metric) for metric in METRICS.values() if "<" in metric.name]
    # Fewest free parts first: reward/<name>/mean before reward/<name>/<part>.
    return tuple(sorted(found, key=lambda item: item[1].name.count("<")))


def definition(name: str) -> Metric:
    """Return the definition of a logged name: motionkit's, or that of a plugin that was looked up in this process.

    Raises:
        KeyError: The name is not defined. Add it to the table of this module; a plugin names it in
            ``Component(metrics=...)``, or begins it with ``my/``.

    Example:
        >>> definition("reward/physics/mean").unit
        '1'
    """
    if name in METRICS:
        return METRICS[name]
    own = declared(name)
    if own is not None and own.name == name:
        return own
    found = next((metric for pattern, metric in _patterns() if pattern.fullmatch(name)), own)
    if found is not None:
        return found
    raise KeyError(f"metric {name!r} is not defined in motionkit.tracking")


def require_defined(names: Iterable[str]) -> None:
    """Refuse names that are not defined, before anything of them is written.

    Raises:
        MotionkitError: There is such a name (exit code 1); says how a plugin defines it.
    """
    for name in names:
        try:
            definition(name)
        except KeyError:
            raise MotionkitError(
                f"metric {name!r} is not defined.",
                why="each metric has a unit, a direction and a meaning; pages and verdicts use them.",
                fix=f"log it as '{FREE}{name}', or define it in the plugin: Component(metrics=(Metric({name!r}, "
                "unit='1', better='down', meaning='What it measures.'),))",
                code=1,
            ) from None
