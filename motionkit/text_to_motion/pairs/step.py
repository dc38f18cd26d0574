"""An update of a model of texts and motions; base of those of TMR and the evaluator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from motionkit.config import Group
from motionkit.text_to_motion.pairs.data import PairBatch
from motionkit.text_to_motion.pairs.negatives import ChangedCaptions, ChangedMotions, Negatives
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.settings import OptimSettings
from motionkit.training.world import OneProcess, World, joined, share_of, sum_over


class CopyScores(NamedTuple):
    """Scores of changed copies, over the temperature; ``-inf`` if a row has none, None if no row has one."""

    motions: Tensor | None = None  # [B], of text i and the changed copy of motion i
    captions: Tensor | None = None  # [B], of motion i and the changed copy of text i


def info_nce(logits: Tensor, copies: CopyScores | None = None) -> Tensor:
    """Symmetric InfoNCE of ``[B, B]`` logits, texts in rows; row i belongs to column i.

    Args:
        logits: Scores over the temperature, ``-inf`` for a pair that is left out.
        copies: The copy of a motion is a further negative of its text, the copy of a caption one of its motion.
    """
    texts, motions = logits, logits.T
    # With copies the rows are [B, B + 1]: one more negative for each text, and for each motion.
    if copies is not None and copies.motions is not None:
        texts = torch.cat([texts, copies.motions[:, None]], 1)
    if copies is not None and copies.captions is not None:
        motions = torch.cat([motions, copies.captions[:, None]], 1)
    # The right answer of row i is column i.
    target = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(texts, target) + F.cross_entropy(motions, target)) / 2


def above_copies(
    pairs: Tensor,  # [B] scores of the pairs, over the temperature
    copies: CopyScores,  # a row without a copy has loss 0
) -> Tensor:
    """``softplus(score of the copy - score of the pair)``, summed over both kinds of copies and averaged over B."""
    losses = [F.softplus(scores - pairs).mean() for scores in copies if scores is not None]
    return torch.stack(losses).sum() if losses else pairs.new_zeros(())


@dataclass(frozen=True)
class WithStatistics:
    """A network for a `Learner`, whose checkpoint has all that the model's own file has.

    Its config.json is written at the start of a run, so that a run that was stopped can be used.
    """

    network: nn.Module
    constants: Mapping[str, Tensor] = field(default_factory=dict)  # What is not trained, such as word vectors

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, statistics (the buffers ``mean`` and ``std``) and constants."""
        statistics = {"stats.mean": self.network.get_buffer("mean"), "stats.std": self.network.get_buffer("std")}
        return {**self.network.state_dict(), **statistics, **self.constants}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore weights and statistics."""
        rest = {name: value for name, value in tensors.items() if name not in self.constants}
        for name in ("mean", "std"):
            self.network.get_buffer(name).copy_(rest.pop(f"stats.{name}"))
        self.network.load_state_dict(rest)


class PairTraining(ABC):
    """A model of texts and motions, its losses and its learner; `step` does one update.

    Args:
        model: What is trained, in place; it has its statistics as buffers ``mean`` and ``std``.
        loss: Weights of the losses by name, and their constants.
        optim: The optimiser.
        updates: Updates of the whole run, for a cosine learning rate; 0 keeps the rate at its peak.
        final: Last learning rate of the cosine, as a share of the peak.
        negatives: Changed copies of clips and captions that a pair is told from; None: there are none.
        noise: Std of noise added to normalised motions.
        precision: ``fp32``, or ``bf16`` for the network's body.
        constants: Tensors of the model's file that are not trained.
        world: The processes that train together; each encodes its share of a batch.
    """

    renamed: ClassVar[Mapping[str, str]] = {}  # names of losses in metrics if they differ from those in `loss`

    def __init__(
        self,
        model: nn.Module,
        loss: Group,
        optim: OptimSettings,
        *,
        updates: int = 0,
        final: float = 0.05,
        negatives: Negatives | None = None,
        noise: float = 0.0,
        precision: str = "fp32",
        constants: Mapping[str, Tensor] | None = None,
        world: World | None = None,
    ) -> None:
        self.model, self.weights = model, loss
        self.negatives, self.noise, self.precision = negatives, noise, precision
        self.world = world or OneProcess()
        self.device = model.get_buffer("mean").device
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, updates, final)
        self.learner = Learner(WithStatistics(model, constants or {}), optim, rate, world=self.world)

    def step(self, batch: PairBatch) -> dict[str, float]:
        """Descend the losses of a batch; return metrics, defined in `motionkit.tracking`."""
        self.learner.zero_grad()
        self.model.train()
        parts = self.losses(batch)
        total = torch.stack([value * float(getattr(self.weights, name)) for name, value in parts.items()]).sum()
        total.backward()
        moved = self.learner.descend(batch.step - 1)
        shares = {"loss/total": total} | {
            f"loss/{self.renamed.get(name, name)}": value for name, value in parts.items()
        }
        return moved | sum_over({name: float(value.detach()) for name, value in shares.items()}, self.world)

    def share(self, batch: PairBatch) -> slice:
        """Return the rows of a batch that this process encodes."""
        return share_of(len(batch.captions), self.world, what="clips", flag="--batch-size")

    def noisy(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Add noise to normalised motions; the caller masks padding."""
        noise: Tensor = torch.randn(x.shape, generator=generator).to(x.device)
        return x + float(self.noise) * noise

    @abstractmethod
    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted losses by their names in the settings; this process encodes its `share` of the rows."""

    @abstractmethod
    def encode_copies(self, copies: ChangedMotions) -> Tensor:
        """Encode changed motions: ``[K, D]``."""

    @abstractmethod
    def encode_changed(self, captions: ChangedCaptions) -> Tensor:
        """Encode changed captions: ``[K, D]``."""

    @abstractmethod
    def score(self, texts: Tensor, motions: Tensor) -> Tensor:
        """Return ``[B]`` scores of ``[B, D]`` texts and motions, over the temperature."""

    def score_copies(
        self,
        batch: PairBatch,
        texts: Tensor,  # [B, D] latents of the captions of all processes
        motions: Tensor,  # [B, D] latents of the motions
    ) -> CopyScores | None:
        """Return the scores of the changed copies of a batch; None in training without them."""
        if self.negatives is None:
            return None
        share = self.share(batch)
        copies, captions = self.negatives.motions(batch, share), self.negatives.captions(batch, share)
        result = CopyScores()
        if self.negatives.of_motions:
            latents = copies and self.encode_copies(copies)
            rows, mask = self._of_all(latents, copies and copies.places, texts, share)
            result = result._replace(motions=self.score(texts, rows).masked_fill(~mask, -torch.inf))
        if self.negatives.of_captions:
            rows, mask = self._of_all(
                captions and self.encode_changed(captions), captions and captions.places, texts, share
            )
            result = result._replace(captions=self.score(rows, motions).masked_fill(~mask, -torch.inf))
        return result

    def _of_all(
        self, latents: Tensor | None, places: Sequence[int] | None, like: Tensor, share: slice
    ) -> tuple[Tensor, Tensor]:
        """Scatter this process's latents ``[K, D]`` to their rows `places` of the batch, and gather all processes'.

        Returns ``[B, D]`` like `like`, zeros for rows without a copy, and the ``[B]`` bool mask of rows with one.
        """
        # Every process takes part, with or without copies, or the exchange would wait forever.
        rows = like.new_zeros(len(like) // self.world.size, like.shape[1])
        present = torch.zeros(len(rows), dtype=torch.uint8, device=like.device)
        if latents is not None and places is not None:
            # Places count over the whole batch, rows over this process's share.
            index = torch.tensor(places, device=like.device) - share.start
            rows = rows.index_copy(0, index, latents)
            present[index] = 1
        return joined(rows, self.world), self.world.gather(present).bool()
