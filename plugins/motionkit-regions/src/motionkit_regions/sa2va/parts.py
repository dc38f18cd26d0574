"""The parts of Sa2VA: of its published folders with their code, or of transformers' own models.

`shims` stands in for packages that the published code imports and its parts never use, only during that import.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit_regions.sa2va.sizes import CONFIG_ERRORS, check_variant, no_model

MODEL_TYPE = "motionkit_sa2va"
"""``model_type`` of config.json."""

Features = tuple[Tensor, ...]
"""Features of the grounding encoder for N images: maps ``[N, C, y, x]``, the finest first."""

_logger = logging.getLogger("motionkit.sa2va")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model."""

    tile: int  # pixels of a tile's side, for the vision encoder
    cells: int  # tokens of a tile's side, as the language model reads them
    grounding: int  # pixels of an image's side, for the grounding encoder
    mask: int  # pixels of a mask's side
    prompt: int  # numbers of a segmentation prompt


class Parts(Protocol):
    """A model with ``vision_model``, ``mlp1``, ``language_model``, ``text_hidden_fcs`` and ``grounding_encoder``."""

    sizes: Sizes
    template: str  # name of its chat template

    @property
    def network(self) -> nn.Module:
        """The model; its parts have these names."""
        ...

    def look(self, tiles: Tensor) -> Tensor:
        """Return the inputs of ``mlp1`` for tiles ``[T, 3, tile, tile]``: ``[T, cells ** 2, C]``, row by row."""
        ...

    def ground(self, images: Tensor) -> Features:
        """Return the features that masks are drawn from, of images ``[N, 3, grounding, grounding]``."""
        ...

    def decode(self, features: Features, prompts: Tensor, *, several: bool) -> tuple[Tensor, Tensor]:
        """Draw masks of prompts ``[N, Z]``: all of SAM's candidates, or one of each.

        Returns mask logits ``[N, K, mask, mask]`` and expected IoU ``[N, K]`` from 0 to 1.
        """
        ...


