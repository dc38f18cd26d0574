"""Rule-based tuning from recorded figures: reads a run, applies the rules, writes the settings file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit.clips.profile._merge import merge_settings
from motionkit.clips.profile._settings_file import read_settings
from motionkit.config import Given, resolve
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.trainers.train_mpl._guide_config import is_guide_config
from motionkit.trainers.train_mpl._metrics_files import FOLDER, MODES, read_epochs
from motionkit.trainers.train_mpl._settings import TrainMplSettings
from motionkit.tuning._rules import Adjusted, Change, adjust

_NAMES: Mapping[str, str] = {
    "freerun_weight": "freerun.weight",
    "freerun_horizon": "freerun.horizon",
    "w_fk_pos": "loss.fk_pos",
    "w_rot_local": "loss.rot_local",
    "w_latent_consistency": "loss.latent_consistency",
}
"""Names of values in a stage, and of the settings that they stand for."""


@dataclass(frozen=True)
class Recorded:
    """A run whose figures were recorded.

    Attributes:
        metrics: The folder of figures.
        base: The settings file, or the run's config.json.
        settings: What they hold.
        own: Whether the figures are of motionkit's own runs, which record the baseline.
        figures: By mode, epoch and name.
        long: What is wrong with the long runs of the trained model, a sentence each; no rule answers them.
    """

    metrics: Path
    base: Path
    settings: TrainMplSettings
    own: bool
    figures: Mapping[str, Mapping[int, Mapping[str, float]]]
    long: tuple[str, ...] = ()

    def rows(self, changes: list[Change]) -> list[tuple[str, float, float, str]]:
        """Return changes with the key that they have in a file of motionkit's own."""
        staged = bool(self.settings.stages)
        return [
            (f"stages.{one.stage}.{one.key}" if staged else _NAMES[one.key], one.before, one.after, one.evidence)
            for one in changes
        ]


def open_recorded(path: Path, base: Path | None) -> Recorded:
    """Read a run of train-mpl, or a metrics folder of it or of the guide's code.

    Args:
        path: The run, its folder ``metrics``, or one of the guide's. Where it is missing, the run above it is taken:
            the guide keeps its figures two folders below.
        base: The settings to adjust; by default the run's own.

    Raises:
        MotionkitError: There are no figures, or no settings.
    """
    metrics, run = _find(path)
    file = base or (run / "config.json" if (run / "config.json").is_file() else None)
    if file is None:
        raise MotionkitError(f"{path} has no settings to adjust.", fix="--base FILE, the config of that training.")
    settings = resolve(TrainMplSettings, Given(files=(file,))).settings
    found = read_epochs(metrics)
    own = any(name.startswith("Hold/") for figures in found[MODES[1]].values() for name in figures)
    return Recorded(metrics, file, settings, own, found, _long_alarms(run / "run.json"))


def _long_alarms(record: Path) -> tuple[str, ...]:
    """Return the alarms of a run's long runs; none where the file is missing or holds something else."""
    if not record.is_file():
        return ()
    found: object = read_json(record, dict)
    for key in ("summary", "long", "alarms"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return tuple(text for text in found if isinstance(text, str)) if isinstance(found, list) else ()


def apply_rules(recorded: Recorded) -> Adjusted:
    """Apply the guide's rules to a run's schedule."""
    settings = recorded.settings
    table = settings.model_dump(mode="json")
    base = {name: float(table[key.partition(".")[0]][key.partition(".")[2]]) for name, key in _NAMES.items()}
    seen = max(max(epochs, default=1) for epochs in recorded.figures.values())
    return adjust(
        table["stages"], recorded.figures[MODES[1]], recorded.figures[MODES[0]], base=base,
        epochs=max(seen, settings.run.epochs), longest=settings.train.seq_len - settings.train.known,
        encoder=settings.encoder != "none", copied=not recorded.own,
    )  # fmt: skip


def write_adjusted(path: Path, recorded: Recorded, found: Adjusted) -> str:
    """Write adjusted settings into a file, whose comments stay; a missing one begins as the settings they came from.

    Returns:
        What was written, in a sentence.

    Raises:
        MotionkitError: The file cannot be edited or written.
    """
    _, start = read_settings(path if path.exists() else recorded.base)
    guide = is_guide_config(start, TrainMplSettings.model_fields)
    changes: dict[str, Any] = {}
    if found.staged:
        changes["freerun_stage_schedule" if guide else "stages"] = found.stages
    else:
        for one in found.changes:
            group, _, name = _NAMES[one.key].partition(".")
            value = int(one.after) if one.key == "freerun_horizon" else one.after
            if guide:
                changes[one.key] = value
            else:
                old = changes.get(group, start.get(group))
                changes[group] = {**(old if isinstance(old, dict) else {}), name: value}
    merged = merge_settings(path, changes if path.exists() else {**start, **changes}, {}, overwrite=True)
    note = f"; its comments could not be kept, the old file is {merged.backup}" if merged.backup else ""
    return f"wrote {path}{note}"


def _find(path: Path) -> tuple[Path, Path]:
    """Return the metrics folder and the run that it may be in."""
    for run in (path, *(path.parents[:2] if not path.exists() else ())):
        for metrics in (run / FOLDER, run):
            if any(any(metrics.glob(f"{mode}_ep*.json")) for mode in MODES):
                return metrics, run.parent if metrics == run and run.name == FOLDER else run
    raise MotionkitError(
        f"{path} has no recorded figures.",
        why="neither it nor its folder metrics has teacher_epXXX.json or valfree_epXXX.json."
        if path.exists() else "it does not exist.",
        fix="name a run of train-mpl, or the guide's metrics folder.",
    )  # fmt: skip
