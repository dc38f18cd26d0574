"""One GRPO step of a text-to-motion diffusion model, written as the papers' repositories write it.

It knows nothing of motionkit: its own transformer, schedule, sampler and loss. Four switches turn on, one by one, what
motionkit does instead; with all of them off every denoising step encodes all texts again, runs the conditional and the
unconditional pass one after the other, and all steps are stochastic and trained, one backward pass for each. Every
forward takes the whole batch, no gradient is kept while sampling, old log-probabilities are stored and not computed
again, and the two passes of guidance share one encoding of the text: there is nothing slow in it on purpose.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Move = tuple[int, Tensor, Tensor, Tensor]
"""A trained step: its number, the states before and after, the log-probability when it was sampled."""


@dataclass(frozen=True)
class Switches:
    """What is done motionkit's way."""

    text_cache: bool = False
    fused_cfg: bool = False
    flattened: bool = False
    window: int = 0  # stochastic and trained steps; 0 = all
    bf16: bool = False


class PlainMDM(nn.Module):
    """A transformer encoder over frames behind one token of time and text (Tevet et al. 2022, figure 2)."""

    def __init__(self, *, features: int, width: int, layers: int, heads: int, hidden: int, text: int) -> None:
        super().__init__()
        self.pose_in, self.pose_out = nn.Linear(features, width), nn.Linear(width, features)
        self.text_in = nn.Linear(text, width)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        layer = nn.TransformerEncoderLayer(width, heads, hidden, 0.1, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        place = torch.arange(1000)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        self.register_buffer("table", torch.stack([place.sin(), place.cos()], dim=-1).flatten(1), persistent=False)

    def forward(self, x: Tensor, timestep: Tensor, text: Tensor) -> Tensor:
        """Predict x0 ``[N, T, D]`` from noisy ``x``, ``[N]`` steps and ``[N, F]`` texts (zeros: without text)."""
        prefix = self.time(self.table[timestep]) + self.text_in(text)
        tokens = torch.cat([prefix[:, None], self.pose_in(x)], dim=1) + self.table[: x.shape[1] + 1]
        return self.pose_out(self.encoder(tokens)[:, 1:])


class PlainGRPO:
    """Samples, scores, and takes one optimiser step.

    Args:
        network: What is trained, in eval mode.
        encode: Texts to ``[N, F]``.
        steps: Sampling steps, evenly spread over 50 trained ones.
        guidance: Classifier-free guidance scale.
        kl: Weight of the KL to a frozen copy of the network.
        switches: What is done motionkit's way.
        micro_batch: Pairs per backward pass where steps are flattened.
    """

    def __init__(
        self,
        network: PlainMDM,
        encode: Callable[[Sequence[str]], Tensor],
        *,
        steps: int,
        guidance: float,
        kl: float,
        switches: Switches,
        micro_batch: int,
    ) -> None:
        self.network, self.encode, self.guidance, self.kl = network, encode, guidance, kl
        self.reference = copy.deepcopy(network).requires_grad_(False)
        self.switches, self.micro_batch = switches, micro_batch
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=1e-6)
        trained = [1 - math.cos((k + 1) / 50 * math.pi / 2) ** 2 for k in range(50)]
        visited = [round(49 * k / (steps - 1)) for k in reversed(range(steps))]
        self.timesteps = visited
        self.kept = [max(1 - trained[k], 1e-5) for k in visited] + [1.0]
        self._cache: dict[str, Tensor] = {}

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Encode one text per row."""
        if not self.switches.text_cache:
            return self.encode(texts)
        for text in dict.fromkeys(texts):
            if text not in self._cache:
                self._cache[text] = self.encode([text])[0]
        return torch.stack([self._cache[text] for text in texts])

    def predict(self, network: PlainMDM, x: Tensor, timestep: Tensor, texts: Sequence[str]) -> Tensor:
        """Predict x0 with guidance."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.switches.bf16):
            text = self.texts(texts)
            if self.switches.fused_cfg:
                both = network(x.repeat(2, 1, 1), timestep.repeat(2), torch.cat([text, torch.zeros_like(text)]))
                with_text, without = both.float().chunk(2)
            else:
                with_text = network(x, timestep, text).float()
                without = network(x, timestep, torch.zeros_like(text)).float()
        return without + self.guidance * (with_text - without)

    def _step(self, k: int) -> tuple[float, float, float]:
        """Coefficients of x0, x_t and noise (DDIM, eta 1 in the window, else 0)."""
        now, then = self.kept[k], self.kept[k + 1]
        inside = not self.switches.window or k < self.switches.window
        sigma = math.sqrt((1 - then) / (1 - now) * (1 - now / then)) if inside else 0.0
        along = math.sqrt(max(1 - then - sigma**2, 0.0) / (1 - now))
        return math.sqrt(then) - along * math.sqrt(now), along, sigma

    @torch.no_grad()
    def sample(self, x: Tensor, texts: Sequence[str]) -> tuple[Tensor, list[Move]]:
        """Return motions, and for each trained step its number, both states and the log-probability of the move."""
        kept = []
        for k, timestep in enumerate(self.timesteps):
            x0 = self.predict(self.network, x, torch.full((len(x),), timestep, device=x.device), texts)
            a, b, sigma = self._step(k)
            mean = a * x0 + b * x
            following = mean + sigma * torch.randn_like(x) if sigma else mean
            if sigma:
                kept.append((k, x, following, self._log_prob(following, mean, sigma)))
            x = following
        return x, kept

    @staticmethod
    def _log_prob(value: Tensor, mean: Tensor, sigma: float | Tensor) -> Tensor:
        return (-0.5 * ((value - mean) / sigma) ** 2 - torch.as_tensor(sigma).log()).mean((1, 2))

    def step(self, texts: Sequence[str], groups: int, start: Tensor, reward: Callable[[Tensor], Tensor]) -> float:
        """Train on N = len(texts) samples in `groups` groups; return the gradient's norm."""
        motions, kept = self.sample(start, texts)
        scores = reward(motions).view(groups, -1)
        advantage = ((scores - scores.mean(1, keepdim=True)) / (scores.std(1, keepdim=True) + 1e-4)).flatten()
        self.optimizer.zero_grad(set_to_none=True)
        for k, x, following, old, which in self._chunks(kept):
            rows = [texts[i] for i in which]
            table = torch.tensor([self._step(j) for j in range(len(self.timesteps))], device=x.device)[k]
            a, b, sigma = (column[:, None, None] for column in table.unbind(1))
            steps = torch.tensor(self.timesteps, device=x.device)[k]
            x0 = self.predict(self.network, x, steps, rows)
            with torch.no_grad():
                x0_reference = self.predict(self.reference, x, steps, rows)
            log_prob = self._log_prob(following, a * x0 + b * x, sigma)
            kl = 0.5 * ((a * (x0 - x0_reference) / sigma) ** 2).mean((1, 2))
            terms = self.kl * kl - (log_prob - old).exp() * advantage[which]
            (terms.sum() / (len(kept) * len(texts))).backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return float(norm)

    def _chunks(self, kept: list[Move]) -> list[tuple[Tensor, Tensor, Tensor, Tensor, list[int]]]:
        """Return what each backward pass takes: one timestep, or as many pairs as fit."""
        count = len(kept[0][1])
        number = torch.tensor([k for k, *_ in kept]).repeat_interleave(count)
        x, following, old = (torch.cat(list(parts)) for parts in list(zip(*kept, strict=True))[1:])
        size = self.micro_batch if self.switches.flattened else count
        pairs = torch.arange(len(number)).split(size)
        return [(number[p].to(x.device), x[p], following[p], old[p], (p % count).tolist()) for p in pairs]
