"""The MDM network: predicts the clean motion from a noisy one, a timestep and text (arXiv:2209.14916, figure 2).

Module names follow the released checkpoints, so that their tensors load by name (`motionkit.nn.native_keys` renames
the attention projections).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit.nn import TransformerDecoder, TransformerEncoder, sinusoidal_table, zeroed
from motionkit.text_to_motion.mdm.settings import MDMSettings


@dataclass(frozen=True)
class MDMCondition:
    """One row per prompt."""

    text: Tensor  # [N, L, F] float32 features: of the whole text (L = 1), of each clause, or of each word
    mask: Tensor  # [N, L] bool
    # [N, L, 2] int64 frame range of each clause; None unless the network reads clauses.
    windows: Tensor | None = None
    # [N, C, D] float32 clean, normalised frames that the motion continues; None unless it is DiP.
    prefix: Tensor | None = None

    def __len__(self) -> int:
        return self.text.shape[0]

    def select(self, index: Tensor) -> MDMCondition:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        windows, prefix = (None if part is None else part[index] for part in (self.windows, self.prefix))
        return MDMCondition(self.text[index], self.mask[index], windows, prefix)

    def repeat(self, times: int) -> MDMCondition:
        """Return all rows `times` times over, the whole block repeated."""
        return self.select(torch.arange(len(self), device=self.text.device).repeat(times))

    def to(self, device: torch.device | str) -> MDMCondition:
        """Move to `device`."""
        windows, prefix = (None if part is None else part.to(device) for part in (self.windows, self.prefix))
        return MDMCondition(self.text.to(device), self.mask.to(device), windows, prefix)


class Given(NamedTuple):
    """What the tokens of a motion are told, the same at every step."""

    positions: Tensor  # [S, d] position encodings, or [N, S, d] with the clause of each token added
    condition: Tensor | None  # [N, L, d] of the text; None where the tokens have it
    mask: Tensor  # [N, L] bool, of the condition; [N, 1] where the timestep stands alone


class MDMNetwork(nn.Module):
    """Transformer over frames (or patches of frames) with the condition as prefix or memory."""

    pe: Tensor

    def __init__(self, settings: MDMSettings) -> None:
        super().__init__()
        self.settings = settings
        width, channels = settings.latent_dim, settings.features * settings.patch_size
        self.register_buffer("pe", sinusoidal_table(settings.pos_embed_max_len, width), persistent=False)
        self.input_process = nn.ModuleDict({"poseEmbedding": nn.Linear(channels, width)})
        self.embed_timestep = nn.ModuleDict(
            {"time_embed": nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))}
        )
        self.embed_text = nn.Linear(settings.text_width, width)
        shape = (width, settings.num_heads, settings.ff_size, settings.layers, settings.dropout)
        if settings.arch == "trans_enc":
            self.seqTransEncoder = TransformerEncoder(*shape)
        else:
            self.seqTransDecoder = TransformerDecoder(*shape)
        written = channels * (2 if settings.patch_overlap else 1)
        self.output_process = nn.ModuleDict({"poseFinal": nn.Linear(width, written)})
        self.dropout = nn.Dropout(settings.dropout)

    def forward(
        self,
        x: Tensor,
        timestep: Tensor,
        text: Tensor,
        text_mask: Tensor,
        *,
        windows: Tensor | None = None,
        frame_mask: Tensor | None = None,
        drop: Tensor | None = None,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """Predict x0, ``[N, T, D]`` float32.

        Args:
            x: ``[N, T, D]`` noisy, normalised.
            timestep: ``[N]`` int64 in 0..diffusion_steps-1.
            text: ``[N, L, F]`` text features: one vector, one per clause, or one per word.
            text_mask: ``[N, L]`` bool.
            windows: ``[N, L, 2]`` half-open frame range of each clause (clause_frames only).
            frame_mask: ``[N, T]`` bool; other frames are zeroed and not attended to. None = all valid.
            drop: ``[N]`` bool, True = without text.
            prefix: ``[N, C, D]`` clean, normalised frames before x, which are attended to but not predicted (DiP).
        """
        frames = x.shape[1]
        if prefix is not None:
            # DiP (arXiv:2410.03441, section 3): one sequence [N, C + T, D], of which the last T frames are noisy.
            x = torch.cat((prefix, x), dim=1)
            frame_mask = None if frame_mask is None else F.pad(frame_mask, (prefix.shape[1], 0), value=True)
        # [N, T, D] -> [N, S, d] with S = ceil(T / patch) tokens of width d = latent_dim.
        tokens, token_mask = self._tokens(x, frame_mask)
        given = self._given(text, text_mask, windows, drop, tokens.shape[1])
        hidden = self._hidden(tokens, token_mask, self._time(timestep), given)
        return self._output(hidden if prefix is None else hidden[:, prefix.shape[1] :], token_mask, frames)

    def denoise(
        self,
        x: Tensor,
        steps: Sequence[tuple[int, float, float, float]],
        text: Tensor,
        text_mask: Tensor,
        *,
        windows: Tensor | None = None,
        frame_mask: Tensor | None = None,
        guidance: float = 1.0,
        noise: Callable[[int], Tensor] | None = None,
    ) -> Tensor:
        """Take reverse steps ``x <- c_x0 x0 + c_xt x + sigma eps`` and return the last x0, ``[N, T, D]`` float32.

        Between two steps the output layer and the input layer follow each other with nothing but sums between them. So
        their product, of d columns, takes the place of both, and the frames are never built: the state stays in
        tokens. The result is that of one `forward` for each step, up to rounding.

        Args:
            x: ``[N, T, D]`` noisy, normalised.
            steps: Timestep, c_x0, c_xt and sigma of each; the last has c_x0 1, c_xt 0 and sigma 0.
            text: As of `forward`.
            text_mask: As of `forward`.
            windows: As of `forward`.
            frame_mask: As of `forward`.
            guidance: Classifier-free guidance scale; unless it is 1 every step has N rows with text and N without.
            noise: ``noise(timestep)`` ``[N, T, D]``, for steps with a sigma.
        """
        count, frames, guided = x.shape[0], x.shape[1], guidance != 1.0
        tokens, token_mask = self._tokens(x, frame_mask)
        drop = torch.arange(2 * count, device=x.device) >= count if guided else None
        if guided:
            text, text_mask = text.repeat(2, 1, 1), text_mask.repeat(2, 1)
            windows = None if windows is None else windows.repeat(2, 1, 1)
        given = self._given(text, text_mask, windows, drop, tokens.shape[1])
        keys = token_mask.repeat(2, 1) if guided and token_mask is not None else token_mask
        between = None
        times = self._time(torch.tensor([step[0] for step in steps], device=x.device))  # [K, 1, d] of K steps
        for time, (timestep, c_x0, c_xt, sigma) in zip(times, steps, strict=True):
            at = time.expand(len(text), 1, -1)
            hidden = self._hidden(tokens.repeat(2, 1, 1) if guided else tokens, keys, at, given)
            if guided:
                with_text, plain = hidden[:count], hidden[count:]
                hidden = plain + guidance * (with_text - plain)  # all that follows is linear
            if c_xt == 0.0 and sigma == 0.0:
                return self._output(hidden, token_mask, frames)
            if between is None:
                filled = frame_mask if frame_mask is not None else torch.ones_like(x[..., 0], dtype=torch.bool)
                between = Between.of(self, token_mask, filled, tokens)
            tokens = between.step(hidden, tokens, c_x0, c_xt)
            if sigma:
                assert noise is not None, "steps with a sigma need noise"
                eps = self._tokens(noise(timestep), frame_mask)[0] - self.outer_layers()[0].bias
                tokens = tokens + sigma * eps
        raise ValueError("the last step does not return the prediction")

    def _given(self, text: Tensor, text_mask: Tensor, windows: Tensor | None, drop: Tensor | None, count: int) -> Given:
        """Return what `count` tokens and the condition in front of them, or the memory, have of text and position."""
        if drop is not None:
            # No text means zero features before the projection, so its bias remains, as in MDM.
            text = text.masked_fill(drop[:, None, None], 0.0)
        condition = self.embed_text(zeroed(text, text_mask))
        positions = self._positions(count)
        if self.settings.clause_frames:
            # Text per frame: the timestep alone is the prefix [N, 1, d].
            positions = positions + self._per_frame(condition, text_mask, windows, count)
            return Given(positions, None, text_mask.new_ones(len(text), 1))
        return Given(positions, condition, text_mask)

    def _time(self, timestep: Tensor) -> Tensor:
        """Return ``[N, 1, d]``: the sinusoid of the timestep through a small network (Ho et al. 2020, appendix B)."""
        time: Tensor = self.embed_timestep["time_embed"](self.pe[timestep])[:, None]
        return time

    def _hidden(self, tokens: Tensor, token_mask: Tensor | None, time: Tensor, given: Given) -> Tensor:
        """Return the transformer's output for tokens ``[N, S, d]``, of the same shape, at times ``[N, 1, d]``."""
        tokens = tokens + given.positions
        condition = time if given.condition is None else given.condition + time
        if self.settings.clause_frames or self.settings.arch == "trans_enc":
            # MDM's trans_enc: L condition tokens in front of the frames.
            return self._encode(condition, tokens, given.mask, token_mask)
        # MDM's trans_dec: the frames attend to the condition as memory [N, L, d].
        return self._decode(condition, tokens, given.mask, token_mask, time)

    def _tokens(self, x: Tensor, frame_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        patch = self.settings.patch_size
        if frame_mask is not None:
            x = zeroed(x, frame_mask)
        if spare := -x.shape[1] % patch:
            x = F.pad(x, (0, 0, 0, spare))
            frame_mask = None if frame_mask is None else F.pad(frame_mask, (0, spare))
        if patch > 1:
            # [N, S p, D] -> [N, S, p D]; a token is valid if it has a valid frame.
            x = x.reshape(x.shape[0], -1, patch * x.shape[2])
            frame_mask = None if frame_mask is None else frame_mask.view(x.shape[0], -1, patch).any(-1)
        return self.input_process["poseEmbedding"](x), frame_mask

    def _positions(self, count: int) -> Tensor:
        # Row 0 is the prefix's (in the decoder without one the first frame's, as in the original).
        first = 1 if self.settings.arch == "trans_enc" or self.settings.emb_trans_dec else 0
        return self.pe[first : first + count]

    def _per_frame(self, condition: Tensor, text_mask: Tensor, windows: Tensor | None, count: int) -> Tensor:
        """Return the clause features of each token's first frame, ``[N, S, d]``."""
        if windows is None:
            raise ValueError("a network with clause_frames needs windows")
        # within[n, l, s]: token s begins inside the window of clause l.
        first = torch.arange(count, device=condition.device) * self.settings.patch_size
        within = (first >= windows[..., :1]) & (first < windows[..., 1:]) & text_mask[..., None]
        return torch.einsum("nls,nld->nsd", within.to(condition.dtype), condition)

    def _encode(self, condition: Tensor, tokens: Tensor, text_mask: Tensor, token_mask: Tensor | None) -> Tensor:
        prefix = condition.shape[1]
        sequence = self.dropout(torch.cat((condition + self.pe[0], tokens), dim=1))
        mask = None
        if token_mask is not None:
            mask = torch.cat((text_mask, token_mask), dim=1)
        out: Tensor = self.seqTransEncoder(sequence, mask, finite=True)  # frames past the end were zeroed
        return out[:, prefix:]

    def _decode(
        self, memory: Tensor, tokens: Tensor, text_mask: Tensor, token_mask: Tensor | None, time: Tensor
    ) -> Tensor:
        prefix = int(self.settings.emb_trans_dec)
        if prefix:
            tokens = torch.cat((time + self.pe[0], tokens), dim=1)
            token_mask = None if token_mask is None else F.pad(token_mask, (1, 0), value=True)
        memory_mask = text_mask if self.settings.token_memory else None
        out: Tensor = self.seqTransDecoder(self.dropout(tokens), memory, token_mask, memory_mask)
        return out[:, prefix:]

    def outer_layers(self) -> tuple[nn.Linear, nn.Linear]:
        """Return the layer from frames to tokens and the one from tokens to frames."""
        enter, leave = self.input_process["poseEmbedding"], self.output_process["poseFinal"]
        return cast("nn.Linear", enter), cast("nn.Linear", leave)

    def tokens_out(self, hidden: Tensor, token_mask: Tensor | None) -> Tensor:
        """Return the frames of hidden tokens ``[N, S, d]``, those of a token side by side: ``[N, S, p D]`` float32."""
        # The head stays in float32 under autocast: the sampler subtracts its output from states of the same size.
        with torch.autocast(hidden.device.type, enabled=False):
            # Contiguous, or the linear layer becomes N small products with a weight copied N times.
            out: Tensor = self.output_process["poseFinal"](hidden.float().contiguous())
        return self._overlapped(out, token_mask) if self.settings.patch_overlap else out

    def _output(self, hidden: Tensor, token_mask: Tensor | None, frames: int) -> Tensor:
        out = self.tokens_out(hidden, token_mask)
        if self.settings.patch_size > 1:
            # [N, S, p D] -> [N, S p, D].
            out = out.reshape(out.shape[0], -1, self.settings.features)
        return out[:, :frames]

    def _overlapped(self, out: Tensor, token_mask: Tensor | None) -> Tensor:
        """Sum overlapping outputs, ``[N, S, 2 p D]`` -> ``[N, S, p D]``: tokens cover half a patch on either side too.

        Every frame is the sum of two tokens, so a motion has no seams between patches.
        """
        half = out.shape[-1] // 4
        early, first, second, late = out.split(half, dim=-1)
        # [N, S, p D / 2] each: the token before beyond its patch, and the token after ahead of its patch. Without the
        # mask of the latter the last frames would depend on the padding, hence on the rest of the batch.
        before, after = _neighbour(late, -1), _neighbour(early, 1, token_mask)
        return torch.cat((first + before, second + after), dim=-1)


@dataclass(frozen=True)
class Between:
    """From a step's hidden tokens to the tokens of the next, without frames between them (`MDMNetwork.denoise`).

    With the halves A and B of a token's frames, the input layer is ``I_A x_A + I_B x_B`` and, with `patch_overlap`, a
    token's frames are ``x_A = M_A h_s + L h_(s-1)`` and ``x_B = M_B h_s + E h_(s+1)``. So the input layer of x_0 is
    ``(I_A M_A + I_B M_B) h_s + I_A L h_(s-1) + I_B E h_(s+1)``, with matrices of d rows and d columns.
    """

    weight: Tensor  # [K d, d], of the tokens before, here and after (K = 3), or here alone (K = 1)
    shift: Tensor  # [S, d] or [N, S, d]: the biases of the output, through the input layer without its own
    bias: Tensor  # [d], of the input layer
    token_mask: Tensor | None  # [N, S]
    last: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]] | None  # of tokens with frames past the motion's end

    @classmethod
    def of(cls, network: MDMNetwork, token_mask: Tensor | None, frame_mask: Tensor, tokens: Tensor) -> Between:
        """Multiply the layers; `tokens` ``[N, S, d]`` gives shape and type."""
        enter, leave = network.outer_layers()
        first, out, bias = enter.weight, leave.weight, leave.bias  # [d, p D], [p D or 2 p D, d], [the same]
        wide = first.shape[1]
        if not network.settings.patch_overlap:
            weight, shift = (first @ out).t(), first @ bias
            shift = shift.expand(tokens.shape[1], -1)
        else:
            half = wide // 2
            early, middle, late = slice(half), slice(half, half + wide), slice(half + wide, None)
            parts = (first[:, :half] @ out[late], first @ out[middle], first[:, half:] @ out[early])
            weight = torch.cat([part.t() for part in parts])
            ones = tokens.new_ones(*tokens.shape[:2], 1)
            before, after = _neighbour(ones, -1), _neighbour(ones, 1, token_mask)
            shift = first @ bias[middle] + before * (first[:, :half] @ bias[late])
            shift = shift + after * (first[:, half:] @ bias[early])
        last = None
        patch = network.settings.patch_size
        if patch > 1:
            inside = F.pad(frame_mask, (0, -frame_mask.shape[1] % patch)).unflatten(1, (-1, patch))
            rows, places = (inside.any(-1) & ~inside.all(-1)).nonzero(as_tuple=True)
            if len(rows):
                last = partial(_cut, network, token_mask, inside, rows, places)
        return cls(weight, shift, enter.bias, token_mask, last)

    def step(self, hidden: Tensor, tokens: Tensor, c_x0: float, c_xt: float) -> Tensor:
        """Return the tokens ``[N, S, d]`` of ``c_x0 x0 + c_xt x`` for those of x and the hidden ones that give x0."""
        x0 = hidden
        if len(self.weight) > hidden.shape[-1]:
            x0 = torch.cat((_neighbour(hidden, -1), hidden, _neighbour(hidden, 1, self.token_mask)), dim=-1)
        x0 = x0 @ self.weight + self.shift
        if self.last is not None:
            rows, places, ends = self.last(hidden)
            x0 = x0.index_put((rows, places), ends)
        # The layer's own bias is in the tokens already, c_xt times.
        return c_x0 * x0 + (c_xt * tokens + (1 - c_xt) * self.bias)


