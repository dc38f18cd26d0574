"""Rule-based tuning from recorded metrics: read a run, apply the rules, write the settings file.

The rules (`RULES`) are the guide's: which settings to raise if a figure of a training is too high. `adjust` applies
them to a schedule; it and what is above it read and write no files. `open_recorded` reads the figures of a run, and
`write_adjusted` writes its settings; `run_metrics` is ``motionkit tune --metrics``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.clips.profile.settings_file import merge_settings, read_settings
from motionkit.config import resolve
from motionkit.documents import read_json, value_at
from motionkit.errors import MotionkitError
from motionkit_predictor.training.guide_config import is_guide_config
from motionkit_predictor.training.guide_figures import FOLDER, MODES, read_epochs
from motionkit_predictor.training.schedule import LARGEST_STEP
from motionkit_predictor.training.settings import TrainMplSettings

Epochs = Mapping[int, Mapping[str, float]]
"""Figures by epoch and name."""

BETA = 0.4
"""Share of an epoch in the moving average of a figure."""

PATIENCE = 2
"""Epochs in a row in which the average must be too high."""

RATIO = 2.0
"""Largest ratio of free runs to teacher forcing that the guide calls good; the limit if no baseline is recorded."""

LONGEST = 64
"""Longest free run, in frames, that a rule sets."""


@dataclass(frozen=True)
class Rule:
    """A rule of the guide."""

    figure: str  # Name of the figure in free runs
    factors: Mapping[str, float]  # Factors of the settings to raise, by their names in a stage
    # Whether the guide's code copies the figure from the command, so that it tells nothing about the model.
    copied: bool


RULES = (
    Rule("YawAbsDeg", {"freerun_weight": 1.1, "freerun_horizon": 1.1}, copied=True),
    Rule("RootVelMAE", {"freerun_weight": 1.2}, copied=True),
    Rule("InputRotGeoDeg", {"w_latent_consistency": 1.15, "w_fk_pos": 1.15, "w_rot_local": 1.15}, copied=False),
)

BOUNDS: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "freerun_weight": ((0.0, 0.8), (0.05, 0.8)),
    "w_latent_consistency": ((0.01, 0.4), (0.05, 0.45)),
    "w_fk_pos": ((0.05, 0.6), (0.1, 0.8)),
    "w_rot_local": ((0.05, 0.6), (0.1, 0.8)),
}
"""Lowest and highest value in the stages before the last one, and in the last one. Values beyond them stay."""

_LOSSES = ("w_fk_pos", "w_rot_local")
"""Values in a stage that are weights of losses."""

_NAMES: Mapping[str, str] = {
    "freerun_weight": "freerun.weight",
    "freerun_horizon": "freerun.horizon",
    "w_fk_pos": "loss.fk_pos",
    "w_rot_local": "loss.rot_local",
    "w_latent_consistency": "loss.latent_consistency",
}
"""Names of values in a stage, and of the settings they override."""


@dataclass(frozen=True)
class Finding:
    """Judgement of a figure over some epochs."""

    high: bool  # Whether it is too high
    evidence: str  # Values, epochs and threshold, in words


@dataclass(frozen=True)
class Change:
    """A setting that a rule raises."""

    stage: int  # Number of the stage, from 0
    key: str  # Its name in a stage
    before: float  # Value before
    after: float  # Value now
    evidence: str  # Why


@dataclass
class Adjusted:
    """A schedule after the rules."""

    stages: list[dict[str, Any]]  # The stages; a single one for the whole training if it has none
    staged: bool  # Whether the training has stages
    changes: list[Change] = field(default_factory=list)  # In the order of the stages
    notes: list[str] = field(default_factory=list)  # What was left unchanged and why, a sentence each

    def note(self, text: str) -> None:
        """Add a note unless it is there already."""
        if text not in self.notes:
            self.notes.append(text)


def average(epochs: Epochs, figure: str) -> dict[int, float]:
    """Return the exponential moving average of a figure by epoch; `BETA` is the weight of the newest epoch.

    Example:
        >>> average({1: {"GeoDeg": 2.0}, 2: {"GeoDeg": 1.0}}, "GeoDeg")
        {1: 2.0, 2: 1.6}
    """
    by_epoch: dict[int, float] = {}
    last: float | None = None
    for epoch, figures in sorted(epochs.items()):
        if figure in figures:
            last = figures[figure] if last is None else BETA * figures[figure] + (1 - BETA) * last
            by_epoch[epoch] = last
    return by_epoch


def judge(figure: str, free: Epochs, teacher: Epochs, first: int, last: int) -> Finding | None:
    """Judge a figure of free runs in a range of epochs.

    It is too high if its average exceeds that of holding the last pose in each of the last `PATIENCE` epochs. If that
    baseline was not recorded, the limit is `RATIO` times the run's value with teacher forcing (for InputRotGeoDeg,
    which is 0 there, that of GeoDeg).

    Returns:
        The finding; None if the figure or its limit is recorded in fewer epochs.
    """
    smooth = {epoch: value for epoch, value in average(free, figure).items() if first <= epoch <= last}
    recent = sorted(smooth)[-PATIENCE:]
    limits, named = average(free, f"Hold/{figure}"), "holding the last pose"
    if not all(epoch in limits for epoch in recent):
        other = "GeoDeg" if figure == "InputRotGeoDeg" else figure
        limits = {epoch: RATIO * value for epoch, value in average(teacher, other).items()}
        named = f"{RATIO:g} times {other} with teacher forcing"
    if len(recent) < PATIENCE or not all(epoch in limits for epoch in recent):
        return None
    high = all(smooth[epoch] > limits[epoch] for epoch in recent)
    values = ", ".join(f"{smooth[epoch]:.4g}" for epoch in recent)
    relation = "above" if high else "not above"
    where = f"epochs {', '.join(map(str, recent))}"
    return Finding(high, f"{figure} {values} in {where} is {relation} {limits[recent[-1]]:.4g} ({named})")


def adjust(
    stages: Sequence[Mapping[str, Any]],
    free: Epochs,
    teacher: Epochs,
    *,
    base: Mapping[str, float],
    epochs: int,
    longest: int = LONGEST,
    encoder: bool = True,
    copied: bool = False,
) -> Adjusted:
    """Apply the guide's three rules to a schedule.

    Values only rise. Weight and horizon of free runs never fall from stage to stage, and the weight rises by no more
    than the linter's step; a stage with weight 0 is teacher forcing and keeps both.

    Args:
        stages: As in ``freerun_stage_schedule``; empty for a training without stages.
        free: Figures of free runs, by the guide's names.
        teacher: Figures with teacher forcing.
        base: Values of stages that set none, by their names in a stage.
        epochs: Epochs of the training.
        longest: Frames of a free run that fit into a window.
        encoder: Whether the model has an encoder, which the latent consistency needs.
        copied: Whether the figures come from the guide's code, see `Rule.copied`.
    """
    training: dict[str, Any] = {"range": [1, epochs], "label": "", "trainer": {}, "loss_groups": {}}
    result = Adjusted([copy.deepcopy(dict(stage)) for stage in stages] or [training], bool(stages))
    if copied:
        names = " and ".join(rule.figure for rule in RULES if rule.copied)
        result.note(f"{names} are copied from the command in files of the guide's own code: not used.")
    for number, stage in enumerate(result.stages):
        first, last = (int(epoch) for epoch in stage["range"])
        for rule in RULES:
            if rule.copied and copied:
                continue
            finding = judge(rule.figure, free, teacher, first, last)
            label = _label(result, number)
            if finding is None:
                result.note(f"{label}: {rule.figure} is not judged, it is recorded in fewer than {PATIENCE} epochs.")
            elif not finding.high:
                result.note(f"{label}: {finding.evidence}.")
            else:
                for key, factor in rule.factors.items():
                    if key == "w_latent_consistency" and not encoder:
                        result.note("w_latent_consistency stays: there is no encoder.")
                    else:
                        _raise(result, number, key, factor, finding.evidence, base, min(longest, LONGEST))
    _keep_rising(result, base)
    result.changes = _joined(result.changes)
    return result


def value_in(stage: Mapping[str, Any], key: str, base: Mapping[str, float]) -> float:
    """Return a stage's value, or the training's if the stage sets none."""
    groups = (stage.get("loss_groups") or {}).values()
    weight = next((weights[key] for weights in groups if key in weights), None)
    return float(weight if weight is not None else (stage.get("trainer") or {}).get(key, base.get(key, 0.0)))


def _raise(
    result: Adjusted, number: int, key: str, factor: float, evidence: str, base: Mapping[str, float], longest: int
) -> None:
    stage, final = result.stages[number], number == len(result.stages) - 1
    before = value_in(stage, key, base)
    if key.startswith("freerun") and value_in(stage, "freerun_weight", base) == 0:
        result.note(f"{_label(result, number)}: freerun_weight 0 makes it a stage of teacher forcing; it stays.")
        return
    if key == "freerun_horizon":
        after = max(before, min(float(max(round(before * factor), round(before) + 1)), longest))
    else:
        low, high = BOUNDS[key][final]
        after = max(before, min(max(before * factor, low), high))
    if key == "freerun_weight" and result.staged:
        # At most the linter's step above the previous stage, which is final already, or above 0.
        earlier = value_in(result.stages[number - 1], key, base) if number else 0.0
        after = max(before, min(after, earlier + LARGEST_STEP))
    after = round(after, 6)
    if after <= before:
        result.note(f"{_label(result, number)}: {key} {before:g} is at its bound.")
        return
    _put(stage, key, after)
    result.changes.append(Change(number, key, before, after, evidence))


def _keep_rising(result: Adjusted, base: Mapping[str, float]) -> None:
    """Raise stages to the values of the raised stages before them."""
    for key in ("freerun_weight", "freerun_horizon"):
        raised: float | None = None
        for number, stage in enumerate(result.stages):
            before = value_in(stage, key, base)
            if raised is not None and before < raised:
                _put(stage, key, raised)
                why = f"{key} of an earlier stage is {raised:g} now, and it never goes down"
                result.changes.append(Change(number, key, before, raised, why))
            if any((change.stage, change.key) == (number, key) for change in result.changes):
                raised = max(value_in(stage, key, base), raised or 0.0)


def _put(stage: dict[str, Any], key: str, value: float) -> None:
    groups = stage.setdefault("loss_groups", {})
    group = next((name for name, weights in groups.items() if key in weights), "core" if key in _LOSSES else "")
    if group:
        groups.setdefault(group, {})[key] = value
    else:
        stage.setdefault("trainer", {})[key] = int(value) if key == "freerun_horizon" else value


def _label(result: Adjusted, number: int) -> str:
    if len(result.stages) == 1:
        return result.stages[0].get("label") or "the training"
    return result.stages[number].get("label") or f"stage {number + 1}"


def _joined(changes: Sequence[Change]) -> list[Change]:
    """Merge changes of the same value, which two rules may raise."""
    by_value: dict[tuple[int, str], Change] = {}
    for change in changes:
        old = by_value.get((change.stage, change.key))
        if old is not None:
            change = Change(change.stage, change.key, old.before, change.after, f"{old.evidence}; {change.evidence}")
        by_value[change.stage, change.key] = change
    return sorted(by_value.values(), key=lambda change: change.stage)


@dataclass(frozen=True)
class Recorded:
    """A run with recorded figures."""

    metrics: Path  # The folder of figures
    base: Path  # The settings file, or the run's config.json
    settings: TrainMplSettings  # Its settings
    own: bool  # Whether motionkit recorded the figures, and with them the baseline
    figures: Mapping[str, Mapping[int, Mapping[str, float]]]  # By mode, epoch and name
    # Alarms of the trained model's long runs, a sentence each; no rule covers them.
    long: tuple[str, ...] = ()

    def rows(self, changes: list[Change]) -> list[tuple[str, float, float, str]]:
        """Return key in motionkit's settings, value before, value after and evidence of each change."""
        staged = bool(self.settings.stages)
        return [
            (
                f"stages.{change.stage}.{change.key}" if staged else _NAMES[change.key],
                change.before,
                change.after,
                change.evidence,
            )
            for change in changes
        ]


