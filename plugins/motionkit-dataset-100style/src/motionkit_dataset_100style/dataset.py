"""Dataset `100style`: the heavy half."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO

import numpy as np
import torch
from torch import Tensor

from motionkit.config import cache_folder
from motionkit.contracts.dataset import Split, TextClip
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.motion import HUMANML, Normalizer, feature_stats, joints_to_features
from motionkit.rigs import to_body
from motionkit.runs import fingerprint, write_bytes_atomic
from motionkit.text import Prompt
from motionkit.text_to_motion.data.joined import join_prompts, physics_medians
from motionkit.weights import read_array
from motionkit_dataset_100style import StyleOptions
from motionkit_dataset_100style.folder import Recording, find_recordings

FPS = 20.0
SHORTEST = 40  # frames of a clip
_VERSION = 1  # of what the cache holds
_EVERY = 20  # recordings between two lines of the log

_log = logging.getLogger("motionkit.datasets")


class StyleDataset:
    """100STYLE (Mason, Starke and Komura 2022) as HumanML3D features; see `TextMotionDataset`.

    A recording is brought to the 22-joint body at 20 fps and cut into clips. Of the clips of a recording the last tenth
    is the test split and the tenth before it the validation split, one at least: all splits have the same styles and
    the same performer. The joints are kept in the user's cache folder.

    Raises:
        MotionkitError: The folder, a table or a recording is missing or cannot be read.
    """

    random_crop = False

    def __init__(self, options: StyleOptions) -> None:
        if options.root is None:
            raise MotionkitError("100style has no folder.", fix="--dataset.root FOLDER of 100STYLE")
        root = options.root.expanduser()
        if not root.is_dir():
            raise MotionkitError(f"there is no folder {root}.", fix="--dataset.root FOLDER of 100STYLE")
        self.name, self.skeleton, self.fps, self.max_length = "100style", HUMANML, FPS, options.max_length
        self._clips: dict[Split, list[TextClip]] = {"train": [], "val": [], "test": []}
        recordings = find_recordings(root, options.styles, options.contents)
        for number, recording in enumerate(recordings, start=1):
            for split, clip in split_clips(recording, _joints(recording), options.max_length):
                self._clips[split].append(clip)
            if number % _EVERY == 0:
                _log.info("100style: %d of %d recordings", number, len(recordings))
        if not self._clips["train"]:
            raise MotionkitError(f"the recordings of {root} are shorter than {SHORTEST} frames at {FPS:g} fps.")
        self.normalizer = Normalizer(*feature_stats((clip.features for clip in self._clips["train"]), HUMANML))
        counts = ", ".join(f"{len(clips)} {split}" for split, clips in self._clips.items())
        self.summary = f"{len(recordings)} recordings of 100STYLE, cut into clips: {counts}"

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the clips of a split, always in the same order."""
        return self._clips[split]

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return a prompt per caption of each clip; from two segments on, captions are joined."""
        singles = [
            Prompt((text,), (len(clip.features) // 4 * 4,), f"{clip.key}#{number}", (clip.key,))
            for clip in self._clips[split]
            for number, text in enumerate(clip.captions)
        ]
        if k_segments < 2:
            return singles
        return join_prompts(singles, k_segments, seed=seed, max_length=self.max_length)

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and jerk (m/s^3) of the train split."""
        return physics_medians(self._clips["train"], self.skeleton, self.fps)


def split_clips(recording: Recording, joints: Tensor, longest: int) -> list[tuple[Split, TextClip]]:
    """Cut a recording into clips.

    Args:
        recording: Gives key and captions.
        joints: ``[T, 22, 3]`` metres at 20 fps.
        longest: Frames of a clip; the last one may be shorter, and is left out below `SHORTEST`.

    Returns:
        Clips in the order of time with their splits; fewer than three are all for training.
    """
    # Features of a frame need the frame after it.
    starts = [start for start in range(0, len(joints) - 1, longest) if len(joints) - 1 - start >= SHORTEST]
    held = max(1, len(starts) // 10) if len(starts) > 2 else 0
    made: list[tuple[Split, TextClip]] = []
    for place, start in enumerate(starts):
        left = len(starts) - place
        split: Split = "test" if left <= held else "val" if left <= 2 * held else "train"
        features = joints_to_features(joints[start : start + longest + 1].double(), HUMANML).float()
        made.append((split, TextClip(f"{recording.key}_{start:05d}", features, recording.captions)))
    return made


def _joints(recording: Recording) -> Tensor:
    """Return the good part of a recording as ``[T, 22, 3]`` float32 metres at 20 fps, from the cache if it is there."""
    state = recording.path.stat()
    known = (_VERSION, recording.path.resolve(), state.st_size, state.st_mtime_ns, recording.start, recording.stop)
    cached = cache_folder() / "100style" / f"{fingerprint(*map(str, known))}.npy"
    if cached.is_file():
        with suppress(MotionkitError):
            return torch.from_numpy(np.asarray(read_array(cached), np.float32))
    (clip,) = read_bvh(recording.path)
    if recording.start >= clip.motion.frames:
        raise MotionkitError(
            f"{recording.path} has {clip.motion.frames} frames; its good ones begin at {recording.start}."
        )
    joints = to_body(clip.motion.cut(recording.start, recording.stop), HUMANML, FPS).float()
    if not bool(joints.isfinite().all()):
        raise MotionkitError(f"{recording.path} has values that are not finite among its good frames.")
    with suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        data = BytesIO()
        np.save(data, joints.numpy())
        write_bytes_atomic(cached, data.getvalue())
    return joints
