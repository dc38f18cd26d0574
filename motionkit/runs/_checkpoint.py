"""Checkpoints of a run: reading, saving and pruning them, and what they hold; safetensors plus JSON, no pickles.

First come the folders and `read_checkpoint`, `newest_checkpoint` and `save_checkpoint`; then two parts of the content:
the states of the random generators, and the state of an optimiser as named tensors.
"""

from __future__ import annotations

import hashlib
import logging
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_json, read_text
from motionkit.errors import MotionkitError
from motionkit.runs._record import first_problem
from motionkit.runs.atomic import (
    discard,
    disk_errors,
    sweep,
    sync_file,
    sync_folder,
    temporary,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


STATE = "state.json"
"""File that a complete checkpoint has: counters, cursors, and the checksums of its tensors."""

LAST = "last"
"""File beside the checkpoints that names the one to continue from."""

NAME = re.compile(r"step-[0-9]{8,}")
"""Matches the names that `name_of` returns."""

_FIX = "take an earlier checkpoint of the run"

_LIMIT = 64 << 20
"""Bytes of state.json."""

RANDOM = "random"
"""Name of the group of tensors that holds the states of the random generators."""

_WORDS = 624
"""Words of the state of a Mersenne twister."""

_OLD = ".replaced"
"""Ending of the name of a checkpoint while another takes its place."""

_logger = logging.getLogger("motionkit.runs")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint."""

    step: int  # Steps completed
    tensors: Mapping[str, Mapping[str, Tensor]]  # Named groups of named CPU tensors, as given to `Run.save`
    state: Mapping[str, Any]  # The JSON-able rest: counters, cursors, scheduler, option values
    path: Path  # Folder it was read from

    def restore_random(self) -> None:
        """Put the global random generators (torch CPU and CUDA, numpy, python) back to where they were at saving."""
        try:
            restore_random(self.tensors[RANDOM])
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise MotionkitError(
                f"{self.path} does not hold the states of the random generators.", why=str(error), fix=_FIX
            ) from error


def name_of(step: int) -> str:
    """Return the folder name of a step: ``step-00000003``."""
    return f"step-{step:08d}"


def step_of(path: Path) -> int:
    """Return the step of a folder that has such a name."""
    return int(path.name.removeprefix("step-"))


def folders(root: Path) -> list[Path]:
    """Return the folders with the name of a checkpoint, complete or not."""
    return [path for path in root.glob("step-*") if NAME.fullmatch(path.name)]


def complete(root: Path) -> list[Path]:
    """Return the complete checkpoint folders, newest first."""
    return sorted((path for path in folders(root) if (path / STATE).is_file()), key=step_of, reverse=True)


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    bytes: int
    sha256: str


class _Saved(BaseModel):
    """state.json."""

    model_config = ConfigDict(strict=True)

    step: int
    files: dict[Annotated[str, Field(pattern=r"^[^/\\]+\.safetensors$")], _File]
    state: dict[str, Any]


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint folder."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        # In bulk: values of trainers may have more than 64 bits, such as the state of a numpy generator.
        saved = _Saved.model_validate(read_json(path / STATE, dict, limit=_LIMIT, surrogates=True, bulk=True))
    except MotionkitError as error:
        raise MotionkitError(f"{path} is not a complete checkpoint.", why=error.sentence(), fix=_FIX) from error
    except ValidationError as error:
        why = f"{STATE}: {first_problem(error)}"
        raise MotionkitError(f"{path} is not a complete checkpoint.", why=why, fix=_FIX) from error
    tensors = {}
    for name, expected in saved.files.items():
        file = path / name
        try:
            data = file.read_bytes() if file.is_file() and file.stat().st_size == expected.bytes else b""
            if hashlib.sha256(data).hexdigest() != expected.sha256:
                raise MotionkitError(f"{file} is damaged.", why="its size or checksum is not what was saved.", fix=_FIX)
            tensors[file.stem] = load(data)
        except (OSError, SafetensorError) as error:
            raise MotionkitError(f"{file} is damaged.", why=str(error), fix=_FIX) from error
    return Checkpoint(saved.step, tensors, saved.state, path)


def last_checkpoint(root: Path) -> Path | None:
    """Return the folder that ``last`` names, existing or not; None if ``last`` is missing or names no checkpoint.

    Args:
        root: The run's ``checkpoints`` folder.
    """
    try:
        name = read_text(root / LAST, limit=100).strip()
    except MotionkitError:
        return None
    return root / name if NAME.fullmatch(name) else None


def newest_checkpoint(root: Path) -> Checkpoint | None:
    """Read the checkpoint that ``last`` names, or the newest good one before it, with a warning for each bad one."""
    candidates = complete(root) if root.is_dir() else []
    if (last := last_checkpoint(root)) is not None:
        candidates = [path for path in candidates if step_of(path) <= step_of(last)]
        if candidates and candidates[0] != last:
            _logger.warning("%s is not complete. Falling back to the checkpoint before it.", last)
    for path in candidates:
        try:
            return read_checkpoint(path)
        except MotionkitError as error:
            _logger.warning("%s %s Falling back to the checkpoint before it.", error.message, error.why)
    if candidates:
        raise MotionkitError(
            f"no checkpoint in {root} can be read.",
            why=f"{len(candidates)} were tried.",
            fix="start again with --overwrite",
        )
    return None


def choose_checkpoint(path: Path) -> None:
    """Continue from the checkpoint folder `path`; newer ones stay until they are overwritten."""
    write_text(path.parent / LAST, path.name + "\n")


def save_checkpoint(
    root: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object], *, keep: int
) -> Path:
    """Write one checkpoint aside, flush it, rename it into place, point ``last`` at it, then prune.

    After an interruption at any point the checkpoint is complete or absent.

    Args:
        root: The run's ``checkpoints`` folder.
        step: Steps completed.
        tensors: Groups of tensors on any device and of any layout; each becomes ``<group>.safetensors``.
        state: JSON-able; must be finite, so that reading gives back the same values.
        keep: Number of the newest checkpoints to leave in place.
    """
    target = root / name_of(step)
    aside = temporary(target)
    with disk_errors(f"save the checkpoint of step {step}", target):
        root.mkdir(exist_ok=True)
        try:
            aside.mkdir()
            _write(aside, step, {**tensors, RANDOM: capture_random()}, state)
            _swap(aside, target)
            write_text(root / LAST, target.name + "\n")
            prune(root, step, keep)
        except BaseException:
            mend(root)
            raise
    return target


def mend(root: Path) -> None:
    """Undo an interrupted replacement, and delete temporary files."""
    for path in root.glob(f"step-*{_OLD}"):
        if NAME.fullmatch(path.name.removesuffix(_OLD)):
            _settle(path)
    sweep(root)


def _write(folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object]) -> None:
    from safetensors.torch import save_file

    files: dict[str, dict[str, object]] = {}
    for group, members in tensors.items():
        path = folder / f"{group}.safetensors"
        save_file(_plain(members), path)
        sync_file(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
    write_json(folder / STATE, {"schema": 1, "step": step, "files": files, "state": state})


def _plain(members: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous CPU tensors that share no memory, as the format requires."""
    seen: set[int] = set()
    plain: dict[str, Tensor] = {}
    for name, tensor in members.items():
        value = tensor.detach().cpu().contiguous()
        storage = value.untyped_storage()
        if storage.data_ptr() in seen or storage.nbytes() != value.numel() * value.element_size():
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        plain[name] = value
    return plain


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _swap(aside: Path, target: Path) -> None:
    """Move `aside` to `target`; after an interruption one of the two checkpoints exists."""
    old = target.with_name(target.name + _OLD)
    _settle(old)
    try:
        if target.exists():
            target.rename(old)
        aside.rename(target)
        sync_folder(target.parent)
    finally:
        _settle(old)


def _settle(old: Path) -> None:
    """Finish an interrupted swap: restore the old checkpoint if the new one is not in place."""
    if not old.exists():
        return
    target = old.with_name(old.name.removesuffix(_OLD))
    if target.exists():
        discard(old)
    else:
        old.rename(target)


def prune(root: Path, step: int, keep: int) -> None:
    """Delete the checkpoints up to `step`, except the newest `keep` complete ones."""
    kept = [path for path in complete(root) if step_of(path) <= step][:keep]
    for path in folders(root):
        if step_of(path) <= step and path not in kept:
            discard(path)


def capture_random() -> dict[str, Tensor]:
    """Return the states of the global random generators: torch (CPU and each CUDA device), numpy and python.

    Python's and numpy's Mersenne twisters are 624 words and a position; a cached normal deviate is kept as a float64
    value (NaN for none).
    """
    import numpy as np
    import torch

    states = {"torch.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        for index, state in enumerate(torch.cuda.get_rng_state_all()):
            states[f"torch.cuda.{index}"] = state
    _, words, stored = random.getstate()
    states["python.words"] = torch.tensor(words, dtype=torch.int64)
    states["python.normal"] = torch.tensor(float("nan") if stored is None else stored, dtype=torch.float64)
    _, keys, position, has_normal, normal = np.random.get_state()
    states["numpy.words"] = torch.tensor([*map(int, keys), int(position), int(has_normal)], dtype=torch.int64)
    states["numpy.normal"] = torch.tensor(float(normal), dtype=torch.float64)
    return states


def restore_random(states: Mapping[str, Tensor]) -> None:
    """Restore the states of `capture_random`; those of absent CUDA devices are skipped.

    Raises:
        KeyError, TypeError, ValueError, OverflowError, RuntimeError: `states` is something else.
    """
    import numpy as np
    import torch

    torch.set_rng_state(states["torch.cpu"])
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            if f"torch.cuda.{index}" in states:
                torch.cuda.set_rng_state(states[f"torch.cuda.{index}"], index)
    stored = states["python.normal"].item()
    random.setstate((3, tuple(states["python.words"].tolist()), None if stored != stored else stored))
    *words, position, has_normal = states["numpy.words"].tolist()
    keys = np.array(words, dtype=np.uint32)
    if not 0 <= position <= _WORDS:  # checked, because numpy accepts any position and reads beyond its words
        raise ValueError(f"position {position} of numpy's generator")
    np.random.set_state(("MT19937", keys, position, has_normal, states["numpy.normal"].item()))


def flatten_optimizer(
    optimizer: Optimizer, module: nn.Module | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Convert an optimiser's state for a checkpoint.

    Args:
        optimizer: Any torch optimiser whose per-parameter state is tensors and plain values.
        module: Owner of the parameters, whose names then label the tensors; otherwise positions do.

    Returns:
        Tensors named ``<parameter>/<key>``, and a JSON-able document: options of each group, its parameters in order.
    """
    names = _names(optimizer, module)
    tensors: dict[str, Tensor] = {}
    groups: list[dict[str, Any]] = []
    plain: dict[str, dict[str, object]] = {}
    for number, group in enumerate(optimizer.param_groups):
        options: dict[str, object] = {}
        for key, value in group.items():
            if key == "params":
                continue
            if _is_tensor(value):
                tensors[f"group.{number}/{key}"] = value
            else:
                options[key] = value
        groups.append({"options": options, "params": names[number]})
        for name, parameter in zip(names[number], group["params"], strict=True):
            for key, value in optimizer.state.get(parameter, {}).items():
                if _is_tensor(value):
                    tensors[f"{name}/{key}"] = value
                else:
                    plain.setdefault(name, {})[key] = value
    return tensors, {"kind": type(optimizer).__name__, "groups": groups, "plain": plain}


def restore_optimizer(
    optimizer: Optimizer, tensors: Mapping[str, Tensor], state: Mapping[str, Any], module: nn.Module | None = None
) -> None:
    """Restore the result of `flatten_optimizer`, bit for bit.

    Args:
        optimizer: A fresh optimiser over the same parameters in the same groups.
        tensors: The tensors.
        state: The document.
        module: The owner, if one was given for flattening.
    """
    names = _names(optimizer, module)
    saved = [group["params"] for group in state["groups"]]
    if state["kind"] != type(optimizer).__name__ or saved != names:
        theirs, ours = {n for group in saved for n in group}, {n for group in names for n in group}
        odd = ", ".join(sorted(theirs ^ ours)[:5])
        raise MotionkitError(
            f"the checkpoint's {state['kind']} does not fit this {type(optimizer).__name__}.",
            why=f"parameters only on one side: {odd}." if odd else "groups or kinds of optimiser differ.",
            fix="resume with the settings that the run was started with",
        )
    document = optimizer.state_dict()
    per_parameter: dict[int, dict[str, object]] = {}
    for group, stored, labels in zip(document["param_groups"], state["groups"], names, strict=True):
        for key, value in stored["options"].items():
            group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
        per_parameter.update({index: {} for index in group["params"]})
        for index, name in zip(group["params"], labels, strict=True):
            per_parameter[index].update(state["plain"].get(name, {}))
            prefix = f"{name}/"
            entries = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            per_parameter[index].update({key: value.clone() for key, value in entries.items()})
    for name, value in tensors.items():
        owner, _, key = name.rpartition("/")
        if owner.startswith("group.") and owner[6:].isdecimal():
            document["param_groups"][int(owner[6:])][key] = value.clone()
    document["state"] = {index: entry for index, entry in per_parameter.items() if entry}
    optimizer.load_state_dict(document)


def _names(optimizer: Optimizer, module: nn.Module | None) -> list[list[str]]:
    names_by_id = {} if module is None else {id(parameter): name for name, parameter in module.named_parameters()}
    names, position = [], 0
    for group in optimizer.param_groups:
        labels = []
        for parameter in group["params"]:
            labels.append(names_by_id.get(id(parameter), f"param.{position}"))
            position += 1
        names.append(labels)
    return names


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
