"""The Hugging Face hub: its ids are accepted in place of model folders, and models can be uploaded on request.

Only data files are downloaded, and nothing from the hub is executed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from motionkit.config import HUB_ID
from motionkit.errors import MotionkitError, first_line

DATA = ("*.json", "*.safetensors", "*.npy", "*.md")
"""The files of a model that are downloaded."""

_CODE = (".py", ".ipynb", ".sh", ".so", ".dll", ".dylib", ".exe", ".js", ".pkl", ".pickle")
_logger = logging.getLogger("motionkit.weights")


def is_hub_id(source: str | Path) -> bool:
    """Whether `source` is an id of the hub, ``ORG/NAME``, and not a path: neither it nor a folder ``ORG`` exists.

    Example:
        >>> is_hub_id("someone/walks"), is_hub_id("./someone/walks"), is_hub_id("walks"), is_hub_id("runs/model.pt")
        (True, False, False, False)
    """
    text = str(source)
    return HUB_ID.fullmatch(text) is not None and not Path(text).exists() and not Path(text).parent.exists()


def located(source: str | Path, *, files: Sequence[str] = DATA) -> Path:
    """Return the path of a model, downloading it if `source` is a hub id.

    Args:
        source: A path or ``ORG/NAME``. A path need not exist; the code that opens it reports that.
        files: As of `download`.
    """
    return download(str(source), files=files)[0] if is_hub_id(source) else Path(source).expanduser()


def download(source: str, *, revision: str = "", files: Sequence[str] = DATA) -> tuple[Path, str]:
    """Return the folder of a hub model in the local cache, and its commit; downloads unless ``HF_HUB_OFFLINE`` is set.

    Args:
        source: ``ORG/NAME``.
        revision: Commit, branch or tag; empty for the newest.
        files: Patterns of the files to download. Code among the others is reported in a warning.
    """
    from huggingface_hub import HfApi, snapshot_download

    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    if not offline:
        with suppress(Exception):  # the download reports errors; without a network it uses the cache
            about = HfApi().model_info(source, revision=revision or None)
            _say_code(source, [file.rfilename for file in about.siblings or ()], files)
    try:
        folder = snapshot_download(
            source, revision=revision or None, allow_patterns=list(files), local_files_only=offline
        )
    # The hub's client raises its own errors and those of network and disk.
    except Exception as error:
        raise MotionkitError(
            f"{source} does not exist, and the Hugging Face hub does not provide it.",
            why=first_line(error),
            fix=f"check the path; with a network: hf download {source}",
        ) from error
    return Path(folder), Path(folder).name  # the cache names it by the commit


def refuse_kernels(config: object, origin: str | Path) -> None:
    """Refuse a configuration of transformers that names attention code of the hub (``ORG/NAME``).

    With the package kernels installed transformers would download it, compiled, and run it.

    Args:
        config: Content of config.json; tables and lists in it are looked through.
        origin: Its file, for the message.
    """
    for name, value in config.items() if isinstance(config, Mapping) else ():
        if name.endswith("attn_implementation") and "/" in str(value):
            raise MotionkitError(
                f"{origin} names code of the hub: {name} {str(value)[:80]!r}.",
                why="transformers would download it and run it; only data of a model are read.",
                fix=f"take {name} out of the file.",
            )
    for part in config.values() if isinstance(config, Mapping) else config if isinstance(config, list) else ():
        refuse_kernels(part, origin)


def _say_code(source: str, names: Sequence[str], files: Sequence[str]) -> None:
    """Warn of code in the repository that is not downloaded."""
    code = [name for name in names if name.endswith(_CODE) and "*" + Path(name).suffix not in files]
    if code:
        more = f" and {len(code) - 1} more" if len(code) > 1 else ""
        _logger.warning("%s holds code, %s%s: it was neither downloaded nor run", source, code[0][:80], more)


def require_hub_id(source: str) -> None:
    """Refuse what is no id of a repository on the hub, by the hub's own rules."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    why = ""
    try:
        validate_repo_id(source)
    except HFValidationError as error:
        why = first_line(error)[:200]
    if why or HUB_ID.fullmatch(source) is None:
        raise MotionkitError(
            f"{source[:100]!r} is not an id of the Hugging Face hub.",
            why=why or "an id is ORG/NAME.",
            fix="give ORG/NAME: letters, digits, - _ and . between them.",
        )


def push(folder: Path, source: str, files: Sequence[str], *, public: bool = False) -> str:
    """Upload files of a folder to the hub, creating the repository if it does not exist.

    Args:
        folder: The folder.
        source: ``ORG/NAME``.
        files: Names of the files in it.
        public: Whether a new repository is public; an existing one keeps its visibility.

    Returns:
        The address of the repository.

    Raises:
        MotionkitError: No one is logged in, the hub refuses, or it cannot be reached (exit code 1).
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token

    require_hub_id(source)
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
            why=first_line(error),
            fix="check the name, and that the token may write there.",
            code=1,
        ) from error
    return str(done.repo_url)
