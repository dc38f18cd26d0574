"""Reads the guide's ``exp_phase_mpl.json``, a flat table, into the settings here. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from motionkit.config import Foreign, Problem, SettingsError, which_setting
from motionkit.training.guide_yaml import renamed
from motionkit_predictor.training.stages import TRAINER_KEYS

LOSSES = (
    "rot_geo", "rot_delta", "rot_ortho", "fk_pos", "rot_local", "attn_reg", "rot_delta_root", "rot_log", "limb_geo",
    "latent_consistency",
)  # fmt: skip
"""Losses of the guide, each a weight ``w_`` and its name."""

KEYS: Mapping[str, str] = {
    "data": "data",
    "fps": "fps",
    "bundle_json": "bundle",
    "out": "run.out",
    "epochs": "run.epochs",
    "encoder": "encoder",
    "encoder_path": "encoder",
    "device": "device",
    "seed": "seed",
    "batch": "train.batch_size",
    "seq_len": "train.seq_len",
    "accumulation_steps": "train.accumulation_steps",
    "accum_steps": "train.accumulation_steps",
    "lr": "optim.learning_rate",
    "weight_decay": "optim.weight_decay",
    "grad_clip": "optim.grad_clip",
    "dropout": "model.dropout",
    "hidden_dim": "model.width",
    "width": "model.width",
    "num_layers": "model.layers",
    "depth": "model.layers",
    "num_heads": "model.heads",
    "heads": "model.heads",
    "tf_mode": "teacher.mode",
    "tf_start_epoch": "teacher.start_epoch",
    "tf_end_epoch": "teacher.end_epoch",
    "tf_max": "teacher.max",
    "tf_min": "teacher.min",
    "freerun_weight": "freerun.weight",
    "freerun_horizon": "freerun.horizon",
    "freerun_horizon_init": "freerun.first_horizon",
    "freerun_horizon_min": "freerun.first_horizon",
    "freerun_horizon_ramp_epochs": "freerun.ramp_epochs",
    "freerun_weight_ramp_epochs": "freerun.ramp_epochs",
    "freerun_ramp_epochs": "freerun.ramp_epochs",
    "freerun_weight_init": "freerun.first_weight",
    "freerun_stage_schedule": "stages",
    "lookahead_stage_schedule": "stages",
    "adaptive_loss_method": "adaptive.method",
    "adaptive_loss_terms": "adaptive.terms",
    "adaptive_loss_alpha": "adaptive.alpha",
    "adaptive_loss_temperature": "adaptive.temperature",
    **{f"w_{loss}": f"loss.{loss}" for loss in LOSSES},
    "w_attn": "loss.attn_reg",
    "w_latent": "loss.latent_consistency",
    "w_freerun": "freerun.weight",
}
"""Key of the guide, key here."""

ADAPTIVE: Mapping[str, tuple[str, ...]] = {
    "gradnorm": ("adaptive.terms", "adaptive.alpha"),
    "uncertainty": ("adaptive.terms",),
    "dwa": ("adaptive.terms", "adaptive.temperature"),
}
"""Options that each method has."""

_PROFILE = "statistics that profile wrote; training reads the clips themselves"
_DEBUG = "motionkit logs its own metrics"
_EVAL = "eval mpl has --warmup and --horizon"

LEFT_OUT: Mapping[str, str] = {
    "w_cond_yaw": "the guide switched this loss off; the heading is predicted here, and its error is in loss.root",
    "dataset_profile": _PROFILE,
    "foot_contact_threshold": "FootContact is the F1 of predicted contacts here",
    "eval_horizon": _EVAL,
    "eval_warmup": _EVAL,
    "monitor_batches": "free runs are measured on all validation windows",
    "yaw_forward_offset": "the heading is read from each clip",
    "num_workers": "windows are cut in memory",
    "amp": "--precision is the switch here",
}
"""Keys that are ignored, each with the reason."""

LEFT_OUT_PREFIXES: Mapping[str, str] = {
    "lookahead_": "the guide removed this loss; free runs took its place",
    "diag_": _DEBUG,
    "freerun_debug_": _DEBUG,
    "freerun_grad_log": _DEBUG,
    "history_debug_": _DEBUG,
}
"""Prefixes of such keys."""

FOOT = (
    "the guide forbids explicit constraints of the feet: they take weight from the losses that teach the motion, and a "
    "model leans on them instead of learning when a foot stands"
)
"""Why ``w_foot_`` is refused."""

FOOT_FIX = "leave it out; loss.skate is the one such loss here, off by default"

GUIDE_DEFAULTS: Mapping[str, float] = {
    "loss.rot_geo": 0.01,
    "loss.rot_delta": 1.0,
    "loss.rot_ortho": 0.001,
    "loss.attn_reg": 0.01,
}
"""Weights that the guide's file leaves to its script."""

