"""Which foot contacts are shown with a motion: its own, those of its features, or ours."""

from __future__ import annotations

from torch import Tensor

from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT
from motionkit.motion.features import feature_layout
from motionkit.motion.finite import nearest_sound
from motionkit.rigs._kit import rig_names
from motionkit.rigs.contacts import find_feet, soft_contacts


def shown_contacts(motion: Motion | JointMotion, features: Tensor | None = None) -> tuple[Tensor | None, bool]:
    """Return contacts ``[T, 2]`` left, right in [0, 1], and whether they are made here.

    A track ``contacts`` of the motion goes first, then the contacts of its features, unless these never say that a
    foot stands (those of public KIT clips nearly never do). Else they are made from height and speed
    (`soft_contacts`) where the names tell which joints are feet; a body of other names has none.

    Args:
        motion: What moves; frames that are not finite have no contacts of their own.
        features: ``[T, 263]`` or ``[T, 251]`` of the same frames, not normalised.
    """
    own = motion.tracks.get("contacts")
    if own is not None and tuple(own.shape) == (motion.frames, 2):  # more feet than two have no lanes
        return own if bool(own.isfinite().all()) else own.nan_to_num(0.0, 0.0, 0.0), False
    if features is not None and len(features) == motion.frames:
        read = _of_features(features)
        if read is not None:
            return read, False
    feet = find_feet(rig_names(motion.names), motion.parents)
    positions = motion.positions().detach().double().cpu()
    sound = positions.isfinite().flatten(1).all(dim=1)
    if feet is None or not bool(sound.any()):
        return None, False
    return soft_contacts(positions[nearest_sound(sound)], motion.fps, feet), True


def _of_features(features: Tensor) -> Tensor | None:
    """Return the better of heel and toe for each foot, ``[T, 2]``, or None when no foot ever stands."""
    skeleton = {body.width: body for body in (HUMANML, KIT)}.get(features.shape[-1])
    if skeleton is None:
        return None
    values = features[:, feature_layout(skeleton).contacts].detach().double().cpu()
    contacts = values.nan_to_num(0.0).clamp(0.0, 1.0).unflatten(-1, (2, 2)).amax(dim=-1)
    return contacts if bool((contacts > 0.5).any()) else None
