"""File formats: one folder for each, with a reader, a writer, or both; `read_clips` takes any file that is known."""

from motionkit.formats.table import read_clips

__all__ = ["read_clips"]
