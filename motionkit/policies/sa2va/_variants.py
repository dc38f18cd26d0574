"""Which published variants self-play can use; read off the files, before any code runs."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError

PARTS = ("vision_model", "mlp1", "language_model", "text_hidden_fcs", "grounding_encoder")
"""Parts of a network that captions regions and draws masks."""

_HEADER = 64 << 20
"""Most bytes of the list of tensors in a file of safetensors."""

_META = "__metadata__"
_LANGUAGE = ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "InternLM2ForCausalLM")


def check_variant(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse what self-play cannot use.

    Raises:
        MotionkitError: It is no Sa2VA, a variant that reads no region, or one whose language model is not supported.
    """
    names = weight_names(folder)
    lacking = [part for part in PARTS if not any(name.startswith(f"{part}.") for name in names)]
    if not isinstance(auto := config.get("auto_map"), dict) or "AutoModel" not in auto or "text_hidden_fcs" in lacking:
        raise MotionkitError(
            f"{folder} holds a model of type {str(config.get('model_type'))[:40]!r}, which is no Sa2VA.",
            fix="give a folder of Sa2VA, such as ByteDance/Sa2VA-4B on the hub.",
        )
    if lacking:
        raise MotionkitError(
            f"{folder} is a variant of Sa2VA that ignores regions.",
            why=f"it has no {lacking[0]}: the variants on Qwen2.5-VL and Qwen3-VL take mask prompts and never read "
            "them, so that no caption could be of a region.",
            fix="take a variant on InternVL: Sa2VA-1B, -4B, -8B, -26B or Sa2VA-InternVL3-2B, -8B, -14B.",
        )
    said = config.get("llm_config")
    kinds = said.get("architectures") if isinstance(said, dict) else None
    kind = str(kinds[0])[:40] if isinstance(kinds, list) and kinds else "none"
    if kind not in _LANGUAGE:
        raise MotionkitError(
            f"the language model of {folder} is {kind!r}, which is not supported.",
            why="its code keeps what it has read in a way that current transformers dropped.",
            fix="take a variant on Qwen2 or InternLM2: Sa2VA-1B, -4B, -8B, -26B or Sa2VA-InternVL3-2B, -8B, -14B.",
        )


def weight_names(folder: Path) -> set[str]:
    """Return the names of the weights of a folder; empty where it has none that can be read."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = read_json(index, dict, fix="copy the folder again.").get("weight_map")
        return set(map(str, listed)) if isinstance(listed, dict) else set()
    return set(weight_shapes(folder))


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a folder, as its files list them; empty where one is damaged."""
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length)) if length <= _HEADER else {}
            found |= {str(name): tuple(map(int, one["shape"])) for name, one in header.items() if name != _META}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
            return {}
    return found
