"""Loop 2: masks of a caption are sampled; the partner captions each mask; it should be the caption.

The text of the answer to a caption is always the same, and a mask that follows from it has no variance to learn from:
what is sampled is an action of its own; see `_actions`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.evaluation.regions._task import Task
from motionkit.policies.base import OffersMasks, RegionPolicy
from motionkit.rewards.base import TextBatch
from motionkit.trainers._regions import mask_loss
from motionkit.trainers.sa2va_rl.loops import CaptionToMaskOptions
from motionkit.trainers.sa2va_rl.loops._actions import Action, bernoulli, gaussian, multimask, supervised
from motionkit.trainers.sa2va_rl.loops._drawn import batch_of
from motionkit.trainers.sa2va_rl.loops.base import Made, Played, Turn


class CaptionToMask:
    """See `Loop`.

    Args:
        options: What is sampled.
        policy: The policy.

    Raises:
        MotionkitError: The policy cannot do what the action asks.
    """

    def __init__(self, options: CaptionToMaskOptions, *, policy: RegionPolicy) -> None:
        self._options, self._policy = options, policy
        self.absent = options.absent
        if options.action == "multimask" and not isinstance(policy, OffersMasks):
            raise MotionkitError(
                "the action multimask needs a policy that offers several masks.",
                why="this one draws a single mask of a prompt.",
                fix="--loop2.action gaussian",
            )

    @torch.no_grad()
    def measure(self, task: Task) -> dict[str, float]:
        """Return ``spread``, the standard deviation of the policy's own prompts over captions."""
        if self._options.action != "gaussian":
            return {}
        return {"spread": float(self._policy.prompts(task.seen, task.captions).std(0).mean())}

    @torch.no_grad()
    def play(self, task: Task, turn: Turn) -> Played:
        """See `Loop.play`."""
        policy = self._policy
        action = self._act(task, turn)
        masks = batch_of(action.logits, task.masks, task.others)
        with turn.partner():
            captions = policy.sample_captions(task.seen, masks.masks, temperature=0.0)
        empty = ~masks.masks.flatten(1).any(1)
        # An empty mask says nothing; what the partner says of it is not a caption.
        texts = ["" if bare else text for text, bare in zip(captions.texts, empty.tolist(), strict=True)]
        # Of what the image does not show, nothing is to be drawn and nothing to be said.
        nothing = (~task.masks.flatten(1).any(1)).tolist()
        wanted = [["" if bare else text] for text, bare in zip(task.captions, nothing, strict=True)]
        made = Made(masks, TextBatch(texts, wanted, task.masks.device))
        beside = self._learned(task) if self._options.learn and action.direct is None else None
        metrics = {"empty_mask_frac": float(empty.float().mean())}
        return Played(made, action.terms, metrics, action.direct, beside)

    def _learned(self, task: Task) -> Callable[[Tensor], Tensor]:
        policy, weight = self._policy, self._options.learn

        def beside(rewards: Tensor) -> Tensor:
            found = policy.draw(task.seen, policy.prompts(task.seen, task.captions))
            return weight * rewards.clamp(0, 1) * mask_loss(found, task.masks)

        return beside

    def _act(self, task: Task, turn: Turn) -> Action:
        options, policy = self._options, self._policy
        if options.action == "gaussian":
            return gaussian(policy, task, turn, options.sigma * turn.measured["spread"])
        if options.action == "multimask":
            return multimask(policy, task, turn, options.tau)
        return (bernoulli if options.action == "bernoulli" else supervised)(policy, task, turn)
