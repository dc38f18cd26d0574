"""One optimiser step worth of gradient: all (sample, timestep) pairs of a batch, a micro-batch at a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.policies.base import Condition, DiffusionPolicy
from motionkit.rl import Objective, Precision, audit_ratio, valid_dims
from motionkit.trainers.grpo._batch import Batch
from motionkit.trainers.grpo._reference import Reference

_ANCHOR_EVERY = 4
_MEASURE_EVERY = 8  # without a KL term, every 8th pair is enough to log how far the policy has moved


@dataclass(frozen=True, eq=False)
class Credit:
    """Advantages as the objective takes them.

    Attributes:
        values: ``[N]``, or ``[N, K]`` with `bounds`.
        bounds: ``[N, K, 2]`` frame ranges when credit is given by segment.
    """

    values: Tensor
    bounds: Tensor | None = None


class Accumulator:
    """Accumulates the gradient of a batch; additive over micro-batches, so their size never changes the update.

    Args:
        policy: The policy that is trained.
        reference: What KL is measured to.
        objective: The surrogate.
        guidance: Guidance scale of the rollout, part of the policy.
        micro_batch: Pairs per forward and backward pass.
        precision: What the network computes in, for the audit.
    """

    def __init__(
        self,
        policy: DiffusionPolicy,
        reference: Reference,
        objective: Objective,
        *,
        guidance: float,
        micro_batch: int,
        precision: str,
    ) -> None:
        self.policy = policy
        self.reference = reference
        self.objective = objective
        self.guidance = guidance
        self.micro_batch = micro_batch
        self.precision: Precision = "bfloat16" if precision == "bf16" else "float32"

    def backward(self, batch: Batch, credit: Credit, *, audit: bool = False) -> dict[str, float]:
        """Add the gradient of one pass over `batch` to the parameters.

        Args:
            batch: Samples with their trajectory.
            credit: Their advantages.
            audit: Stop if the policy does not give its own samples ratio 1 (only before the first update).

        Returns:
            Means over all pairs (names of `motionkit.rl.Terms.sums`), ``loss``, and ``audit`` when asked.
        """
        total = batch.trajectory.num_pairs
        other = self.reference.condition(batch.prompts, batch.condition)
        sums: dict[str, float] = defaultdict(float)
        pairs = torch.arange(total, device=batch.lengths.device)
        for chunk in pairs.split(self.micro_batch):
            rows = batch.trajectory.pairs(chunk)
            lengths, condition = batch.lengths[rows.sample], batch.condition.select(rows.sample)
            x0 = self.policy.predict(rows.x_t, rows.timestep, condition, lengths, guidance=self.guidance)
            x0_reference = None
            if self.objective.kl_coef > 0:
                x0_reference = self._reference(batch, chunk, other)
            terms = self.objective(
                rows,
                x0,
                credit.values[rows.sample],
                batch.mask[rows.sample],
                total=total,
                bounds=None if credit.bounds is None else credit.bounds[rows.sample],
                x0_reference=x0_reference,
            )
            if audit:
                table = audit_ratio(terms.log_ratio_per_dim, rows.sensitivity, rows.timestep, self.precision)
                sums["audit"] = max(sums["audit"], *table.values())
            terms.loss.backward()
            sums["loss"] += float(terms.loss.detach())
            for name, value in terms.sums.items():
                sums[name] += float(value)
        return dict(sums)

    def anchor(self, batch: Batch, weight: float, update: int) -> float:
        """Add the gradient of ``weight * roughness(x0 - x0_reference)`` at all visited states.

        The noise of the policy's gradient makes motions jitter long before it changes what they show, at the
        deterministic steps too, about which neither reward nor KL speaks. The policy may move away from the
        reference, but not tremble around it. A quarter of the (sample, step) pairs, another one each update, is
        enough to hold it.

        Args:
            batch: Samples with the states they passed through.
            weight: Weight of the roughness of the difference.
            update: Number of the update; chooses the quarter.

        Returns:
            The loss.
        """
        states = torch.cat([batch.trajectory.x_t, batch.rest.x_t])
        timesteps = torch.cat([batch.trajectory.timesteps, batch.rest.timesteps])
        total = len(timesteps) * len(batch.lengths)
        other = self.reference.condition(batch.prompts, batch.condition)
        pairs = torch.arange(update % _ANCHOR_EVERY, total, _ANCHOR_EVERY, device=batch.lengths.device)
        loss = 0.0
        for chunk in pairs.split(self.micro_batch):
            step, sample = torch.div(chunk, len(batch.lengths), rounding_mode="floor"), chunk % len(batch.lengths)
            x, timestep, lengths = states[step, sample], timesteps[step], batch.lengths[sample]
            x0 = self.policy.predict(x, timestep, batch.condition.select(sample), lengths, guidance=self.guidance)
            aim = self.reference.predict(x, timestep, other.select(sample), lengths, guidance=self.guidance)
            part = weight * roughness(x0 - aim, batch.mask[sample]).sum() / len(pairs)
            part.backward()
            loss += float(part.detach())
        return loss

    def _reference(self, batch: Batch, chunk: Tensor, condition: Condition) -> Tensor:
        rows = batch.trajectory.pairs(chunk)
        return self.reference.predict(
            rows.x_t,
            rows.timestep,
            condition.select(rows.sample),
            batch.lengths[rows.sample],
            guidance=self.guidance,
        )

    @torch.no_grad()
    def divergence(self, batch: Batch) -> dict[str, float]:
        """Measure the KL to the reference on every 8th pair, where the objective itself does not need it.

        Returns:
            ``kl_per_dim``, ``kl_nats`` and ``reference_ratio_per_dim`` (log-probability under the reference minus that
            under the policy that sampled), means over the measured pairs.
        """
        other = self.reference.condition(batch.prompts, batch.condition)
        pairs = torch.arange(0, batch.trajectory.num_pairs, _MEASURE_EVERY, device=batch.lengths.device)
        sums: dict[str, float] = defaultdict(float)
        for chunk in pairs.split(self.micro_batch):
            rows = batch.trajectory.pairs(chunk)
            terms = self.objective(
                rows,
                rows.x0_old,
                torch.zeros(len(rows), device=chunk.device),
                batch.mask[rows.sample],
                total=len(pairs),
                x0_reference=self._reference(batch, chunk, other),
            )
            for name in ("kl_per_dim", "kl_nats"):
                sums[name] += float(terms.sums[name])
            # Noise levels differ in log-probability by more than policies do: only the difference carries over.
            ratio = terms.sums["logp_reference_per_dim"] - terms.sums["logp_current_per_dim"]
            sums["reference_ratio_per_dim"] += float(ratio)
        return dict(sums)


def roughness(moved: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared second difference over time of ``[M, T, D]``, ``[M]``; padding does not count."""
    moved = moved.masked_fill(~mask[..., None], 0.0)
    valid = mask[:, 2:] & mask[:, 1:-1] & mask[:, :-2]
    bend = (moved[:, 2:] - 2 * moved[:, 1:-1] + moved[:, :-2]).square().sum(-1).masked_fill(~valid, 0.0)
    return bend.sum(1) / valid_dims(valid, moved.shape[-1])
