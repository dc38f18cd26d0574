"""The folder in which datasets cache what takes seconds to compute."""

from motionkit.config import cache_folder

__all__ = ["cache_folder"]
