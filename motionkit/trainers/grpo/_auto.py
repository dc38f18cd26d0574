"""What ``--algorithm auto`` means: the update rule that suits the options and the rewards. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from motionkit import plugins
from motionkit.config import leaves
from motionkit.errors import MotionkitError

AUTO = "auto"
_REMOVED = {"rwr": "awm"}  # what takes its place: the same loss, with weights that add up to zero
_GRADIENT, _MIXED = "reward-gradient", "mixed"
_BLACK_BOX = "awm"  # of the algorithms without a gradient it learns most, see docs/algorithms
_COMMON = "grpo"  # what the options that several have are known from
_GROUPS = ("objective", "rollout", "sampler")
"""Groups of settings that differ from algorithm to algorithm; in the others only defaults do."""


def decide(name: str, keys: AbstractSet[str], chosen: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Resolve ``auto``; every other name stays.

    An option that only some of our algorithms have chooses among those. Then `reward-gradient` is taken if every
    reward has a gradient, `mixed` if only some have, and `awm`, which needs none, if none has.

    Args:
        name: What the user chose.
        keys: Dotted keys that files, variables and the command line set.
        chosen: Names of the plugins in the other slots.

    Returns:
        The algorithm, and one line that says why and how to choose.

    Raises:
        MotionkitError: No algorithm has all the options that were set, or `name` was one of an earlier version.
    """
    if name in _REMOVED and not any(entry.name == name for entry in plugins.available("algorithms")):
        raise MotionkitError(
            f"the algorithm {name} was removed.",
            why="it fitted the policy to its own samples and gained nothing.",
            fix=f"--algorithm {_REMOVED[name]} has the same loss, with weights that add up to zero.",
        )
    if name != AUTO:
        return name, ""
    rewards = chosen.get("reward", ())
    without = [reward for reward in rewards if not _has_gradient(reward)]
    wanted = _GRADIENT if not without else _MIXED if len(without) < len(rewards) else _BLACK_BOX
    # Only our own: another package is not imported before it is asked for.
    names = {entry.name: _keys(entry.name) for entry in plugins.available("algorithms") if entry.builtin}
    special = {key for key in keys if 0 < sum(key in own for own in names.values()) < len(names)}
    able = [algorithm for algorithm, own in names.items() if special <= own]
    if not able:
        raise MotionkitError(
            f"no algorithm has all of {', '.join(sorted(special))}.", fix="choose one: --algorithm NAME."
        )
    if wanted not in able:
        taken = _COMMON if _COMMON in able else able[0]
        own = sorted(key for key in special if sum(key in keys for keys in names.values()) == 1)
        lacking = sorted(special - names[wanted])
        reason = f"only it has {', '.join(own)}" if own else f"{wanted} has no {', '.join(lacking)}"
        return taken, _line(taken, reason, "")
    reason = f"{', '.join(without)} has no gradient" if without else "every reward has a gradient"
    if wanted == _MIXED:
        reason += f", {', '.join(reward for reward in rewards if reward not in without)} has one"
    return wanted, _line(wanted, reason, _BLACK_BOX if _BLACK_BOX in able else "")


def _has_gradient(reward: str) -> bool:
    try:
        return plugins.get("rewards", reward, typed=True).gradient  # the slot has refused code that was not typed
    except MotionkitError:  # it is reported with the slot that it was chosen for
        return True


def _keys(algorithm: str) -> set[str]:
    found = leaves(plugins.get("algorithms", algorithm).options)
    return {leaf.key for leaf in found if leaf.path[0] in _GROUPS}


def _line(taken: str, reason: str, other: str) -> str:
    choose = f"; --algorithm {other} chooses another" if other and other != taken else ""
    return f"algorithm {taken} ({reason}){choose}"
