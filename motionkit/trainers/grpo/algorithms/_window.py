"""Windows: which steps of a rollout are stochastic and trained, update by update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from motionkit.errors import MotionkitError
from motionkit.rl import Sampler, Schedule, StepPlan
from motionkit.trainers.grpo.algorithms.options._shared import WindowSampler


class Plans:
    """The plan of every update. The update's number alone decides, so that a resumed run goes on with the same ones.

    A ``sliding`` window (MixGRPO, Li et al. 2025, arXiv:2507.21802) moves `window_shift` steps towards the clean end
    every `window_every` updates and starts over when the next place would not fit. An ``snr`` window takes the noisiest
    steps whose information, summed, stays within `window_share` of all steps'. The information of a step is
    ``s^2 = (c_x0 / sigma)^2``: twice the KL, in nats, that moving its prediction by one costs.

    Args:
        schedule: The policy's schedule.
        sampler: How stochastic steps are taken.
        settings: Steps and window.
        ode_steps: How many steps at the clean end are deterministic in any case; the last one always is.

    Raises:
        MotionkitError: The window leaves nothing to train, or does not fit.
    """

    def __init__(self, schedule: Schedule, sampler: Sampler, settings: WindowSampler, *, ode_steps: int = 1) -> None:
        self._steps = schedule.visited(settings.spacing, settings.train_timesteps)
        self._schedule, self._sampler = schedule, sampler
        self._every = settings.window_every
        free = max(0, len(self._steps) - max(1, ode_steps))
        windows = {"fixed": self._fixed, "sliding": self._sliding, "snr": self._snr}[settings.window](settings, free)
        self._plans = [self._plan(window) for window in windows]
        for plan in self._plans:
            plan.require_trainable()

    def at(self, number: int) -> StepPlan:
        """Return the plan of the update after `number` completed ones."""
        return self._plans[number // self._every % len(self._plans)]

    def __iter__(self) -> Iterator[StepPlan]:
        """Go through the different plans, in the order of updates."""
        return iter(self._plans)

    def _plan(self, window: Iterable[int]) -> StepPlan:
        return StepPlan.build(self._schedule, self._sampler, steps=self._steps, window=window)

    def _fixed(self, settings: WindowSampler, free: int) -> list[range]:
        window = range(settings.window_start, settings.window_start + settings.window_size)
        if len(self._steps) - free > 1 and window.stop > free:
            raise self._too_long(settings, free)
        return [window]

    def _sliding(self, settings: WindowSampler, free: int) -> list[range]:
        size = settings.window_size
        starts = range(settings.window_start, free - size + 1, settings.window_shift)
        if not starts:
            raise self._too_long(settings, free)
        return [range(start, start + size) for start in starts]

    def _snr(self, settings: WindowSampler, free: int) -> list[range]:
        information = self._plan(range(free)).sensitivity[:free].square()
        shares = (information.cumsum(0) / information.sum()).tolist()
        count = sum(share <= settings.window_share for share in shares)
        if not count:
            first = shares[0] if shares else float("nan")
            raise MotionkitError(
                "the window has no step to train.",
                why=f"the noisiest step alone has {first:.2g} of the information of all stochastic steps, and "
                f"sampler.window_share is {settings.window_share:g}.",
                fix=f"set sampler.window_share to at least {first:.2g}, or sampler.window to fixed.",
            )
        return [range(count)]

    def _too_long(self, settings: WindowSampler, free: int) -> MotionkitError:
        count = len(self._steps)
        return MotionkitError(
            f"a window of {settings.window_size} steps from step {settings.window_start} on does not fit.",
            why=f"of the {count} steps of a rollout the last {count - free} add no noise.",
            fix=f"sampler.window_start and sampler.window_size together at most {free}, fewer sampler.ode_steps, "
            "or more --train-timesteps.",
        )
