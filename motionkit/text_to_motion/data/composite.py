"""Composite prompt sets: several actions in a row, joined from single clips by `motionkit compose`. Light half."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from motionkit.config import Cli, Group, Place
from motionkit.plugins import Component

SCHEMA = 1
KIND = "motionkit composite prompts"
LIMIT = 128 << 20  # bytes of a document; a sample takes about 600
TMR_LEAST = 2.0  # shortest training motion of TMR in seconds; scores of shorter segments are extrapolated


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Sample(_Record):
    """K actions that follow each other."""

    id: str = ""  # identity in its file; empty in files of the original code
    text: str = ""  # the actions in one sentence, for policies
    composite_prompt: str  # the same in the original code's form, "First A, then B, finally C"
    sub_prompts: tuple[str, ...] = Field(min_length=2)  # caption of each segment
    durations: tuple[float, ...]  # seconds of each segment
    durations_frames: tuple[int, ...]  # frames of each segment
    source_ids: tuple[str, ...]  # motion of each segment
    source_frames: tuple[tuple[int, int], ...] = ()  # half-open frame range of each segment in that motion
    outside_tmr_range: tuple[bool, ...] = ()  # whether each segment is shorter than `TMR_LEAST`
    total_frames: int  # sum of `durations_frames`

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        count = len(self.sub_prompts)
        for name in ("durations", "durations_frames", "source_ids"):
            if len(getattr(self, name)) != count:
                raise ValueError(f"{count} sub_prompts need as many {name}, there are {len(getattr(self, name))}")
        if any(frames < 1 for frames in self.durations_frames):
            raise ValueError(f"every segment needs a frame, durations_frames is {list(self.durations_frames)}")
        if sum(self.durations_frames) != self.total_frames:
            raise ValueError(f"total_frames is {self.total_frames}, the segments have {sum(self.durations_frames)}")
        if any(not text.strip() for text in self.sub_prompts):
            raise ValueError("a sub_prompt is empty")
        return self


class Tower(_Record):
    """The text tower of a B-matrix."""

    name: str
    fingerprint: str  # changes with its weights and its text model


class Metadata(_Record):
    """How a file was made."""

    dataset_name: str  # dataset of the clips
    split: Literal["train", "val", "test"]
    k_segments: int = Field(ge=2)  # segments of every sample
    target_length: int = Field(ge=1)  # longest total in frames
    tolerance: int = Field(ge=0)  # totals are at least ``target_length - tolerance``
    fps: float = Field(gt=0)
    num_samples: int = Field(ge=0)
    seed: int | None = None
    crop: bool = False  # whether clips were cut to windows
    skeleton: str = ""  # body of the motions
    source: str = ""  # fingerprint of the clips
    text_tower: Tower | None = None  # of the B-matrix, if there is one
    physics_reference: tuple[float, float] | None = None  # median foot skate and jerk of the dataset's train split


class ArraysEntry(_Record):
    """The file with the arrays, in the folder of the JSON file."""

    file: str  # its name, without a folder
    sha256: str
    size: int = Field(ge=0)  # in bytes


class CompositeDocument(_Record):
    """A whole file. The validation context ``{"ours": True}`` also compares redundant entries."""

    metadata: Metadata
    samples: tuple[Sample, ...] = Field(min_length=1)
    arrays: ArraysEntry | None = None  # none in files of the original code

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        wanted = self.metadata.k_segments
        for number, sample in enumerate(self.samples):
            if len(sample.sub_prompts) != wanted:
                raise ValueError(f"sample {number} has {len(sample.sub_prompts)} segments, metadata says {wanted}")
        ids = [sample.id for sample in self.samples if sample.id]
        if len(set(ids)) != len(ids):
            raise ValueError("two samples have one id")
        if info.context and info.context.get("ours"):
            self._agreeing()
        return self

    def _agreeing(self) -> None:
        count, fps = self.metadata.num_samples, self.metadata.fps
        if count != len(self.samples):
            raise ValueError(f"metadata.num_samples is {count}, there are {len(self.samples)} samples")
        for number, sample in enumerate(self.samples):
            for seconds, frames in zip(sample.durations, sample.durations_frames, strict=True):
                if not abs(seconds * fps - frames) <= 1:  # seconds may be rounded by hand
                    raise ValueError(
                        f"sample {number} has a segment of {seconds:g} s and of {frames} frames, which are "
                        f"{frames / fps:g} s at {fps:g} frames per second"
                    )


def _several(value: object) -> object:
    """Turn a single path into a tuple of one."""
    return (value,) if isinstance(value, (str, Path)) else value


def _absolute(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return absolute paths, because a run may be resumed from another working folder."""
    return tuple(path.expanduser().absolute() for path in paths)


class CompositeOptions(Group):
    """Options of composite prompt sets."""

    path: Annotated[tuple[Path, ...], BeforeValidator(_several), AfterValidator(_absolute), Place()] = Field(
        (),
        description="Files of motionkit compose (.json), of the original code (.npy), or their folder; repeatable "
        "(required).",
    )
    root: Annotated[Path | None, AfterValidator(lambda root: root and _absolute((root,))[0]), Place()] = Field(
        None,
        description="HumanML3D or KIT folder the clips came from: gives a .npy of the original code its Mean and Std.",
    )
    fps: float | None = Field(
        None, gt=0, description="Frames per second; must be the files' own, which is the default."
    )
    max_length: int | None = Field(
        None, ge=40, le=100_000, description="Longest motion in frames; default: the files' target length."
    )
    random_crop: Annotated[bool, Cli("--random-crop")] = Field(
        False, description="Always off: every segment has its own length."
    )


component = Component(
    summary="Prompts of K actions with lengths and reference motions, made by motionkit compose",
    options=CompositeOptions,
    factory="motionkit.text_to_motion.data.composite_set:Composite",
    gives="composite",
)
