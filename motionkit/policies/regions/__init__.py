"""The built-in region policy: captions of regions and masks of captions. Light half, imports no torch."""

from __future__ import annotations

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class RegionOptions(Group):
    """Where the policy comes from."""

    checkpoint: str = Field(
        "starter", min_length=1, description="starter, or a run, checkpoint or folder of such a policy."
    )
    resize: bool = Field(
        False, description="Squeeze every image to the few pixels that the policy sees; else other sizes are refused."
    )


component = Component(
    "Small region policy with the parts of Sa2VA, for the built-in shapes; runs on a CPU",
    RegionOptions,
    "motionkit.policies.regions._store:open_regions",
    gives="regions",
)
