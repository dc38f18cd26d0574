"""Images with regions as plugins, with their options: files in four formats, and drawn shapes. Light half."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class RegionReading(Group):
    """Where the data are, how images are read, which regions are held out, and how much may be left out."""

    path: Path | None = Field(None, description="File or folder (required).")
    split: Literal["auto", "hash"] = Field(
        "auto",
        description="auto: the data's own splits if they name all three, else as hash; hash: by the bytes of each "
        "image, so that no image is in two splits.",
    )
    held_out: float = Field(0.05, gt=0, le=0.4, description="Share of the images in val, and in test, if hash splits.")
    bad_share: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="Share of unusable regions up to which the others are used; above it nothing starts.",
    )
    verify: bool = Field(
        True, description="Decode every image once, before the first run; otherwise only its header is read."
    )
    max_side: int = Field(
        1024, ge=0, le=65_536, description="Pixels of the longer side that larger images are scaled down to; 0: never."
    )
    max_pixels: int = Field(
        64_000_000, ge=1, le=1_000_000_000, description="Pixels of the largest image that is opened."
    )


class GraspOptions(RegionReading):
    """Where the folders of Grasp-Any-Region are, and which of them are used."""

    path: Path | None = Field(
        None, description="Folder, or hub id such as HaochenWang/Grasp-Any-Region-Dataset (required)."
    )
    subset: str = Field(
        "", description="Folders to use, such as fine-grained,seed: the first letters of their names; default: all."
    )
    revision: str = Field("", description="Commit, tag or branch of the hub id; run.json records the commit.")
    verify: bool = Field(
        False, description="Decode every image once, before the first run; otherwise only its header is read."
    )


class CocoOptions(RegionReading):
    """Where instances, referring expressions and images are."""

    path: Path | None = Field(
        None, description="Folder with instances.json and refs.json, or one JSON file (required)."
    )
    refs: str = Field("", description="Part of the name of the refs file, such as unc, if there are several.")
    images: Path | None = Field(None, description="Folder of the images; default: images or train2014 beside the JSON.")


class FinetuneOptions(RegionReading):
    """Where Sa2VA's finetune file and its images are."""

    path: Path | None = Field(None, description="annotations.json, or its folder (required).")
    images: Path | None = Field(None, description="Folder of the images; default: images beside the JSON.")


class JsonlOptions(RegionReading):
    """Where the lines of regions are."""

    path: Path | None = Field(None, description="A .jsonl file, or a folder with one (required).")


grasp = Component(
    summary="Grasp-Any-Region: arrow folders, or its hub id (extra sa2va)", options=GraspOptions,
    factory="motionkit_regions.datasets.dataset:open_grasp", needs=("pyarrow",), extra="motionkit-regions[sa2va]",
    gives="regions",
)  # fmt: skip
coco = Component(
    summary="Referring expressions on COCO images: RefCOCO, RefCOCO+, RefCOCOg and files like them",
    options=CocoOptions, factory="motionkit_regions.datasets.dataset:open_coco", gives="regions",
)  # fmt: skip
finetune = Component(
    summary="Sa2VA's finetune file: images with polygons and texts", options=FinetuneOptions,
    factory="motionkit_regions.datasets.dataset:open_finetune", gives="regions",
)  # fmt: skip
jsonl = Component(
    summary="Your own regions: a line of JSON each, with image, mask and caption", options=JsonlOptions,
    factory="motionkit_regions.datasets.dataset:open_jsonl", gives="regions",
)  # fmt: skip


class ShapesOptions(Group):
    """Which scenes are drawn, and how captions are worded."""

    scenes: Literal["words", "simple"] = Field(
        "words",
        description="words: objects that look alike, captions of what tells them apart, on a part of the images; "
        "simple: a caption on every image, with some of size, colour and place.",
    )
    images: int = Field(80_000, ge=1, lt=2**31, description="words: images to train on.")
    captioned: float = Field(0.08, ge=0, le=1, description="words: share of the training images with a caption.")
    lapse: float = Field(0.1, ge=0, le=1, description="words: share of captions that lack a word.")
    extra: float = Field(0.1, ge=0, le=1, description="words: share of captions with a word that is not needed.")
    drop_size: float = Field(0.5, ge=0, le=1, description="simple: share of captions that leave the size out.")
    drop_colour: float = Field(0.3, ge=0, le=1, description="simple: share of captions that leave the colour out.")
    drop_place: float = Field(0.5, ge=0, le=1, description="simple: share of captions that leave the place out.")
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the scenes.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        options = {
            "words": ("images", "captioned", "lapse", "extra"),
            "simple": ("drop_size", "drop_colour", "drop_place"),
        }
        why = f"the scenes are {self.scenes}"
        return {name: why for kind, names in options.items() if kind != self.scenes for name in names}


shapes = Component(
    summary="Drawn scenes of coloured shapes, with a mask and a caption of one of them; endless, needs no download",
    options=ShapesOptions, factory="motionkit_regions.datasets.scenes:Shapes", gives="regions",
    later={"scenes": "simple", **ShapesOptions().model_dump(include={"images", "captioned", "lapse", "extra"})},
)  # fmt: skip
