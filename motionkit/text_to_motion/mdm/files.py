"""Files of MDM policies: motionkit's folder, and checkpoints of the original code.

motionkit's folder holds policy.json, everything about a policy except its tensors (`PolicyDocument`), and the tensors.
Checkpoints of the original MDM code are ``model%09d.pt`` with args.json beside it; they are read and written.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, DataRecord, Normalizer, Skeleton
from motionkit.nn import add_adapters, merged_state, native_keys, sinusoidal_table, stock_keys
from motionkit.runs import write_model
from motionkit.text import TextRecord
from motionkit.text_to_motion.mdm.network import MDMNetwork
from motionkit.text_to_motion.mdm.settings import MDMSettings, Padding, first_problem, settings_from_args
from motionkit.text_to_motion.settings import LoraTarget

KIND = "mdm"
DOCUMENT = "policy.json"
STATS = "normalizer."  # prefix of the statistics among a policy's tensors

_FRAMES = "input_process.poseEmbedding.weight"
_PEFT = "base_model.model."
_DOWN, _UP, _UP_BIAS = (
    re.compile(rf"\.lora_{end}$") for end in (r"A(?:\.(\w+))?\.weight", r"B(?:\.\w+)?\.weight", r"B(?:\.\w+)?\.bias")
)
_TARGETS = "embed_target_cond."
_DEFAULT_STEPS = 1000
_GRPO_ARGS = {"group_size", "clip_epsilon", "kl_penalty"}
_GRPO_FILE = {"model", "optimizer", "step"}
_log = logging.getLogger("motionkit.policies")


class LoraRecord(BaseModel):
    """Adapters among a policy's tensors, as `motionkit.nn.add_adapters` made them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    r: int = Field(ge=1, le=4096)
    alpha: float = Field(gt=0, allow_inf_nan=False)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[LoraTarget, ...]


class PolicyDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Literal["mdm"]
    settings: MDMSettings
    fps: float = Field(gt=0, le=1000)
    max_length: int = Field(ge=1, le=100_000)
    padding: Padding = "exact"
    guidance: float | None = Field(default=None, ge=0, le=1000, allow_inf_nan=False)
    sampling_steps: int | None = Field(default=None, ge=1)
    text: TextRecord
    trained_on: DataRecord | None = None
    lora: LoraRecord | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        room = (self.settings.pos_embed_max_len - 1) * self.settings.patch_size
        if self.max_length > room and not self.settings.context_len:  # DiP has positions per block alone
            raise ValueError(f"max_length {self.max_length} is more than the {room} frames that have a position")
        if self.sampling_steps is not None and self.sampling_steps > self.settings.diffusion_steps:
            raise ValueError(f"sampling_steps {self.sampling_steps} of {self.settings.diffusion_steps} diffusion_steps")
        return self


def read_document(path: Path) -> PolicyDocument:
    """Read policy.json."""
    content = read_json(path, dict, fix="copy the folder again.")
    if content.get("kind") != KIND:
        raise MotionkitError(
            f"{path} describes a {str(content.get('kind'))[:40]!r} policy, not {KIND}.",
            fix="give a run of grpo or pretrain mdm, a folder of such a policy, or starter.",
        )
    try:
        return PolicyDocument.model_validate(content)
    except ValidationError as error:
        raise MotionkitError(
            f"{path} is not a policy description: {first_problem(error)}.", fix="copy the folder again."
        ) from error


def write_policy(folder: Path, document: Mapping[str, Any], tensors: Mapping[str, Tensor] | None) -> Path:
    """Write a policy, and return `folder`.

    Args:
        folder: Made if it is missing.
        document: Content of policy.json, see `PolicyDocument`.
        tensors: The network's tensors, and the statistics under the prefix `STATS`. With None only policy.json is
            written, for a run whose checkpoints hold the tensors.
    """
    write_model(folder, DOCUMENT, document, tensors)
    return folder


