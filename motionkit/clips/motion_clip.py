"""Clips for Python users: read from any format, saved in any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, Self, SupportsIndex, overload

from torch import Tensor

from motionkit.clips.convert import ConvertReport, Edits, convert_file, kind_of
from motionkit.clips.edits import UNEDITED
from motionkit.errors import MotionkitError
from motionkit.formats.format import WriteOptions
from motionkit.formats.out import refuse_foreign
from motionkit.formats.settings import as_texts
from motionkit.formats.table import endings
from motionkit.motion.clip import Clip
from motionkit.plugins import either

_PLAIN = WriteOptions()


@dataclass(frozen=True, repr=False)
class MotionClip(Clip):
    """A motion with its captions, which saves itself in any format that motionkit writes; see `Clip`.

    Example:
        >>> import numpy as np
        >>> import motionkit
        >>> from motionkit.starter import generate
        >>> np.save("walk.npy", generate("walk", frames=40).joints)
        >>> clip = motionkit.read("walk.npy")
        >>> clip.frames, clip.fps, clip.positions().shape
        (40, 20.0, torch.Size([40, 22, 3]))
        >>> clip.save("walk.glb")
        PosixPath('walk.glb')
    """

    @classmethod
    def of(cls, clip: Clip) -> Self:
        """Return a clip with `save`."""
        return cls(**{entry.name: getattr(clip, entry.name) for entry in fields(Clip)})

    @property
    def frames(self) -> int:
        """Number of frames T."""
        return self.motion.frames

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.motion.fps

    def positions(self) -> Tensor:
        """Return joint positions ``[T, J, 3]`` float64 in metres, Y up."""
        return self.motion.positions()

    def _repr_html_(self) -> str:
        return _played([self])

    def save(
        self, path: str | Path, *, fps: float = 0.0, unit: Literal["m", "cm"] = "cm", **settings: str | Path
    ) -> Path:
        """Write the clip as one file, replacing an existing one; the suffix of its name chooses the format.

        Args:
            path: ``.bvh``, ``.glb``, ``.html`` (a page with a player), ``.mp4``, ``.gif``, ``.npz`` or ``.npy``
                (joints), or what packages write. Rotations are solved from the joints if the format has them and the
                clip has none.
            fps: Frames per second to write; 0 keeps the clip's own, joints get 20.
            unit: Unit of a BVH file.
            settings: Settings of formats that packages bring (docs/formats.md).

        Returns:
            `path`.
        """
        options = WriteOptions(unit, settings=as_texts(settings))
        save_clips([self], path, fps=fps, options=options, overwrite=True)
        return Path(path)


class Motions(list[MotionClip]):
    """A list of motions; a notebook shows them side by side in the player.

    Example:
        >>> from motionkit import load_policy
        >>> motions = load_policy().generate(["walk", "jump up"], durations=[2], inference_timesteps=2)
        >>> type(motions).__name__, len(motions), "motionkit-player" in motions._repr_html_()
        ('Motions', 2, True)
    """

    @overload
    def __getitem__(self, place: SupportsIndex) -> MotionClip: ...

    @overload
    def __getitem__(self, place: slice) -> Motions: ...

    def __getitem__(self, place: SupportsIndex | slice) -> MotionClip | Motions:
        """Return a motion, or for a slice a list of them that shows itself too."""
        return Motions(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def _repr_html_(self) -> str | None:
        return _played(self) if self else None


_HEIGHT = 560
"""Pixels of a player in a notebook."""


def _played(clips: Sequence[MotionClip]) -> str:
    """Return the player of some motions for a notebook."""
    from motionkit.player import MAX_TRACKS, player_fragment
    from motionkit.player.files import shown_track

    tracks = [shown_track(clip, f"motion {number}") for number, clip in enumerate(clips[:MAX_TRACKS])]
    player = player_fragment(tracks, attributes=("drop", f'style="height: {_HEIGHT}px"'))
    more = len(clips) - len(tracks)
    return f"<div>{player}</div>{f'<p>and {more} more</p>' if more else ''}"


@dataclass(frozen=True)
class LoadedClip:
    """A `ClipSource` of a clip that is in memory."""

    key: str
    clip: Clip

    @property
    def origin(self) -> str:
        """The id, as it has no file."""
        return self.key

    def fingerprint(self) -> str:
        """Return an empty text: it is always converted again."""
        return ""

    def load(self) -> Sequence[Clip]:
        """Return the clip."""
        return (self.clip,)


def save_clips(
    clips: Sequence[Clip],
    path: str | Path,
    *,
    fps: float = 0.0,
    options: WriteOptions = _PLAIN,
    edits: Edits = UNEDITED,
    overwrite: bool = False,
) -> ConvertReport:
    """Write clips as one file; see `MotionClip.save`.

    Args:
        clips: One clip; for pages and films several, which are shown side by side.
        path: The file; its suffix chooses the format.
        fps: Frames per second to write.
        options: What the writer is told besides the clips.
        edits: Changes of each clip.
        overwrite: Replace the file.

    Returns:
        The report, with the residuals of solved rotations.
    """
    out = Path(path)
    refuse_foreign(out)
    if (kind := kind_of(out)) is None:
        raise MotionkitError(
            f"{out}: a motion is saved as one file, whose suffix chooses the format.",
            fix=f"end the name in {either(endings('bvh', 'glb', 'html', 'mp4', 'gif', 'npz', 'joints'))}.",
        )
    keys = [out.stem] if len(clips) == 1 else [f"{number:04d}" for number in range(len(clips))]
    sources = [LoadedClip(key, clip) for key, clip in zip(keys, clips, strict=True)]
    return convert_file(sources, out, kind, fps=fps, options=options, edits=edits, overwrite=overwrite)
