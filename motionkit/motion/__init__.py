"""Skeletons, motions, clips, HumanML3D and KIT features, captions."""

from motionkit.motion._data_record import DataRecord
from motionkit.motion.clip import Clip, ReadOptions, read_joint_map
from motionkit.motion.corpus.captions import Caption, CaptionTable, read_caption_table, read_captions
from motionkit.motion.corpus.ids import original, plain_id
from motionkit.motion.corpus.real_actions import RealActions, segments_of
from motionkit.motion.corpus.tagger import evaluator_words, tag_caption
from motionkit.motion.features.extract import joints_to_features
from motionkit.motion.features.layout import (
    Normalizer,
    feature_layout,
    feature_stats,
    feature_width,
    mirror,
    mirror_features,
    read_features,
    resize_features,
)
from motionkit.motion.features.recover import MotionBatch, features_to_joints, with_frame_after
from motionkit.motion.motion import JointMotion, Motion
from motionkit.motion.representation import Representation
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.text import mirror_text

__all__ = [
    "HUMANML",
    "KIT",
    "Caption",
    "CaptionTable",
    "Clip",
    "DataRecord",
    "JointMotion",
    "Motion",
    "MotionBatch",
    "Normalizer",
    "ReadOptions",
    "RealActions",
    "Representation",
    "Skeleton",
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
    "segments_of",
    "tag_caption",
    "with_frame_after",
]
