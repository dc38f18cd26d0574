"""Changes of real clips, each of which takes one thing away that a caption may ask for.

They are what a reward is audited with (``motionkit eval sensitivity``) and what a TMR is trained against
(``train.negatives``). Poses are averaged, scaled and joined as turns of bones, so that bones keep their lengths; path,
heading and floor stay where they are not what is changed.
"""

from motionkit.motion.changes._applies import goes_one_way, joint_ranges, moves, travels
from motionkit.motion.changes._features import clip_features, clip_joints
from motionkit.motion.changes._place import (
    later_start,
    lifted,
    mirrored,
    path_times,
    resized,
    sliding,
    trembling,
    turned,
)
from motionkit.motion.changes._poses import Poses, placed, slerp
from motionkit.motion.changes._registry import CHANGES, Change, Family, Scene
from motionkit.motion.changes._stillness import (
    held_frame,
    limbs,
    lively_statue,
    mean_pose,
    running_mean,
    still_limb,
    swing_times,
)
from motionkit.motion.changes._time import (
    can_shuffle,
    in_order,
    one_after_another,
    reversed_time,
    shuffled_frames,
    shuffled_pieces,
    swapped_quarters,
    tempo_times,
)

__all__ = [
    "CHANGES",
    "Change",
    "Family",
    "Poses",
    "Scene",
    "can_shuffle",
    "clip_features",
    "clip_joints",
    "goes_one_way",
    "held_frame",
    "in_order",
    "joint_ranges",
    "later_start",
    "lifted",
    "limbs",
    "lively_statue",
    "mean_pose",
    "mirrored",
    "moves",
    "one_after_another",
    "path_times",
    "placed",
    "resized",
    "reversed_time",
    "running_mean",
    "shuffled_frames",
    "shuffled_pieces",
    "slerp",
    "sliding",
    "still_limb",
    "swapped_quarters",
    "swing_times",
    "tempo_times",
    "travels",
    "trembling",
    "turned",
]
