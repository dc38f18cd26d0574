"""Dataset `100style`: the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from motionkit.config import Group, Place
from motionkit.plugins import Component

Content = Literal["FW", "BW", "FR", "BR", "SW", "SR", "ID"]
CONTENTS: tuple[Content, ...] = get_args(Content)


class StyleOptions(Group):
    """Options of dataset `100style`; each becomes a flag, such as ``--dataset.root``."""

    root: Annotated[Path | None, Place()] = Field(
        None,
        description="Folder with Frame_Cuts.csv, Dataset_List.csv and the BVH files, in folders or not (required).",
    )
    styles: tuple[str, ...] = Field((), description="Styles to read, such as Zombie,Robot; none: all hundred.")
    contents: tuple[Content, ...] = Field(
        CONTENTS, min_length=1, description="Recordings to read: walks (FW, BW, SW), runs (FR, BR, SR), standing (ID)."
    )
    max_length: int = Field(196, ge=40, le=10_000, description="Frames of a clip at 20 fps; recordings are cut to it.")


component = Component(
    summary="100STYLE: walking, running and standing in a hundred styles, captions from their descriptions.",
    options=StyleOptions,
    factory="motionkit_dataset_100style.dataset:StyleDataset",
)

__all__ = ["CONTENTS", "Content", "StyleOptions", "component"]
