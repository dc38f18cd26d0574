"""The language model: prompts of several lengths, sampling with a cache, and scores of given words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.policies.base import WordScores
from motionkit.policies.sa2va._words import Words
from motionkit.rl import categorical


class Language:
    """A causal language model of transformers that reads embedded prompts.

    Prompts are padded on the left, so that all answers begin at one place; positions count from a prompt's own start,
    so that a prompt says the same alone and in a batch.

    Args:
        model: ``...ForCausalLM``.
        words: Its tokens.
    """

    def __init__(self, model: Any, words: Words) -> None:
        self.model, self.words = model, words

    def embed(self, ids: Tensor) -> Tensor:
        """Return ``[..., D]`` of tokens."""
        found: Tensor = self.model.get_input_embeddings()(ids)
        return found

    def last(self, prompts: Sequence[Tensor]) -> Tensor:
        """Return the state ``[N, D]`` at the last token of N prompts ``[T, D]``."""
        rows, mask = _padded(prompts)
        return self._states(rows, mask)[:, -1]

    @torch.no_grad()
    def sample(self, prompts: Sequence[Tensor], index: Tensor, temperature: float, noise: Tensor) -> Tensor:
        """Continue prompts.

        Args:
            prompts: Q prompts ``[T, D]``.
            index: ``[N]`` which prompt each sample continues; each is read once.
            temperature: 0 takes the likeliest token.
            noise: ``[N, longest]`` numbers from 0 to 1.

        Returns:
            ``[N, L]`` tokens; behind the end of an answer the end again.
        """
        rows, mask = _padded(prompts)
        output = self._decoder(rows, mask, use_cache=True)
        cache, state = output.past_key_values, output.last_hidden_state[:, -1]
        cache = _selected(cache, index)
        state, mask = state[index], mask[index]
        ids = torch.zeros(len(index), 0, dtype=torch.int64, device=rows.device)
        ended = torch.zeros(len(index), dtype=torch.bool, device=rows.device)
        for place in range(self.words.longest):
            logits = self._logits(state)
            chosen = categorical(logits / temperature, noise[:, place]) if temperature else logits.argmax(-1)
            chosen = torch.where(ended, self.words.end, chosen)
            ids = torch.cat([ids, chosen[:, None]], 1)
            ended = ended | (chosen == self.words.end)
            if bool(ended.all()) or place == self.words.longest - 1:
                break
            mask = F.pad(mask, (0, 1), value=1)
            output = self._decoder(self.embed(chosen[:, None]), mask, use_cache=True, past_key_values=cache)
            cache, state = output.past_key_values, output.last_hidden_state[:, -1]
        return ids

    def score(self, prompts: Sequence[Tensor], ids: Tensor, temperature: float, *, whole: bool = False) -> WordScores:
        """Return what the model says of answers ``[N, L]`` to N prompts, from raw logits over the temperature."""
        rows, mask = _padded(prompts)
        states = self._states(
            torch.cat([rows, self.embed(ids[:, :-1]).to(rows.dtype)], 1), F.pad(mask, (0, ids.shape[1] - 1), value=1)
        )
        logits = self._logits(states[:, rows.shape[1] - 1 :]) / temperature  # the state before a token says it
        every = logits.log_softmax(-1)
        log_prob = every.gather(-1, ids[..., None])[..., 0]
        entropy = -(every.exp() * every.masked_fill(every.isneginf(), 0.0)).sum(-1)
        said = F.pad((ids == self.words.end).cumsum(1)[:, :-1], (1, 0)) == 0  # up to the end, that included
        log_prob, entropy = torch.where(said, log_prob, 0.0), torch.where(said, entropy, 0.0)
        return WordScores(log_prob, entropy, said, every if whole else None)

    def _states(self, rows: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = self._decoder(rows, mask, use_cache=False).last_hidden_state
        return found

    def _decoder(self, rows: Tensor, mask: Tensor, **more: Any) -> Any:
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -rows.shape[1] :]
        return self.model.model(inputs_embeds=rows, attention_mask=mask, position_ids=places, **more)

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(states)
        return logits.float().masked_fill(self.words.barred.to(logits.device), -torch.inf)


def _selected(cache: Any, index: Tensor) -> Any:
    """Return the cache of the prompts that N samples continue; InternLM2's code has plain tuples."""
    if isinstance(cache, tuple):
        return tuple(tuple(held[index] for held in layer) for layer in cache)
    cache.batch_select_indices(index)
    return cache


def _padded(prompts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return N prompts ``[T, D]`` as ``[N, T, D]``, zeros on the left, and ``[N, T]`` int64, 1 where a token is."""
    longest = max(map(len, prompts))
    rows = torch.stack([F.pad(one, (0, 0, longest - len(one), 0)) for one in prompts])
    lengths = torch.tensor([len(one) for one in prompts], device=rows.device)
    mask = torch.arange(longest, device=rows.device) >= longest - lengths[:, None]
    return rows, mask.long()
