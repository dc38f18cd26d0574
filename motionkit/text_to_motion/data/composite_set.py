"""The composite dataset: implements `TextMotionDataset` on composite files.

`read_file` and `read_arrays` read the two files of a set, or one of the original code. All files of a dataset must
have one skeleton and one rate.
"""

from __future__ import annotations

import hashlib
import io
import logging
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.documents import open_file, read_json
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, Normalizer, Skeleton
from motionkit.motion.corpus.ids import Split
from motionkit.page.wording import count
from motionkit.runs import fingerprint, fingerprint_files
from motionkit.text import Prompt
from motionkit.text_to_motion.data.composite import KIND, LIMIT, SCHEMA, CompositeDocument, CompositeOptions
from motionkit.text_to_motion.data.humanml import HumanMLOptions, KitOptions, humanml, kit
from motionkit.text_to_motion.data.joined import reference_features, shared_motions
from motionkit.weights import open_zip, read_array

_LARGEST = 512 * 2**20  # bytes of a file of the original code
_HEADERS = 4096  # bytes by which unpacked arrays may exceed their file
_BODIES: dict[str, Skeleton] = {"humanml": HUMANML, "t2m": HUMANML, "starter": HUMANML, "kit": KIT}
_log = logging.getLogger("motionkit.datasets")
_STATS_FIX = "give the folder of the single clips with --dataset.root DIR, or compose the set again."


@dataclass(frozen=True)
class CompositeFile:
    """An opened file."""

    path: Path
    document: CompositeDocument


def find_files(paths: tuple[Path, ...]) -> list[CompositeFile]:
    """Open files, and all composite files of folders.

    In a folder, a ``.npy`` with the name of a ``.json`` is the same set in the original code's format, and is skipped.
    """
    fix = "motionkit compose --dataset ... --split train OUT makes one; give OUT with --dataset.path OUT"
    if not paths:
        raise MotionkitError("dataset.path is not set: the composite dataset does not know its files.", fix=fix)
    result = []
    for path in paths:
        path = path.expanduser()
        if not path.is_dir():
            result.append(read_file(path))
            continue
        documents = sorted(path.glob("composite_k*.json"))
        stems = {file.stem for file in documents}
        documents += [file for file in sorted(path.glob("composite_k*.npy")) if file.stem not in stems]
        if not documents:
            raise MotionkitError(f"{path} has no composite_k*.json.", fix=fix)
        result += [read_file(file) for file in documents]
    return result


def read_file(path: Path) -> CompositeFile:
    """Open one file; its format is recognised by content."""
    try:
        size = path.stat().st_size
        with open_file(path) as file:
            ours = file.read(6) != b"\x93NUMPY"
    except OSError as error:
        raise MotionkitError(
            f"{path} cannot be opened.", why=error.strerror or "", fix="check --dataset.path."
        ) from error
    if size > _LARGEST:
        raise MotionkitError(f"{path} has {size >> 20} MB, more than the {_LARGEST >> 20} MB a prompt set may have.")
    value = _ours(path) if ours else _legacy(path)
    try:
        return CompositeFile(path, CompositeDocument.model_validate(value, context={"ours": ours}))
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        more = f" (and {error.error_count() - 1} more problems)" if error.error_count() > 1 else ""
        raise MotionkitError(
            f"{path} is damaged: {key + ': ' if key else ''}{problem['msg']}{more}.", fix="compose it again."
        ) from error


def _ours(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path, object, limit=LIMIT)
    except MotionkitError as error:
        raise MotionkitError(
            f"{path} is neither JSON nor a .npy file.", why=error.sentence(), fix="give a file of motionkit compose."
        ) from error
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise MotionkitError(
            f"{path} is not a composite prompt set.",
            why=f'a file of motionkit compose has "kind": "{KIND}".',
            fix="motionkit compose --dataset ... OUT makes one; the original code's .npy is read as well.",
        )
    if value.get("schema") != SCHEMA:
        raise MotionkitError(
            f"{path} has schema {value.get('schema')!r}; this version of motionkit reads {SCHEMA}.",
            fix="compose it again, or use the version that wrote it.",
        )
    return value


