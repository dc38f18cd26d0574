"""Plugin components and their discovery. Imports no torch."""

from motionkit.plugins._component import Component
from motionkit.plugins._discovery import KINDS, Broken, Entry, Scan, forget, scan
from motionkit.plugins._lookup import available, find, get, is_file, label

__all__ = [
    "KINDS",
    "Broken",
    "Component",
    "Entry",
    "Scan",
    "available",
    "find",
    "forget",
    "get",
    "is_file",
    "label",
    "scan",
]
