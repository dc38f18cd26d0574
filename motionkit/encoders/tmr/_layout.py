"""Finds the tensors of TMR's three networks in a foreign file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from motionkit import weights
from motionkit.encoders.tmr._network import ActorDecoder, ActorEncoder, ActorSizes
from motionkit.errors import MotionkitError
from motionkit.nn import native_keys
from motionkit.weights import components, describe

TEXT, MOTION, DECODER = "text_encoder", "motion_encoder", "motion_decoder"
# Some releases file the motion decoder under the name of the Guo evaluator's convolution.
_ALIASES = {"movement_encoder": DECODER}
_FIX = (
    "give the folder with text_encoder.pt and motion_encoder.pt (TMR's last_weights), one file that holds both, "
    "or a folder written by motionkit pretrain tmr."
)


@dataclass(frozen=True)
class Parts:
    """The networks of one TMR as flat tensors, with where each came from."""

    tensors: Mapping[str, Mapping[str, Tensor]]
    origins: Mapping[str, str]


def split_file(obj: Any, origin: str) -> Parts:
    """Find TMR's networks in one file, whatever wrapping it has.

    Raises:
        MotionkitError: It is another kind of file (named), or holds one network only.
    """
    found = components(obj) if isinstance(obj, Mapping) else {}
    parts = {_ALIASES.get(name, name): tensors for name, tensors in found.items()}
    if not {TEXT, MOTION} <= parts.keys():
        what = describe(obj)
        alone = "TMR motion encoder" in what or "TMR text encoder" in what or "TMR encoder" in what
        raise MotionkitError(
            f"{origin} is not a complete TMR: it is {what}.",
            why="scoring needs the text and the motion encoder." if alone else "TMR is two transformer encoders.",
            fix="name both files with --reward.text-encoder and --reward.motion-encoder." if alone else _FIX,
        )
    for name in (TEXT, MOTION):
        _check_encoder(parts[name], obj, origin)
    return Parts(parts, dict.fromkeys(parts, origin))


def read_one(path: Path, role: str) -> Mapping[str, Tensor]:
    """Read the file of one network, wrapped or bare.

    Raises:
        MotionkitError: It is another kind of file (named).
    """
    obj = weights.read(path)
    inner = components(obj) if isinstance(obj, Mapping) else {}
    inner = {_ALIASES.get(name, name): tensors for name, tensors in inner.items()}
    tensors = inner.get(role) or weights.find_tensors(obj)
    if tensors is None:
        raise MotionkitError(f"{path} is not a TMR {role}: it is {describe(obj)}.", fix=_FIX)
    if role != DECODER:
        _check_encoder(tensors, obj, str(path))
    return tensors


def _check_encoder(tensors: Mapping[str, Tensor], obj: Any, origin: str) -> None:
    if "projection.weight" not in tensors or "tokens" not in tensors:
        what = describe(obj)
        guo = "Guo" in what
        raise MotionkitError(
            f"{origin} is not a TMR encoder: it is {what}.",
            why="the two have the same component names, but other networks; loading one into the other would leave "
            "every weight random."
            if guo
            else "a TMR encoder has `tokens`, `projection` and `seqTransEncoder` tensors.",
            fix=f"use it with a reward of the evaluator (--reward mdm-matching --reward.weights {origin}) or as "
            f"--evaluator of motionkit eval text-to-motion; for a TMR {_FIX}"
            if guo
            else _FIX,
        )


def encoder_sizes(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorSizes:
    """Read every size but the number of heads off the shapes.

    Raises:
        MotionkitError: The heads do not divide the width, or the names are not TMR's.
    """
    try:
        latent, features = tensors["projection.weight"].shape
        ff = tensors["seqTransEncoder.layers.0.linear1.weight"].shape[0]
        variational = tensors["tokens"].shape[0] == 2
    except (KeyError, ValueError, IndexError) as error:
        raise MotionkitError(f"{origin} is not a TMR encoder: it is {describe(tensors)}.", why=str(error)) from error
    return ActorSizes(features, latent, ff, _layers(tensors, origin), check_heads(heads, latent, origin), variational)


def decoder_sizes(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorSizes:
    """`encoder_sizes` for the decoder."""
    try:
        features, latent = tensors["final_layer.weight"].shape
        ff = tensors["seqTransDecoder.layers.0.linear1.weight"].shape[0]
    except (KeyError, ValueError, IndexError) as error:
        raise MotionkitError(
            f"{origin} is not a TMR motion decoder: it is {describe(tensors)}.",
            why=str(error),
            fix="leave the decoder out; a reward does not need it.",
        ) from error
    return ActorSizes(features, latent, ff, _layers(tensors, origin), check_heads(heads, latent, origin))


def check_heads(heads: int, latent: int, origin: str) -> int:
    """Return `heads` when it divides the width."""
    if heads < 1 or latent % heads:
        raise MotionkitError(
            f"{heads} attention heads do not divide the latent width {latent} of {origin}.",
            why="a weight file does not say how many heads it was trained with.",
            fix="give the right number with --reward.heads, or put the run's config.json beside the weights.",
        )
    return heads


def _layers(tensors: Mapping[str, Tensor], origin: str) -> int:
    """Return how many layers there are; gaps in their numbers are refused, since a large number takes any memory."""
    found = {name.split(".")[2] for name in tensors if name.startswith("seqTrans") and ".layers." in name}
    if found != {str(number) for number in range(len(found))}:
        raise MotionkitError(f"the layers of {origin} are not numbered from 0 on.", fix="copy or download it again.")
    return len(found)


def build_encoder(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorEncoder:
    """Build and fill an encoder; any tensor too many or too few is an error."""
    sizes = encoder_sizes(tensors, heads, origin)
    return weights.build(lambda: ActorEncoder(sizes), native_keys(tensors), origin)


def build_decoder(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorDecoder:
    """Build and fill a decoder."""
    sizes = decoder_sizes(tensors, heads, origin)
    return weights.build(lambda: ActorDecoder(sizes), native_keys(tensors), origin)
