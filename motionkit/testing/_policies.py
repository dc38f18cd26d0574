"""The contract of policies, by what they give."""

from __future__ import annotations

from typing import Any

from motionkit import plugins
from motionkit.plugins import Component
from motionkit.testing._component import check_component, component_of, other_check


def check_policy(policy: str | Component | object, *, options: dict[str, Any] | None = None, gives: str = "") -> None:
    """Check what trainers rely on in every policy of a type, by the check of that type.

    Args:
        policy: Its name, its component, or a loaded policy.
        options: Options to build it with.
        gives: Type of a loaded policy, such as ``predictor``; ``diffusion`` by default. A component names it.

    Raises:
        AssertionError: Lists all violations, a sentence each.
        ValueError: There is no such check.

    Example:
        >>> from motionkit import load_policy
        >>> check_policy(load_policy("starter"))
    """
    if isinstance(policy, str):
        check_component("policies", policy)
    if isinstance(policy, (str, Component)):
        gives = plugins.gives_of("policies", component_of("policies", policy))
    check = other_check("policies", gives or next(iter(plugins.KINDS["policies"].gives)))
    if check is None:
        raise ValueError(f"there is no check of policies that give {gives!r}.")
    check(policy, options=options)
