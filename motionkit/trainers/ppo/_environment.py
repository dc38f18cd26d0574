"""The environment that the inputs of a command come from: its default, instead of another task. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from motionkit import plugins
from motionkit.config import Layer, Preset, slots_of, split_choice
from motionkit.documents import read_json
from motionkit.environments.reach._settings import as_recorded
from motionkit.errors import MotionkitError

_REWARD = "success-classifier"
_LEARNED = ("actor", "objective", "optim")  # groups of settings
_ARTIFACT, _DOCUMENT = "classifier", "classifier.json"  # as motionkit.encoders.success has them, which imports torch
_TRAINED = "reward-train"
_OF_RUNS = ("actor", "episodes")  # folders of runs
_MANIFESTS = ("manifest.json", "meta/motionkit.json")  # of episodes, and of those that were exported to LeRobot


def environment_of_inputs(
    model: type[BaseModel], layers: Sequence[Layer], typed: Mapping[str, Sequence[str]]
) -> Layer | None:
    """Return the environment of the actor or the classifier that is named; None where ``--env`` chooses one.

    Args:
        model: Settings of the command.
        layers: Files, variables and the choices of the command line, lowest first.
        typed: The command line's options, each with what stands behind it.

    Raises:
        MotionkitError: The classifier's document is damaged.
    """
    if _chosen(model, layers, "env") is not None:
        return None
    actor = "init" if "init" in model.model_fields else "policy"
    place = _given(layers, typed, (actor,), f"--{actor}")
    if place and (table := _of_run(Path(place)) or _of_episodes(Path(place))):
        return _layer(model, table, place)
    if "reward" in slots_of(model):
        chosen = _chosen(model, layers, "reward") or [_REWARD]
        if any(str(one).partition("=")[0] == _REWARD for one in chosen):
            flags = ("--reward.checkpoint", f"--reward.{_REWARD}.checkpoint")
            place = _given(layers, typed, ("reward", "checkpoint"), *flags)
            place = place or _given(layers, typed, ("reward", _REWARD, "checkpoint")) or _newest()
            if place and (table := _of_classifier(Path(place))):
                return _layer(model, table, place)
    return None


def usual_settings(
    command: str, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]
) -> Preset | None:
    """Return what an environment replaces defaults of a command with; see `Settings.preset_of`."""
    policy, env = given.get("policy"), given.get("env")
    kind = policy.get("kind") if isinstance(policy, Mapping) else None
    for model in options.get("env", ()):
        if (usual := getattr(model, "usual", None)) is not None:
            table = env if isinstance(env, Mapping) else {}
            values = usual(command, table, "pixels" if kind == "pixels" else "mlp")
            if isinstance(policy, str) and policy != "ppo":  # of reward-collect: nothing is learned
                values = {key: value for key, value in values.items() if key.partition(".")[0] not in _LEARNED}
            return Preset("the environment", values, "a flag sets another") if values else None
    return None


def with_recorded_environment(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a run with the environment that they meant when they were recorded."""
    env = table.get("env")
    return {**table, "env": dict(as_recorded(env))} if isinstance(env, Mapping) else table


def _layer(model: type[BaseModel], table: Mapping[str, Any], place: str) -> Layer | None:
    if [table["name"]] == [*slots_of(model)["env"].default]:
        usual = plugins.get("environments", str(table["name"])).options().model_dump(mode="json")
        if usual == {key: value for key, value in table.items() if key != "name"}:
            return None
    notes = (f"env: {table['name']} {table.get('id', '')}".rstrip() + f", which {place} is of; --env chooses another",)
    return Layer(f"the environment of {place}", {"env": dict(table)}, from_file=True, notes=notes)


def _chosen(model: type[BaseModel], layers: Sequence[Layer], name: str) -> list[Any] | None:
    """Return what fills a slot; None where no layer says."""
    slot, found = slots_of(model)[name], None
    for layer in layers:
        wanted, table = split_choice(slot, layer.table.get(name))
        tables = [word for word, value in table.items() if isinstance(value, Mapping)] if slot.many else []
        found = wanted or (tables if layer.from_file and tables else found)
    return found


def _given(layers: Sequence[Layer], typed: Mapping[str, Sequence[str]], path: tuple[str, ...], *flags: str) -> str:
    """Return the text of an option; empty where it was not given."""
    for flag in flags:
        if words := typed.get(flag):
            return words[-1]
    for layer in reversed(layers):
        value: Any = layer.table
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, str) and value:
            return value
    return ""


def _of_run(place: Path) -> Mapping[str, Any] | None:
    """Return the environment in the settings of a run; None where `place` is no run of an environment."""
    from motionkit.runs import peek  # it loads numpy

    try:
        table = peek(place.parent if place.name in _OF_RUNS else place).config.get("env")
    except MotionkitError:
        return None
    return as_recorded(table) if isinstance(table, Mapping) and isinstance(table.get("name"), str) else None


def _of_episodes(place: Path) -> Mapping[str, Any] | None:
    """Return the environment that episodes were collected in; None where it is not known."""
    for path in (place.expanduser() / name for name in _MANIFESTS):
        if path.is_file():
            table = read_json(path, dict).get("environment")
            return table if isinstance(table, Mapping) and isinstance(table.get("name"), str) else None
    return None


def _of_classifier(place: Path) -> Mapping[str, Any] | None:
    """Return the environment that a classifier's frames were made with; None where it is not known."""
    from motionkit.runs import find_model

    folder = place.expanduser()
    try:
        found = find_model(folder.parent if folder.is_file() else folder, _ARTIFACT, _DOCUMENT)
    except MotionkitError:  # said when the classifier is opened
        return None
    table = None if found is None else read_json(found.document, dict).get("environment")
    return as_recorded(table) if isinstance(table, Mapping) and isinstance(table.get("name"), str) else None


def _newest() -> str:
    """Return the newest finished run with a classifier; empty where there is none."""
    from motionkit.runs import find

    done = (info.directory for info in find(_TRAINED, "runs") if info.status == "done")
    return next((str(place) for place in done if (place / _ARTIFACT / _DOCUMENT).is_file()), "")
