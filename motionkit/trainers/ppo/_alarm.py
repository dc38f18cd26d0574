"""The warning that predicted and true success part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from motionkit.trainers._state import State

_FEWEST = 32


class SuccessAlarm:
    """Compares true and predicted success of the newest episodes.

    A policy that pleases the reward without fulfilling the task is seen by it: the reward predicts more success than
    there is (reward hacking). A reward that misses most of the true success is seen as well.

    Args:
        gap: Difference from which it fires.
        window: Newest episodes that count.

    Attributes:
        fired_at: Step in which it fired first; 0 before.
        at: True and predicted success then.
    """

    def __init__(self, gap: float, window: int) -> None:
        self._gap, self._newest = gap, deque[tuple[bool, bool]](maxlen=window)
        self.fired_at = 0
        self.at = (0.0, 0.0)

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

    def check(self, step: int) -> bool:
        """Return whether the two part; the first time is kept."""
        true, predicted = self.rates
        parted = len(self._newest) >= _FEWEST and abs(predicted - true) > self._gap
        if parted and not self.fired_at:
            self.fired_at, self.at = step, (true, predicted)
        return parted

    def document(self) -> dict[str, object]:
        """Return whether and when it fired, JSON-able."""
        true, predicted = self.at
        return {"fired": bool(self.fired_at), "step": self.fired_at, "true": true, "predicted": predicted}

    def state(self) -> State:
        """Return the newest episodes and the first alarm."""
        return State(values={"newest": [list(pair) for pair in self._newest], "fired": self.fired_at, "at": self.at})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self._newest.clear()
        self._newest.extend((bool(true), bool(seen)) for true, seen in state.values["newest"])
        self.fired_at = int(state.values["fired"])
        true, predicted = state.values["at"]
        self.at = (float(true), float(predicted))
