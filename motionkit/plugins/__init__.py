"""Plugin components and their discovery. Imports no torch."""

from motionkit.plugins._component import FREE, Component, Direction, Metric, declared, install_line
from motionkit.plugins._discovery import KINDS, Entry, either, forget, scan
from motionkit.plugins._guard import catching, in_use, in_words, package_of
from motionkit.plugins._lookup import (
    CodeError,
    available,
    check_signature,
    code_error,
    find,
    get,
    hidden,
    is_file,
    is_own,
    label,
    warn_hidden,
)
from motionkit.plugins.check import fitting, gives_of, reads_of, require_fit

__all__ = [
    "FREE",
    "KINDS",
    "CodeError",
    "Component",
    "Direction",
    "Entry",
    "Metric",
    "available",
    "catching",
    "check_signature",
    "code_error",
    "declared",
    "either",
    "find",
    "fitting",
    "forget",
    "get",
    "gives_of",
    "hidden",
    "in_use",
    "in_words",
    "install_line",
    "is_file",
    "is_own",
    "label",
    "package_of",
    "reads_of",
    "require_fit",
    "scan",
    "warn_hidden",
]
