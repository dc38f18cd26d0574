"""Opens Sa2VA from its options."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.policies.base import REGION_ARTIFACT
from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.policies.sa2va._composite import MODEL_TYPE, open_composite
from motionkit.policies.sa2va._document import DOCUMENT, Base, Sa2vaDocument, read_document
from motionkit.policies.sa2va._guide import guide_file, load_guide
from motionkit.policies.sa2va._parts import Parts
from motionkit.policies.sa2va._place import find_base, mark_of, refuse_other
from motionkit.policies.sa2va._policy import Sa2vaPolicy
from motionkit.policies.sa2va._published import PublishedParts, code_of, open_published
from motionkit.policies.sa2va._shims import shims
from motionkit.runs import SavedModel, find_model

_TARGETS = (
    r"language_model\.(?:.*\.)?(?:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj"
    r"|wqkv|wo|w1|w2|w3)"  # of InternLM2
)
_MOVED = "--policy.base DIR says where it is now."


def open_sa2va(options: Sa2vaOptions, *, device: torch.device | str = "cpu", dataset: object = None) -> Sa2vaPolicy:
    """Open the policy that `options` names.

    Raises:
        MotionkitError: It is missing or damaged, another kind of model, or its code is not trusted.
    """
    place = Path(options.checkpoint).expanduser()
    guide = guide_file(place, options)
    saved = None if guide else find_model(place, REGION_ARTIFACT, DOCUMENT)
    document = None if saved is None else read_document(saved.document)
    if document is not None:
        options = options.model_copy(update=_kept(options, document))
    source = options.base or (document.base.place if document else options.checkpoint)
    revision = options.revision or (document.base.revision if document else "")
    folder, commit = find_base(source, revision, moved=_MOVED if document else "")
    dtype = _dtype(options.dtype, torch.device(device))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        parts = _open_parts(folder, dtype, options)
    published = isinstance(parts, PublishedParts)
    code = code_of(folder) if published else ""
    base = Base(source if commit else str(folder.resolve()), commit, mark_of(folder), code)
    if document is not None:
        refuse_other(source, base.mark, document.base.mark, options.checkpoint, fix=_MOVED)
    _adapt(parts.network, options)
    parts.network.to(device).eval()
    policy = Sa2vaPolicy(parts, _tokenizer(folder, options, published=published), options, base, device=device)
    _as_float32(policy)
    if saved is not None:
        _load(policy, saved)
    if guide is not None:
        load_guide(policy, guide)
    return policy


def _kept(options: Sa2vaOptions, document: Sa2vaDocument) -> dict[str, Any]:
    """Return the options of a trained policy, but for those that were given."""
    return {name: value for name, value in document.options.items() if name not in options.model_fields_set}


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def _open_parts(folder: Path, dtype: torch.dtype, options: Sa2vaOptions) -> Parts:
    config = read_json(folder / "config.json", dict, fix="copy the folder again.")
    if config.get("model_type") == MODEL_TYPE:
        return open_composite(folder, dtype)
    return open_published(folder, dtype, trusted=options.trust_remote_code)


def _tokenizer(folder: Path, options: Sa2vaOptions, *, published: bool) -> Any:
    import transformers

    kind = transformers.AutoTokenizer if published else transformers.PreTrainedTokenizerFast
    code = {"trust_remote_code": options.trust_remote_code} if published else {}
    try:
        with shims() if published else nullcontext():  # the tokenizer of a published folder asks for its configuration
            return kind.from_pretrained(str(folder), local_files_only=True, **code)
    except (OSError, ValueError, KeyError) as error:
        raise MotionkitError(
            f"cannot open the tokenizer of {folder}.", why=str(error).splitlines()[0], fix="copy the folder again."
        ) from error


def _adapt(network: nn.Module, options: Sa2vaOptions) -> None:
    """Put adapters into the language model; its own weights stay as they are."""
    if not options.lora_rank:
        return
    import peft

    config = peft.LoraConfig(
        r=options.lora_rank, lora_alpha=options.lora_alpha, lora_dropout=0.0, target_modules=_TARGETS, bias="none"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        try:
            peft.inject_adapter_in_model(config, network)
        except ValueError as error:
            raise MotionkitError(
                "the language model has no layer for adapters.", why=str(error).splitlines()[0],
                fix="--policy.lora-rank 0 trains none of it.",
            ) from error  # fmt: skip


def _as_float32(policy: Sa2vaPolicy) -> None:
    """Keep what is trained in float32: small steps would be rounded away in bfloat16."""
    trained = policy.tensors().keys()
    for name, parameter in policy.network.named_parameters():
        parameter.requires_grad_(False)
        if name in trained:
            parameter.data = parameter.data.float()


def _load(policy: Sa2vaPolicy, saved: SavedModel) -> None:
    tensors = weights.read(saved.tensors)
    own = policy.tensors()
    for name in sorted(own.keys() | tensors.keys()):
        if name not in own or name not in tensors or own[name].shape != tensors[name].shape:
            raise MotionkitError(
                f"{saved.tensors} does not fit the model.", why=f"{name} differs.",
                fix="leave out the options of the policy: the folder knows those it was trained with.",
            )  # fmt: skip
    policy.load_tensors({name: tensor.float() for name, tensor in tensors.items()})