def read_policy(document: Path, tensors: Path) -> tuple[PolicyDocument, MDMNetwork, Normalizer]:
    """Read a policy: its document, its network with adapters merged, and its statistics."""
    content = read_document(document)
    loaded = weights.read(tensors)
    stats = {name: loaded.pop(STATS + name, None) for name in ("mean", "std")}
    if stats["mean"] is None or stats["std"] is None:
        raise MotionkitError(
            f"{tensors} has no normalizer statistics.", why=f"it looks like {weights.describe(loaded)}."
        )
    network = weights.build(lambda: _adapted(content), loaded, str(tensors))
    if content.lora is not None:
        merged = merged_state(network)
        network = MDMNetwork(content.settings)
        weights.load_strict(network, merged, str(tensors))
    return content, network, Normalizer(stats["mean"], stats["std"])


def _adapted(content: PolicyDocument) -> MDMNetwork:
    network = MDMNetwork(content.settings)
    if content.lora is not None:
        add_adapters(network, **content.lora.model_dump())
    return network


def read_released(path: Path, steps: int | None = None) -> tuple[MDMSettings, MDMNetwork]:
    """Open a released or fine-tuned MDM checkpoint.

    Layouts: the bare state dict; ``{"model": ...}`` with other keys; ``{"model", "model_avg"}``, of which the average
    is used if args.json sets ``use_ema``; LoRA tensors of peft, which are merged. Position tables are recomputed and
    ``clip_model.*`` (the frozen text model) is dropped.

    Args:
        path: The checkpoint, with args.json beside it.
        steps: Diffusion steps in place of those in args.json.
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


def export_stock(
    settings: MDMSettings,
    network: MDMNetwork,
    folder: Path,
    *,
    skeleton: Skeleton,
    step: int = 0,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``model%09d.pt`` and args.json in the layout of the original code, with adapters merged; return the former.

    The file loads in the original code unless ``settings.stock_obstacles()`` names an extension; motionkit reads both.

    Args:
        settings: Shape of the network.
        network: The network.
        folder: Created if it is missing.
        skeleton: Body, which args.json names.
        step: Number in the file's name.
        extra: Further args.json entries; they never override the shape.
    """
    table = sinusoidal_table(settings.pos_embed_max_len, settings.latent_dim)[:, None]
    merged = stock_keys(merged_state(network))
    tensors = {name: value.detach().cpu().clone() for name, value in merged.items()}
    tensors["sequence_pos_encoder.pe"] = table
    tensors["embed_timestep.sequence_pos_encoder.pe"] = table.clone()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"model{step:09d}.pt"
    aside = folder / f".tmp-{path.name}"  # torch stores the file's name in it, so it must be the same each time
    torch.save(tensors, aside)
    document = {**(extra or {}), **stock_args(settings, skeleton.name)}
    (folder / "args.json").write_text(json.dumps(document, indent=4, sort_keys=True) + "\n", encoding="utf-8")
    aside.replace(path)
    return path


def stock_args(settings: MDMSettings, dataset: str) -> dict[str, Any]:
    """Return the entries of args.json that the original code reads, and motionkit's if they are not the defaults."""
    args: dict[str, Any] = {
        "dataset": dataset,
        "data_dir": "",
        "arch": settings.arch,
        "text_encoder_type": {"distilbert": "bert"}.get(settings.text_encoder, settings.text_encoder),
        "emb_trans_dec": settings.emb_trans_dec,
        "layers": settings.layers,
        "latent_dim": settings.latent_dim,
        "cond_mask_prob": settings.cond_mask_prob,
        "mask_frames": settings.mask_frames,
        "lambda_rcxyz": 0.0,
        "lambda_vel": 0.0,
        "lambda_fc": 0.0,
        "lambda_target_loc": 0.0,
        "unconstrained": False,
        "pos_embed_max_len": settings.pos_embed_max_len,
        "use_ema": False,
        "multi_target_cond": False,
        "multi_encoder_type": "single",
        "target_enc_layers": 1,
        "context_len": settings.context_len,
        "pred_len": settings.pred_len,
        "noise_schedule": settings.noise_schedule,
        "diffusion_steps": settings.diffusion_steps,
        "sigma_small": True,
    }
    stock = MDMSettings()
    for name in ("num_heads", "ff_size", "patch_size", "patch_overlap", "clause_frames", "noise_shift", "dropout"):
        if getattr(settings, name) != getattr(stock, name):
            args[name] = getattr(settings, name)
    if settings.text_encoder not in ("clip", "distilbert"):
        args["text_width"] = settings.text_width
    return args


