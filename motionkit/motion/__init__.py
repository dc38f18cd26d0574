"""Skeletons, motions, clips, HumanML3D and KIT features, captions."""

from motionkit.motion._batch import MotionBatch
from motionkit.motion._clip import Clip, ClipSource, ReadOptions
from motionkit.motion._data_record import DataRecord
from motionkit.motion._joint_map import read_joint_map
from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.motion.corpus._caption_table import CaptionRow, CaptionTable, read_caption_table
from motionkit.motion.corpus._captions import Caption, caption_lines, clean_caption, read_captions
from motionkit.motion.corpus._ids import assign_splits, original, plain_id
from motionkit.motion.corpus._real_actions import (
    CaptionedClip,
    HasActions,
    RealAction,
    RealActions,
    Segments,
    segments_of,
)
from motionkit.motion.corpus._tagger import evaluator_words, tag_caption, tag_words, tagger_name
from motionkit.motion.features._extract import joints_to_features
from motionkit.motion.features._layout import FeatureLayout, check_width, feature_layout, feature_width, read_features
from motionkit.motion.features._mirror import mirror, mirror_features, resize_features
from motionkit.motion.features._recover import features_to_joints, root_trajectory, with_frame_after
from motionkit.motion.features._retarget import canonicalise, retarget
from motionkit.motion.features._stats import Normalizer, feature_stats
from motionkit.text import mirror_text

__all__ = [
    "HUMANML",
    "KIT",
    "Caption",
    "CaptionRow",
    "CaptionTable",
    "CaptionedClip",
    "Clip",
    "ClipSource",
    "DataRecord",
    "FeatureLayout",
    "HasActions",
    "JointMotion",
    "Motion",
    "MotionBatch",
    "Normalizer",
    "ReadOptions",
    "RealAction",
    "RealActions",
    "Segments",
    "Skeleton",
    "assign_splits",
    "canonicalise",
    "caption_lines",
    "check_width",
    "clean_caption",
    "evaluator_words",
    "feature_layout",
    "feature_stats",
    "feature_width",
    "features_to_joints",
    "joints_to_features",
    "mirror",
    "mirror_features",
    "mirror_text",
    "original",
    "plain_id",
    "read_caption_table",
    "read_captions",
    "read_features",
    "read_joint_map",
    "resize_features",
    "retarget",
    "root_trajectory",
    "segments_of",
    "tag_caption",
    "tag_words",
    "tagger_name",
    "with_frame_after",
]
