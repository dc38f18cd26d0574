"""The built-in images for region captioning: coloured shapes with captions that may leave words out. Light half."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class ShapesOptions(Group):
    """Which scenes are drawn, and how captions are worded."""

    scenes: Literal["words", "simple"] = Field(
        "simple",
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
        own = {"words": ("images", "captioned", "lapse", "extra"), "simple": ("drop_size", "drop_colour", "drop_place")}
        why = f"the scenes are {self.scenes}"
        return {name: why for kind, names in own.items() if kind != self.scenes for name in names}


component = Component(
    summary="Drawn scenes of coloured shapes, with a mask and a caption of one of them; endless, needs no download",
    options=ShapesOptions,
    factory="motionkit.datasets.shapes._dataset:Shapes",
    gives="regions",
)
