"""The documents of a folder of episodes: manifest.json, and one line of episodes-WW.jsonl for each episode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from motionkit.runs import fingerprint

ARTIFACT = "episodes"
"""Folder of a run that holds its episodes."""

MANIFEST = "manifest.json"
LABEL_RULE = "a frame is a success if the environment said so of the state it shows; an episode is positive if one is"

Side = Annotated[int, Field(ge=1, le=8192)]
Width = Annotated[int, Field(ge=1, le=10_000)]
ColumnName = Literal["action", "state"]
"""Numbers beside the frames: ``state`` of the moment that a frame shows, ``action`` that was taken in it."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
_LONGEST = 100
_Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_STRICT = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def task_of(environment: Mapping[str, Any]) -> str:
    """Return the task that an environment's ``spec`` names, such as ``gymnasium my_tasks:Push-v0``; empty for none.

    Frames of two tasks show two kinds of success, even where their cameras have the same names and sizes.
    """
    return " ".join(str(environment[key]) for key in ("name", "id") if environment.get(key))


def plain_name(text: str) -> str:
    """Return the name that a camera of any name has here, where it names files, too: ``wrist.rgb`` for ``wrist/rgb``.

    Letters and digits of ASCII, ``_``, ``.`` and ``-`` stay, others become a dot.
    """
    return re.sub(r"[^A-Za-z0-9_.-]", ".", text).lstrip("._-")[:_LONGEST] or "camera"


class Manifest(BaseModel):
    """What all episodes of a folder share.

    Attributes:
        kind: Always ``motionkit-episodes``.
        schema_: Version of the format.
        cameras: ``(height, width)`` in pixels by name.
        environment: What was collected from; empty where it is not known.
        label_rule: When a frame is a success.
        licence: Licence of the pictures, if someone says.
        columns: Numbers of a row of each column; empty where only frames are kept.
        choices: Where an action is one of n choices, n; 0 where it is a vector.
        fps: Frames a second; 0 where it is not known.
        labelled: Whether it is known which frames are a success; else all labels are 0.
    """

    model_config = _STRICT | ConfigDict(populate_by_name=True)

    kind: Literal["motionkit-episodes"] = "motionkit-episodes"
    schema_: Literal[1] = Field(1, alias="schema")
    cameras: dict[Name, tuple[Side, Side]] = Field(min_length=1, max_length=64)
    environment: dict[str, Any] = {}
    label_rule: str = LABEL_RULE
    licence: str = ""
    columns: dict[ColumnName, Width] = {}
    choices: int = Field(0, ge=0, le=1_000_000)
    fps: float = Field(0.0, ge=0, le=100_000)
    labelled: bool = True


class EpisodeRecord(BaseModel):
    """One episode.

    Attributes:
        id: Its name in the folder.
        shard: Name of the files that hold its frames, without camera and ending.
        offset: Its first frame there.
        labels: A character per frame: ``1`` where the state it shows is a success.
        success_once: The environment said so at some step.
        seed: Seed of its start.
        source: What acted.
        sha256: Hash of its frames by camera.
        columns: Hash of its numbers by column.
    """

    model_config = _STRICT

    id: Name
    shard: Annotated[str, StringConstraints(pattern=r"^frames-[0-9]{2}-[0-9]{4}$")]
    offset: int = Field(ge=0, le=2**40)
    labels: Annotated[str, StringConstraints(pattern=r"^[01]+$", max_length=10_000_000)]
    success_once: bool
    seed: int | None = None
    source: str = ""
    sha256: dict[Name, _Hash]
    columns: dict[ColumnName, _Hash] = {}

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.labels)

    @property
    def positive(self) -> bool:
        """Whether the episode has a success: said of the whole, or of a frame."""
        return self.success_once or "1" in self.labels

    @property
    def content(self) -> str:
        """Fingerprint of its frames: the same under another name and in another folder."""
        return fingerprint(*sorted(self.sha256.values()))

    @property
    def mark(self) -> str:
        """First digits of its hash, for messages."""
        return next(iter(self.sha256.values()))[:12]
