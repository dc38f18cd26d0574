"""HumanML3D and KIT features: from joints, back to joints, mirrored, normalised."""

from motionkit.motion.features._after import frame_after, with_frame_after
from motionkit.motion.features._extract import joints_to_features
from motionkit.motion.features._facing import facing
from motionkit.motion.features._files import read_features
from motionkit.motion.features._layout import FeatureLayout, check_width, feature_layout, feature_width
from motionkit.motion.features._mirror import mirror, mirror_features, mirror_text
from motionkit.motion.features._recover import features_to_joints, root_trajectory
from motionkit.motion.features._retarget import canonicalise, retarget
from motionkit.motion.features._stats import Normalizer, feature_stats

__all__ = [
    "FeatureLayout",
    "Normalizer",
    "canonicalise",
    "check_width",
    "facing",
    "feature_layout",
    "feature_stats",
    "feature_width",
    "features_to_joints",
    "frame_after",
    "joints_to_features",
    "mirror",
    "mirror_features",
    "mirror_text",
    "read_features",
    "retarget",
    "root_trajectory",
    "with_frame_after",
]
