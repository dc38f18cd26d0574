"""`motionkit ppo`: a policy learns from a reward, such as a trained success classifier. Imports no torch.

The environment is that of the actor, the episodes or the classifier that is named, unless ``--env`` chooses another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from motionkit import plugins
from motionkit.config import Chosen, Cli, Foreign, Group, Layer, slot, slots, slots_of, with_later
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.plugins import Component, either, reads_of
from motionkit.training.settings import RunSettings, TrainerSettings
from motionkit_success.actor_settings import ActorSettings
from motionkit_success.environments.tasks import as_recorded
from motionkit_success.episode_formats import folders, formats
from motionkit_success.ppo.guide import Command, is_foreign, translate_stage, translate_words

STEPS = {"mlp": 16, "pixels": 40}
"""Updates by default: about 33,000 and 82,000 environment steps."""

FLOAT32 = {"precision": "stable-baselines3 computes in float32"}


class PpoRunSettings(RunSettings):
    """Where the run goes and how long it lasts."""

    num_steps: Annotated[int, Cli("--num-steps", panel="Run")] = Field(
        0, ge=0, description="Total updates, including those before a resume; 0: 16 for mlp, 40 for pixels."
    )


class EpisodesSettings(Group):
    """How experience is gathered."""

    num_envs: Annotated[int, Cli("--num-envs")] = Field(
        16, ge=1, le=65_536, description="Copies of the environment that are stepped together."
    )
    steps: int = Field(128, ge=1, le=1_000_000, description="Steps of each copy per update.")
    workers: Annotated[int, Cli("--workers")] = Field(
        0, ge=0, le=1024, description="Processes that share the copies; 0: none but this one."
    )
    backend: Annotated[Literal["processes", "ray"], Cli("--worker-backend")] = Field(
        "processes", description="What workers are: processes of this machine, or actors of Ray (extra ray)."
    )


class PpoObjectiveSettings(Group):
    """PPO (Schulman et al. 2017)."""

    epochs: int = Field(0, ge=0, le=1000, description="Passes over each rollout; 0: 8 for mlp, 4 for pixels.")
    batch_size: Annotated[int, Cli("--batch-size")] = Field(256, ge=2, description="Steps per minibatch.")
    clip_range: Annotated[float, Cli("--clip-range")] = Field(0.2, gt=0, lt=1, description="Clip of the ratio.")
    gamma: float = Field(0.95, ge=0, le=1, description="Discount.")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="Lambda of generalised advantage estimation.")
    entropy: float = Field(0.0, ge=0, description="Weight of the entropy bonus.")
    value: float = Field(0.5, ge=0, description="Weight of the value loss.")
    kl_stop: float = Field(0.0, ge=0, description="KL from which the passes over a rollout end; 0: never.")


class PpoOptimSettings(Group):
    """Adam."""

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(1e-3, gt=0, description="Learning rate.")
    grad_clip: float = Field(0.5, gt=0, description="Largest gradient norm.")


class PictureSettings(Group):
    """Changes of the pictures that a pixel policy learns from; those that it acts on are not changed."""

    shift: int = Field(0, ge=0, le=64, description="Most pixels that a picture is moved by, each way; 0: none.")


class ScoringSettings(Group):
    """When image rewards pay. They look at the frame after the action."""

    mode: Annotated[Literal["per-step", "terminal", "k-of-n"], Cli("--reward-mode")] = Field(
        "per-step", description="Pay in every step, for an episode's last frame, or where k of the last n steps paid."
    )
    k: int = Field(2, ge=1, le=1000, description="k of k-of-n.")
    n: int = Field(3, ge=1, le=1000, description="n of k-of-n.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.mode == "k-of-n" else dict.fromkeys(("k", "n"), "--reward-mode is not k-of-n")

    @model_validator(mode="after")
    def _some_of_all(self) -> Self:
        if self.k > self.n:
            raise ValueError(f"k {self.k} is more than n {self.n}")
        return self


class AlarmSettings(Group):
    """The warning that predicted and true success part: the policy learns to please the reward alone."""

    gap: float = Field(0.2, gt=0, le=1, description="Predicted minus true success from which it warns.")
    window: int = Field(200, ge=10, le=1_000_000, description="Newest episodes that are compared.")
    stop: Annotated[bool, Cli("--stop-on-gap")] = Field(
        False, description="End the run with the warning, which reads true success."
    )


class MineSettings(Group):
    """On-policy mining: between stretches of training the classifier learns from what the policy did."""

    rounds: Annotated[int, Cli("--mine")] = Field(
        0,
        ge=0,
        le=1000,
        description="Rounds, evenly spaced over the updates, in which the classifier learns true success; 0: it stays "
        "as it is.",
    )
    steps: int = Field(220, ge=1, le=1_000_000, description="Steps of the classifier in a round.")
    batch_size: int = Field(128, ge=2, le=65_536, description="Frames of a step, a quarter of them successes.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate of a round.")
    floor: float = Field(
        0.05, gt=0, le=10, description="A frame without success is drawn in proportion to this plus its probability."
    )
    val_share: float = Field(0.2, gt=0, lt=1, description="Share of mined episodes that choose the threshold.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.rounds else dict.fromkeys(set(type(self).model_fields) - {"rounds"}, "--mine is 0")


class CloneSettings(Group):
    """Behaviour cloning of the episodes of ``--init``, before PPO begins."""

    episodes: int = Field(0, ge=0, description="Episodes with a success that are cloned, the first ones; 0: all.")
    epochs: int = Field(500, ge=1, le=1_000_000, description="Passes at most.")
    patience: int = Field(100, ge=1, description="Passes without a lower held-out loss after which it ends.")
    batch_size: int = Field(64, ge=1, le=1_000_000, description="Pairs of state and action in a batch.")
    learning_rate: float = Field(1e-3, gt=0, description="Learning rate.")
    val_share: float = Field(0.1, gt=0, lt=1, description="Share of episodes that are held out.")
    spread: float = Field(
        1.0, gt=0, le=10, description="Least standard deviation that PPO explores with then, in halves of the range."
    )
    critic: int = Field(
        10, ge=0, description="First updates of PPO that train the critic alone, which cloning leaves as it was drawn."
    )


class SuccessEvalSettings(Group):
    """Success before and after, from starts that training does not use."""

    episodes: int = Field(200, ge=2, le=100_000, description="Episodes.")
    every: int = Field(4, ge=0, description="Updates between measurements on as many other starts; 0: none.")
    watched: int = Field(64, ge=2, le=100_000, description="Episodes of these; they choose the policy that is kept.")
    keep: Annotated[Literal["auto", "oracle"], Cli("--keep")] = Field(
        "auto",
        description="Policy that is kept. auto: the last one with --reward env, the one of highest predicted success "
        "with a classifier; oracle: the one of highest true success, which only the environment knows.",
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.every else {"keep": "heldout.every is 0: the last policy is kept"}


class ActingSettings(TrainerSettings):
    """What the commands that act in an environment have in common: its settings, and files of the guide."""

    command: ClassVar[Command]

    @classmethod
    def inherited(cls, layers: Sequence[Layer], typed: Mapping[str, Sequence[str]]) -> Layer | None:
        """Return the environment of the actor or the classifier that is named; see `Settings.inherited`."""
        return environment_of_inputs(cls, layers, typed)

    @classmethod
    def preset_of(cls, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Layer | None:
        """Return the environment's defaults; see `Settings.preset_of`."""
        return usual_settings(cls.command, given, options)

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a run's settings with the environment as it was then; see `Settings.recorded`."""
        return with_recorded_environment(table)

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Translate the guide's ``maniskill_ppo_cnn.yaml``; see `Settings.translate`."""
        return translate_stage(table, path, cls.command)

    @classmethod
    def is_foreign(cls, key: str) -> bool:
        """Whether it is a dotted name of the guide; see `Settings.is_foreign`."""
        return is_foreign(key)

    @classmethod
    def translate_sets(cls, sets: Mapping[str, Any]) -> Foreign:
        """Translate the guide's dotted names; see `Settings.translate_sets`."""
        return translate_words(sets, cls.command)


