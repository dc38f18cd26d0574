"""File formats: one folder for each, with a reader, a writer, or both; `read_clips` takes any file that is known."""

__all__ = []
