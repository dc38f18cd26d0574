"""Generated motions as a folder of arrays with a page that plays them, and as files that other tools read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from motionkit.clips.convert import (
    ConvertReport,
    Edits,
    FileSource,
    FileTarget,
    claim_folder,
    convert,
    convert_file,
    edited,
    generated_texts,
    kind_of,
    require_file,
)
from motionkit.clips.motion_clip import LoadedClip, MotionClip
from motionkit.documents import read_json
from motionkit.formats import FORMATS, WriteOptions
from motionkit.formats.native import write_native
from motionkit.motion import MotionBatch, ReadOptions, Skeleton, plain_id
from motionkit.player import MAX_TRACKS, track_of, write_player
from motionkit.player.files import WORDING
from motionkit.rl import StepPlan
from motionkit.text import Prompt
from motionkit.text_to_motion.blocks import Seams
from motionkit.text_to_motion.evaluation.folder import RECORD, motions_folder
from motionkit.text_to_motion.generating import BATCH, asked_of, generate_with_seams
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.wording import Reading, sentences

PAGE = "motions.html"
"""The page that plays the motions; `export_motions` makes it, and it belongs to the folder like the rest."""
_LIMIT = 64 << 20  # bytes of motions.json
_POSED = 8  # frames of a pose
_LONGEST = 60  # letters of a prompt in the name of its files
_NONE = Edits()


def generate(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    out: Path,
    plan: StepPlan,
    *,
    samples: int = 1,
    guidance: float = 2.5,
    seed: int = 0,
    batch: int = BATCH,
    readings: Mapping[str, Reading] | None = None,
    facts: dict[str, Any] | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Sample motions and write them.

    ``OUT/new_joints/<id>.npy`` holds ``[T, J, 3]`` float32 joints (metres, Y up), ``OUT/new_joint_vecs/<id>.npy``
    ``[T, D]`` features (not normalised), ``OUT/motions.json`` an entry for each motion. Of a policy whose features are
    not HumanML3D's or KIT-ML's, ``OUT/motions/<id>.npz`` holds both in place of the arrays. A motion depends on its
    text, lengths, sample number and the seed, not on the other motions. The folder is written under a temporary name
    and moved into place when it is complete.

    Args:
        policy: What is sampled.
        prompts: What is asked for.
        out: Folder to make.
        plan: Reverse steps.
        samples: Motions per prompt.
        guidance: Classifier-free guidance scale.
        seed: Seed of the noise.
        batch: Motions that are sampled at once.
        readings: What typed texts are read as.
        facts: Further entries of motions.json.
        overwrite: Replace what an earlier call wrote into `out`; other files are not touched.
        progress: Called with 1 after each motion.

    Returns:
        One entry per motion, as in motions.json.
    """
    place = motions_folder(out, overwrite=overwrite)
    names = [f"{number:04d}_{sample:02d}" for number in range(len(prompts)) for sample in range(samples)]
    files = [_files(name, policy) for name in names]
    place.require_free([*(path for kinds in files for path in kinds.values()), RECORD, PAGE])
    policy.condition(asked_of(policy, prompts))  # refuses a prompt before a folder is made
    motions = generate_with_seams(policy, prompts, plan, samples=samples, guidance=guidance, seed=seed, batch=batch)
    entries: list[dict[str, Any]] = []
    with place.beside() as part:
        for path in files[0].values() if files else ():
            (part / path).parent.mkdir()
        for number, (clip, seams) in enumerate(motions):
            entry = _entry(names[number], prompts[number // samples], number % samples, policy.fps) | files[number]
            for segment in entry["segments"]:
                if (reading := (readings or {}).get(segment["text"])) is not None:
                    segment.update(reading.document())
            if seams is not None:
                entry["seams"] = seams.document()
            assert clip.features is not None
            if "motion" in entry:
                write_native(part / entry["motion"], clip)
            else:
                np.save(part / entry["joints"], clip.positions().float().numpy())
                np.save(part / entry["features"], clip.features.numpy())
            entries.append(entry)
            if progress is not None:
                progress(1)
    document = {
        "schema": 1,
        "skeleton": policy.skeleton.name,
        "fps": policy.fps,
        "seed": seed,
        "guidance_scale": guidance,
        "timesteps": plan.timesteps.tolist(),
        **(facts or {}),
        "motions": entries,
    }
    place.settle(part, document, also=(PAGE,))
    return entries


def _files(name: str, policy: DiffusionPolicy) -> dict[str, str]:
    """Return the files of a motion, by their entry in motions.json."""
    if isinstance(policy.skeleton, Skeleton):
        return {"joints": f"new_joints/{name}.npy", "features": f"new_joint_vecs/{name}.npy"}
    return {"motion": f"motions/{name}.npz"}


def _entry(name: str, prompt: Prompt, sample: int, fps: float) -> dict[str, Any]:
    """Return the entry of a motion in motions.json, with the key of its prompt if it comes from a dataset."""
    asked: dict[str, Any] = {"prompt": prompt.key, "source_ids": list(prompt.source_ids)} if prompt.key else {}
    return {
        "id": name,
        "text": " | ".join(prompt.segments),
        **asked,
        "sample": sample,
        "frames": prompt.length,
        "seconds": prompt.length / fps,
        "segments": [
            {"text": text, "start": start, "end": end}
            for text, (start, end) in zip(prompt.segments, prompt.bounds, strict=True)
        ],
    }


def require_places(out: Path, kinds: Sequence[str], count: int, *, overwrite: bool = False) -> None:
    """Check that the output can be written, before motions are sampled."""
    if (kind := kind_of(out)) is not None:
        require_file(out, kind, count, overwrite=overwrite)
    for kind in kinds:
        claim_folder(out / kind, overwrite=overwrite)


def require_bodies(policy: DiffusionPolicy, kinds: Sequence[str], *, fps: float = 0.0, edits: Edits = _NONE) -> None:
    """Write a pose of the policy's body in the formats that take some bodies alone, before motions are sampled.

    Args:
        policy: The policy.
        kinds: Formats.
        fps: Frames per second of the files; 0 keeps the policy's.
        edits: Changes of motions in files; their rig may be one that a format takes.
    """
    tried = [kind for kind in kinds if (writer := FORMATS[kind].writer) is not None and writer.some_bodies]
    if not tried:
        return
    body, features = policy.skeleton, policy.normalizer.mean.cpu().repeat(_POSED, 1)
    posed = MotionBatch(features[None], torch.tensor([_POSED]), skeleton=body, fps=policy.fps)
    source = LoadedClip("pose", MotionClip(body.motion(features, posed.joints[0], policy.fps), features=features))
    with TemporaryDirectory() as folder:
        for kind in tried:
            convert_file([source], Path(folder, kind), kind, fps=fps, edits=Edits(rig=edits.rig))


def export_motions(
    folder: Path,
    kinds: Sequence[str],
    *,
    fps: float = 0.0,
    edits: Edits = _NONE,
    overwrite: bool = False,
    settings: Mapping[str, str] | None = None,
) -> dict[str, ConvertReport]:
    """Write the motions of a folder of `generate` in further formats, and a page that plays them.

    Files are named after their prompt and sample: ``a_person_waves_s0.glb``.

    Args:
        folder: The folder of `generate`.
        kinds: Formats.
        fps: Frames per second of the files and the page; 0 keeps the policy's.
        edits: Changes of each motion in files and page; the arrays of the folder stay as they are.
        overwrite: Replace earlier files.
        settings: Settings of formats.

    Returns:
        A report for each format; if rotations had to be fitted, it has their residual.
    """
    sources = _sources(folder)
    named = _named(sources, read_json(folder / RECORD, dict, limit=_LIMIT)["motions"])
    model = edits.rig.model if edits.rig is not None else ""
    reports: dict[str, ConvertReport] = {}
    for kind in dict.fromkeys(kinds):
        target = FileTarget(kind, fps, options=WriteOptions(model=model, settings=settings or {}))
        reports[kind] = convert(named, folder / kind, target, edits=edits, overwrite=overwrite)
    _write_page(folder, folder / PAGE, sources[:MAX_TRACKS], fps, edits)
    return reports


def name_of(text: str) -> str:
    """Return the name that files of a prompt begin with.

    Example:
        >>> name_of("A person walks. | A person waves")
        'a_person_walks_a_person_waves'
    """
    return re.sub(r"[^\w]+", "_", text.lower()).strip("_")[:_LONGEST].strip("_") or "motion"


def _named(sources: Sequence[FileSource], motions: Sequence[dict[str, Any]]) -> list[FileSource]:
    """Return the sources with ids made of their prompts; a number makes equal ones unique."""
    names: list[str] = []
    for motion in motions:
        plain, number = name_of(str(motion["text"])), 2
        name = f"{plain}_s{motion['sample']}"
        while name in names:
            name, number = f"{plain}_{number}_s{motion['sample']}", number + 1
        names.append(plain_id(name))
    return [replace(source, key=name) for source, name in zip(sources, names, strict=True)]


def _write_page(folder: Path, path: Path, sources: Sequence[FileSource], rate: float, edits: Edits) -> None:
    """Write a page of motions, called by their texts."""
    document = read_json(folder / RECORD, dict, limit=_LIMIT)
    motions, fps = document["motions"], float(document["fps"])
    tracks = []
    for source, entry in zip(sources, motions, strict=False):
        (clip,) = source.load()
        segments = [(_marked(part), part["start"] / fps, part["end"] / fps) for part in entry["segments"]]
        if edits.any or rate not in (0.0, fps):
            clip, _ = edited(clip.resample(rate or fps), edits)
            segments = [(caption.text, caption.start, caption.end) for caption in clip.timed]
            segments = segments or [(entry["text"], 0.0, 0.0)]
        notes = [*_said(entry["segments"]), *([Seams(**entry["seams"]).sentence(fps)] if "seams" in entry else [])]
        tracks.append(track_of(clip.motion, entry["text"] or entry["id"], segments=segments, notes=notes))
    count = f"{len(tracks)} of {len(motions)}" if len(tracks) < len(motions) else f"{len(motions)}"
    write_player(path, tracks, title=motions[0]["text"] if len(motions) == 1 else f"{count} generated motions")


def noted(clip: MotionClip, prompt: Prompt, readings: Mapping[str, Reading]) -> MotionClip:
    """Return a motion with a note of what its texts are read as, which a page shows."""
    said = " ".join(f"{sentence}." for sentence in sentences(readings, prompt.segments))
    return replace(clip, notes={**clip.notes, WORDING: said}) if said else clip


def _said(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the page says of the actions of a motion, for each text once."""
    said = []
    for part in parts:
        if "read_as" in part:
            said.append(Reading(part["text"], part["read_as"], tuple(part.get("left_out", ()))).sentence)
        elif "warning" in part:
            said.append(part["warning"])
    return list(dict.fromkeys(said))


def _marked(part: Mapping[str, Any]) -> str:
    """Return the text of an action as the page shows it."""
    if "warning" in part:
        return f"{part['text']} (not known to the policy)"
    return f"{part['text']} (read as: {part['read_as']})" if "read_as" in part else str(part["text"])


def _sources(folder: Path) -> list[FileSource]:
    """Return a generated folder's joints as clips; nothing is checked, so that broken motions can be viewed too."""
    document = read_json(folder / RECORD, dict, limit=_LIMIT)
    texts = generated_texts(folder)
    options = ReadOptions(up="y", unit="m", fps=float(document["fps"]))
    return [
        FileSource(folder / entry["motion"], entry["id"], "npz")
        if "motion" in entry
        else FileSource(folder / entry["joints"], entry["id"], "joints", options, texts.get(entry["id"], ()))
        for entry in document["motions"]
    ]
