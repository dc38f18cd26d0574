"""Opens MDM policies by their options, makes new ones, and exports them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from motionkit import starter
from motionkit.contracts.dataset import TextMotionDataset, record_of
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord, Normalizer, Skeleton
from motionkit.runs import OutputFolder, find_model
from motionkit.text import CachedEncoder, TextRecord, load_encoder
from motionkit.text_to_motion.mdm.files import (
    DOCUMENT,
    export_stock,
    read_policy,
    read_released,
    read_stats,
    skeleton_of,
)
from motionkit.text_to_motion.mdm.network import MDMNetwork
from motionkit.text_to_motion.mdm.policy import LONGEST, DiPPolicy, MDMPolicy, Prefixes, read_prefix
from motionkit.text_to_motion.mdm.settings import MDMOptions, MDMSettings, Padding
from motionkit.text_to_motion.policy import GUIDANCE
from motionkit.weights import located

STARTER = "starter"
_log = logging.getLogger("motionkit.policies")
_TEXT_OPTION = "--policy.text-model"


@dataclass(frozen=True)
class _Parts:
    settings: MDMSettings
    network: MDMNetwork
    skeleton: Skeleton
    fps: float
    max_length: int
    text: TextRecord
    normalizer: Normalizer | None
    step: int
    origin: str
    trained_on: DataRecord | None = None
    guidance: float | None = None
    sampling_steps: int | None = None


def open_policy(
    options: MDMOptions, *, device: torch.device | str = "cpu", dataset: TextMotionDataset | None = None
) -> MDMPolicy:
    """Open the policy that `options` names.

    Args:
        options: Options of the plugin.
        device: Where the policy goes.
        dataset: Gives the statistics that a released checkpoint lacks, and must have the policy's body. Without one,
            prompts are typed by the user, and a student of MiniLM may encode them (see `open_encoder`).

    Example:
        >>> from motionkit.text import Prompt
        >>> policy = open_policy(MDMOptions(checkpoint="starter"))
        >>> condition = policy.condition([Prompt(("a man walks.",), (60,))])
        >>> x0 = policy.predict(torch.zeros(1, 60, 263), torch.tensor([49]), condition, torch.tensor([60]))
        >>> x0.shape
        torch.Size([1, 60, 263])
    """
    if options.reference:
        raise MotionkitError(
            f"the reference {options.reference!r} has no effect here.",
            why="one policy is opened; grpo opens a second one as the reference of its KL.",
            fix="leave policy.reference out.",
        )
    parts = _read(options.checkpoint, options.diffusion_steps)
    if options.prefix is not None and not parts.settings.context_len:
        raise MotionkitError(
            "--policy.prefix has no effect here.",
            why=f"{options.checkpoint} makes whole motions; only DiP continues one.",
            fix="leave it out.",
        )
    if dataset is not None and dataset.skeleton.name != parts.skeleton.name:
        raise MotionkitError(
            f"the policy moves the {parts.skeleton.name} body, the dataset has the {dataset.skeleton.name} body.",
            fix="choose a dataset and a checkpoint of the same body; motionkit convert makes "
            f"{parts.skeleton.name} data of the same recordings.",
        )
    normalizer = parts.normalizer
    if options.stats is not None:
        normalizer = read_stats(options.stats)
    elif normalizer is None:
        normalizer = _statistics(options.checkpoint, dataset)
    common: dict[str, Any] = {
        "normalizer": normalizer,
        "skeleton": parts.skeleton,
        "encoder": _open_text(parts, options.text_model, device, typed=dataset is None),
        "fps": parts.fps,
        "max_length": parts.max_length,
        "padding": options.padding,
        "trained_on": parts.trained_on,
        "guidance": parts.guidance,
        "sampling_steps": parts.sampling_steps,
    }
    if not parts.settings.context_len:
        return MDMPolicy(parts.settings, parts.network, **common).to(device)
    _log.info("%s is DiP: its authors sample it with --guidance-scale 7.5", parts.origin)
    prefixes = Prefixes(
        parts.settings.context_len,
        skeleton=parts.skeleton,
        fps=parts.fps,
        given=None if options.prefix is None else read_prefix(options.prefix, parts.skeleton),
        clips=None if dataset is None else dataset.clips,
    )
    return DiPPolicy(parts.settings, parts.network, prefixes=prefixes, **common).to(device)


def new_policy(
    settings: MDMSettings,
    *,
    dataset: TextMotionDataset,
    encoder: CachedEncoder,
    seed: int = 0,
    padding: Padding = "exact",
    device: torch.device | str = "cpu",
) -> MDMPolicy:
    """Make an untrained policy for a dataset.

    Args:
        settings: Shape; `features`, `text_encoder` and `text_width` are taken from the dataset and the encoder.
        dataset: Gives body, statistics, fps and longest motion.
        encoder: Text encoder.
        seed: Draws the weights, independently of the global generator.
        padding: See `MDMPolicy`.
        device: Where the policy goes.
    """
    settings = settings.model_copy(
        update={"features": dataset.skeleton.width, "text_encoder": encoder.name, "text_width": encoder.width}
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = MDMNetwork(settings)
    policy = MDMPolicy(
        settings,
        network,
        normalizer=dataset.normalizer,
        skeleton=dataset.skeleton,
        encoder=encoder,
        fps=dataset.fps,
        max_length=dataset.max_length,
        padding=padding,
        trained_on=record_of(dataset),
    )
    return policy.to(device)


def open_encoder(
    name: str,
    model: str = "",  # folder or hub id of its model; empty for its default
    *,
    local: bool = False,  # never use the network
    device: torch.device | str = "cpu",  # where the model runs
    typed: bool = False,  # prompts are typed by the user: without MiniLM its student may encode them
) -> CachedEncoder:
    """Open a text encoder; ``stored`` is the starter pack's table, with MiniLM for other texts."""
    table, student = (starter.table_path(), starter.student_path()) if name == "stored" else (None, None)
    student = student if typed else None
    return load_encoder(name, model=model, table=table, student=student, local=local, device=device)


