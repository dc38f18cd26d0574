"""Metrics of success classifiers, and of actors in an environment."""

from __future__ import annotations

from motionkit.plugins import Metric

METRICS = (
    # an actor in an environment, and the mining of its episodes
    Metric(
        "success/true",
        "1",
        "up",
        "Share of the newest episodes in which the environment saw success after some step.",
        label="true success",
    ),
    Metric(
        "success/predicted",
        "1",
        "none",
        "Share of the newest episodes in which the reward saw success.",
        label="predicted success",
    ),
    Metric(
        "success/sampled",
        "1",
        "up",
        "Share of episodes with a true success if actions are drawn, as in training, in place of the most probable.",
        label="true success, actions drawn",
    ),
    Metric(
        "success/gap", "1", "none", "Predicted minus true success; far from 0 the reward is pleased without the task."
    ),
    Metric(
        "success/watched", "1", "up", "True success of deterministic episodes from starts that training does not use."
    ),
    Metric(
        "success/watched_predicted", "1", "none", "Share of these in which the reward saw success; chooses the policy."
    ),
    Metric("success/episodes", "1", "none", "Episodes begun."),
    Metric(
        "episodes/<class>", "1", "up", "Episodes of a class kept so far: positive with a success, negative without."
    ),
    Metric("mining/frames", "1", "none", "Frames of the policy's own episodes with the environment's labels, so far."),
    Metric("mining/positives", "1", "up", "Those of them that are successes."),
    Metric("mining/precision", "1", "up", "Of this stretch's frames that paid the policy, how many are successes."),
    Metric("mining/recall", "1", "up", "Of this stretch's successes, how many paid the policy."),
    Metric("mining/average_precision", "1", "up", "Mean precision after the round, validation episodes of both kinds."),
    Metric("mining/threshold", "1", "none", "Probability from which a frame is a success, after the round."),
    Metric("ppo/environment_steps", "1", "none", "Steps of all copies of the environment so far."),
    Metric("ppo/negative_entropy", "nats", "none", "Minus the entropy of the policy, mean over the rollout."),
    Metric("ppo/kl_nats", "nats", "none", "KL from the policy of the rollout to the updated one, k3 estimate."),
    Metric("ppo/explained_variance", "1", "up", "Share of the returns' variance that the critic explains."),
    Metric("loss/value", "1", "down", "Squared error of the critic."),
    # success classifiers
    Metric(
        "classifier/auroc",
        "1",
        "up",
        "Chance that a frame of success scores above another, validation episodes.",
        label="AUROC",
        digits=4,
    ),
    Metric(
        "classifier/average_precision",
        "1",
        "up",
        "Mean precision over the frames of success, validation episodes.",
        label="average precision",
        digits=4,
    ),
    Metric("classifier/loss", "nats", "down", "Binary cross-entropy of calibrated probabilities, validation episodes."),
    Metric(
        "classifier/precision",
        "1",
        "up",
        "Share of frames above the threshold that are successes, validation episodes.",
        digits=4,
    ),
    Metric("classifier/recall", "1", "up", "Share of successes above the threshold, validation episodes.", digits=4),
    Metric("classifier/accuracy", "1", "up", "Share of frames on the right side of the threshold.", digits=4),
    Metric(
        "classifier/majority_accuracy",
        "1",
        "none",
        "classifier/accuracy of always saying the more frequent label.",
        label="majority accuracy",
        digits=4,
    ),
    Metric(
        "classifier/ece",
        "1",
        "down",
        "Expected calibration error in 15 bins, validation episodes.",
        label="calibration error",
        digits=4,
    ),
    Metric("classifier/threshold", "1", "none", "Probability from which a frame is a success, by validation episodes."),
    Metric("classifier/temperature", "1", "none", "What logits are divided by, fitted to validation episodes."),
)