def _legacy(path: Path) -> Any:
    """Read the original code's ``np.save`` of a dict through the restricted reader."""
    try:
        return _plain(read_array(path))
    except MotionkitError:
        raise
    # A damaged pickle can raise nearly any exception; names outside the allowed list are never imported.
    except Exception as error:
        raise MotionkitError(f"{path} is damaged.", why=str(error), fix="copy it again.") from error


def _plain(value: Any) -> Any:
    """Turn numpy values into Python's."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True)
class Arrays:
    """The arrays of one file."""

    normalizer: Normalizer  # Mean and Std of the clips' dataset
    joints: tuple[Tensor, ...]  # reference motion of each sample, [T + 1, J, 3] float32 metres
    # [N, K, K] float32 cosine of each pair of texts (the B-matrix) by the file's text tower, or None. Rewards compute
    # it with their text encoder instead.
    similarity: Tensor | None


def pack(arrays: Arrays) -> bytes:
    """Return the bytes of the ``.npz``: the same for the same arrays."""
    members = {
        "mean": arrays.normalizer.mean.float().numpy(),
        "std": arrays.normalizer.std.float().numpy(),
        "joints": torch.cat(list(arrays.joints)).float().numpy(),
    }
    if arrays.similarity is not None:
        members["b_matrix"] = arrays.similarity.float().numpy()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, values in members.items():
            member = io.BytesIO()
            np.save(member, np.ascontiguousarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())  # dated 1980
    return buffer.getvalue()


def read_arrays(file: CompositeFile, skeleton: Skeleton) -> Arrays:
    """Open the arrays of a file."""
    entry = file.document.arrays
    if entry is None:
        raise MotionkitError(f"{file.path} has no reference motions and no Mean and Std.")
    if Path(entry.file).name != entry.file or entry.file in ("", ".", ".."):
        raise MotionkitError(
            f"{file.path} names arrays at {entry.file!r}, outside its folder.", fix="do not use this file."
        )
    path = file.path.parent / entry.file
    _check_bytes(file, path)
    arrays = read_array(path)
    lengths = [sample.total_frames + 1 for sample in file.document.samples]
    wanted: dict[str, Sequence[int]] = {
        "mean": (skeleton.width,),
        "std": (skeleton.width,),
        "joints": (sum(lengths), skeleton.joints, 3),
    }
    if "b_matrix" in arrays:
        k = file.document.metadata.k_segments
        wanted["b_matrix"] = (len(lengths), k, k)
    for name, shape in wanted.items():
        values = arrays.get(name)
        if not isinstance(values, np.ndarray) or values.dtype != np.float32 or values.shape != tuple(shape):
            problem = f"{values.dtype} {list(values.shape)}" if isinstance(values, np.ndarray) else "missing"
            raise MotionkitError(
                f"{path}: {name} is {problem}, should be float32 {list(shape)} for the {skeleton.name} body.",
                fix="compose the set again.",
            )
    tensors = {name: torch.from_numpy(arrays[name]) for name in wanted}
    return Arrays(
        Normalizer(tensors["mean"], tensors["std"]), tensors["joints"].split(lengths), tensors.get("b_matrix")
    )


def _check_bytes(file: CompositeFile, path: Path) -> None:
    """Refuse arrays of another file, before they are unpacked."""
    entry = file.document.arrays
    again = f"compose the set again, or copy {file.path.name} and {path.name} together."
    try:
        size = path.stat().st_size
        with open_file(path) as data, open_zip(data, path) as archive:
            data.seek(0)
            digest = hashlib.file_digest(data, "sha256").hexdigest() if entry and size == entry.size else ""
            unpacked = sum(member.file_size for member in archive.infolist())
    except FileNotFoundError as error:
        raise MotionkitError(f"{path} is missing.", why=f"it belongs to {file.path}.", fix=again) from error
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read.", why=str(error), fix=again) from error
    if entry is None or digest != entry.sha256:
        raise MotionkitError(f"{path} is not the file that {file.path.name} was written with.", fix=again)
    if unpacked > size + _HEADERS:
        raise MotionkitError(f"{path} unpacks to {unpacked >> 20} MB; it is not a file of motionkit compose.")


def refuse_twins(files: Sequence[CompositeFile]) -> None:
    """Refuse two files of one split and one number of segments."""
    seen: dict[tuple[str, int], CompositeFile] = {}
    for file in files:
        key = (file.document.metadata.split, file.document.metadata.k_segments)
        if key in seen:
            raise MotionkitError(
                f"{seen[key].path} and {file.path} both hold {key[0]} prompts of {key[1]} segments.",
                fix="name one of them with --dataset.path.",
            )
        seen[key] = file


def one_skeleton(files: Sequence[CompositeFile]) -> Skeleton:
    """Return the body of all files."""
    names = sorted({file.document.metadata.skeleton or file.document.metadata.dataset_name for file in files})
    bodies = [body for body in {_BODIES.get(name) for name in names} if body is not None]
    if len(bodies) != 1 or any(name not in _BODIES for name in names):
        raise MotionkitError(
            f"the composite files are of {', '.join(map(repr, names))}, which is not one known body.",
            fix="name files of one dataset: humanml (22 joints) or kit (21).",
        )
    return bodies[0]


def one_fps(files: Sequence[CompositeFile], wanted: float | None) -> float:
    """Return the frame rate of all files, and of `wanted` if it is given."""
    fps = files[0].document.metadata.fps
    rates = sorted({file.document.metadata.fps for file in files} | ({wanted} if wanted is not None else set()))
    if len(rates) > 1:
        raise MotionkitError(
            f"frames per second differ: {', '.join(f'{value:g}' for value in rates)}.",
            why="segment lengths are in frames of the rate they were composed at.",
            fix=f"leave --dataset.fps out, or make it {fps:g}.",
        )
    return fps


def longest(files: Sequence[CompositeFile], wanted: int | None) -> int:
    """Return the longest motion in frames: `wanted`, else the files' target length."""
    most = max(sample.total_frames for file in files for sample in file.document.samples)
    if wanted is not None and most > wanted:
        raise MotionkitError(
            f"a composite prompt asks for {most} frames, more than dataset.max_length {wanted}.",
            fix=f"--dataset.max-length {most}, or compose with a smaller --target-length.",
        )
    return wanted or max(most, *(file.document.metadata.target_length for file in files))


