"""Opens, finds, converts and exports Sa2VA."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.nn.lora import names_by_group
from motionkit.nn.sharding import shard
from motionkit.runs import OutputFolder, SavedModel, find_model
from motionkit.training.world import World
from motionkit_regions.policy import REGION_ARTIFACT
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.parts import (
    MODEL_TYPE,
    Parts,
    PublishedParts,
    code_of,
    open_composite,
    open_published,
    shims,
)
from motionkit_regions.sa2va.policy import DOCUMENT, Base, Sa2vaPolicy, read_document

_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.py")

_DOWN, _UP = ".lora_A.default.weight", ".lora_B.default.weight"
_COPIED = (".json", ".txt", ".model", ".py", ".jinja")

_logger = logging.getLogger("motionkit.sa2va")
_GUIDE_FILES = {"student": "pytorch_model.bin", "ema": "ema_model.bin"}
_STATE = "training_state.bin"
_WRAPPERS = ("shadow", "shadow_params", "ema_state_dict", "ema_model")
_PREFIXES = re.compile(r"^(?:(?:module|_orig_mod|model|student_model|ema_model|base_model|mllm)\.)+(?=[a-z]+)")
_PARTS = ("mlp1", "language_model", "text_hidden_fcs", "grounding_encoder")

_TARGETS = (
    r"language_model\.(?:.*\.)?(?:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj"
    r"|wqkv|wo|w1|w2|w3)"  # of InternLM2
)
_MOVED = "--policy.base DIR says where it is now."


def mark_of(folder: Path) -> str:
    """Return a hash of a model's small files, and of the names and sizes of its weights."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".txt", ".model", ".py", ".jinja"):
            digest.update(path.name.encode() + path.read_bytes())
        elif path.suffix == ".safetensors":
            digest.update(f"{path.name} {path.stat().st_size}".encode())
    return digest.hexdigest()[:16]


def refuse_other(source: object, mark: str, expected: str, checkpoint: str, *, fix: str) -> None:
    """Refuse a base that is not the one that a policy was trained on."""
    if mark != expected:
        raise MotionkitError(
            f"{source} is not the model that {checkpoint} was trained on.",
            why=f"its files have the mark {mark}, and that model's was {expected}.",
            fix=fix,
        )


def find_base(
    source: str,  # folder or hub id
    revision: str,  # commit, branch or tag on the hub; empty for the newest
    *,
    moved: str = "",  # the fix if it is no longer in place
) -> tuple[Path, str]:
    """Return the folder of a model, and its commit if it is on the hub."""
    place = Path(source).expanduser()
    if (place / "config.json").is_file():
        return place, ""
    if place.exists() or source.count("/") != 1 or source.startswith((".", "~", "/")):
        fix = moved or "give a folder with config.json, or a hub id."
        raise MotionkitError(f"{source} holds no model.", why="it has no config.json.", fix=fix)
    return weights.download(source, revision=revision, files=_FILES)


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

        cached = try_to_load_from_cache(source, "config.json", revision=revision or None)
        folder = Path(cached).parent if isinstance(cached, str) else folder
    if not (folder / "config.json").is_file():
        return None
    return folder, read_json(folder / "config.json", dict, fix="copy the folder again.")


