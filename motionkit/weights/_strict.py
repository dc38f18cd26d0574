"""State dicts: finds the tensors in what a training program saved, describes them, and loads them strictly.

`find_tensors` looks through the usual containers and prefixes. `describe` recognises known models by names and shapes,
for messages. In `load_strict` and `build`, a missing or unknown tensor, or another shape, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from motionkit.errors import MotionkitError

Module = TypeVar("Module", bound=nn.Module)

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params")
_PREFIXES = ("module.", "_orig_mod.")
_COUNT = "n_averaged"
_COMPONENTS = ("text_encoder", "motion_encoder", "motion_decoder", "movement_encoder", "movement_enc", "seq_motion")


def strip_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Remove ``module.`` (DataParallel) and ``_orig_mod.`` (torch.compile) if every name has it, at any depth.

    Beside ``module.`` torch's AveragedModel has the count ``n_averaged``, which is left out.
    """
    stripped = dict(tensors)
    while stripped:
        others = stripped.keys() - {_COUNT}
        if others and _COUNT in stripped and all(name.startswith(_PREFIXES[0]) for name in others):
            del stripped[_COUNT]
        prefix = next((prefix for prefix in _PREFIXES if all(name.startswith(prefix) for name in stripped)), "")
        if not prefix:
            break
        stripped = {name.removeprefix(prefix): value for name, value in stripped.items()}
    return stripped


def find_tensors(obj: Any) -> dict[str, Tensor] | None:
    """Return the flat name-to-tensor mapping in `obj`, unwrapped, or None if there is none.

    Numpy arrays count as tensors. Looks through ``{"state_dict": ...}``, ``{"model": ...}`` and the like.
    """
    for _ in range(4):
        if not isinstance(obj, Mapping):
            return None
        flat = flat_tensors(obj)
        if flat:
            return strip_prefix(flat)
        inner = next((obj[name] for name in _WRAPPERS if isinstance(obj.get(name), Mapping)), None)
        if inner is None:
            return None
        obj = inner
    return None


