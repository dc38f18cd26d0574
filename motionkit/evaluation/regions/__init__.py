"""Region policies, measured: captions of regions, masks of captions, and both loops closed."""

from motionkit.evaluation.regions._absent import absent_captions
from motionkit.evaluation.regions._figures import FIGURES, THRESHOLDS, summarise
from motionkit.evaluation.regions._gallery import GALLERY, INDEX, write_gallery
from motionkit.evaluation.regions._measure import NAMES, RegionFigures, as_it_is, change_of, measure
from motionkit.evaluation.regions._models import RegionModels, open_region_data, open_region_models
from motionkit.evaluation.regions._result import explained, tables, verdict
from motionkit.evaluation.regions._split import SplitFigures, measure_split
from motionkit.evaluation.regions._task import Task, Weights, iou_of, masks_at, open_task, overlap

__all__ = [
    "FIGURES",
    "GALLERY",
    "INDEX",
    "NAMES",
    "THRESHOLDS",
    "RegionFigures",
    "RegionModels",
    "SplitFigures",
    "Task",
    "Weights",
    "absent_captions",
    "as_it_is",
    "change_of",
    "explained",
    "iou_of",
    "masks_at",
    "measure",
    "measure_split",
    "open_region_data",
    "open_region_models",
    "open_task",
    "overlap",
    "summarise",
    "tables",
    "verdict",
    "write_gallery",
]
