"""Opens the formats by their options."""

from __future__ import annotations

from motionkit.datasets.regions import CocoOptions, FinetuneOptions, GraspOptions, JsonlOptions
from motionkit.datasets.regions._coco import Coco
from motionkit.datasets.regions._dataset import RegionFiles
from motionkit.datasets.regions._finetune import Finetune
from motionkit.datasets.regions._grasp import Grasp
from motionkit.datasets.regions._hub import find_folder
from motionkit.datasets.regions._lines import Lines
from motionkit.datasets.regions._places import given, one_file


def open_grasp(options: GraspOptions) -> RegionFiles:
    """Open Grasp-Any-Region.

    Raises:
        MotionkitError: As for `RegionFiles`; there are no such folders.
    """
    folder, commit = find_folder(options.path, options.revision, options.subset)
    return RegionFiles("grasp-any-region", Grasp(folder, options.subset, commit), options)


def open_coco(options: CocoOptions) -> RegionFiles:
    """Open referring expressions on COCO images.

    Raises:
        MotionkitError: As for `RegionFiles`; a file is missing or no such file.
    """
    path = given(options.path, "coco-refexp", "a folder with instances.json and refs.json")
    return RegionFiles("coco-refexp", Coco(path, options.refs, options.images), options)


def open_finetune(options: FinetuneOptions) -> RegionFiles:
    """Open Sa2VA's finetune file.

    Raises:
        MotionkitError: As for `RegionFiles`; the file is missing or no such file.
    """
    path = given(options.path, "sa2va-finetune", "annotations.json or its folder")
    file = one_file(path, ("annotations.json", "*.json"), "annotations.json")
    return RegionFiles("sa2va-finetune", Finetune(file, options.images), options)


def open_jsonl(options: JsonlOptions) -> RegionFiles:
    """Open a file with a region a line.

    Raises:
        MotionkitError: As for `RegionFiles`; the file is missing or no such file.
    """
    path = given(options.path, "regions-jsonl", "a .jsonl file, or its folder")
    return RegionFiles("regions-jsonl", Lines(one_file(path, ("regions.jsonl", "*.jsonl"), ".jsonl file")), options)
