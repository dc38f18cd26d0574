"""Skeletons, HumanML3D and KIT features, readers and writers."""

from motionkit.motion._batch import MotionBatch
from motionkit.motion._captions import Caption, caption_lines, clean_caption, read_captions
from motionkit.motion._crop import crop_range
from motionkit.motion._extract import facing, foot_contacts, joints_to_features
from motionkit.motion._files import read_features
from motionkit.motion._layout import FeatureLayout, check_width, feature_layout, feature_width
from motionkit.motion._mirror import mirror, mirror_features, mirror_text
from motionkit.motion._recover import features_to_joints, features_to_joints_rot, root_trajectory
from motionkit.motion._retarget import canonicalise, retarget
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.motion._stats import Normalizer, feature_stats
from motionkit.motion._tagger import tag_caption, tag_words

__all__ = [
    "HUMANML",
    "KIT",
    "Caption",
    "FeatureLayout",
    "MotionBatch",
    "Normalizer",
    "Skeleton",
    "canonicalise",
    "caption_lines",
    "check_width",
    "clean_caption",
    "crop_range",
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
    "read_captions",
    "read_features",
    "retarget",
    "root_trajectory",
    "tag_caption",
    "tag_words",
]
