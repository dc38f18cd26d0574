"""The MDM network: predicts the clean motion from a noisy one, a timestep and text (arXiv:2209.14916, figure 2).

Module names follow the released checkpoints, so that their tensors load by name (`motionkit.nn.native_keys` renames
the attention projections).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit.nn import TransformerDecoder, TransformerEncoder, sinusoidal_table
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
        settings, frames = self.settings, x.shape[1]
        if prefix is not None:
            # DiP (arXiv:2410.03441, section 3): one sequence [N, C + T, D], of which the last T frames are noisy.
            x = torch.cat((prefix, x), dim=1)
            frame_mask = None if frame_mask is None else F.pad(frame_mask, (prefix.shape[1], 0), value=True)
        # [N, T, D] -> [N, S, d] with S = ceil(T / patch) tokens of width d = latent_dim.
        tokens, token_mask = self._tokens(x, frame_mask)
        tokens = tokens + self._positions(tokens.shape[1])
        # [N, 1, d]: the sinusoid of the timestep through a small network (Ho et al. 2020, appendix B).
        time = self.embed_timestep["time_embed"](self.pe[timestep])[:, None]
        if drop is not None:
            # No text means zero features before the projection, so its bias remains, as in MDM.
            text = text.masked_fill(drop[:, None, None], 0.0)
        condition = self.embed_text(text.masked_fill(~text_mask[..., None], 0.0))
        if settings.clause_frames:
            # Text per frame: the timestep alone is the prefix [N, 1, d].
            tokens = tokens + self._per_frame(condition, text_mask, windows, tokens.shape[1])
            hidden = self._encode(time, tokens, text_mask.new_ones(len(x), 1), token_mask)
        elif settings.arch == "trans_enc":
            # MDM's trans_enc: L condition tokens in front of the frames.
            hidden = self._encode(condition + time, tokens, text_mask, token_mask)
        else:
            # MDM's trans_dec: the frames attend to the condition as memory [N, L, d].
            hidden = self._decode(condition + time, tokens, text_mask, token_mask, time)
        return self._output(hidden if prefix is None else hidden[:, prefix.shape[1] :], token_mask, frames)

    def _tokens(self, x: Tensor, frame_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        patch = self.settings.patch_size
        if frame_mask is not None:
            x = x.masked_fill(~frame_mask[..., None], 0.0)
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
        out: Tensor = self.seqTransEncoder(sequence, mask)
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

    def _output(self, hidden: Tensor, token_mask: Tensor | None, frames: int) -> Tensor:
        # The head stays in float32 under autocast: the sampler subtracts its output from states of the same size.
        with torch.autocast(hidden.device.type, enabled=False):
            # Contiguous, or the linear layer becomes N small products with a weight copied N times.
            out: Tensor = self.output_process["poseFinal"](hidden.float().contiguous())
        if self.settings.patch_overlap:
            out = self._overlapped(out, token_mask)
        if self.settings.patch_size > 1:
            # [N, S, p D] -> [N, S p, D].
            out = out.reshape(out.shape[0], -1, self.settings.features)
        return out[:, :frames]

    def _overlapped(self, out: Tensor, token_mask: Tensor | None) -> Tensor:
        """Sum overlapping outputs, ``[N, S, 2 p D]`` -> ``[N, S, p D]``: tokens cover half a patch on either side too.

        Every frame is the sum of two tokens, so a motion has no seams between patches.
        """
        if token_mask is not None:
            # Otherwise the last frames would depend on the padding, hence on the rest of the batch.
            out = out.masked_fill(~token_mask[..., None], 0.0)
        early, middle, late = out.split([out.shape[-1] // 4, out.shape[-1] // 2, out.shape[-1] // 4], dim=-1)
        # [N, S, p D / 2] each: the token before beyond its patch, and the token after ahead of its patch.
        before, after = F.pad(late[:, :-1], (0, 0, 1, 0)), F.pad(early[:, 1:], (0, 0, 0, 1))
        joined: Tensor = middle + torch.cat((before, after), dim=-1)
        return joined
