"""The warning that predicted and true success part, or are not of the same episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from motionkit.evaluation.success._figures import rate_interval
from motionkit.trainers._state import State

_FEWEST = 32
_HALF = 0.5


class SuccessAlarm:
    """Compares true and predicted success of the newest episodes.

    A policy that pleases the reward without fulfilling the task is seen by it: the reward predicts more success than
    there is (reward hacking). A reward that misses much of the true success is seen as well. Where success is rare,
    neither makes a gap: then it counts that, beyond doubt, fewer than half of the episodes that succeed are seen, or
    fewer than half of those that are taken for successes are some.

    Args:
        gap: Difference from which it fires.
        window: Newest episodes that count.

    Attributes:
        fired_at: Step in which it fired first; 0 before.
        at: True and predicted success then.
        why: What was wrong then, in words.
    """

    def __init__(self, gap: float, window: int) -> None:
        self._gap, self._newest = gap, deque[tuple[bool, bool]](maxlen=window)
        self.fired_at = 0
        self.at = (0.0, 0.0)
        self.why = ""

    def add(self, episodes: Iterable[tuple[bool, bool]]) -> None:
        """Count finished episodes, ``(true, predicted)`` each."""
        self._newest.extend(episodes)

    def forget(self) -> None:
        """Count anew: the reward is another one now."""
        self._newest.clear()

    @property
    def rates(self) -> tuple[float, float]:
        """True and predicted success of the newest episodes."""
        count = max(1, len(self._newest))
        return sum(true for true, _ in self._newest) / count, sum(seen for _, seen in self._newest) / count

    def wrong(self) -> str:
        """Return what is wrong with the newest episodes, in words; empty where nothing is."""
        if len(self._newest) < _FEWEST:
            return ""
        true, predicted = self.rates
        if predicted - true > self._gap:
            return "the policy learns what pleases the reward, not the task."
        if true - predicted > self._gap:
            return "the reward misses much of it."
        both = sum(one and seen for one, seen in self._newest)
        if _below_half(both, sum(one for one, _ in self._newest)):
            return "the reward sees fewer than half of the episodes that succeed."
        if _below_half(both, sum(seen for _, seen in self._newest)):
            return "fewer than half of the episodes that the reward takes for successes are some."
        return ""

    def check(self, step: int) -> bool:
        """Return whether something is wrong; the first time is kept."""
        why = self.wrong()
        if why and not self.fired_at:
            self.fired_at, self.at, self.why = step, self.rates, why
        return bool(why)

    def document(self) -> dict[str, object]:
        """Return whether and when it fired, JSON-able."""
        true, predicted = self.at
        return {
            "fired": bool(self.fired_at), "step": self.fired_at, "true": true, "predicted": predicted, "why": self.why
        }  # fmt: skip

    def state(self) -> State:
        """Return the newest episodes and the first alarm."""
        newest = [list(pair) for pair in self._newest]
        return State(values={"newest": newest, "fired": self.fired_at, "at": self.at, "why": self.why})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self._newest.clear()
        self._newest.extend((bool(true), bool(seen)) for true, seen in state.values["newest"])
        self.fired_at = int(state.values["fired"])
        true, predicted = state.values["at"]
        self.at, self.why = (float(true), float(predicted)), str(state.values["why"])


def _below_half(hits: int, count: int) -> bool:
    """Return whether a rate is below a half with its whole 95 % interval."""
    return count > 0 and rate_interval(hits, count)[1] < _HALF
