"""Plugin components and their discovery. Imports no torch."""

from motionkit.plugins._component import Component
from motionkit.plugins._discovery import KINDS, Broken, Entry, Scan, forget, scan
from motionkit.plugins._guard import PluginError, catching, in_use, in_words
from motionkit.plugins._lookup import available, find, get, is_file, label

__all__ = [
    "KINDS",
    "Broken",
    "Component",
    "Entry",
    "PluginError",
    "Scan",
    "available",
    "catching",
    "find",
    "forget",
    "get",
    "in_use",
    "in_words",
    "is_file",
    "label",
    "scan",
]
