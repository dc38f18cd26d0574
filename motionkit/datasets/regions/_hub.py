"""Finds a dataset's folder: on disk, in the hub's cache, or on the hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from motionkit.errors import MotionkitError

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_KNOWN = "HaochenWang/Grasp-Any-Region-Dataset"


def find_folder(place: Path | None, revision: str, subset: str) -> tuple[Path, str]:
    """Return the folder, and the commit where it is the hub's.

    Args:
        place: Folder or hub id.
        revision: Commit, tag or branch of the hub id; the newest by default.
        subset: First letters of the folders that are wanted, by commas.

    Raises:
        MotionkitError: There is no such folder, and no such dataset can be had.
    """
    if place is None:
        raise MotionkitError("--dataset grasp-any-region needs --dataset.path.", fix=f"give its folder, or {_KNOWN}.")
    folder, path = place.expanduser(), place.as_posix()
    if folder.is_dir():
        return folder, ""
    if folder.exists() or not _HUB_ID.fullmatch(path):
        raise MotionkitError(f"there is no folder {path}.", fix=f"give the folder of the dataset, or {_KNOWN}.")
    return _download(path, revision, subset)


def _download(name: str, revision: str, subset: str) -> tuple[Path, str]:
    from huggingface_hub import snapshot_download

    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    wanted = [first.strip() for first in subset.split(",") if first.strip()]
    patterns = [f"{_letters(first)}*/{kind}" for first in wanted for kind in ("*.arrow", "*.json")]
    try:
        found = snapshot_download(
            name, repo_type="dataset", revision=revision or None, local_files_only=offline,
            allow_patterns=patterns or ["*.arrow", "*.json"],
        )  # fmt: skip
    # The hub's client raises errors of its own, of the network and of the disk.
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise MotionkitError(
            f"there is no folder {name}, and the dataset cannot be had from the hub: {first}",
            why="HF_HUB_OFFLINE is set, and the cache does not have it." if offline else "",
            fix=f"hf download {name} --repo-type dataset --local-dir data, then --dataset.path data",
        ) from error
    folder = Path(found)
    return folder, folder.name


def _letters(first: str) -> str:
    """Return a pattern for a name's first letters in either case."""
    return "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else one for one in first if one not in "*?[]")
