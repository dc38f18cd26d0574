"""File formats of motions; `read_clips` takes any file that is known.

`FORMATS` has a `Format` for each, of motionkit and of other packages: what reads and writes its files. A folder here
has the reader, the writer, or both of one format. Importing this imports no torch.
"""

from motionkit.formats.format import Fit, Format, Reader, RigFile, Setting, WriteOptions, Writer
from motionkit.formats.out import refuse_existing, refuse_foreign
from motionkit.formats.peek import Peek
from motionkit.formats.table import FORMATS, kind_of, read_clips, recognise

__all__ = [
    "FORMATS",
    "Fit",
    "Format",
    "Peek",
    "Reader",
    "RigFile",
    "Setting",
    "WriteOptions",
    "Writer",
    "kind_of",
    "read_clips",
    "recognise",
    "refuse_existing",
    "refuse_foreign",
]
