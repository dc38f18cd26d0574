"""Generated motions as files that other tools read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from motionkit.clips.convert import (
    ConvertReport,
    FileKind,
    FileSource,
    FileTarget,
    claim_folder,
    convert,
    generated_texts,
    kind_of,
    require_file,
)
from motionkit.documents import read_json
from motionkit.evaluation._generate import PAGE, RECORD
from motionkit.motion import ReadOptions
from motionkit.player import MAX_TRACKS, track_of, write_player

_LIMIT = 64 << 20


def require_places(out: Path, kinds: Sequence[FileKind], count: int, *, overwrite: bool = False) -> None:
    """Refuse what could not be written at the end, before anything is sampled.

    Args:
        out: Folder or file to make.
        kinds: Further formats in a folder.
        count: Motions to be made.
        overwrite: Whether what an earlier call wrote may be replaced.

    Raises:
        MotionkitError: A place is taken, its folder is missing, or a file cannot hold so many motions.
    """
    if (kind := kind_of(out)) is not None:
        require_file(out, kind, count, overwrite=overwrite)
    for kind in kinds:
        claim_folder(out / kind, overwrite=overwrite)


def export_motions(folder: Path, kinds: Sequence[FileKind], *, overwrite: bool = False) -> dict[str, ConvertReport]:
    """Write the motions of a folder that `generate` made in further formats, and a page that plays them.

    Args:
        folder: The folder; each kind becomes ``folder/KIND``, the page ``folder/motions.html``.
        kinds: Formats to write.
        overwrite: Replace what an earlier call wrote there.

    Returns:
        What was done for each kind; rotations that had to be found come with their residual.

    Raises:
        MotionkitError: A format cannot be written.
    """
    sources = _sources(folder)
    reports: dict[str, ConvertReport] = {
        kind: convert(sources, folder / kind, FileTarget(kind), overwrite=overwrite) for kind in dict.fromkeys(kinds)
    }
    _write_page(folder, folder / PAGE, sources[:MAX_TRACKS])
    return reports


def _write_page(folder: Path, path: Path, sources: Sequence[FileSource]) -> None:
    """Write a page of motions that go by their ids, as their files do: texts of one prompt set begin alike."""
    document = read_json(folder / RECORD, dict, limit=_LIMIT)
    motions, fps = document["motions"], float(document["fps"])
    tracks = []
    for source, entry in zip(sources, motions, strict=False):
        (clip,) = source.load()
        segments = [(part["text"], part["start"] / fps, part["end"] / fps) for part in entry["segments"]]
        features = torch.from_numpy(np.load(folder / entry["features"], allow_pickle=False))
        tracks.append(track_of(clip.motion, entry["id"], segments=segments, features=features))
    some = f"{len(tracks)} of {len(motions)}" if len(tracks) < len(motions) else f"{len(motions)}"
    write_player(path, tracks, title=motions[0]["text"] if len(motions) == 1 else f"{some} generated motions")


def _sources(folder: Path) -> list[FileSource]:
    """Return a generated folder's joints as clips; whatever a policy makes can be looked at, sound or not."""
    document = read_json(folder / RECORD, dict, limit=_LIMIT)
    texts = generated_texts(folder)
    options = ReadOptions(up="y", unit="m", fps=float(document["fps"]))
    return [
        FileSource(folder / entry["joints"], entry["id"], "joints", options, texts.get(entry["id"], ()))
        for entry in document["motions"]
    ]