def load_safetensors(network: nn.Module, folder: Path) -> None:
    """Load model.safetensors, or the parts that model.safetensors.index.json names; strict except for tied weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.exists():
        listed = read_json(index, dict, fix="copy the folder again.").get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
            raise MotionkitError(f"{index} has no table weight_map of file names.", fix="copy the folder again.")
        names = sorted(set(listed.values()))
    loaded: set[str] = set()
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise MotionkitError(f"{folder} has no {name}.", fix="copy the folder again; weights are safetensors.")
        try:
            tensors = load_file(folder / name)
            network.load_state_dict(tensors, strict=False)
        except (SafetensorError, RuntimeError) as error:
            raise MotionkitError(f"{folder / name} does not fit.", why=str(error).splitlines()[0]) from error
        if unknown := sorted(tensors.keys() - network.state_dict().keys()):
            raise MotionkitError(f"{folder / name} holds {unknown[0]}, which the model has not.")
        loaded |= tensors.keys()
    pointers = {tensor.data_ptr() for name, tensor in network.state_dict().items() if name in loaded}
    missing = [
        name
        for name, tensor in network.state_dict().items()
        if name not in loaded and tensor.data_ptr() not in pointers
    ]
    if missing:
        raise MotionkitError(f"{folder} lacks {missing[0]}, one of {len(missing):,} weights.")


# Of transformers' own models


class Composite(nn.Module):
    """InternVL's vision encoder, a projector, a causal language model and SAM 2; see `Parts`.

    Its config.json has ``vision_config``, ``llm_config`` and ``sam_config`` as transformers writes them,
    ``downsample_ratio`` and ``template``.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        import transformers

        super().__init__()
        vision = transformers.InternVLVisionConfig(**config["vision_config"])
        words = transformers.AutoConfig.for_model(**config["llm_config"])
        sam = transformers.Sam2Config(**config["sam_config"])
        self.factor = round(1 / float(config["downsample_ratio"]))
        wide, width = self.factor**2 * vision.hidden_size, words.hidden_size
        self.vision_model = transformers.InternVLVisionModel(vision)
        self.mlp1 = nn.Sequential(nn.LayerNorm(wide), nn.Linear(wide, width), nn.GELU(), nn.Linear(width, width))
        self.language_model = transformers.AutoModelForCausalLM.from_config(words, trust_remote_code=False)
        prompt = sam.mask_decoder_config.hidden_size
        self.text_hidden_fcs = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, prompt), nn.Dropout(0.0)
        )
        self.grounding_encoder = transformers.Sam2Model(sam)
        tile, grid = int(vision.image_size[0]), int(vision.image_size[0]) // int(vision.patch_size[0])
        side = int(sam.prompt_encoder_config.image_size)
        self.sizes = Sizes(tile, grid // self.factor, side, 4 * (side // sam.prompt_encoder_config.patch_size), prompt)


class CompositeParts:
    """See `Parts`."""

    def __init__(self, network: Composite, template: str) -> None:
        self.network, self.sizes, self.template = network, network.sizes, template

    def look(self, tiles: Tensor) -> Tensor:
        """See `Parts.look`."""
        seen = self.network.vision_model(pixel_values=tiles).last_hidden_state
        return shuffled(seen[:, 1:], self.network.factor)  # the first cell is the class token

    def ground(self, images: Tensor) -> Features:
        """See `Parts.ground`."""
        return tuple(self.network.grounding_encoder.get_image_embeddings(images))

    def decode(self, features: Features, prompts: Tensor, *, several: bool) -> tuple[Tensor, Tensor]:
        """See `Parts.decode`."""
        sam = self.network.grounding_encoder
        *fine, coarse = features
        count, _, height, width = coarse.shape
        dense = sam.prompt_encoder.no_mask_embed.weight.reshape(1, -1, 1, 1).expand(count, -1, height, width)
        masks, scores, _, _ = sam.mask_decoder(
            image_embeddings=coarse,
            image_positional_embeddings=sam.get_image_wide_positional_embeddings().repeat(count, 1, 1, 1),
            sparse_prompt_embeddings=prompts[:, None, None].to(coarse.dtype),
            dense_prompt_embeddings=dense,
            multimask_output=several,
            high_resolution_features=fine,
        )
        return masks[:, 0], scores[:, 0]


def open_composite(folder: Path, dtype: torch.dtype) -> CompositeParts:
    """Open a folder of config.json and safetensors."""
    config = read_json(folder / "config.json", dict, fix="copy the folder again.")
    try:
        network = Composite(config)
    except CONFIG_ERRORS as error:
        raise no_model(str(folder / "config.json"), error) from error
    load_safetensors(network, folder)
    return CompositeParts(network.to(dtype).eval(), str(config.get("template", "qwen_chat")))


def shuffled(
    cells: Tensor,  # [T, V, C], V a square number, row by row
    factor: int,  # side of a square
) -> Tensor:
    """Join each square of cells to a token (InternVL's pixel shuffle, version 2): ``[T, V / f ** 2, f ** 2 * C]``."""
    count, cells_of, channels = cells.shape
    side = round(cells_of**0.5) // factor
    squares = cells.view(count, side, factor, side, factor, channels).transpose(2, 3)
    return squares.reshape(count, side * side, factor * factor * channels)


# Of published folders with their code


class PublishedParts:
    """See `Parts`.

    Masks are those of the published inference: SAM's prompt is two empty points and the segmentation prompt, and the
    mask is the candidate whose expected IoU is highest.
    """

    def __init__(self, network: Any, template: str) -> None:
        self.network, self.template = network, template
        config, sam = network.config, network.grounding_encoder.sam2_model
        tile = int(config.force_image_size or config.vision_config.image_size)
        cells = int(tile // config.vision_config.patch_size * config.downsample_ratio)
        self.sizes = Sizes(tile, cells, int(sam.image_size), 4 * int(sam.sam_image_embedding_size), int(sam.hidden_dim))

    def look(self, tiles: Tensor) -> Tensor:
        """See `Parts.look`."""
        network = self.network
        seen = network.vision_model(pixel_values=tiles, output_hidden_states=True, return_dict=True)
        last = network.select_layer == -1
        cells = (seen.last_hidden_state if last else seen.hidden_states[network.select_layer])[:, 1:]
        side = round(cells.shape[1] ** 0.5)
        squares = network.pixel_shuffle(cells.unflatten(1, (side, side)), scale_factor=network.downsample_ratio)
        return torch.as_tensor(squares.flatten(1, 2))

    def ground(self, images: Tensor) -> Features:
        """See `Parts.ground`."""
        sam = self.network.grounding_encoder.sam2_model
        *fine, coarse = sam.forward_image(images)["backbone_fpn"][-sam.num_feature_levels :]
        return *fine, coarse + sam.no_mem_embed.reshape(1, -1, 1, 1)  # an image is a video's first frame

    def decode(self, features: Features, prompts: Tensor, *, several: bool) -> tuple[Tensor, Tensor]:
        """See `Parts.decode`."""
        sam = self.network.grounding_encoder.sam2_model
        *fine, coarse = features
        count = len(coarse)
        points = torch.zeros(count, 1, 2, device=coarse.device)
        labels = -torch.ones(count, 1, dtype=torch.int32, device=coarse.device)
        sparse, dense = sam.sam_prompt_encoder(points=(points, labels), boxes=None, masks=None)
        masks, scores, _, _ = sam.sam_mask_decoder(
            image_embeddings=coarse,
            image_pe=sam.sam_prompt_encoder.get_dense_pe(),
            sparse_prompt_embeddings=torch.cat([sparse, prompts[:, None].to(sparse.dtype)], 1),
            dense_prompt_embeddings=dense,
            multimask_output=True,
            repeat_image=False,
            high_res_features=fine,
        )
        if several:
            return masks, scores
        rows, best = torch.arange(count, device=masks.device), scores.argmax(1)
        return masks[rows, best][:, None], scores[rows, best][:, None]


def open_published(folder: Path, dtype: torch.dtype, *, trusted: bool) -> PublishedParts:
    """Open a published folder of config.json, Python files, which run if they are trusted, and safetensors."""
    config = read_json(folder / "config.json", dict, fix="copy the folder again.")
    check_variant(folder, config)
    if not trusted:
        raise MotionkitError(
            f"{folder} comes with code of its own, and that code is not trusted.",
            why=f"a published Sa2VA opens with the {len(_sources(folder))} Python files beside its weights; nothing of "
            "them has run.",
            fix="read them, and add --trust-remote-code to the command if you trust them.",
        )
    named = str(config["auto_map"]["AutoModel"])
    if "--" in named:
        raise MotionkitError(
            f"{folder} takes its code from another place: {named[:80]}.",
            why="only code that lies in the folder can be recorded and run.",
        )
    network = _network(folder, named, dtype)
    load_safetensors(network, folder)
    return PublishedParts(network.eval(), str(config.get("template", "")))


def code_of(folder: Path) -> str:
    """Return a hash of a folder's Python files; empty if it has none."""
    digest, sources = hashlib.sha256(), _sources(folder)
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16] if sources else ""


def _sources(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py"))


def _network(folder: Path, named: str, dtype: torch.dtype) -> nn.Module:
    """Build the network with the folder's code, its weights not set."""
    from transformers.dynamic_module_utils import get_class_from_dynamic_module
    from transformers.initialization import no_init_weights

    default = torch.get_default_dtype()
    try:
        with shims():
            kind = get_class_from_dynamic_module(named, str(folder), local_files_only=True)
            config = kind.config_class.from_pretrained(str(folder), local_files_only=True)
        # The code selects flash-attn or the slow attention by a name that transformers 5 overwrites.
        config.llm_config._attn_implementation = "sdpa"
        _turn_as_written(config, folder)
        torch.set_default_dtype(dtype)  # billions of weights are allocated once, in their dtype
        with shims(), no_init_weights():  # random weights, which are overwritten next, would take minutes
            network: nn.Module = kind(config, use_flash_attn=False)
    except Exception as error:  # whatever foreign code raises
        first_line = (str(error).splitlines() or [""])[0][:300]
        raise MotionkitError(
            f"the code of {folder} does not run here.",
            why=f"{type(error).__name__}: {first_line}",
            fix="motionkit was checked with the InternVL variants of 24 October 2025.",
        ) from error
    finally:
        torch.set_default_dtype(default)
    return network


def _turn_as_written(config: Any, folder: Path) -> None:
    """Give InternLM2's code the ``rope_scaling`` of config.json: None, or ``{"type": ..., "factor": ...}``.

    Transformers 5 rewrites it, and the code cannot read what it writes.
    """
    written = read_json(folder / "config.json", dict, fix="copy the folder again.")["llm_config"]
    if written["architectures"][0] == "InternLM2ForCausalLM":
        config.llm_config.rope_scaling = written.get("rope_scaling")


@contextmanager
def shims() -> Iterator[None]:
    """Put stand-ins in place, and keep what the code prints on import out of the output, which may be JSON (``-v``).

    torchvision: its CPU build fails on import with other versions of torch than its own; pixels are prepared without
    it. timm needs torchvision; only its DropPath is used, the identity in eval mode. einops: InternLM2 splits heads
    with `rearrange`.
    """
    from transformers.utils import is_torchvision_available

    is_torchvision_available()  # transformers caches the answer, which must not be about the stand-in
    pixels = ("resize", "to_pil_image", "InterpolationMode", "Compose", "Lambda", "Resize", "ToTensor", "Normalize")
    printed = StringIO()
    try:
        with (
            redirect_stdout(printed),
            _standing_in("torchvision", ("transforms", "transforms.functional"), dict.fromkeys(pixels)),
            _standing_in("timm", ("models", "models.layers"), {"DropPath": _Kept}),
            _standing_in("einops", (), {"rearrange": _rearranged}),
        ):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            _logger.debug("printed by the model's code: %s", line)


def _rearranged(tensor: Tensor, pattern: str, **sizes: int) -> Tensor:
    """Split one axis or join some, as in ``b q (h d) -> b q h d``; their order stays."""
    left, right = (side.split("(") for side in pattern.split("->"))
    before, after = (re.findall(r"\w+", side) for side in pattern.split("->"))
    if before != after or len(left) > 2 or len(right) > 2:
        raise RuntimeError(f"einops is not installed, and motionkit does not rearrange {pattern!r}")
    if len(left) == 2:
        axis, names = len(left[0].split()), left[1].split(")")[0].split()
        tensor = tensor.unflatten(axis, [sizes.get(name, -1) for name in names])
    if len(right) == 2:
        axis, names = len(right[0].split()), right[1].split(")")[0].split()
        tensor = tensor.flatten(axis, axis + len(names) - 1)
    return tensor


class _Kept(nn.Identity):
    """The identity, in place of DropPath: the vision encoder is frozen."""

    def __init__(self, rate: float = 0.0, *_: Any) -> None:
        super().__init__()


@contextmanager
def _standing_in(package: str, parts: tuple[str, ...], names: dict[str, Any]) -> Iterator[None]:
    """Put an empty package in place of one that cannot be imported; a call of its functions fails with a reason."""
    if _imports(package):
        yield
        return
    made = {name: ModuleType(name) for name in (package, *(f"{package}.{part}" for part in parts))}
    for name, module in made.items():
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        for attribute, value in names.items():
            setattr(module, attribute, _absent(package, attribute) if value is None else value)
        if "." in name:
            above, _, last = name.rpartition(".")
            setattr(made[above], last, module)
    before = {name: sys.modules[name] for name in sys.modules if name == package or name.startswith(f"{package}.")}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name in made:
            del sys.modules[name]
        sys.modules.update(before)


def _imports(package: str) -> bool:
    try:
        importlib.import_module(package)
    except (ImportError, RuntimeError, AttributeError, OSError):  # torchvision of another torch raises the second
        return False
    return True


def _absent(package: str, name: str) -> Callable[..., Any]:
    class Absent:
        """Has every attribute that a default argument may read."""

        BICUBIC = "bicubic"

        def __init__(self, *_: object, **__: object) -> None:
            raise RuntimeError(f"{package}.{name} is not installed, and motionkit does not call it")

    return Absent