def _neighbour(tokens: Tensor, side: int, token_mask: Tensor | None = None) -> Tensor:
    """Return the token before (`side` -1) or after (1) each of ``[N, S, d]``; zeros where there is no valid one."""
    if side < 0:
        return F.pad(tokens[:, :-1], (0, 0, 1, 0))
    later = tokens[:, 1:]
    if token_mask is not None:
        later = zeroed(later, token_mask[:, 1:])
    return F.pad(later, (0, 0, 0, 1))


def _cut(
    network: MDMNetwork, token_mask: Tensor | None, inside: Tensor, rows: Tensor, places: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return where tokens are that the motion ends in, and x0 of these through the input layer without its bias."""
    enter = network.outer_layers()[0]
    # [R, 2 or 3, d] hidden tokens that write these, then their frames [R, p, D]; frames past the end are zeros.
    start = (places - 1).clamp(min=0)
    near = torch.stack((start, start + 1), dim=1).clamp(max=hidden.shape[1] - 1)
    own = (places - start)[:, None, None]
    valid = None if token_mask is None else token_mask[rows[:, None], near]
    frames = network.tokens_out(hidden[rows[:, None], near], valid)
    ends = torch.take_along_dim(frames, own, dim=1)[:, 0]
    ends = ends.unflatten(1, (inside.shape[2], -1)).masked_fill(~inside[rows, places][..., None], 0.0)
    return rows, places, F.linear(ends.flatten(1), enter.weight)
