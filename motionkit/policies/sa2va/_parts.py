"""The parts of Sa2VA, whatever code they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

Features = tuple[Tensor, ...]
"""What the grounding encoder saw of N images: maps ``[N, C, y, x]``, the finest first."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model.

    Attributes:
        tile: Pixels of a tile's side, for the vision encoder.
        cells: Tokens of a tile's side, as the language model reads them.
        grounding: Pixels of an image's side, for the grounding encoder.
        mask: Pixels of a mask's side.
        prompt: Numbers of a segmentation prompt.
    """

    tile: int
    cells: int
    grounding: int
    mask: int
    prompt: int


class Parts(Protocol):
    """A model with ``vision_model``, ``mlp1``, ``language_model``, ``text_hidden_fcs`` and ``grounding_encoder``.

    Attributes:
        sizes: Its sizes.
        template: Name of its chat template.
    """

    sizes: Sizes
    template: str

    @property
    def network(self) -> nn.Module:
        """The model; its parts have these names."""
        ...

    def look(self, tiles: Tensor) -> Tensor:
        """Return what ``mlp1`` reads of tiles ``[T, 3, tile, tile]``: ``[T, cells ** 2, C]``, row by row."""
        ...

    def ground(self, images: Tensor) -> Features:
        """Return what masks are drawn from, of images ``[N, 3, grounding, grounding]``."""
        ...

    def decode(self, features: Features, prompts: Tensor, *, several: bool) -> tuple[Tensor, Tensor]:
        """Draw masks.

        Args:
            features: As `ground` returns them.
            prompts: ``[N, Z]``.
            several: Whether all of SAM's candidates are wanted, or one mask.

        Returns:
            Mask logits ``[N, K, mask, mask]`` and ``[N, K]`` expected IoU from 0 to 1.
        """
        ...


def shuffled(cells: Tensor, factor: int) -> Tensor:
    """Make one token of each square of ``factor ** 2`` cells (pixel shuffle of InternVL, its version 2).

    Args:
        cells: ``[T, V, C]``, V a square number, row by row.
        factor: Side of a square.

    Returns:
        ``[T, V / factor ** 2, factor ** 2 * C]``.
    """
    count, cells_of, channels = cells.shape
    side = round(cells_of**0.5) // factor
    squares = cells.view(count, side, factor, side, factor, channels).transpose(2, 3)
    return squares.reshape(count, side * side, factor * factor * channels)
