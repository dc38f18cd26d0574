"""The losses of the motion predictor; docs/predictor.md lists them."""

from motionkit.trainers.train_mpl.losses._frames import Frames, Skeleton, frame_weights
from motionkit.trainers.train_mpl.losses._joint import JointLoss, group_shares, share_warnings
from motionkit.trainers.train_mpl.losses._motion import latent_consistency
from motionkit.trainers.train_mpl.losses._rotations import angle

__all__ = [
    "Frames",
    "JointLoss",
    "Skeleton",
    "angle",
    "frame_weights",
    "group_shares",
    "latent_consistency",
    "share_warnings",
]