class PpoSettings(ActingSettings):
    """Train a policy with PPO on a reward."""

    command = "ppo"

    run: PpoRunSettings = PpoRunSettings()
    env: Chosen = slot("environments", "reach", gives="episodes", description="Which environment to act in.")
    reward: tuple[Chosen, ...] = slots("rewards", ("success-classifier",), reads=("image", "step", "motion"))
    scoring: ScoringSettings = ScoringSettings()
    policy: ActorSettings = ActorSettings()
    init: Annotated[Path | None, Cli("--init")] = Field(
        None,
        description="Run or folder whose actor is trained on, its shape wins over the policy's settings; or episodes, "
        f"such as {either(['a run of reward-collect --policy scripted', *(f'a {it}' for it in folders())])}, which are "
        "cloned first.",
    )
    clone: CloneSettings = CloneSettings()
    episodes: EpisodesSettings = EpisodesSettings()
    objective: PpoObjectiveSettings = PpoObjectiveSettings()
    optim: PpoOptimSettings = PpoOptimSettings()
    augment: PictureSettings = PictureSettings()
    alarm: AlarmSettings = AlarmSettings()
    heldout: SuccessEvalSettings = SuccessEvalSettings()
    mine: MineSettings = MineSettings()

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        seen = [
            reward for reward in self.reward if reads_of(reward.kind, plugins.get(reward.kind, reward.name)) == "image"
        ]
        idle = {f"reward.{chosen.name}.mode": "ppo scores frame by frame; --reward-mode says when" for chosen in seen}
        if not seen:
            idle |= dict.fromkeys(("scoring.mode", "scoring.k", "scoring.n"), "no reward looks at images")
            idle |= dict.fromkeys(("alarm.gap", "alarm.window", "alarm.stop"), "no reward predicts success")
        if self.init is None:
            idle |= {f"clone.{name}": "--init names no episodes" for name in CloneSettings.model_fields}
        if self.policy.kind != "pixels" and self.init is None:
            idle["augment.shift"] = "--policy is not pixels"
        return {**super().idle(), **FLOAT32, **idle}

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a run's settings with the environment as it was then; see `Settings.recorded`.

        Older runs had neither cloning nor shifted pictures, and kept the policy of highest true success.
        """
        before = {} if table.get("init") is None else {"critic": 0, "spread": 0.2}
        later = {"augment": {"shift": 0}, "clone": CloneSettings(**before).model_dump(mode="json")}
        heldout = table.get("heldout")
        if not isinstance(heldout, Mapping) or heldout.get("every", 1):
            later["heldout"] = {"keep": "oracle"}
        return with_later(super().recorded(table), later)


component = Component(
    summary="Train a policy with PPO on a learned reward, and say how often it really succeeds.",
    options=PpoSettings,
    factory="motionkit_success.ppo.train:PpoTrainer",
    metrics="motionkit_success.metrics:METRICS",
    sections="motionkit_success.pages:SECTIONS",
    charts="motionkit_success.pages:CHARTS",
    next="motionkit_success.next:after_ppo",
    chosen_by="motionkit_success.next:chosen_by",
)


# The environment of a command's inputs

_REWARD = "success-classifier"
_LEARNED = ("actor", "objective", "optim")  # groups of settings
_ARTIFACT, _DOCUMENT = "classifier", "classifier.json"  # as motionkit_success.classifier has them, which imports torch
_TRAINED = "reward-train"
_OF_RUNS = ("actor", "episodes")  # folders of runs
_MANIFEST = "manifest.json"  # of episodes, as motionkit_success.episodes.read has it


def environment_of_inputs(
    model: type[BaseModel],  # settings of the command
    layers: Sequence[Layer],  # files, variables and the choices of the command line, lowest first
    typed: Mapping[str, Sequence[str]],  # the command line's options, each with its values
) -> Layer | None:
    """Return the environment of the actor or the classifier that is named; None if ``--env`` chooses one."""
    if _chosen(model, layers, "env") is not None:
        return None
    actor = "init" if "init" in model.model_fields else "policy"
    place = _given(layers, typed, (actor,), f"--{actor}")
    if place and (table := _of_run(Path(place)) or _of_episodes(Path(place))):
        return _layer(model, table, place)
    if "reward" in slots_of(model):
        chosen = _chosen(model, layers, "reward") or [_REWARD]
        if any(str(name).partition("=")[0] == _REWARD for name in chosen):
            flags = ("--reward.checkpoint", f"--reward.{_REWARD}.checkpoint")
            place = _given(layers, typed, ("reward", "checkpoint"), *flags)
            place = place or _given(layers, typed, ("reward", _REWARD, "checkpoint")) or _newest()
            if place and (table := _of_classifier(Path(place))):
                return _layer(model, table, place)
    return None


def usual_settings(
    command: str, given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]
) -> Layer | None:
    """Return the defaults of a command for an environment; see `Settings.preset_of`."""
    policy, env = given.get("policy"), given.get("env")
    kind = policy.get("kind") if isinstance(policy, Mapping) else None
    for model in options.get("env", ()):
        # A class method that the options of an environment may bring.
        if (usual := getattr(model, "usual", None)) is not None:
            table = env if isinstance(env, Mapping) else {}
            values = usual(command, table, "pixels" if kind == "pixels" else "mlp")
            if isinstance(policy, str) and policy != "ppo":  # of reward-collect: nothing is learned
                values = {key: value for key, value in values.items() if key.partition(".")[0] not in _LEARNED}
            return Layer.of("the environment", values, off="a flag sets another") if values else None
    return None


def with_recorded_environment(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a run with the environment as it was when they were recorded."""
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
    """Return the choices for a slot; None if no layer has any."""
    slot, chosen = slots_of(model)[name], None
    for layer in layers:
        words, table = slot.split(layer.table.get(name))
        tables = [word for word, value in table.items() if isinstance(value, Mapping)] if slot.many else []
        chosen = words or (tables if layer.from_file and tables else chosen)
    return chosen


