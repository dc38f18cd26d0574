"""Goals that can be seen: ManiSkill hides the marks of its goals from the cameras."""

from __future__ import annotations

from typing import Any

import numpy as np

from motionkit.errors import MotionkitError


def show_goal(env: Any, name: str) -> bool:
    """Show the cameras what a task hides from them.

    Args:
        env: A task of ManiSkill, not wrapped, that has been reset once.
        name: Its id, for messages.

    Returns:
        Whether anything was hidden.

    Raises:
        MotionkitError: What is hidden cannot be shown; without it pictures do not tell success.
    """
    try:
        hidden = list(env._hidden_objects)
        for thing in hidden:
            thing.show_visual()
            env._hidden_objects.remove(thing)
    except (AttributeError, TypeError, ValueError) as error:
        raise _invisible(name, f"{type(error).__name__}: {error}") from error
    return bool(hidden)


def require_shown(hidden: Any, shown: Any, name: str) -> None:
    """Refuse a task whose pictures are the same with what it hides and without.

    Args:
        hidden: Pictures ``[H, W, 3]`` of one start before `show_goal`.
        shown: Those of the same start after.
        name: Its id, for messages.

    Raises:
        MotionkitError: No picture differs.
    """
    if all(np.array_equal(one, other) for one, other in zip(hidden, shown, strict=True)):
        raise _invisible(name, "pictures are the same with the goal hidden and shown.")


def _invisible(name: str, why: str) -> MotionkitError:
    return MotionkitError(
        f"the goal of {name} stays invisible: its pictures do not tell success.", why=why,
        fix="pip install 'mani_skill>=3.0.1,<4', or choose another task.",
    )  # fmt: skip