def shared_clips(files: Sequence[CompositeFile]) -> list[str]:
    """Return the source motions that two splits share, mirrored or not; sorted."""
    splits: dict[str, set[str]] = {}
    for file in files:
        names = splits.setdefault(file.document.metadata.split, set())
        names.update(name for sample in file.document.samples for name in sample.source_ids)
    pairs = combinations(splits.values(), 2)
    return sorted({name for first, second in pairs for name in shared_motions(first, second)})


class Composite(TextMotionDataset):
    """Prompts of K actions with fixed lengths, from the files of `motionkit compose` or of the original code.

    Each file belongs to one split: prompts made of training clips are not used for measuring.
    """

    name = "composite"
    random_crop = False

    def __init__(self, options: CompositeOptions) -> None:
        if options.random_crop:
            raise MotionkitError(
                "composite data cannot be cropped at random.",
                why="every segment has a fixed length, which a crop would break.",
                fix="leave --random-crop out.",
            )
        self._files = find_files(options.path)
        refuse_twins(self._files)
        self.skeleton = one_skeleton(self._files)
        self.fps = one_fps(self._files, options.fps)
        self.max_length = longest(self._files, options.max_length)
        self._source: TextMotionDataset | None = None
        if options.root is not None:
            component, kind = (kit, KitOptions) if self.skeleton is KIT else (humanml, HumanMLOptions)
            self._source = component.build(kind(root=options.root))
        self._arrays: dict[Path, Arrays] = {}
        self._logged = False
        if shared := shared_clips(self._files):
            _log.warning(
                "%s, such as %s, in the composite prompts of two splits.",
                count(len(shared), "source motion"),
                shared[0],
            )

    def __repr__(self) -> str:
        return f"Composite({len(self._files)} files, {self.fps:g} fps, {self.skeleton.name})"

    @property
    def source_name(self) -> str:
        """Name of the clips' dataset."""
        return self._files[0].document.metadata.dataset_name

    @property
    def source(self) -> TextMotionDataset | None:
        """The dataset of the single clips, if ``root`` names its folder."""
        return self._source

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Fingerprints of the files, which contain the hashes of the arrays, and of the statistics in ``root``."""
        result = {"path": fingerprint(*(fingerprint_files(file.path, [file.path]) for file in self._files))}
        if self._source is not None:
            result["root"] = fingerprint(self._source.normalizer.mean, self._source.normalizer.std)
        return result

    @property
    def splits(self) -> tuple[Split, ...]:
        """Splits with a file."""
        have = {file.document.metadata.split for file in self._files}
        return tuple(split for split in get_args(Split) if split in have)

    @cached_property
    def normalizer(self) -> Normalizer:  # type: ignore[override]  # it may not be there, and not be asked for
        """Mean and Std of the clips' dataset."""
        if self._source is not None:
            return self._source.normalizer
        with_arrays = [file for file in self._files if file.document.arrays is not None]
        if not with_arrays:
            raise MotionkitError(
                f"{self._files[0].path} has no Mean and Std.",
                why="the original code's composite files hold prompts only.",
                fix="add --dataset.root DIR (the folder of the single clips) or --policy.stats DIR.",
            )
        return self._read(with_arrays[0]).normalizer

    def caption_tokens(self) -> Mapping[str, Sequence[str]]:
        """Return the stored ``word/POS`` tokens of the captions of the source dataset, none without a ``root``."""
        return {} if self._source is None else self._source.caption_tokens()

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the reference motions of a split, captioned with the whole prompt; none if there is no file."""
        if not self._logged:  # here, because only motions are cropped, not prompts
            self._logged = True
            _log.info("composite data: every segment has a fixed length, so random crops are off.")
        return tuple(
            TextClip(sample.id, reference_features(joints, self.skeleton), (sample.text, sample.composite_prompt))
            for file in self._of(split)
            if file.document.arrays is not None
            for sample, joints in zip(file.document.samples, self._read(file).joints, strict=True)
        )

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return the prompts of a split; `seed` has no effect."""
        file = self._file(split, k_segments)
        return tuple(
            Prompt(
                sample.sub_prompts,
                sample.durations_frames,
                sample.id or f"composite-{split}-k{len(sample.sub_prompts)}-{number:05d}",
                sample.source_ids,
            )
            for number, sample in enumerate(file.document.samples)
        )

    def similarity(self, split: Split, *, k_segments: int = 0) -> Tensor | None:
        """Return the stored B-matrices ``[N, K, K]`` of a split's prompts, if there are any; see `Arrays`."""
        file = self._file(split, k_segments)
        return None if file.document.arrays is None else self._read(file).similarity

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and jerk (m/s^3) of the source dataset's train split."""
        if self._source is not None:
            return self._source.physics_reference()
        for file in self._files:
            if (result := file.document.metadata.physics_reference) is not None:
                return result
        raise MotionkitError(f"{self._files[0].path} has no physics reference.", fix=_STATS_FIX)

    def _of(self, split: str) -> list[CompositeFile]:
        return [file for file in self._files if file.document.metadata.split == split]

    def _file(self, split: Split, k_segments: int) -> CompositeFile:
        """Return the file of a split and a number of segments; 0: the only one."""
        files = self._of(split)
        if not files:
            have = ", ".join(f"{file.path} ({file.document.metadata.split})" for file in self._files)
            raise MotionkitError(
                f"there are no composite prompts of the {split} split.",
                why=f"each split has a file, and prompts of another split are not used; there is {have}.",
                fix=f"motionkit compose ... --split {split} into the same folder, and name the folder with "
                "--dataset.path.",
            )
        counts = {file.document.metadata.k_segments: file for file in files}
        if k_segments == 0 and len(counts) == 1:
            return files[0]
        listed = ", ".join(f"{k} in {file.path}" for k, file in sorted(counts.items()))
        if k_segments == 0:
            raise MotionkitError(
                f"the {split} split has prompts of several numbers of segments: {listed}.",
                fix=f"choose with --k-segments {min(counts)}, or name one file with --dataset.path.",
            )
        if k_segments not in counts:
            raise MotionkitError(
                f"prompts of K = {k_segments} segments are wanted (--k-segments), the {split} prompts have K = "
                f"{listed}.",
                why="the segments of a composite prompt are fixed when it is composed.",
                fix=f"use the file's K, or motionkit compose --k-segments {k_segments} --split {split} ...",
            )
        return counts[k_segments]

    def _read(self, file: CompositeFile) -> Arrays:
        if file.path not in self._arrays:
            self._arrays[file.path] = read_arrays(file, self.skeleton)
        return self._arrays[file.path]
