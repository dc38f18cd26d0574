"""Sa2VA's parts from transformers' own models: no code comes with the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.policies.sa2va._parts import Features, Sizes, shuffled
from motionkit.policies.sa2va._sizes import CONFIG_ERRORS, no_model

MODEL_TYPE = "motionkit_sa2va"
"""``model_type`` of config.json."""


class Composite(nn.Module):
    """InternVL's vision encoder, a projector, a causal language model and SAM 2; see `Parts`.

    Args:
        config: Content of config.json: ``vision_config``, ``llm_config`` and ``sam_config`` as transformers writes
            them, ``downsample_ratio`` and ``template``.
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
        self.language_model = transformers.AutoModelForCausalLM.from_config(words)
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
        return shuffled(seen[:, 1:], self.network.factor)  # the first cell sums up the tile

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
    """Open a folder of config.json and safetensors.

    Raises:
        MotionkitError: The configuration or the weights do not fit.
    """
    config = read_json(folder / "config.json", dict, fix="copy the folder again.")
    try:
        network = Composite(config)
    except CONFIG_ERRORS as error:
        raise no_model(str(folder / "config.json"), error) from error
    load_safetensors(network, folder)
    return CompositeParts(network.to(dtype).eval(), str(config.get("template", "qwen_chat")))


def load_safetensors(network: nn.Module, folder: Path) -> None:
    """Load model.safetensors, or the parts that model.safetensors.index.json names; strict but for tied weights.

    Raises:
        MotionkitError: A file is missing or damaged, or holds other weights.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.exists():
        listed = read_json(index, dict, fix="copy the folder again.").get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
            raise MotionkitError(f"{index} has no table weight_map of file names.", fix="copy the folder again.")
        names = sorted(set(listed.values()))
    found: set[str] = set()
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
        found |= tensors.keys()
    held = {tensor.data_ptr() for name, tensor in network.state_dict().items() if name in found}
    missing = [
        name for name, tensor in network.state_dict().items() if name not in found and tensor.data_ptr() not in held
    ]
    if missing:
        raise MotionkitError(f"{folder} lacks {missing[0]}, one of {len(missing):,} weights.")


def write_composite(folder: Path, network: Composite, config: dict[str, Any]) -> None:
    """Write config.json and model.safetensors."""
    from safetensors.torch import save_model

    folder.mkdir(parents=True, exist_ok=True)
    save_model(network, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
