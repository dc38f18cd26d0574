"""Sa2VA's published folders, with the code that comes with them: its parts are called, its own loops are not."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.policies.sa2va._composite import load_safetensors
from motionkit.policies.sa2va._parts import Features, Sizes
from motionkit.policies.sa2va._shims import shims
from motionkit.policies.sa2va._variants import check_variant


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
    """Open a published folder.

    Args:
        folder: config.json, Python files and safetensors.
        dtype: Of the weights.
        trusted: Whether its code may run.

    Raises:
        MotionkitError: Its code is not trusted or does not run, it is a variant that reads no region, or its weights
            do not fit.
    """
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
    """Return a hash of a folder's Python files; empty where it has none."""
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
        _attend_plainly(config)
        _turn_as_written(config, folder)
        torch.set_default_dtype(dtype)  # weights of billions of numbers are made once, at their size
        with shims(), no_init_weights():  # drawing what is read next would take minutes
            network: nn.Module = kind(config, use_flash_attn=False)
    except Exception as error:  # whatever foreign code raises
        said = (str(error).splitlines() or [""])[0][:300]
        raise MotionkitError(
            f"the code of {folder} does not run here.",
            why=f"{type(error).__name__}: {said}",
            fix="motionkit was checked with the InternVL variants of 24 October 2025.",
        ) from error
    finally:
        torch.set_default_dtype(default)
    return network


def _attend_plainly(config: Any) -> None:
    """Take PyTorch's attention for the language model: the code asks for flash-attn or for the slow one.

    It sets a name that transformers 5 overwrites on construction, so it is set on the configuration as well.
    """
    config.llm_config._attn_implementation = "sdpa"


def _turn_as_written(config: Any, folder: Path) -> None:
    """Give InternLM2's code the ``rope_scaling`` of config.json: None, or ``{"type": ..., "factor": ...}``.

    Transformers 5 rewrites it, and the code cannot read what it writes.
    """
    said = read_json(folder / "config.json", dict, fix="copy the folder again.")["llm_config"]
    if said["architectures"][0] == "InternLM2ForCausalLM":
        config.llm_config.rope_scaling = said.get("rope_scaling")
