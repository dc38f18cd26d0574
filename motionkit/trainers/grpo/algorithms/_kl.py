"""The weight of the KL to the reference, fixed or adapted to a target."""

from __future__ import annotations

from motionkit.trainers._state import State

_FIRST = 1.0
_LIMITS = (1e-6, 1e6)


class KLCoefficient:
    """What the KL is multiplied by in the loss: PPO's adaptive penalty (Schulman et al. 2017, arXiv:1707.06347, 4).

    After an update whose KL is above 1.5 times the target the coefficient doubles, below the target over 1.5 it halves.
    The paper measures the KL to the policy before the update; this is the KL to the reference, over the whole run.

    Args:
        coefficient: The fixed value, or with a target the first one; 0 starts at 1 then.
        target: Nats per valid value and step; 0 keeps the coefficient.
    """

    def __init__(self, coefficient: float, target: float) -> None:
        self.adaptive = target > 0
        self.target = target
        self.value = coefficient or (_FIRST if self.adaptive else 0.0)

    def adapt(self, kl: float) -> None:
        """Move the coefficient after an update that measured `kl` nats per valid value and step."""
        factor = 2.0 if kl > 1.5 * self.target else 0.5 if kl < self.target / 1.5 else 1.0
        if self.adaptive:
            self.value = min(max(self.value * factor, _LIMITS[0]), _LIMITS[1])

    def state(self) -> State:
        """Return the coefficient."""
        return State(values={"coefficient": self.value})

    def load_state(self, state: State) -> None:
        """Put it back."""
        self.value = float(state.values["coefficient"])
