"""Skeletons, HumanML3D and KIT features, readers and writers."""

from motionkit.motion._batch import MotionBatch
from motionkit.motion._extract import facing, foot_contacts, joints_to_features
from motionkit.motion._layout import FeatureLayout, check_width, feature_layout, feature_width
from motionkit.motion._mirror import mirror, mirror_features, mirror_text
from motionkit.motion._recover import features_to_joints, features_to_joints_rot, root_trajectory
from motionkit.motion._retarget import canonicalise, retarget
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.motion._stats import Normalizer, feature_stats

__all__ = [
    "HUMANML",
    "KIT",
    "FeatureLayout",
    "MotionBatch",
    "Normalizer",
    "Skeleton",
    "canonicalise",
    "check_width",
    "facing",
    "feature_layout",
    "feature_stats",
    "feature_width",
    "features_to_joints",
    "features_to_joints_rot",
    "foot_contacts",
    "joints_to_features",
    "mirror",
    "mirror_features",
    "mirror_text",
    "retarget",
    "root_trajectory",
]
