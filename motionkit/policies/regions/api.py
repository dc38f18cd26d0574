"""The heavy half of the built-in region policy."""

from motionkit.policies.regions._policy import SeenImages, ShapesPolicy
from motionkit.policies.regions._store import ARTIFACT, STARTER, open_regions, save_regions

__all__ = ["ARTIFACT", "STARTER", "SeenImages", "ShapesPolicy", "open_regions", "save_regions"]
