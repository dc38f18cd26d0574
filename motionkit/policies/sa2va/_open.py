"""Opens Sa2VA from its options."""

from __future__ import annotations

import hashlib
import os
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
from motionkit.policies.sa2va._parts import Parts
from motionkit.policies.sa2va._policy import Sa2vaPolicy
from motionkit.runs import SavedModel, find_model

_TARGETS = r"language_model\.(?:.*\.)?(?:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.py")


def open_sa2va(options: Sa2vaOptions, *, device: torch.device | str = "cpu", dataset: object = None) -> Sa2vaPolicy:
    """Open the policy that `options` names.

    Raises:
        MotionkitError: It is missing or damaged, another kind of model, or its code is not trusted.
    """
    place = Path(options.checkpoint).expanduser()
    saved = find_model(place, REGION_ARTIFACT, DOCUMENT)
    document = None if saved is None else read_document(saved.document)
    if document is not None:
        options = options.model_copy(update=_kept(options, document))
    source = options.base or (document.base.place if document else options.checkpoint)
    revision = options.revision or (document.base.revision if document else "")
    folder, commit = _folder(source, revision, of_run=document is not None)
    dtype = _dtype(options.dtype, torch.device(device))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        parts = _open_parts(folder, dtype, options)
    base = Base(source if commit else str(folder.resolve()), commit, mark_of(folder))
    if document is not None and document.base.mark != base.mark:
        raise MotionkitError(
            f"{source} is not the model that {options.checkpoint} was trained on.",
            why=f"its files have the mark {base.mark}, and that model's was {document.base.mark}.",
            fix="--policy.base DIR names the right one.",
        )
    _adapt(parts.network, options)
    parts.network.to(device).eval()
    policy = Sa2vaPolicy(parts, _tokenizer(folder, options), options, base, device=device)
    _as_float32(policy)
    if saved is not None:
        _load(policy, saved)
    return policy


def mark_of(folder: Path) -> str:
    """Return a hash of a model's small files, and of the names and sizes of its weights."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".txt", ".model", ".py", ".jinja"):
            digest.update(path.name.encode() + path.read_bytes())
        elif path.suffix == ".safetensors":
            digest.update(f"{path.name} {path.stat().st_size}".encode())
    return digest.hexdigest()[:16]


def _kept(options: Sa2vaOptions, document: Sa2vaDocument) -> dict[str, Any]:
    """Return the options of a trained policy, but for those that were given."""
    return {name: value for name, value in document.options.items() if name not in options.model_fields_set}


def _folder(source: str, revision: str, *, of_run: bool) -> tuple[Path, str]:
    """Return the folder of a model, and its commit where it is on the hub."""
    place = Path(source).expanduser()
    if (place / "config.json").is_file():
        return place, ""
    if place.exists() or source.count("/") != 1 or source.startswith((".", "~", "/")):
        fix = "--policy.base DIR says where it is now." if of_run else "give a folder with config.json, or a hub id."
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


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def _open_parts(folder: Path, dtype: torch.dtype, options: Sa2vaOptions) -> Parts:
    config = read_json(folder / "config.json", dict, fix="copy the folder again.")
    if config.get("model_type") == MODEL_TYPE:
        return open_composite(folder, dtype)
    raise MotionkitError(
        f"{folder} holds a model of type {str(config.get('model_type'))[:40]!r}.",
        fix="give a folder of Sa2VA.",
    )


def _tokenizer(folder: Path, options: Sa2vaOptions) -> Any:
    import transformers

    own = read_json(folder / "config.json", dict, fix="copy the folder again.").get("model_type") == MODEL_TYPE
    kind = transformers.PreTrainedTokenizerFast if own else transformers.AutoTokenizer
    code = {} if own else {"trust_remote_code": options.trust_remote_code}
    try:
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