def export_hf(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write config.json, tokenizer and weights as the base has them; see `motionkit.plugins.Component.exports`.

    Weights keep the precision of the base. One file of the base is in memory at a time.
    """
    place = OutputFolder(folder, "export.json", "motionkit-export", overwrite=overwrite)
    place.claim()
    saved = find_model(Path(checkpoint).expanduser(), REGION_ARTIFACT, DOCUMENT)
    if saved is None:
        raise MotionkitError(
            f"{checkpoint} is not a trained Sa2VA.", fix="give a run of sa2va-rl or its policy folder."
        )
    document = read_document(saved.document)
    moved = f"set base.place in {saved.document} to where it is now."
    base, _ = find_base(document.base.place, document.base.revision, moved=moved)
    refuse_other(base, mark_of(base), document.base.mark, checkpoint, fix=moved)
    options = Sa2vaOptions.model_validate({"checkpoint": checkpoint, **document.options})
    scale = options.lora_alpha / max(1, options.lora_rank)
    changes = Changes(weights.read(saved.tensors), scale)
    with place.beside() as part:
        for path in sorted(base.iterdir()):
            if path.suffix in _COPIED:
                shutil.copyfile(path, part / path.name)
            elif path.suffix == ".safetensors":
                save_file(dict(changes.applied(path)), str(part / path.name), metadata={"format": "pt"})
        if left := changes.left():
            raise MotionkitError(f"{base} has no {left[0]}, which was trained.", fix=moved)
    place.settle(part, {"schema": 1, "to": "hf", "checkpoint": checkpoint})
    return folder / "config.json", []


class Changes:
    """Merges trained weights and adapters into a base's weights."""

    def __init__(self, trained: Mapping[str, Tensor], scale: float) -> None:
        self._trained, self._scale, self._done = trained, scale, set[str]()

    def applied(self, path: Path) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors of a file of safetensors, changed."""
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 -- a handle, not a mapping
                yield name, self._changed(name, file.get_tensor(name)).contiguous()

    def left(self) -> list[str]:
        """Return the trained weights that no file had."""
        return sorted(self._trained.keys() - self._done)

    def _changed(self, name: str, tensor: Tensor) -> Tensor:
        if name in self._trained:
            self._done.add(name)
            return self._trained[name].to(tensor.dtype)
        layer = name.removesuffix(".weight")
        if (down := layer + _DOWN) not in self._trained:
            return tensor
        up = layer + _UP
        self._done |= {down, up}
        added = self._scale * self._trained[up].float() @ self._trained[down].float()
        return (tensor.float() + added).to(tensor.dtype)


def guide_file(place: Path, options: Sa2vaOptions) -> Path | None:
    """Return the weights of a guide's checkpoint; None for any other folder."""
    if not any((place / name).is_file() for name in _GUIDE_FILES.values()) or (place / "config.json").is_file():
        return None
    path = place / _GUIDE_FILES[options.weights]
    if not path.is_file():
        other = "ema" if options.weights == "student" else "student"
        raise MotionkitError(f"{place} has no {path.name}.", fix=f"--policy.weights {other}")
    if not options.base:
        raise MotionkitError(
            f"{place} is a checkpoint of the guide's code, which does not say what it was trained from.",
            fix="--policy.base DIR names the folder of that model.",
        )
    return path


def load_guide(policy: Sa2vaPolicy, path: Path) -> None:
    """Load the trained weights of a guide's checkpoint by name, and log what was not found."""
    stored = _named(weights.read(path), path)
    current = policy.tensors()
    taken = {name: stored[name].float() for name in current if name in stored}
    if not taken:
        raise MotionkitError(
            f"{path} holds nothing that is trained here.",
            why=f"it has {len(stored):,} weights, such as {min(stored)!r}.",
            fix="it is loaded by names such as mlp1.0.weight.",
        )
    for name, tensor in taken.items():
        if tensor.shape != current[name].shape:
            raise MotionkitError(
                f"{path} does not fit the model.",
                why=f"{name} is {list(tensor.shape)}, and the model's is {list(current[name].shape)}.",
                fix="--policy.lora-rank and --policy.lora-alpha say how it was trained." if "lora_" in name else "",
            )
    if unused := sorted(name for name in stored if ".lora_" in name and name not in current):
        raise MotionkitError(
            f"{path} holds adapters that have no place here: {unused[0][:200]} and {len(unused) - 1:,} more.",
            why="LoRA's A and B of one adapter, called default, are read; without them the model is another.",
            fix="--policy.lora-rank says how it was trained." if not policy.options.lora_rank else "",
        )
    policy.load_tensors({**current, **taken})
    missing = {}
    for group, names in names_by_group(policy.groups, current).items():
        if absent := sum(name not in taken for name in names):
            missing[group] = f"{absent} of {len(names)} of the {group}"
    left = f"; not found: {', '.join(missing.values())}; these are as in the base" if missing else ""
    _logger.warning("%s: %s weights taken%s", path.name, f"{len(taken):,}", left)
    _log_state(path.parent / _STATE)


def _named(content: object, path: Path) -> dict[str, Tensor]:
    """Return the weights of a file by the names of the model's parts."""
    while isinstance(content, Mapping) and (
        inner := next((wrapper for wrapper in _WRAPPERS if wrapper in content), None)
    ):
        content = content[inner]
    if (tensors := weights.find_tensors(content)) is None:
        raise MotionkitError(f"{path} holds no weights by name.", fix="give the folder that the guide's code wrote.")
    return {_renamed(name): tensor for name, tensor in tensors.items()}


def _renamed(name: str) -> str:
    """Return a name without the prefixes of training code, and with adapters named as `peft` injects them."""
    for part in _PARTS:
        if (at := name.find(f"{part}.")) >= 0 and _PREFIXES.sub("", name[: at + 1]) == name[at]:
            name = name[at:]
            break
    return name.replace("language_model.base_model.model.", "language_model.", 1)


def _log_state(path: Path) -> None:
    """Log how far the guide's run was; its optimiser starts anew."""
    if not path.is_file():
        return
    state = weights.read(path)
    progress = {
        key: state[key] for key in ("global_step", "step", "epoch") if isinstance(state, Mapping) and key in state
    }
    shown = ", ".join(f"{key} {value}" for key, value in progress.items() if isinstance(value, (int, float)))
    _logger.warning("%s: %s; the optimiser starts anew", path.name, shown or "read")


def open_sa2va(
    options: Sa2vaOptions,
    *,
    device: torch.device | str = "cpu",
    dataset: object = None,
    world: World | None = None,
) -> Sa2vaPolicy:
    """Open the policy that `options` names in main memory, and move it to `device`: whole, or its share of `world`."""
    place = Path(options.checkpoint).expanduser()
    if weights.is_hub_id(options.checkpoint):
        place, _ = weights.download(options.checkpoint, revision=options.revision, files=_FILES)
    guide = guide_file(place, options)
    saved = None if guide else find_model(place, REGION_ARTIFACT, DOCUMENT)
    document = None if saved is None else read_document(saved.document)
    if document is not None:
        kept = {name: value for name, value in document.options.items() if name not in options.model_fields_set}
        options = options.model_copy(update=kept)
    source = options.base or (document.base.place if document else options.checkpoint)
    revision = options.revision or (document.base.revision if document else "")
    folder, commit = find_base(source, revision, moved=_MOVED if document else "")
    half = options.dtype == "bfloat16" or (options.dtype == "auto" and torch.device(device).type == "cuda")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        dtype = torch.bfloat16 if half else torch.float32
        config = read_json(folder / "config.json", dict, fix="copy the folder again.")
        weights.refuse_kernels(config, folder / "config.json")
        parts: Parts
        if config.get("model_type") == MODEL_TYPE:
            parts = open_composite(folder, dtype)
        else:
            parts = open_published(folder, dtype, trusted=options.trust_remote_code)
    published = isinstance(parts, PublishedParts)
    code = code_of(folder) if published else ""
    base = Base(source if commit else str(folder.resolve()), commit, mark_of(folder), code)
    if document is not None:
        refuse_other(source, base.mark, document.base.mark, options.checkpoint, fix=_MOVED)
    tokenizer = _tokenizer(folder, options, published=published)
    policy = adapted(parts, tokenizer, options, base, device=device, world=world)
    if saved is not None:
        _load(policy, saved)
    if guide is not None:
        load_guide(policy, guide)
    if world is None:
        policy.network.to(device)
    else:
        shard(policy.network, policy.layers(), torch.device(device))
    return policy


def adapted(
    parts: Parts,
    tokenizer: Any,
    options: Sa2vaOptions,
    base: Base,
    *,
    device: torch.device | str = "cpu",
    world: World | None = None,
) -> Sa2vaPolicy:
    """Return the policy of an opened model, with its adapters; what is trained is float32, the rest frozen."""
    _adapt(parts.network, options)
    parts.network.eval()
    policy = Sa2vaPolicy(parts, tokenizer, options, base, device=device, world=world)
    _as_float32(policy)
    return policy


def _tokenizer(folder: Path, options: Sa2vaOptions, *, published: bool) -> Any:
    import transformers

    kind = transformers.AutoTokenizer if published else transformers.PreTrainedTokenizerFast
    code = {"trust_remote_code": options.trust_remote_code} if published else {}
    try:
        with shims() if published else nullcontext():  # the tokenizer of a published folder imports its configuration
            return kind.from_pretrained(str(folder), local_files_only=True, **code)
    except (OSError, ValueError, KeyError) as error:
        raise MotionkitError(
            f"cannot open the tokenizer of {folder}.", why=str(error).splitlines()[0], fix="copy the folder again."
        ) from error


def _adapt(network: nn.Module, options: Sa2vaOptions) -> None:
    """Inject adapters into the language model."""
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
    """Keep trained weights in float32, as small steps would be rounded away in bfloat16, and freeze the others."""
    trained = policy.tensors().keys()
    for name, parameter in policy.network.named_parameters():
        parameter.requires_grad_(name in trained)
        if name in trained:
            parameter.data = parameter.data.float()


def _load(policy: Sa2vaPolicy, saved: SavedModel) -> None:
    tensors = weights.read(saved.tensors)
    current = policy.tensors()
    for name in sorted(current.keys() | tensors.keys()):
        if name not in current or name not in tensors or current[name].shape != tensors[name].shape:
            raise MotionkitError(
                f"{saved.tensors} does not fit the model.", why=f"{name} differs.",
                fix="leave out the options of the policy: the folder knows those it was trained with.",
            )  # fmt: skip
    policy.load_tensors({name: tensor.float() for name, tensor in tensors.items()})
