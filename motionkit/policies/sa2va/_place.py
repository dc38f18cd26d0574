"""Where a model is: a folder or the Hugging Face hub, and what marks its files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.policies.base import REGION_ARTIFACT
from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.policies.sa2va._document import DOCUMENT, read_document
from motionkit.runs import find_model

_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.py")


def mark_of(folder: Path) -> str:
    """Return a hash of a model's small files, and of the names and sizes of its weights."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".txt", ".model", ".py", ".jinja"):
            digest.update(path.name.encode() + path.read_bytes())
        elif path.suffix == ".safetensors":
            digest.update(f"{path.name} {path.stat().st_size}".encode())
    return digest.hexdigest()[:16]


def refuse_other(source: object, mark: str, wanted: str, checkpoint: str, *, fix: str) -> None:
    """Refuse a base that is not the one that a policy was trained on.

    Args:
        source: The base.
        mark: Its mark; see `mark_of`.
        wanted: The mark of the other one.
        checkpoint: The policy.
        fix: What to do.

    Raises:
        MotionkitError: The marks differ.
    """
    if mark != wanted:
        raise MotionkitError(
            f"{source} is not the model that {checkpoint} was trained on.",
            why=f"its files have the mark {mark}, and that model's was {wanted}.",
            fix=fix,
        )


def find_base(source: str, revision: str, *, moved: str = "") -> tuple[Path, str]:
    """Return the folder of a model, and its commit where it is on the hub.

    Args:
        source: Folder or hub id.
        revision: Commit, branch or tag on the hub; empty for the newest.
        moved: What to do where it is no longer in place.

    Raises:
        MotionkitError: It is nowhere.
    """
    place = Path(source).expanduser()
    if (place / "config.json").is_file():
        return place, ""
    if place.exists() or source.count("/") != 1 or source.startswith((".", "~", "/")):
        fix = moved or "give a folder with config.json, or a hub id."
        raise MotionkitError(f"{source} holds no model.", why="it has no config.json.", fix=fix)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    try:
        folder = Path(
            snapshot_download(source, revision=revision or None, allow_patterns=list(_FILES), local_files_only=offline)
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise MotionkitError(
            f"cannot get {source} from the Hugging Face hub.",
            why=str(error).splitlines()[0],
            fix=f"where the network is: hf download {source}; or give its folder.",
        ) from error
    return folder, folder.name  # of the cache: named by the commit


def config_at_hand(options: Sa2vaOptions) -> tuple[Path, dict[str, Any]] | None:
    """Return the folder and config.json of the model that a policy will open, if they are on this machine."""
    place = Path(options.checkpoint).expanduser()
    source, revision = options.base, options.revision
    if not source and (saved := find_model(place, REGION_ARTIFACT, DOCUMENT)) is not None:
        base = read_document(saved.document).base
        source, revision = base.place, revision or base.revision
    source = source or options.checkpoint
    folder = Path(source).expanduser()
    if not folder.exists() and source.count("/") == 1:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(source, "config.json", revision=revision or None)
        folder = Path(found).parent if isinstance(found, str) else folder
    if not (folder / "config.json").is_file():
        return None
    return folder, read_json(folder / "config.json", dict, fix="copy the folder again.")
