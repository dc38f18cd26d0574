"""Folders in HumanML3D's layout: HumanML3D, KIT-ML, and folders written by `motionkit convert --to humanml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Cli, Group, Place
from motionkit.plugins import Component


class HumanMLOptions(Group):
    """Options of a folder in HumanML3D's layout."""

    root: Annotated[Path | None, Place()] = Field(
        None, description="Folder with new_joint_vecs/, texts/, train.txt, Mean.npy and Std.npy (required)."
    )
    max_length: int = Field(196, ge=40, le=100_000, description="Longest motion in frames; longer ones are cropped.")
    min_length: int = Field(40, ge=4, description="Clips and sub-clips with fewer frames are left out.")
    drop_length: int = Field(200, ge=5, description="Clips with this many frames or more are left out, as peers do.")
    fps: float = Field(20.0, gt=0, le=1000, description="Frames per second of the features.")
    random_crop: Annotated[bool, Cli("--random-crop")] = Field(
        True, description="Crop training motions at random rather than at their start."
    )
    stats: Annotated[Path | None, Place()] = Field(
        None, description="Folder with Mean.npy and Std.npy, when it is not root."
    )
    broken: Literal["refuse", "skip"] = Field(
        "refuse",
        description="Clips that are missing, unreadable or not finite: stop, or leave them out with a warning.",
    )


class KitOptions(HumanMLOptions):
    """`HumanMLOptions` with KIT-ML's defaults: 251 features at 12.5 fps, clips from 24 frames."""

    min_length: int = Field(24, ge=4, description="Clips and sub-clips with fewer frames are left out.")
    fps: float = Field(12.5, gt=0, le=1000, description="Frames per second of the features.")


humanml = Component(
    summary="HumanML3D, or any folder in its layout (22 joints, 263 features, 20 fps)",
    options=HumanMLOptions,
    factory="motionkit.text_to_motion.data.folder:open_humanml",
)

kit = Component(
    summary="KIT-ML (21 joints, 251 features, 12.5 fps)",
    options=KitOptions,
    factory="motionkit.text_to_motion.data.folder:open_kit",
)