_WEIGHTS = {f"w_{loss}": f"w_{loss}" for loss in LOSSES} | {"w_attn": "w_attn_reg", "w_latent": "w_latent_consistency"}
_TARGETS = "tune --metrics judges by the baselines and the run's own teacher values"

_PATHS = ("data", "bundle", "run.out", "encoder")
_KNOWN = 25  # known frames of a window, if it is long enough


def reason_left_out(key: str) -> str:
    """Return why a key is ignored; empty if it is not."""
    if key in LEFT_OUT:
        return LEFT_OUT[key]
    return next((reason for prefix, reason in LEFT_OUT_PREFIXES.items() if key.startswith(prefix)), "")


def is_refused(key: str) -> bool:
    """Whether a key is the guide's and has no setting here, so that there is a reason to give."""
    return "." not in key and (key.startswith("w_foot_") or bool(reason_left_out(key)))


def translate_sets(sets: Mapping[str, Any]) -> Foreign:
    """Answer keys of the guide that were typed and have no setting here; see `motionkit.config.Settings.is_foreign`."""
    foot = [key for key in sets if key.startswith("w_foot_")]
    if foot:
        raise SettingsError([Problem(key, FOOT, "command line", repr(sets[key]), FOOT_FIX) for key in foot])
    notes = [f"{key} of the guide has no effect: {reason_left_out(key)}" for key in sets]
    return Foreign(Path("command line"), notes=notes)


def is_guide_config(table: Mapping[str, Any], known: Collection[str]) -> bool:
    """Whether a settings file is the guide's: it has one of its keys that is not a group or setting here."""
    return any((key in KEYS or key.startswith("w_") or reason_left_out(key)) and key not in known for key in table)


def translate(table: Mapping[str, Any], path: Path, known: Collection[str]) -> Foreign | None:
    """Translate a file of the guide; see `motionkit.config.Settings.translate`.

    The file may also have groups of motionkit; these win. Frames are counted at the clips' own rate unless the file
    has ``fps``. Its paths are relative to the folder below which its ``data`` exists: the working folder, the file's,
    or the folder above that.
    """
    if not is_guide_config(table, known):
        return None
    foreign, problems = Foreign(path), []
    read: dict[str, str] = {}
    left: dict[str, str] = {}
    for key, value in table.items():
        if key.startswith("w_foot_"):
            problems.append(Problem(key, FOOT, str(path), repr(value), FOOT_FIX))
        elif key == "run_name":
            continue
        elif key == "resume":
            problems.append(Problem(key, "a file cannot resume", str(path), repr(value), "give --resume RUN"))
        elif key in KEYS:
            if value is None:
                left[key] = "it is null"
            elif KEYS[key] in foreign.values:
                message = f"{foreign.sources[KEYS[key]]} sets {KEYS[key]} as well"
                problems.append(Problem(key, message, str(path), repr(value), "keep one of them"))
            else:
                foreign.put(KEYS[key], value, key)
                read[key] = KEYS[key]
        elif reason := reason_left_out(key):
            left[key] = reason
        elif key not in known:
            problems.append(
                Problem(key, "unknown setting", str(path), _short(value), which_setting(key, (*KEYS, *known)))
            )
    if "stages" in foreign.values:
        foreign.values["stages"] = translate_stages(foreign.values["stages"], str(path), left, problems)
    if problems:
        raise SettingsError(problems)
    _fit(foreign, left)
    where = _place(foreign, table.get("run_name"), path)
    name = foreign.values.get("bundle")  # the guide needs it, here the clips have their own
    if isinstance(name, str) and not Path(name).exists():
        left[foreign.sources["bundle"]] = f"{name} is not there, and the statistics are those of the clips"
        del foreign.values["bundle"]
    _fill(foreign)
    for key, value in table.items():  # motionkit's settings win
        if key in known and key not in KEYS:
            for name, part in value.items() if isinstance(value, Mapping) else (("", value),):
                place = f"{key}.{name}" if name else key
                foreign.put(place, part, place)
    foreign.notes += _notes(path, read, left, foreign, where)
    if "dataset_profile" in table and not foreign.values.get("data"):
        foreign.notes.append(
            f"{path}: profile measured its settings on clips that the file does not name; --data does."
        )
    return foreign