def open_recorded(path: Path, base: Path | None) -> Recorded:
    """Read a run of train-mpl, or a metrics folder of it or of the guide's code.

    Args:
        path: The run, its folder ``metrics``, or one of the guide's. If it does not exist, the run above it is used:
            the guide keeps its figures two folders below.
        base: The settings to adjust; by default those of the run.
    """
    metrics, run = _find(path)
    file = base or (run / "config.json" if (run / "config.json").is_file() else None)
    if file is None:
        raise MotionkitError(f"{path} has no settings to adjust.", fix="--base FILE, the config of that training.")
    settings = resolve(TrainMplSettings, files=[file]).settings
    by_mode = read_epochs(metrics)
    is_ours = any(name.startswith("Hold/") for figures in by_mode[MODES[1]].values() for name in figures)
    return Recorded(metrics, file, settings, is_ours, by_mode, _long_alarms(run / "run.json"))


def _long_alarms(record: Path) -> tuple[str, ...]:
    """Return the alarms of a run's long runs; none if the file is missing or has another form."""
    if not record.is_file():
        return ()
    value = value_at(read_json(record, dict), "summary", "long", "alarms")
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


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


def write_adjusted(path: Path, recorded: Recorded, adjusted: Adjusted) -> str:
    """Write adjusted settings into a file and keep its other settings; return a sentence about what was written.

    A file that does not exist starts as a copy of the settings that were adjusted.
    """
    _, start = read_settings(path if path.exists() else recorded.base)
    guide = is_guide_config(start, TrainMplSettings.model_fields)
    changes: dict[str, Any] = {}
    if adjusted.staged:
        changes["freerun_stage_schedule" if guide else "stages"] = adjusted.stages
    else:
        for change in adjusted.changes:
            group, _, name = _NAMES[change.key].partition(".")
            value = int(change.after) if change.key == "freerun_horizon" else change.after
            if guide:
                changes[change.key] = value
            else:
                old = changes.get(group, start.get(group))
                changes[group] = {**(old if isinstance(old, dict) else {}), name: value}
    merged = merge_settings(path, changes if path.exists() else {**start, **changes}, {}, overwrite=True)
    note = f"; its comments could not be kept, the old file is {merged.backup}" if merged.backup else ""
    return f"wrote {path}{note}"


