"""The Hugging Face hub: an id stands wherever a folder of a model does, and a folder is sent there when that is typed.

Only files of data are downloaded, and nothing that comes from there is executed.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from motionkit.errors import MotionkitError

DATA = ("*.json", "*.safetensors", "*.npy", "*.md")
"""What is downloaded of a model."""

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_CODE = (".py", ".ipynb", ".sh", ".so", ".dll", ".dylib", ".exe", ".js", ".pkl", ".pickle")
_logger = logging.getLogger("motionkit.weights")


def is_hub_id(source: str | Path) -> bool:
    """Whether a text is an id of the hub, ``ORG/NAME``, and no path: nothing is there, and no folder ``ORG`` either.

    Example:
        >>> is_hub_id("someone/walks"), is_hub_id("./someone/walks"), is_hub_id("walks")
        (True, False, False)
    """
    text = str(source)
    return _ID.fullmatch(text) is not None and not Path(text).exists() and not Path(text).parent.exists()


def located(source: str | Path) -> Path:
    """Return where a model is: the path that was given, or the folder into which its hub id was downloaded.

    Args:
        source: A path, or ``ORG/NAME``. What is neither comes back as it is; who opens it says what is missing.
    """
    return download(str(source))[0] if is_hub_id(source) else Path(source).expanduser()


def download(source: str, *, revision: str = "", files: Sequence[str] = DATA) -> tuple[Path, str]:
    """Return the folder of a model of the hub in the local cache, and its commit; the network is used where allowed.

    Args:
        source: ``ORG/NAME``.
        revision: Commit, branch or tag; empty for the newest.
        files: Patterns of the files that are wanted. Code among the others is named in a warning.
    """
    from huggingface_hub import HfApi, snapshot_download

    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    if not offline:
        with suppress(Exception):  # what is wrong the download says; without a network it takes the cache
            about = HfApi().model_info(source, revision=revision or None)
            _say_code(source, [one.rfilename for one in about.siblings or ()], files)
    try:
        found = snapshot_download(
            source, revision=revision or None, allow_patterns=list(files), local_files_only=offline
        )
    # The hub's client raises errors of its own, of the network and of the disk.
    except Exception as error:
        raise MotionkitError(
            f"{source} does not exist, and the Hugging Face hub does not give it.",
            why=str(error).strip().partition("\n")[0],
            fix=f"check the path; where the network is: hf download {source}",
        ) from error
    return Path(found), Path(found).name  # of the cache: named by the commit


def _say_code(source: str, names: Sequence[str], files: Sequence[str]) -> None:
    """Warn of code that is left where it is."""
    code = [name for name in names if name.endswith(_CODE) and "*" + Path(name).suffix not in files]
    if code:
        more = f" and {len(code) - 1} more" if len(code) > 1 else ""
        _logger.warning("%s holds code, %s%s: it was neither downloaded nor run", source, code[0][:80], more)


def push(folder: Path, source: str, files: Sequence[str], *, public: bool = False) -> str:
    """Send files of a folder to the hub; the repository is made where there is none.

    Args:
        folder: The folder.
        source: ``ORG/NAME``.
        files: Names of the files in it.
        public: Whether a repository that is made can be seen by everyone; one that is there stays as it is.

    Returns:
        The address of the repository.

    Raises:
        MotionkitError: No one is logged in, the hub refuses, or it cannot be reached (exit code 1).
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token

    if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        raise MotionkitError("HF_HUB_OFFLINE is set, so nothing is sent.", fix="unset it.")
    if get_token() is None:
        raise MotionkitError("no one is logged in to the Hugging Face hub.", fix="hf auth login, or set HF_TOKEN.")
    api = HfApi()
    try:
        api.create_repo(source, private=not public, exist_ok=True)
        operations = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=folder / name) for name in files]
        done = api.create_commit(source, operations, commit_message="Model written by motionkit")
    except Exception as error:  # as above
        raise MotionkitError(
            f"the Hugging Face hub did not take {source}.",
            why=str(error).strip().partition("\n")[0],
            fix="check the name, and that the token may write there.",
            code=1,
        ) from error
    return str(done.repo_url)
