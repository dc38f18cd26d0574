"""Region policies, measured: captions of regions, masks of captions, both loops closed, and what captions say."""

from motionkit.evaluation.regions._absent import absent_captions
from motionkit.evaluation.regions._entropy import equal_entropy, word_entropy
from motionkit.evaluation.regions._figures import (
    CAPTIONS,
    FIGURES,
    GREEDY,
    SAMPLED,
    THRESHOLDS,
    of_data,
    summarise,
)
from motionkit.evaluation.regions._gallery import GALLERY, INDEX, write_gallery
from motionkit.evaluation.regions._known import Known, limits_of, look_up
from motionkit.evaluation.regions._measure import RegionFigures, as_it_is, change_of, measure
from motionkit.evaluation.regions._models import RegionModels, open_region_data, open_region_models
from motionkit.evaluation.regions._result import (
    LONGER,
    attribute_table,
    describe_sampled,
    explained,
    sampled_table,
    side_effects,
    tables,
    verdict,
)
from motionkit.evaluation.regions._split import EqualEntropy, SplitFigures, measure_equal_entropy, measure_split
from motionkit.evaluation.regions._task import Task, Weights, iou_of, masks_at, open_task, overlap
from motionkit.evaluation.regions._truth import TRUTH, Truth, open_truth

__all__ = [
    "CAPTIONS",
    "FIGURES",
    "GALLERY",
    "GREEDY",
    "INDEX",
    "LONGER",
    "SAMPLED",
    "THRESHOLDS",
    "TRUTH",
    "EqualEntropy",
    "Known",
    "RegionFigures",
    "RegionModels",
    "SplitFigures",
    "Task",
    "Truth",
    "Weights",
    "absent_captions",
    "as_it_is",
    "attribute_table",
    "change_of",
    "describe_sampled",
    "equal_entropy",
    "explained",
    "iou_of",
    "limits_of",
    "look_up",
    "masks_at",
    "measure",
    "measure_equal_entropy",
    "measure_split",
    "of_data",
    "open_region_data",
    "open_region_models",
    "open_task",
    "open_truth",
    "overlap",
    "sampled_table",
    "side_effects",
    "summarise",
    "tables",
    "verdict",
    "word_entropy",
    "write_gallery",
]