def _find(path: Path) -> tuple[Path, Path]:
    """Return the metrics folder and the run that it belongs to, if any."""
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


def run_metrics(
    run: Path, *, base: Path | None = None, write_config: Path | None = None, dry_run: bool = False
) -> Mapping[str, Any]:
    """Adjust settings by the recorded figures of a run.

    Args:
        run: Run of train-mpl, or a metrics folder, the guide's included.
        base: Settings file to adjust; by default the run's own settings.
        write_config: File that the result is written into; nothing is written without it.
        dry_run: Only list the changes.

    Returns:
        The document of the command, with ``table`` and ``closing`` for people.
    """
    recorded = open_recorded(run, base)
    adjusted = apply_rules(recorded)
    rows = recorded.rows(adjusted.changes)
    lasting = [f"long runs, which no rule reads: {text}" for text in recorded.long]
    closing = [*adjusted.notes, *lasting, f"figures of {recorded.metrics}, settings of {recorded.base}"]
    written = None
    if not rows:
        closing.append("nothing to change: no figure that depends on the model is too high.")
    elif write_config is None or dry_run:
        closing.append("nothing was written" + ("." if dry_run else "; --write-config FILE writes the result."))
    else:
        closing.append(write_adjusted(write_config, recorded, adjusted))
        written = str(write_config)
    return {
        "metrics": str(recorded.metrics),
        "base": str(recorded.base),
        "changes": [
            {"key": key, "before": before, "after": after, "evidence": evidence}
            for key, before, after, evidence in rows
        ],
        "notes": list(adjusted.notes),
        "long_alarms": list(recorded.long),
        "stages": adjusted.stages if adjusted.staged else [],
        "written": written,
        "table": {
            "title": f"{len(rows)} changes",
            "columns": ["setting", "before", "after", "evidence"],
            "rows": [(key, f"{before:g}", f"{after:g}", evidence) for key, before, after, evidence in rows],
        }
        if rows
        else None,
        "closing": closing,
    }
