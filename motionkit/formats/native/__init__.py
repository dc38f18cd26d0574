"""motionkit's own .npz: a motion with all that is known about it, without pickle."""

from motionkit.formats.native._read import read_native
from motionkit.formats.native._write import SCHEMA, VERSION, write_native

__all__ = ["SCHEMA", "VERSION", "read_native", "write_native"]
