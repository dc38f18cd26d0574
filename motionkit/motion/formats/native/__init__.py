"""motionkit's own .npz: a motion with all that is known about it, without pickle."""

from motionkit.motion.formats.native._layout import SCHEMA, VERSION
from motionkit.motion.formats.native._read import read_native
from motionkit.motion.formats.native._write import write_native

__all__ = ["SCHEMA", "VERSION", "read_native", "write_native"]