def _given(layers: Sequence[Layer], typed: Mapping[str, Sequence[str]], path: tuple[str, ...], *flags: str) -> str:
    """Return the text of an option; empty if it was not given."""
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
    """Return the environment in the settings of a run; None if `place` is not a run with one."""
    from motionkit.runs import peek  # it loads numpy

    try:
        table = peek(place.parent if place.name in _OF_RUNS else place).config.get("env")
    except MotionkitError:
        return None
    return as_recorded(table) if isinstance(table, Mapping) and isinstance(table.get("name"), str) else None


def _of_episodes(place: Path) -> Mapping[str, Any] | None:
    """Return the environment that episodes were collected in; None if it is not known."""
    exported = [form.manifest for form in formats().values() if form.manifest]
    for path in (place.expanduser() / name for name in (_MANIFEST, *exported)):
        if path.is_file():
            table = read_json(path, dict).get("environment")
            return table if isinstance(table, Mapping) and isinstance(table.get("name"), str) else None
    return None


def _of_classifier(place: Path) -> Mapping[str, Any] | None:
    """Return the environment of a classifier's frames; None if it is not known."""
    from motionkit.runs import find_model

    folder = place.expanduser()
    try:
        model = find_model(folder.parent if folder.is_file() else folder, _ARTIFACT, _DOCUMENT)
    except MotionkitError:  # reported when the classifier is opened
        return None
    table = None if model is None else read_json(model.document, dict).get("environment")
    return as_recorded(table) if isinstance(table, Mapping) and isinstance(table.get("name"), str) else None


def _newest() -> str:
    """Return the newest finished run with a classifier; empty without one."""
    from motionkit.runs import newest_with

    return str(newest_with(_TRAINED, Path(_ARTIFACT, _DOCUMENT)) or "")
