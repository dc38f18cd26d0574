"""The built-in images for region captioning: coloured shapes with captions that may leave words out. Light half."""

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class ShapesOptions(Group):
    """How the captions are worded."""

    drop_size: float = Field(0.5, ge=0, le=1, description="Share of captions that leave the size out.")
    drop_colour: float = Field(0.3, ge=0, le=1, description="Share of captions that leave the colour out.")
    drop_place: float = Field(0.5, ge=0, le=1, description="Share of captions that leave the place out.")
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the scenes.")


component = Component(
    summary="Drawn scenes of coloured shapes, with a mask and a caption of one of them; endless, needs no download",
    options=ShapesOptions,
    factory="motionkit.datasets.shapes._dataset:Shapes",
    gives="regions",
)

__all__ = ["ShapesOptions", "component"]
