"""Settings of gymnasium's environments. Imports no gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from motionkit.config import Group


class GymnasiumSettings(Group):
    """Options of ``--env gymnasium``."""

    id: str = Field("", description="Id in gymnasium's registry; module:ID imports the module first.")
    kwargs: dict[str, Any] = Field({}, description="Keyword arguments of gymnasium.make, as JSON.")
    camera: str = Field(
        "render", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="Name of the camera that render() is."
    )
    image_keys: tuple[str, ...] = Field(
        (),
        description="Entries of the observation that are pictures, comma-separated, a/b in nested ones; none: what "
        "render() draws.",
    )
    size: int = Field(64, ge=8, le=4096, description="Height and width that pictures are resized to.")
    success_key: str = Field("auto", description="Entry of info that tells success; auto: success or is_success.")
    max_steps: int = Field(0, ge=0, le=1_000_000, description="Steps of an episode; 0: the environment's own limit.")

    def code(self) -> Mapping[str, str]:
        """A module in the id is imported; see `Group.code`."""
        return {"id": "a module in the id is imported."} if ":" in self.id else {}