def _fit(foreign: Foreign, left: dict[str, str]) -> None:
    """Convert values to motionkit's form, and drop those of an adaptive method that is not chosen."""
    values = foreign.values
    method = values.get("adaptive.method", "none")
    for key in ("adaptive.terms", "adaptive.alpha", "adaptive.temperature"):
        if key in values and key not in ADAPTIVE.get(method if isinstance(method, str) else "", ()):
            left[foreign.sources[key]] = f"adaptive_loss_method is {method}, which has no such option"
            del values[key]
    if isinstance(terms := values.get("adaptive.terms"), (str, list)):
        parts = terms.split(",") if isinstance(terms, str) else terms
        values["adaptive.terms"] = [
            part.strip().removeprefix("w_") if isinstance(part, str) else part for part in parts
        ]


def _place(foreign: Foreign, run_name: object, path: Path) -> str:
    """Make the file's paths relative to the working folder; return their old base, empty if it is that folder."""
    values, base = foreign.values, Path()
    data = values.get("data")
    first = data[0] if isinstance(data, list) and data else data
    if isinstance(first, str) and not (Path(first).is_absolute() or Path(first).exists()):
        folders = (path.parent, path.parent.parent)
        base = next((folder for folder in folders if (folder / first).exists()), base)
    for key in _PATHS:
        value = values.get(key)
        if isinstance(value, str) and not (key == "encoder" and value in ("auto", "none")):
            values[key] = _below(base, value)
        elif key == "data" and isinstance(value, list):
            values[key] = [_below(base, item) if isinstance(item, str) else item for item in value]
    if isinstance(values.get("data"), str):
        values["data"] = [values["data"]]
    if isinstance(run_name, str) and isinstance(values.get("run.out"), str):
        foreign.put("run.out", str(Path(values["run.out"]) / run_name), "out and run_name")
    elif isinstance(run_name, str):
        foreign.put("run.name", run_name, "run_name")
    return str(base) if base != Path() else ""


def _below(base: Path, name: str) -> str:
    return name if name == "starter" or base == Path() else os.path.normpath(base / name)


