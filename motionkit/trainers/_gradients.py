"""Updates whose gradient is not finite: left out one by one, an error when they follow one another."""

from __future__ import annotations

import logging
import math

from motionkit.errors import MotionkitError

IN_A_ROW = 3

_logger = logging.getLogger("motionkit.trainers")


class FiniteGradients:
    """Decides which gradients may move the weights.

    A single batch whose gradient overflows is left out: the same batch would come again after a resume, so an error
    would end the run for good. Several in a row mean that the weights themselves are out of range.

    Args:
        learning_rate: Peak learning rate of the run, for messages.

    Attributes:
        in_a_row: Updates left out since the last good one; part of a checkpoint's state.
        left_out: Updates left out since `count` was asked last.
    """

    def __init__(self, learning_rate: float) -> None:
        self._rate = learning_rate
        self.in_a_row = 0
        self.left_out = 0

    def admit(self, norm: float) -> bool:
        """Return whether an update with a gradient of this norm may be made.

        Raises:
            MotionkitError: It is the third in a row that may not (exit code 1); the weights are as they were.
        """
        if math.isfinite(norm):
            self.in_a_row = 0
            return True
        self.in_a_row += 1
        self.left_out += 1
        if self.in_a_row < IN_A_ROW:
            _logger.warning("the gradient is not finite (norm %s): this update is left out", norm)
            return False
        raise out_of_range(
            f"the gradient has not been finite for {IN_A_ROW} updates in a row.", f"its norm is {norm}", self._rate
        )

    def count(self) -> float:
        """Return how many updates were left out since the last call, for the metric ``grad/left_out``."""
        found, self.left_out = self.left_out, 0
        return float(found)


def out_of_range(message: str, found: str, learning_rate: float) -> MotionkitError:
    """Return the error for a run whose weights have left the range of numbers.

    Args:
        message: What is not finite.
        found: Its value, or where it was met.
        learning_rate: Peak learning rate of the run.
    """
    return MotionkitError(
        message, why=f"{found}: the weights are out of range.",
        fix=f"start again with a --learning-rate below {learning_rate:.2g}.", code=1,
    )  # fmt: skip
