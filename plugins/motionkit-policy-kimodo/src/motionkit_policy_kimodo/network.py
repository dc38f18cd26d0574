"""Kimodo's network: a transformer predicts the root, and a second one, given that root, the body. And its guidance.

Written from the layout of its weight files and the formulas of its paper. Names of tensors are those of the files up to
the attention projections (`motionkit.nn.native_keys`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit.motion import Normalizer
from motionkit.nn import TransformerEncoder, sinusoidal_table
from motionkit.rl import length_mask
from motionkit_policy_kimodo import FPS
from motionkit_policy_kimodo.representation import LOCAL, ROOT, local_root

STEPS = 1000  # diffusion steps
_POSITIONS = 2000  # rows of the table of positions, which the timesteps share
EPSILON = 1e-5  # added to variances


@dataclass(frozen=True)
class Shape:
    """Sizes of a network."""

    features: int  # D
    text_width: int  # E of a text vector
    text_slots: int = 50  # Text tokens; those past the given vectors are zeros
    text_mask: bool = False  # Only the given vectors are attended to; False: all slots are
    latent: int = 1024
    feedforward: int = 2048
    layers: int = 16  # Of each stage
    heads: int = 8
    norm_first: bool = False  # See `motionkit.nn.TransformerEncoder`
    activation: Literal["gelu", "relu"] = "gelu"
    heading: bool = True  # There is a token of the first heading


class Stage(nn.Module):
    """Text slots, timestep, first heading and frames as one sequence; the outputs of the frames are returned."""

    def __init__(self, shape: Shape, features: int, out: int) -> None:
        super().__init__()
        self.shape = shape
        self.embed_text = nn.Linear(shape.text_width, shape.latent)
        embed = nn.Sequential(nn.Linear(shape.latent, shape.latent), nn.SiLU(), nn.Linear(shape.latent, shape.latent))
        self.embed_timestep = nn.ModuleDict({"time_embed": embed})
        self.input_linear = nn.Linear(features, shape.latent)
        self.output_linear = nn.Linear(shape.latent, out)
        self.linear_first_heading_angle = nn.Linear(2, shape.latent)  # in all files, with a token of it or not
        self.seqTransEncoder = TransformerEncoder(
            shape.latent,
            shape.heads,
            shape.feedforward,
            shape.layers,
            0.0,
            norm_first=shape.norm_first,
            activation=shape.activation,
        )

    def forward(
        self, x: Tensor, valid: Tensor, row: Tensor, heading: Tensor, text: Tensor, text_mask: Tensor, table: Tensor
    ) -> Tensor:
        """Return ``[N, T, out]`` float32 of frames ``[N, T, F]``.

        Args:
            x: Frames; those that are not `valid` are finite.
            valid: ``[N, T]`` bool.
            row: ``[N, latent]``, the timesteps' rows of `table`.
            heading: ``[N]`` radians.
            text: ``[N, slots, E]``.
            text_mask: ``[N, slots]`` bool.
            table: ``[P, latent]`` positions.
        """
        extra = [self.embed_timestep["time_embed"](row)]
        if self.shape.heading:
            extra.append(self.linear_first_heading_angle(torch.stack([heading.cos(), heading.sin()], dim=-1)))
        # [N, slots + 2 + T, latent]: frame 0 has the position slots + 2, or slots + 1 without a heading.
        tokens = torch.cat([self.embed_text(text), torch.stack(extra, dim=1), self.input_linear(x)], dim=1)
        keys = torch.cat([text_mask, valid.new_ones(len(x), len(extra)), valid], dim=1)
        hidden = self.seqTransEncoder(tokens + table[: tokens.shape[1]], keys)
        with torch.autocast(x.device.type, enabled=False):
            out: Tensor = self.output_linear(hidden[:, -x.shape[1] :].float())
        return out


class KimodoNetwork(nn.Module):
    """Predicts x0 from noisy motions, text, first heading and constraints.

    Args:
        shape: Sizes.
        fps: Frames per second, for the speeds of the root that the body's stage reads.
        root_gradient: Whether the gradient passes from the body through the root that it was given. It did not in
            Kimodo's training: the way between the stages has differences and an arctangent, and multiplies it.
    """

    def __init__(self, shape: Shape, fps: float = FPS, *, root_gradient: bool = False) -> None:
        super().__init__()
        self.shape, self.fps, self.root_gradient = shape, fps, root_gradient
        body = shape.features - ROOT
        self.root_model = Stage(shape, 2 * shape.features, ROOT)
        self.body_model = Stage(shape, LOCAL + body + shape.features, body)
        self.register_buffer("table", sinusoidal_table(_POSITIONS, shape.latent), persistent=False)
        # Mean and scale of the root as it is predicted and as the second stage reads it; set by `set_statistics`.
        for name, size in (("root", ROOT), ("local", LOCAL)):
            self.register_buffer(f"{name}_mean", torch.zeros(size), persistent=False)
            self.register_buffer(f"{name}_scale", torch.ones(size), persistent=False)

    table: Tensor
    root_mean: Tensor
    root_scale: Tensor
    local_mean: Tensor
    local_scale: Tensor

    def set_statistics(self, features: Normalizer, local: Normalizer) -> None:
        """Set the statistics of all features, and of the root as the second stage reads it."""
        self.root_mean.copy_(features.mean[:ROOT])
        self.root_scale.copy_(features.std[:ROOT])
        self.local_mean.copy_(local.mean)
        self.local_scale.copy_(local.std)

    def forward(
        self,
        x: Tensor,
        timestep: Tensor,
        lengths: Tensor,
        *,
        text: Tensor,
        text_mask: Tensor,
        heading: Tensor,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        root_only: bool = False,
    ) -> Tensor:
        """Predict x0, ``[N, T, D]`` float32; padding may hold anything and reaches nothing.

        Args:
            x: ``[N, T, D]`` noisy, normalised.
            timestep: ``[N]`` int64 in 0..999.
            lengths: ``[N]`` int64, each at least 2.
            text: ``[N, L, E]`` vectors, zeros for no text; L is at most the number of slots.
            text_mask: ``[N, L]`` bool, False for no text. It matters with ``shape.text_mask`` only.
            heading: ``[N]`` radians, of the first frame.
            observed: ``[N, T, D]`` normalised values of constraints.
            mask: ``[N, T, D]``, 1 where `observed` counts; elsewhere it may hold anything.
            root_only: Predict the root's features alone, ``[N, T, 5]``, by the first stage.
        """
        valid = length_mask(lengths, x.shape[1])
        x = torch.where(valid[..., None], x, 0.0)
        if observed is None or mask is None:
            given = torch.zeros_like(x)
        else:
            given = torch.where(valid[..., None], mask, 0).to(x)
            x = torch.where(given > 0, observed, x)
        slots = self.shape.text_slots - text.shape[1]
        text = F.pad(text, (0, 0, 0, slots))
        text_mask = F.pad(text_mask, (0, slots))
        if not self.shape.text_mask:
            text_mask = torch.ones_like(text_mask)
        common = self.table[timestep], heading, text, text_mask, self.table

        root: Tensor = self.root_model(torch.cat([x, given], dim=-1), valid, *common)
        if root_only:
            return root
        with torch.autocast(x.device.type, enabled=False):
            known = (root if self.root_gradient else root.detach()) * self.root_scale + self.root_mean
            local = (local_root(known, lengths, self.fps) - self.local_mean) / self.local_scale
        body = self.body_model(torch.cat([local, x[..., ROOT:], given], dim=-1), valid, *common)
        return torch.cat([root, body], dim=-1)


@dataclass(frozen=True, eq=False)
class Conditions:
    """N rows of conditions."""

    text: Tensor  # ``[N, L, E]``; zeros for an empty text
    text_mask: Tensor  # ``[N, L]`` bool, False for an empty text
    heading: Tensor  # ``[N]`` radians, of the first frame
    observed: Tensor | None = None  # ``[N, T, D]`` normalised values of constraints
    mask: Tensor | None = None  # ``[N, T, D]`` bool, where they count; None if no row has constraints

    def __len__(self) -> int:
        return len(self.text)

    def select(self, index: Tensor) -> Conditions:
        """Return the rows `index` (``[M]`` int64), repeats allowed."""
        return Conditions(**{name: value[index] for name, value in vars(self).items() if value is not None})

    def to(self, device: torch.device | str) -> Conditions:
        """Move them."""
        return Conditions(**{name: value.to(device) for name, value in vars(self).items() if value is not None})

    def at(self, frames: int) -> Conditions:
        """Return them for motions of so many frames: constraints are padded, or cut where no motion is."""
        if self.mask is None or self.observed is None:
            return self
        room = (0, 0, 0, frames - self.mask.shape[1])
        return replace(self, observed=F.pad(self.observed, room), mask=F.pad(self.mask, room))

    def without(self, *, text: bool, constraint: bool) -> Conditions:
        """Return the rows without text, or without constraints; the first heading stays."""
        kept = self
        if text:
            kept = replace(kept, text=torch.zeros_like(self.text), text_mask=torch.zeros_like(self.text_mask))
        if constraint and self.mask is not None:
            kept = replace(kept, mask=torch.zeros_like(self.mask))
        return kept


@dataclass(frozen=True)
class Guidance:
    """How predictions with and without conditions are mixed; u is the one without text and constraints.

    ``separated``: u + text (t - u) + constraint (k - u), where t has the text alone and k the constraints alone.
    ``regular``: u + text (c - u), where c has both. ``nocfg``: c.
    """

    kind: Literal["separated", "regular", "nocfg"] = "separated"
    text: float = 2.0
    constraint: float = 2.0

    def predict(
        self, network: KimodoNetwork, x: Tensor, timestep: Tensor, lengths: Tensor, conditions: Conditions
    ) -> Tensor:
        """Predict x0, ``[N, T, D]``, by one pass of all the rows that are needed.

        Without constraints k is u: two rows a motion, and one for a text weight of 1.
        """
        passes = self._passes(constrained=conditions.mask is not None)
        rows = [vars(conditions.without(text=not text, constraint=not constraint)) for text, constraint in passes]
        joined = {name: torch.cat([row[name] for row in rows]) for name, had in rows[0].items() if had is not None}
        count = len(passes)
        made = network(x.repeat(count, 1, 1), timestep.repeat(count), lengths.repeat(count), **joined).chunk(count)
        # The first pass has no weight: it is u, or the only one.
        out: Tensor = made[0]
        for prediction, weight in zip(made[1:], list(passes.values())[1:], strict=True):
            out = out + weight * (prediction - made[0])
        return out

    def _passes(self, *, constrained: bool) -> dict[tuple[bool, bool], float]:
        """Return (has text, has constraints) of each pass, and its weight."""
        both, neither = (True, constrained), (False, False)
        if self.kind == "nocfg" or (self.text == 1.0 and not (constrained and self.kind == "separated")):
            return {both: 1.0}
        if self.kind == "regular" or not constrained:
            return {neither: 1.0, both: self.text}
        return {neither: 1.0, (True, False): self.text, (False, True): self.constraint}