def _fill(foreign: Foreign) -> None:
    """Set the guide's defaults."""
    values = foreign.values
    if "fps" not in values:
        foreign.put("fps", 0.0, "its frames count at the clips' own rate")
    given = values.get("stages")
    stages = [stage for stage in given if isinstance(stage, Mapping)] if isinstance(given, list) else []
    if "run.epochs" not in values and stages and isinstance(last := stages[-1].get("range"), list) and len(last) == 2:
        foreign.put("run.epochs", last[1], "the end of the last stage")
    length = values.get("train.seq_len")
    if isinstance(length, int) and not isinstance(length, bool) and length >= 4:
        horizons = [stage["trainer"].get("freerun_horizon") for stage in stages]
        lengths = [value for value in (*horizons, values.get("freerun.horizon")) if isinstance(value, (int, float))]
        room = length - int(max(lengths, default=0))
        known = max(2, min(_KNOWN, length // 2, room))
        if known != _KNOWN:
            foreign.put("train.known", known, "seq_len, so that free runs fit into a window")
    for key, weight in GUIDE_DEFAULTS.items():
        if key not in values:
            foreign.put(key, weight, "the guide's default")


def _notes(path: Path, read: Mapping[str, str], left: Mapping[str, str], foreign: Foreign, where: str) -> list[str]:
    filled = [
        f"{key} {foreign.values[key]:g}" for key in GUIDE_DEFAULTS if foreign.sources.get(key) == "the guide's default"
    ]
    if "train.known" in foreign.values:
        filled.append(f"train.known {foreign.values['train.known']}, so that free runs fit into seq_len")
    if foreign.sources.get("run.epochs", "").startswith("the end"):
        filled.append(f"run.epochs {foreign.values['run.epochs']}, the end of the last stage")
    rate = "fps 0: frames count at the clips' own rate. " if foreign.values.get("fps") == 0.0 else ""
    notes = [
        f"{path} is a config of the guide; read as: {renamed(read)}. {rate}"
        f"Paths count from {where or 'the working folder'}."
    ]
    if filled:
        notes.append(f"taken for granted by that config: {', '.join(filled)}.")
    reasons: dict[str, list[str]] = {}
    for key, reason in left.items():
        reasons.setdefault(reason, []).append(key)
    if reasons:
        listed = "; ".join(f"{', '.join(keys)}: {reason}" for reason, keys in reasons.items())
        notes.append(f"left out of that config: {listed}.")
    return notes


def translate_stages(stages: object, origin: str, left: dict[str, str], problems: list[Problem]) -> object:
    """Return the stages of a file with the names that `Stage` has.

    Early files have ``loss`` in place of ``loss_groups`` and a table ``tf``, whose ``max`` and ``min`` are values of
    the trainer here.

    Args:
        stages: Value of ``freerun_stage_schedule``; returned unchanged if it is not a list of tables.
        origin: The file.
        left: Keys that are ignored, with reasons; added to.
        problems: Faults; added to.
    """
    if not isinstance(stages, list):
        return stages
    return [
        _stage(stage, f"freerun_stage_schedule.{number}", origin, left, problems)
        if isinstance(stage, Mapping)
        else stage
        for number, stage in enumerate(stages, start=1)
    ]


def _stage(
    stage: Mapping[str, Any], where: str, origin: str, left: dict[str, str], problems: list[Problem]
) -> dict[str, Any]:
    kept = {key: stage[key] for key in ("range", "label") if key in stage}
    trainer: dict[str, Any] = {}
    for key, value in _table(stage, "trainer", where, origin, problems).items():
        if key in TRAINER_KEYS:
            trainer[key] = value
        else:
            _other(key, value, f"{where}.trainer", origin, left, problems, TRAINER_KEYS)
    for key, value in _table(stage, "tf", where, origin, problems).items():
        if key in ("max", "min"):
            trainer[f"tf_{key}"] = value
        else:
            _other(key, value, f"{where}.tf", origin, left, problems, {"max": "", "min": ""})
    groups: dict[str, dict[str, Any]] = {}
    given = dict(_table(stage, "loss_groups", where, origin, problems))
    if "loss" in stage:
        given["core"] = {**_table(stage, "loss", where, origin, problems), **given.get("core", {})}
    for group, weights in given.items():
        inside = groups.setdefault(group, {})
        if not isinstance(weights, Mapping):
            problems.append(
                Problem(f"{where}.loss_groups.{group}", "must be a table of weights", origin, repr(weights))
            )
            continue
        for key, value in weights.items():
            if key in _WEIGHTS:
                inside[_WEIGHTS[key]] = value
            else:
                _other(key, value, f"{where}.loss_groups.{group}", origin, left, problems, _WEIGHTS)
    for key in stage.keys() - {"range", "label", "trainer", "tf", "loss", "loss_groups"}:
        if key == "targets":
            left[f"{where}.targets"] = _TARGETS
        else:
            _other(key, stage[key], where, origin, left, problems, {"range": "", "trainer": "", "loss_groups": ""})
    return {**kept, "trainer": trainer, "loss_groups": groups}


def _table(stage: Mapping[str, Any], name: str, where: str, origin: str, problems: list[Problem]) -> Mapping[str, Any]:
    value = stage.get(name)
    if value is None or isinstance(value, Mapping):
        return value or {}
    problems.append(Problem(f"{where}.{name}", "must be a table", origin, repr(value)))
    return {}


def _other(
    key: str, value: object, where: str, origin: str, left: dict[str, str], problems: list[Problem],
    known: Mapping[str, str],
) -> None:  # fmt: skip
    if key.startswith("w_foot_"):
        problems.append(Problem(f"{where}.{key}", FOOT, origin, repr(value), FOOT_FIX))
    elif reason := reason_left_out(key):
        left[key] = reason
    else:
        problems.append(Problem(f"{where}.{key}", "unknown setting", origin, _short(value), which_setting(key, known)))


def _short(value: object) -> str:
    return "" if isinstance(value, (Mapping, list)) else repr(value)