def read_stats(folder: Path) -> Normalizer:
    """Read ``Mean.npy`` and ``Std.npy``."""
    mean, std = (torch.as_tensor(weights.read_numbers(folder / f"{name}.npy")).float() for name in ("Mean", "Std"))
    return Normalizer(mean, std)


def skeleton_of(features: int, origin: str) -> Skeleton:
    """Return the body that has `features` features per frame."""
    for skeleton in (HUMANML, KIT):
        if skeleton.width == features:
            return skeleton
    raise MotionkitError(
        f"{origin} has {features} features per frame.",
        why="motionkit supports 263 (HumanML3D, 22 joints) and 251 (KIT-ML, 21 joints).",
    )


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
    """Refuse a file of the guides' GRPO code with 1000 steps.

    That code writes args.json before it reads the settings of its base model, so the file has the default of an option,
    not the number of steps of training.
    """
    final = path.name == "model_final.pt" and isinstance(content, Mapping) and content.keys() >= _GRPO_FILE
    if args.get("diffusion_steps") != _DEFAULT_STEPS or not (final or args.keys() >= _GRPO_ARGS):
        return
    base = f"its base was {str(args['model_path'])[:200]}; " if args.get("model_path") else ""
    raise MotionkitError(
        f"{path}: args.json says {_DEFAULT_STEPS} diffusion steps, which the guides' GRPO code writes whatever its "
        "base has.",
        why=f"{base}sampled with the wrong number of steps, a model makes noise.",
        fix=f"--policy.diffusion-steps 50, or {_DEFAULT_STEPS} if the base has so many; a 50 in args.json works too.",
    )


