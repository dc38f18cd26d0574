"""Reads checkpoints in the layout of the original MDM code: ``model%09d.pt`` with args.json beside it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.nn import native_keys
from motionkit.policies.mdm._network import MDMNetwork
from motionkit.policies.mdm._settings import MDMSettings, settings_from_args

_FRAMES = "input_process.poseEmbedding.weight"
_PEFT = "base_model.model."
_TARGETS = "embed_target_cond."
_DEFAULT_STEPS = 1000
_GRPO_ARGS = {"group_size", "clip_epsilon", "kl_penalty"}
_GRPO_FILE = {"model", "optimizer", "step"}
_log = logging.getLogger("motionkit.policies")


def read_released(path: Path, steps: int | None = None) -> tuple[MDMSettings, MDMNetwork]:
    """Open a released or fine-tuned MDM checkpoint.

    Layouts: the bare state dict; ``{"model": ...}`` with anything beside it; ``{"model", "model_avg"}``, of which the
    average is used when args.json says ``use_ema``; LoRA tensors of peft, which are merged. Position tables are
    recomputed and ``clip_model.*`` (the frozen text model) is dropped.

    Args:
        path: The checkpoint.
        steps: Diffusion steps in place of those in args.json.

    Raises:
        MotionkitError: Missing, damaged or refused files, another kind of model, or tensors that do not fit; without
            `steps`, a file of the guides' GRPO code, whose args.json is wrong.
    """
    content = weights.read(path)
    args = _read_args(path, content)
    if steps is None:
        _refuse_defaults(path, content, args)
    else:
        if steps != args.get("diffusion_steps", steps):
            _log.info("%s: %d diffusion steps, not the %s of args.json", path, steps, args["diffusion_steps"])
        args = {**args, "diffusion_steps": steps}
    settings = settings_from_args(args, origin=str(path))
    tensors = _plain(_tensors(content, args, path), args, path)
    channels = tensors[_FRAMES].shape[1]
    if channels % settings.patch_size:
        raise MotionkitError(f"{path}: {channels} input channels do not divide into {settings.patch_size} frames.")
    settings = settings.model_copy(update={"features": channels // settings.patch_size})
    return settings, weights.build(lambda: MDMNetwork(settings), native_keys(tensors), str(path))


def _read_args(path: Path, content: Any) -> dict[str, Any]:
    file = path.parent / "args.json"
    if not file.exists():
        tensors = weights.find_tensors(content) or {}
        if _FRAMES not in tensors:
            raise _not_mdm(path, content)
        raise MotionkitError(
            f"{file} does not exist.",
            why="MDM keeps architecture and noise schedule in args.json beside the checkpoint.",
            fix="copy args.json from the folder the checkpoint came from.",
        )
    return read_json(file, dict, fix="copy it again.")


def _refuse_defaults(path: Path, content: Any, args: Mapping[str, Any]) -> None:
    """Refuse a file of the guides' GRPO code that says 1000 steps.

    That code writes args.json before it reads the settings of its base model, so the file has the default of an option
    and not the number of steps it was trained with.

    Raises:
        MotionkitError: It is such a file.
    """
    final = path.name == "model_final.pt" and isinstance(content, Mapping) and content.keys() >= _GRPO_FILE
    if args.get("diffusion_steps") != _DEFAULT_STEPS or not (final or args.keys() >= _GRPO_ARGS):
        return
    base = f"its base was {str(args['model_path'])[:200]}; " if args.get("model_path") else ""
    raise MotionkitError(
        f"{path}: args.json says {_DEFAULT_STEPS} diffusion steps, which is what the guides' GRPO code writes whatever "
        "its base has.",
        why=f"{base}sampled with the wrong number of steps, a model makes noise.",
        fix=f"--policy.diffusion-steps 50, or {_DEFAULT_STEPS} if the base has so many; a 50 in args.json works too.",
    )


def _tensors(content: Any, args: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        average = content.get("model_avg")
        if args.get("use_ema") and not isinstance(average, Mapping):
            raise MotionkitError(
                f"{path} holds no averaged weights, although its args.json says use_ema.",
                fix="set use_ema to false in args.json to use the raw weights.",
            )
        content = average if args.get("use_ema") else content["model"]
    found = weights.find_tensors(content)
    if found is None:
        raise _not_mdm(path, content)
    return found


def _plain(tensors: Mapping[str, Tensor], args: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """Drop buffers and the text model, and merge adapters."""
    names = {name.removeprefix(_PEFT): value for name, value in tensors.items()}
    kept = {
        name: value.float()
        for name, value in names.items()
        if not name.startswith("clip_model.") and "sequence_pos_encoder" not in name
    }
    if args.get("multi_target_cond") or args.get("lambda_target_loc"):
        kept = _without_targets(kept, path)
    if any(".lora_" in name for name in kept):
        kept = _merge_lora(kept, args, path)
    if _FRAMES not in kept or kept[_FRAMES].ndim != 2:
        raise _not_mdm(path, tensors)
    return kept


def _without_targets(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the tensors of the text-only path of a model that can also be given target joint locations.

    Their embedding is added to that of the timestep, and nothing is added where a request has none.
    """
    rest = {name: value for name, value in tensors.items() if not name.startswith(_TARGETS)}
    if len(rest) == len(tensors):
        raise MotionkitError(
            f"{path} has no {_TARGETS}* tensors, although its args.json names target joint locations.",
            why="multi_target_cond or lambda_target_loc is set there.",
            fix="copy the checkpoint and args.json again, from one folder.",
        )
    _log.info("%s can be given target joint locations; it is used without, by text alone", path)
    return rest


def _merge_lora(tensors: Mapping[str, Tensor], args: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """Return weights with ``W + alpha / r B A`` (Hu et al. 2021) in place of W, A and B."""
    alpha = args.get("lora_alpha")
    if not isinstance(alpha, (int, float)) or not math.isfinite(alpha):
        raise MotionkitError(f"{path} holds LoRA tensors, but its args.json no lora_alpha.", fix="add lora_alpha.")
    out = {name.replace(".base_layer.", "."): value for name, value in tensors.items() if ".lora_" not in name}
    downs = {name for name in tensors if ".lora_A" in name}
    ups = {name for name in tensors if ".lora_B" in name}
    if lost := sorted({name.replace(".lora_A", ".lora_B") for name in downs} ^ ups):
        raise MotionkitError(f"{path} is incomplete: {lost[0]} has no counterpart.", fix="copy it again.")
    for name in sorted(downs):
        down, up = tensors[name], tensors[name.replace(".lora_A", ".lora_B")]
        target = name.partition(".lora_A")[0] + ".weight"
        if target not in out:
            raise MotionkitError(f"{path}: {name} adapts {target}, which is not there.")
        # Checked before the product: two thin matrices can make one of any size.
        shapes = [tuple(tensor.shape) for tensor in (up, down, out[target])]
        rank = down.shape[0] if down.ndim else 0
        if not rank or shapes != [(*shapes[2][:1], rank), (rank, *shapes[2][1:]), shapes[2]]:
            raise MotionkitError(f"{path}: {name} does not fit {target}.", fix="copy it again.")
        # B [out, r] times A [r, in].
        out[target] = out[target] + alpha / rank * (up @ down)
    return out


def _not_mdm(path: Path, content: Any) -> MotionkitError:
    return MotionkitError(
        f"{path} is not an MDM checkpoint.",
        why=f"it looks like {weights.describe(content)}.",
        fix="give the model%09d.pt of an MDM run, or a motionkit policy or run folder.",
    )
