"""Composite prompt sets: several actions in a row, joined from single clips by `motionkit compose`. Light half."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from motionkit.config import Cli, Group, Place
from motionkit.plugins import Component


def _several(value: object) -> object:
    """Turn a single path into a tuple of one."""
    return (value,) if isinstance(value, (str, Path)) else value


def _absolute(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return absolute paths, because a run may be resumed from another working folder."""
    return tuple(path.expanduser().absolute() for path in paths)


class CompositeOptions(Group):
    """Which files are used, and what they must agree with."""

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
    factory="motionkit.datasets.composite._dataset:Composite",
    gives="composite",
)