def _open_text(parts: _Parts, chosen: str, device: torch.device | str, *, typed: bool) -> CachedEncoder:
    return parts.text.open(
        lambda model, local: open_encoder(parts.text.encoder, model, local=local, device=device, typed=typed),
        chosen,
        origin=parts.origin,
        option=_TEXT_OPTION,
    )


def _statistics(checkpoint: str, dataset: TextMotionDataset | None) -> Normalizer:
    """Return the dataset's statistics for a checkpoint that has none."""
    if dataset is not None and dataset.source_name != STARTER:
        return dataset.normalizer
    raise MotionkitError(
        f"{checkpoint} holds no feature statistics"
        + ("." if dataset is None else ", and it was not trained with those of the starter dataset."),
        why="released MDM checkpoints rely on the Mean.npy and Std.npy of their dataset.",
        fix="--dataset humanml --dataset.root DIR, or --policy.stats DIR (with Mean.npy and Std.npy).",
    )


def export_checkpoint(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write a policy, run or checkpoint in the original MDM layout; no text model is needed.

    Mean.npy and Std.npy are written too if the policy has statistics; export.json lists the files.

    Args:
        checkpoint: As ``MDMOptions.checkpoint``.
        folder: Made if it is missing.
        overwrite: Replace the files of an earlier export in `folder`; other files in it are never changed.

    Returns:
        The file, and the settings that keep it from loading in the original code (empty: it loads).
    """
    place = OutputFolder(folder, "export.json", "motionkit-export", overwrite=overwrite)
    place.claim()
    parts = _read(checkpoint)
    with place.beside() as part:
        path = export_stock(parts.settings, parts.network, part, skeleton=parts.skeleton, step=parts.step)
        if parts.normalizer is not None:
            np.save(part / "Mean.npy", parts.normalizer.mean.numpy())
            np.save(part / "Std.npy", parts.normalizer.std.numpy())
    place.settle(part, {"schema": 1, "to": "mdm", "checkpoint": checkpoint})
    if parts.guidance not in (None, GUIDANCE):
        _log.info(
            "the policy is meant to be sampled at guidance scale %g, which the file cannot hold: "
            "--guidance-scale %g, in the original MDM code --guidance_param %g",
            *[parts.guidance] * 3,
        )
    return folder / path.name, parts.settings.stock_obstacles()


def _read(checkpoint: str, steps: int | None = None) -> _Parts:
    path = starter.weights_path("mdm") if checkpoint == STARTER else located(checkpoint)
    if not path.exists():
        raise MotionkitError(f"{checkpoint} does not exist.", fix="check --policy.checkpoint.")
    result = find_model(path, "policy", DOCUMENT) if path.is_dir() else None
    if path.is_dir() and result is None:
        path = _only_checkpoint(path)
    if result is not None:
        document, network, normalizer = read_policy(result.document, result.tensors)
        if steps not in (None, document.settings.diffusion_steps):
            raise MotionkitError(
                f"--policy.diffusion-steps {steps} has no effect: {checkpoint} has "
                f"{document.settings.diffusion_steps} steps.",
                why="its config gives it; the option is for files whose args.json is wrong.",
                fix="leave it out; --inference-timesteps samples with fewer.",
            )
        return _Parts(
            document.settings,
            network,
            skeleton_of(document.settings.features, checkpoint),
            document.fps,
            document.max_length,
            document.text,
            normalizer,
            result.step,
            str(result.document),
            document.trained_on or (DataRecord(name=STARTER) if checkpoint == STARTER else None),
            document.guidance,
            document.sampling_steps,
        )
    settings, network = read_released(path, steps)
    skeleton = skeleton_of(settings.features, checkpoint)
    text = TextRecord(encoder=settings.text_encoder)
    longest = LONGEST if settings.context_len else 196
    return _Parts(settings, network, skeleton, skeleton.fps, longest, text, None, 0, str(path))


def _only_checkpoint(folder: Path) -> Path:
    """Return the released checkpoint of a folder that holds just one."""
    files = sorted(folder.glob("model*.pt"))
    if len(files) == 1:
        return files[0]
    if files:
        raise MotionkitError(f"{folder} holds {len(files)} checkpoints.", fix=f"give one of them, such as {files[-1]}.")
    raise MotionkitError(
        f"{folder} is neither a motionkit policy nor a run that trains one.",
        fix="give the model%09d.pt itself, a policy folder, or a run folder.",
    )
