"""File formats: one folder for each, with a reader, a writer, or both; `read_clips` takes any file that is known."""

from motionkit.formats._table import FORMATS, Format, read_clips, recognise

__all__ = ["FORMATS", "Format", "read_clips", "recognise"]
