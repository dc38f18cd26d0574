"""Foreign weight files: safe reading, recognition by content, strict loading. Nothing in a file is ever executed."""

from motionkit.weights._arrays import cast, open_zip, read_array, read_numbers
from motionkit.weights._hub import download, is_hub_id, located, push, refuse_kernels, require_hub_id
from motionkit.weights._read import read
from motionkit.weights._strict import as_tensor, build, components, describe, find_tensors, load_strict

__all__ = [
    "as_tensor",
    "build",
    "cast",
    "components",
    "describe",
    "download",
    "find_tensors",
    "is_hub_id",
    "load_strict",
    "located",
    "open_zip",
    "push",
    "read",
    "read_array",
    "read_numbers",
    "refuse_kernels",
    "require_hub_id",
]
