"""Opening a transformers model as what it is supposed to be: its type and its size are looked at before it is built."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from motionkit.documents import read_json
from motionkit.errors import MotionkitError

# Policies, rewards and compose open text models, each with an option of its own.
OPTIONS = "--policy.text-model DIR, --reward.text-model DIR; of compose: --text-model DIR"

_CONFIG = "config.json"
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_MOST_LAYERS = 200  # the largest text model in use (CLIP bigG) has 32
_MOST = 2_000_000  # entries of a vocabulary; no other number of a description is larger


@dataclass(frozen=True)
class Family:
    """What an encoder accepts.

    Attributes:
        name: The encoder's name, such as ``clip``.
        default: Hub id of the published model.
        types: Accepted values of ``model_type`` in config.json.
        model: Name of the class in transformers.
    """

    name: str
    default: str
    types: tuple[str, ...]
    model: str


def open_model(family: Family, source: str, *, local: bool) -> tuple[Any, Any]:
    """Open tokenizer and model, in float32.

    Args:
        family: What the model must be.
        source: Folder, or hub id.
        local: Look for a hub id in the local cache only.

    Raises:
        MotionkitError: There is no such folder or model, it is of another type, its weights are incomplete, or its
            config.json describes a larger model than its weight files hold.
    """
    path = Path(source).expanduser()
    if path.is_file():
        raise _not_a_folder(path, family)
    if not path.is_dir() and not _HUB_ID.fullmatch(source):
        raise MotionkitError(f"there is no folder {source}.", fix=f"give the text model's folder ({OPTIONS}).")
    try:
        import transformers
    except ImportError as error:
        raise MotionkitError(
            "transformers is not installed.",
            why=f"the {family.name} text encoder runs through it.",
            fix="pip install 'motionkit[text]'",
        ) from error
    place = str(path) if path.is_dir() else source
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    options = {"local_files_only": local or offline or path.is_dir()}
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        _check_description(family, place, transformers, options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=False, **options)
        model, info = getattr(transformers, family.model).from_pretrained(
            place, output_loading_info=True, dtype=torch.float32, **options
        )
    except MotionkitError:
        raise
    # A damaged folder makes transformers raise nearly anything.
    except Exception as error:
        here = "" if path.is_dir() else f", and there is no folder {source}"
        raise MotionkitError(
            f"cannot open the text model {source!r}: {_first_line(error)}",
            why=f"the {family.name} encoder needs a transformers folder with tokenizer, config and weights{here}.",
            fix=f"give its folder as the text model ({OPTIONS}), or download it once: hf download {family.default}",
        ) from error
    finally:
        transformers.logging.set_verbosity(level)
    if missing := sorted(info["missing_keys"]):
        raise MotionkitError(
            f"{source!r} is not a {family.name} text model: it has no {missing[0]} (and {len(missing) - 1} more).",
            fix=f"use the folder of {family.default}.",
        )
    return tokenizer, model


def _check_description(family: Family, place: str, transformers: Any, options: Mapping[str, Any]) -> None:
    folder = Path(place)
    if not folder.is_dir():
        content, _ = transformers.PreTrainedConfig.get_config_dict(place, **options)
    elif (folder / _CONFIG).is_file():
        content = read_json(folder / _CONFIG, dict, fix="copy the folder again.")
    else:
        raise FileNotFoundError(f"it has no {_CONFIG}.")
    kind = content.get("model_type")
    if kind not in family.types:
        raise MotionkitError(
            f"{place} holds a model of type {str(kind)[:40]}, the {family.name} encoder runs {family.types[0]}.",
            why="the features of another model mean something else to what was trained with this one.",
            fix=f"give the folder of {family.default} ({OPTIONS}).",
        )
    if (number := _largest(content)) > _MOST:
        raise MotionkitError(f"{_CONFIG} of {place} holds the number {number}.", fix="copy the folder again.")
    model = getattr(transformers, family.model)
    config = model.config_class.from_pretrained(place, **options)
    if config.num_hidden_layers > _MOST_LAYERS:
        raise MotionkitError(
            f"{_CONFIG} of {place} describes {config.num_hidden_layers} layers.",
            why=f"at most {_MOST_LAYERS} are read.",
            fix="copy the folder again.",
        )
    if not folder.is_dir():
        return
    with torch.device("meta"):
        described = sum(parameter.numel() for parameter in model(config).parameters())
    held = sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin"))
    if described > held:
        raise MotionkitError(
            f"{_CONFIG} of {place} describes {described:,} weights, its weight files have {held:,} bytes.",
            why="they do not belong together.",
            fix="copy the folder again.",
        )


def _largest(content: object) -> int:
    """Return the largest whole number in parsed JSON."""
    parts: list[object] = []
    if isinstance(content, Mapping):
        parts = list(content.values())
    elif isinstance(content, list):
        parts = content
    return content if isinstance(content, int) else max(map(_largest, parts), default=0)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _not_a_folder(path: Path, family: Family) -> MotionkitError:
    what, fix = "a file, not a transformers folder", "give the folder."
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if any("/code/" in name or name.endswith("constants.pkl") for name in names):
            what = "a TorchScript archive (such as OpenAI's ViT-B-32.pt)"
            fix = f"use the same weights as a transformers folder: hf download {family.default}, then {OPTIONS}"
    return MotionkitError(f"{path} is {what}.", why="loading TorchScript would run code from the file.", fix=fix)