def _tensors(content: Any, args: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        average = content.get("model_avg")
        if args.get("use_ema") and not isinstance(average, Mapping):
            raise MotionkitError(
                f"{path} holds no averaged weights, although its args.json sets use_ema.",
                fix="set use_ema to false in args.json to use the raw weights.",
            )
        content = average if args.get("use_ema") else content["model"]
    result = weights.find_tensors(content)
    if result is None:
        raise _not_mdm(path, content)
    return result


def _plain(tensors: Mapping[str, Tensor], args: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """Drop buffers and the text model, and merge adapters."""
    names = {name.removeprefix(_PEFT): value for name, value in tensors.items()}
    plain = {
        name: value.float()
        for name, value in names.items()
        if not name.startswith("clip_model.") and "sequence_pos_encoder" not in name
    }
    if args.get("multi_target_cond") or args.get("lambda_target_loc"):
        plain = _without_targets(plain, path)
    if any(".lora_" in name for name in plain):
        plain = _merge_lora(plain, args, path)
    if _FRAMES not in plain and (longer := next((name for name in plain if name.endswith(f".{_FRAMES}")), "")):
        raise MotionkitError(
            f"{path} holds an MDM inside something else: its tensors are called {longer.removesuffix(_FRAMES)}...",
            fix="save the state_dict of the network itself.",
        )
    if _FRAMES not in plain or plain[_FRAMES].ndim != 2:
        raise _not_mdm(path, tensors)
    return plain


def _without_targets(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the tensors of the text-only path of a model that also accepts target joint locations.

    Their embedding is added to that of the timestep; without targets nothing is added.
    """
    others = {name: value for name, value in tensors.items() if not name.startswith(_TARGETS)}
    if len(others) == len(tensors):
        raise MotionkitError(
            f"{path} has no {_TARGETS}* tensors, although its args.json names target joint locations.",
            why="multi_target_cond or lambda_target_loc is set there.",
            fix="copy the checkpoint and args.json again, from one folder.",
        )
    _log.info("%s can be given target joint locations; it is used without, by text alone", path)
    return others


def _merge_lora(tensors: Mapping[str, Tensor], args: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """Return weights with ``W + s B A`` in place of W, A and B.

    s is alpha / r (Hu et al. 2021), or alpha / sqrt(r) where args.json sets use_rslora (Kalajdzievski 2023). A bias of
    B (peft's lora_bias) is added to that of the layer, times s.
    """
    alpha = _alpha(tensors, args, path)
    out = {name.replace(".base_layer.", "."): value for name, value in tensors.items() if ".lora_" not in name}
    downs = {name for name in tensors if _DOWN.search(name)}
    lost = {name.replace(".lora_A", ".lora_B") for name in downs} ^ {name for name in tensors if _UP.search(name)}
    if lost:
        raise MotionkitError(f"{path} is incomplete: {min(lost)} has no counterpart.", fix="copy it again.")
    for name in sorted(downs):
        up_name = name.replace(".lora_A", ".lora_B")
        down, up = tensors[name], tensors[up_name]
        target = name.partition(".lora_A")[0] + ".weight"
        if target not in out:
            raise MotionkitError(f"{path}: {name} adapts {target}, which is not there.")
        # Checked before the product: two thin matrices can make one of any size.
        shapes = [tuple(tensor.shape) for tensor in (up, down, out[target])]
        rank = down.shape[0] if down.ndim else 0
        if not rank or shapes != [(*shapes[2][:1], rank), (rank, *shapes[2][1:]), shapes[2]]:
            raise MotionkitError(f"{path}: {name} does not fit {target}.", fix="copy it again.")
        scale = alpha / (math.sqrt(rank) if args.get("use_rslora") else rank)
        # B [out, r] times A [r, in].
        out[target] = out[target] + scale * (up @ down)
        if (added := tensors.get(up_name.removesuffix("weight") + "bias")) is not None:
            bias = target.removesuffix("weight") + "bias"
            if bias not in out or out[bias].shape != added.shape:
                raise MotionkitError(f"{path}: the bias of {up_name} does not fit {bias}.", fix="copy it again.")
            out[bias] = out[bias] + scale * added
    return out


def _alpha(tensors: Mapping[str, Tensor], args: Mapping[str, Any], path: Path) -> float:
    """Return the alpha of adapters; refuse those whose merged weights are not known."""
    alpha = args.get("lora_alpha")
    if not isinstance(alpha, (int, float)) or isinstance(alpha, bool) or not math.isfinite(alpha):
        raise MotionkitError(f"{path} holds LoRA tensors, but its args.json no lora_alpha.", fix="add lora_alpha.")
    save = "merge them where they were trained (peft: merge_and_unload) and save the weights."
    read = (_DOWN, _UP, _UP_BIAS)
    if others := [name for name in tensors if ".lora_" in name and not any(part.search(name) for part in read)]:
        raise MotionkitError(
            f"{path} holds adapters of a kind that is not read: {min(others)[:200]}.",
            why="LoRA's A and B are read, and a bias of B.",
            fix=save,
        )
    adapters = sorted({match[1] for name in tensors if (match := _DOWN.search(name)) and match[1]})
    if len(adapters) > 1:
        raise MotionkitError(
            f"{path} holds {len(adapters)} adapters: {', '.join(adapters)[:200]}.",
            why="the file does not say which of them act.",
            fix=save,
        )
    if args.get("alpha_pattern"):
        raise MotionkitError(f"{path}: args.json has an alpha for each layer (alpha_pattern).", fix=save)
    return float(alpha)


def _not_mdm(path: Path, content: Any) -> MotionkitError:
    return MotionkitError(
        f"{path} is not an MDM checkpoint.",
        why=f"it looks like {weights.describe(content)}.",
        fix="give the model%09d.pt of an MDM run, or a motionkit policy or run folder.",
    )