def flat_tensors(obj: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Return `obj` as tensors if every value is a tensor or a numeric array and every key a text; else nothing."""
    if not all(isinstance(key, str) for key in obj):
        return {}
    flat = {key: tensor for key, value in obj.items() if (tensor := as_tensor(value)) is not None}
    return flat if len(flat) == len(obj) else {}


def as_tensor(value: object) -> Tensor | None:
    """Return a tensor, or an array of numbers in any byte order, as a tensor; None for anything else."""
    if isinstance(value, np.ndarray) and is_numeric(value.dtype):
        return torch.from_numpy(np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C"))
    return value if isinstance(value, Tensor) else None


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether torch supports this number type, in any byte order."""
    return dtype.kind in "?bfiu" and dtype.itemsize <= 8


def describe(obj: Any) -> str:
    """Describe an object from `read` for a message: format, role and main sizes.

    Example:
        >>> import torch
        >>> describe({"state_dict": {"input_process.poseEmbedding.weight": torch.zeros(512, 263)}})
        'an MDM diffusion model (trans_enc, 263 features)'
    """
    if isinstance(obj, (Tensor, np.ndarray)):
        return f"a single array of shape {list(obj.shape)}"
    if not isinstance(obj, Mapping):
        return f"a {type(obj).__name__}, not weights"
    if not obj:
        return "an empty dictionary"
    if parts := components(obj):
        return _describe_components(parts, lightning=is_lightning(obj))
    tensors = find_tensors(obj)
    if tensors is None:
        keys = ", ".join(str(key) for key in list(obj)[:6])
        return f"a dictionary without recognisable weights (keys: {keys})"
    prefix = "a Lightning checkpoint with " if is_lightning(obj) else ""
    return prefix + describe_tensors(tensors)


def is_lightning(obj: Mapping[Any, Any]) -> bool:
    """Whether `obj` is a PyTorch Lightning checkpoint."""
    return any("lightning" in str(key) for key in obj) and "state_dict" in obj


def components(obj: Mapping[Any, Any]) -> dict[str, dict[str, Tensor]]:
    """Split the content of a file into named components.

    Known layouts are ``{text_encoder: {...}}``, ``{text_encoder_state_dict: {...}}`` and flat names that start with a
    component (``text_encoder.projection.weight``), bare or wrapped in ``model``, ``state_dict`` and the like.

    Returns:
        Component name to its tensors; empty if there are no components.
    """
    nested = {}
    for key, value in obj.items():
        name = str(key).removesuffix("_state_dict")
        if name in _COMPONENTS and isinstance(value, Mapping) and (inner := find_tensors(value)):
            nested[name] = inner
    if nested:
        return nested
    flat = find_tensors(obj)
    if not flat:
        wrapped = [value for value in obj.values() if isinstance(value, Mapping) and not flat_tensors(value)]
        return next((parts for value in wrapped if (parts := components(value))), {})
    split: dict[str, dict[str, Tensor]] = {}
    for name, tensor in flat.items():
        head, dot, rest = name.partition(".")
        if dot and head in _COMPONENTS:
            split.setdefault(head, {})[rest] = tensor
    return {name: strip_prefix(tensors) for name, tensors in split.items()}


def _describe_components(parts: Mapping[str, Mapping[str, Tensor]], *, lightning: bool) -> str:
    kinds = {name: describe_tensors(tensors) for name, tensors in parts.items()}
    if any("Guo" in kind for kind in kinds.values()):
        return "the Guo et al. text-to-motion evaluator (finest.tar, BiGRU networks)"
    kind = "a Lightning checkpoint" if lightning else "one file"
    return f"{kind} with " + "; ".join(f"{name} = {text}" for name, text in kinds.items())


def describe_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Describe a flat set of tensors."""
    names = set(tensors)

    def has(*needles: str) -> bool:
        return all(any(needle in name for name in names) for needle in needles)

    if has("lora_A") or has("lora_B") or has("lora_"):
        return "LoRA adapters (an addition to a base model, not a model)"
    if "tokens" in names and "projection.weight" in names and has("seqTransEncoder.layers.0."):
        width = tensors["projection.weight"].shape[1]
        role = {768: "a TMR text encoder (DistilBERT features)", 4096: "a TMR text encoder (LLM2Vec features)"}.get(
            width, "a TMR motion encoder" if width in (263, 251, 135) else "a TMR encoder"
        )
        return f"{role}, {width} features in"
    if has("seqTransDecoder.layers.0.") and "final_layer.weight" in names:
        return f"a TMR motion decoder, {tensors['final_layer.weight'].shape[0]} features out"
    if has("input_process.poseEmbedding.weight"):
        return _describe_mdm(tensors)
    if has("skel_embedding") or has("global_motion_token") or has("global_text_token"):
        return "an OpenTMA / OpenTMR encoder (another architecture than TMR)"
    if has("input_blocks.", "middle_block.", "output_blocks.") or has("sentence_t5"):
        return "a MotionReward / SPM network (skip transformer; another architecture than TMR)"
    if has("gru.weight_ih_l0"):
        return "a BiGRU encoder of the Guo et al. text-to-motion evaluator"
    if "main.0.weight" in names and "out_net.weight" in names:
        return "the movement convolution of the Guo et al. text-to-motion evaluator"
    if has("visual.transformer.resblocks.0.") or has("text_model.encoder.layers.0.self_attn.k_proj"):
        return "a CLIP model"
    if has("transformer.layer.0.attention.q_lin"):
        return "a DistilBERT model"
    if has("encoder.layer.0.attention.self.query"):
        return "a BERT model (such as MiniLM)"
    shown = ", ".join(sorted(names)[:3])
    return f"{len(names)} tensors of an unknown model ({shown}, ...)"


def _describe_mdm(tensors: Mapping[str, Tensor]) -> str:
    width = next(value.shape[1] for name, value in tensors.items() if "poseEmbedding.weight" in name)
    if any("embed_target_cond" in name for name in tensors):
        return "a DiP model (autoregressive MDM with targets)"
    kind = "trans_dec" if any("seqTransDecoder" in name for name in tensors) else "trans_enc"
    kind = "gru" if any(name.startswith("gru.") for name in tensors) else kind
    return f"an MDM diffusion model ({kind}, {width} features)"


def load_strict(module: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Copy `tensors` into `module`; every name and shape must agree.

    Args:
        module: Network with its own names.
        tensors: Name to tensor.
        origin: Their file or folder, for the message.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> load_strict(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, "layer.pt")
        >>> layer(torch.ones(1, 2)).item()
        2.0
    """
    _check(module, tensors, origin)
    module.load_state_dict(dict(tensors), strict=True)


def build(make: Callable[[], Module], tensors: Mapping[str, Tensor], origin: str) -> Module:
    """Build a network for `tensors` and load them into it.

    The network is first built on the meta device, without memory, and with memory only if every name and shape agrees.
    So a wrong description next to the file cannot allocate more memory than the file needs.

    Args:
        make: Makes the network.
        tensors: Name to tensor.
        origin: Their file or folder, for the message.
    """
    with torch.device("meta"), _Unset():
        _check(make(), tensors, origin)
    module = make()
    module.load_state_dict(dict(tensors), strict=True)
    return module


class _Unset(TorchFunctionMode):
    """Draws no normal numbers: on the meta device that sets nothing, but imports torch's compiler: a second."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func.__name__ == "normal_":  # of a tensor, or of torch.nn.init
            return args[0] if args else named["tensor"]
        if func.__name__ == "randn" and "generator" not in named:
            return torch.empty(*args, **named)
        return func(*args, **named)


def _check(module: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    expected = module.state_dict()
    missing = sorted(expected.keys() - tensors.keys())
    unknown = sorted(tensors.keys() - expected.keys())
    shapes = [
        f"{name} is {list(tensors[name].shape)}, should be {list(expected[name].shape)}"
        for name in expected
        if name in tensors and tensors[name].shape != expected[name].shape
    ]
    if missing or unknown or shapes:
        parts = [
            _some("missing", missing, len(expected)),
            _some("unknown", unknown, len(tensors)),
            _some("of another shape", shapes, len(expected)),
        ]
        raise MotionkitError(
            f"{origin} does not fit {type(module).__name__}.",
            why="; ".join(part for part in parts if part) + f". The file looks like: {describe(tensors)}.",
            fix="use the weights that belong to this model; nothing was loaded.",
        )


def _some(what: str, names: Sequence[str], of: int) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{len(names)} of {of} tensors {what}: {', '.join(names[:3])}{more}"
