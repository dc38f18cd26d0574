"""Metrics of the motion predictor and its encoder."""

from __future__ import annotations

from dataclasses import replace

from motionkit.plugins import Metric

_ALL = (
    # motionkit eval mpl: motion predictors at a horizon; joints without the root unless it says otherwise
    Metric(
        "mpl/geo_deg",
        "deg",
        "down",
        "Angle between predicted and true local rotation at the horizon, mean over joints.",
        label="GeoDeg",
        digits=2,
    ),
    Metric(
        "mpl/teacher_geo_deg", "deg", "down", "mpl/geo_deg when that frame is predicted from the true frames before it."
    ),
    Metric(
        "mpl/free_teacher_ratio",
        "1",
        "down",
        "mpl/geo_deg divided by mpl/teacher_geo_deg: how far the error grows when the model runs on its own.",
        label="free/teacher",
        digits=2,
    ),
    Metric("loss/freerun", "1", "down", "Motion predictor: the weighted losses of a free run, without its weight."),
    Metric("loss/one_shot", "1", "down", "Motion predictor: the weighted losses of all frames at once."),
    Metric("loss_group/core", "1", "none", "Share of the core losses in the total; the guide aims at 0.65."),
    Metric("loss_group/aux", "1", "none", "Share of the auxiliary losses in the total; the guide aims at 0.05."),
    Metric(
        "loss_group/long",
        "1",
        "none",
        "Share of free runs and latent consistency in the total; the guide aims at 0.30.",
    ),
    Metric(
        "adaptive_loss/<name>/weight", "1", "none", "Factor that an adaptive method gives a loss, on top of its weight."
    ),
    Metric("teacher/share", "1", "none", "Share of frames that are predicted from the true frame before."),
    Metric("freerun/weight", "1", "none", "Weight of the loss of free runs."),
    Metric("freerun/horizon", "frames", "none", "Frames of a free run in training."),
    Metric(
        "mpl/geo_deg/<ms>",
        "deg",
        "down",
        "mpl/geo_deg so many ms ahead, on the validation clips while training.",
        label="GeoDeg at <ms> ms",
    ),
    Metric("mpl/teacher_geo_deg/<ms>", "deg", "down", "mpl/teacher_geo_deg so many ms ahead, on the validation clips."),
    Metric(
        "mpl/skill",
        "1",
        "up",
        "1 - mpl/geo_deg divided by that of the last pose held, at least 0.5 degrees; 0 is no better than it.",
        digits=2,
        offset=True,
    ),
    Metric(
        "mpl/input_rot_geo_deg",
        "deg",
        "down",
        "mpl/geo_deg with the root, mean over the predicted frames before the horizon, which are fed back.",
        label="input",
        digits=2,
    ),
    Metric(
        "mpl/yaw_abs_deg",
        "deg",
        "down",
        "Angle between predicted and true heading at the horizon.",
        label="yaw",
        digits=1,
    ),
    Metric(
        "mpl/root_vel_mae",
        "m/s",
        "down",
        "Absolute error of the root's horizontal velocity at the horizon, seen from its heading, mean of both axes.",
        label="root",
        digits=3,
    ),
    Metric(
        "mpl/mpjpe_mm",
        "mm",
        "down",
        "Distance of predicted to true joints at the horizon, root at the origin and unturned, mean over all joints.",
        label="MPJPE",
        digits=1,
    ),
    Metric(
        "mpl/key_bone/<limb>/geo_deg", "deg", "down", "mpl/geo_deg of a hip, knee, ankle, shoulder, elbow or wrist."
    ),
    Metric(
        "mpl/npss",
        "1",
        "down",
        "Distance of the power spectra of 6D rotations up to the horizon, weighted by power (Gopalakrishnan 2019).",
        label="NPSS",
        digits=3,
    ),
    Metric(
        "mpl/long/movement/<s>",
        "1",
        "up",
        "Movement of a free run over the 2 s before, as a share of that of reference clips of the same label.",
        label="movement",
        digits=2,
    ),
    Metric(
        "mpl/long/npss/<s>",
        "1",
        "down",
        "mpl/npss of free runs of so many seconds, where the truth goes on for as long.",
        label="NPSS",
        digits=3,
    ),
    Metric(
        "mpl/long/slide/<s>",
        "m/s",
        "down",
        "Speed of the lower foot along the ground, over the 2 s before.",
        label="slide",
        digits=2,
    ),
    Metric(
        "mpl/long/speed/<s>",
        "m/s",
        "none",
        "Speed of the root along the ground, over the 2 s before.",
        label="root",
        digits=2,
    ),
    Metric("mpl/long/height/<s>", "m", "none", "Height of the root, over the 2 s before.", label="height", digits=2),
    Metric(
        "mpl/long/path_mean/<s>",
        "m",
        "down",
        "Distance of the root to the timed point of a drawn path, mean until then.",
        label="off path",
        digits=2,
    ),
    Metric(
        "mpl/long/path_end/<s>",
        "m",
        "down",
        "Distance of the root to the timed point of a drawn path, then.",
        label="at the end",
        digits=2,
    ),
    Metric(
        "mpl/long/heading/<s>",
        "deg",
        "down",
        "Angle between the heading and that of a drawn path, mean until then.",
        label="heading",
        digits=0,
    ),
    Metric(
        "mpl/contact_f1",
        "1",
        "up",
        "F1 of foot contacts above 0.5, both feet, all frames up to the horizon.",
        label="contact F1",
        digits=3,
    ),
    Metric(
        "mpl/contact_auroc",
        "1",
        "up",
        "Chance that a frame with contact scores above one without, up to the horizon.",
        label="AUROC",
        digits=3,
    ),
    Metric(
        "mpl/skate",
        "m/s",
        "none",
        "Horizontal speed of the predicted foot where the true one stands, up to the horizon; best near the truth's.",
        digits=3,
    ),
    Metric(
        "mpl/jerk_ratio",
        "1",
        "none",
        "Jerk of the predicted joints up to the horizon, from the last known frames on, over the truth's; best at 1.",
        label="jerk x",
        digits=2,
    ),
    # motionkit pretrain mpl-encoder: its losses
    Metric("loss/period", "1", "down", "Squares of the soft period's errors, weighed by its confidence."),
    Metric("loss/gait", "nats", "down", "Cross-entropy of the soft gait, rare gaits weighed up."),
    Metric("loss/pose", "1", "down", "Smooth L1 of the turns to the pose ahead, in deviations."),
    # motionkit pretrain mpl-encoder: probes on the validation clips, each beside what needs no motion
    Metric(
        "encoder/skill",
        "1",
        "up",
        "Mean over phase, gait and pose of 1 - error / baseline's error; 0 is no better.",
        label="skill over the baselines",
    ),
    Metric(
        "encoder/period_deg",
        "deg",
        "down",
        "Angle between said and true phase of a foot, where the truth is sure.",
        label="phase error",
    ),
    Metric("encoder/period_deg_constant", "deg", "none", "encoder/period_deg of one phase for all frames."),
    Metric("encoder/gait_accuracy", "1", "up", "Share of frames whose gait is right.", label="gait accuracy"),
    Metric("encoder/gait_accuracy_prior", "1", "none", "encoder/gait_accuracy of the most frequent gait."),
    Metric(
        "encoder/gait_balanced",
        "1",
        "up",
        "Mean over the gaits of the share of their frames that are right.",
        label="balanced gait accuracy",
    ),
    Metric("encoder/gait_balanced_prior", "1", "none", "encoder/gait_balanced of the most frequent gait."),
    Metric(
        "encoder/pose_deg",
        "deg",
        "down",
        "Angle of said to true local rotation train.ahead later, mean over joints.",
        label="error of the pose ahead",
    ),
    Metric("encoder/pose_deg_hold", "deg", "none", "encoder/pose_deg of the pose held."),
    Metric("encoder/pose_deg_velocity", "deg", "none", "encoder/pose_deg of constant angular velocity."),
)

METRICS = tuple(replace(metric, short=metric.name.startswith("mpl/")) for metric in _ALL)
