"""Commands to type after a run, made from its settings: with its data, environment and weights."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import slot_words, typed_flags, words_for
from motionkit.errors import MotionkitError
from motionkit.runs._folder import folder_name
from motionkit.runs._listing import RunInfo, find, peek
from motionkit.runs._resume import resume_line

_STARTER = "starter"
_EXAMPLE = "a person walks | a person waves"
"""Texts that the starter's policy knows."""

_TEXT_REWARDS = {"tmr": "tmr-dense", "evaluator": "mdm-dense"}
"""Folders of a run whose model scores texts and motions, and the reward that reads each."""

_ROAD = {"pretrain.tmr": "tmr", "pretrain.t2m-evaluator": "evaluator", "pretrain.mdm": "mdm"}
"""Trainings that come before `grpo` on one's own data, in this order, and the folder that each is given."""

_POLICY = "policy"
_DONE = "done"
_GENERATE = ("grpo", "pretrain mdm")
"""Commands whose policy makes motions from texts."""


@dataclass(frozen=True)
class _Scorer:
    """A model of text and motion that a run trained: the reward that reads it, its weights, for a judge or not."""

    reward: str
    weights: str
    judges: bool


def next_commands(info: RunInfo) -> list[str]:
    """Return shell lines to type after a run: use its model, train on, show it again."""
    folder = str(info.directory)
    if info.status == "running":
        return _lines([["report", folder, "--watch"], ["runs", "show", folder]])
    if info.status != _DONE:
        makes = info.command in _GENERATE or info.command not in _AFTER
        saved = (info.directory / _POLICY).is_dir() and (info.directory / "checkpoints" / "last").is_file()
        made = _use_policy(info) if makes and saved else []  # with the weights of the last checkpoint
        return [_resumed(info), *_lines([*made, ["report", folder], ["runs", "show", folder]])]
    after = _AFTER.get(info.command)
    if after is not None:
        return _lines(after(info))
    lines = _lines(_use_policy(info) if (info.directory / _POLICY).is_dir() else [])
    if info.steps:
        lines.append(f"{_resumed(info)} --num-steps {2 * info.steps}")
    return [*lines, *_lines([["runs", "show", folder]])]


def generate_line(path: str, config: Mapping[str, Any]) -> list[str]:
    """Return the words of a command that generates motions with a policy.

    Args:
        path: Value of ``--policy.checkpoint``: a run, a policy's folder, or starter.
        config: Settings of the run that made it; empty for none.
    """
    policy = config.get("policy") if isinstance(config.get("policy"), Mapping) else {"name": "mdm"}
    options = {key: value for key, value in policy.items() if key != "reference"} if isinstance(policy, Mapping) else {}
    words = slot_words("dataset", config.get("dataset"), "datasets", default=_STARTER)
    use = slot_words("policy", {**options, "checkpoint": path}, "policies", default="mdm")
    return ["generate", *(words or [_EXAMPLE]), "motions", *use]


def conversion_lines(to: str, out: Path, *, captions: bool) -> list[str]:
    """Return shell lines to type after a conversion to a folder.

    Args:
        to: Format written.
        out: The folder.
        captions: Whether any clip has a caption, which training on text needs.
    """
    if to == "mpl":  # of several skeletons each has a folder
        parts = [part for part in sorted(out.iterdir()) if part.is_dir() and any(part.glob("*.npz"))]
        folder = str(max(parts, key=lambda part: len([*part.glob("*.npz")]), default=out))
        return _lines([["train-mpl", "--data", folder], ["profile", folder]])
    data = {"dataset": {"name": to, "root": str(out)}}
    trains = captions and to in ("humanml", "kit")
    return _lines([*([training_line(data, home=Path("runs"))] if trains else []), ["view", str(out)]])


def training_line(
    config: Mapping[str, Any], *, policy: str = "", scorer: RunInfo | None = None, home: Path | None = None
) -> list[str]:
    """Return the words of a `grpo` on the data of a run, or of the training that has to come first.

    The starter's policy and rewards are for the starter's data only. On other data the reward is trained first, then
    the evaluator, then the policy, from the starter's where it fits; what is not given is searched for in the finished
    runs below ``runs`` and beside it. Of two models of text and motion, the one that was trained on the second half of
    the clips, or that judged a `grpo` on these data, is the judge. An evaluator is no reward where there is a TMR.

    Args:
        config: Settings of the run; its dataset is read.
        policy: Policy to train; by default the starter's, or the newest of the data.
        scorer: Run of a model of text and motion that is preferred to all others.
        home: Folder in which the training that has to come first is called ``tmr``, ``evaluator`` or ``mdm``; by
            default, or if it holds one, the run gets a name of its own.
    """
    model = plugins.get("trainers", "grpo").options
    data = words_for(model, config, ("dataset",))
    if not _on_starter(config) and not policy:
        policy = next((str(info.directory) for info in _known_run(config) if (info.directory / _POLICY).is_dir()), "")
    reward, judge = _reward_and_judge(config, scorer)
    if not _on_starter(config) and (missing := _missing(config, reward, policy, scorer)):
        place = None if home is None else home / _ROAD[missing]
        named = [] if place is None or place.exists() else ["--out", str(place)]
        options, text = plugins.get("trainers", missing).options, config.get("text")
        encoder = text.get("encoder", "auto") if isinstance(text, Mapping) else "auto"
        # A diffusion policy needs a single vector per text, which DistilBERT does not give.
        fields = [name for name in ("dataset", "text") if name in options.model_fields]
        fields = fields[:1] if encoder == "distilbert" else fields
        how: list[str] = []
        if missing == "pretrain.tmr":
            how = ["--negatives", "all"]  # so that it sees movement
        elif missing == "pretrain.mdm" and _fits_starter(config) and encoder in ("auto", "minilm", "distilbert"):
            how = ["--init", _STARTER]
        return [*missing.split("."), *how, *words_for(options, config, fields), *named]
    use = ["--policy.checkpoint", policy] if policy else []
    scored = ["--reward", reward.reward, "--reward.weights", reward.weights] if reward else []
    judged = ["--judge", judge.reward, "--judge.weights", judge.weights] if judge else []
    return ["grpo", *use, *data, *scored, *judged]


def _missing(config: Mapping[str, Any], reward: _Scorer | None, policy: str, scorer: RunInfo | None) -> str:
    """Return the training on a user's data that has to come before `grpo`; empty if there is none.

    `grpo` runs without an evaluator, so that one is asked for only on the way to the policy.
    """
    if reward is None or reward.reward != _TEXT_REWARDS["tmr"]:
        return "pretrain.tmr"
    if policy:
        return ""
    runs = [*_known_run(config), *([scorer] if scorer else [])]
    measured = any((info.directory / "evaluator").is_dir() for info in runs)
    return "pretrain.mdm" if measured else "pretrain.t2m-evaluator"


def _fits_starter(config: Mapping[str, Any]) -> bool:
    """Whether the starter's policy can be trained on: it has HumanML3D's body and rate."""
    data = config.get("dataset")
    return isinstance(data, Mapping) and data.get("name") == "humanml" and data.get("fps", 20.0) == 20.0


def _lines(commands: Sequence[Sequence[str]]) -> list[str]:
    return [shlex.join(["motionkit", *words]) for words in commands]


def _resumed(info: RunInfo) -> str:
    return f"{resume_line(info.command, info.directory)} {typed_flags(info.config, info.command)}".rstrip()


def _home(info: RunInfo) -> Path | None:
    """Return the folder of a run that was put there by ``--out``; None if it is that of its command."""
    parent = info.directory.parent
    return None if parent.name == folder_name(info.command) else parent


def _on_starter(config: Mapping[str, Any]) -> bool:
    table = config.get("dataset")
    return not isinstance(table, Mapping) or table.get("name", _STARTER) == _STARTER


def _known_run(config: Mapping[str, Any]) -> Iterator[RunInfo]:
    """Yield the finished runs below ``runs``, and in the folders of this one (``--out runs/tmr``), on the same data.

    The newest come first.
    """
    table = config.get("dataset")
    data = slot_words("dataset", table, "datasets")
    for info in sorted([*find(None), *find(None, ".")], key=lambda run: run.created, reverse=True):
        if info.status == _DONE and slot_words("dataset", info.config.get("dataset"), "datasets") == data:
            yield info


def _reward_and_judge(config: Mapping[str, Any], scorer: RunInfo | None) -> tuple[_Scorer | None, _Scorer | None]:
    """Return the models of text and motion for reward and judge: `scorer` first, then the newest.

    On the starter's data, which has its own models, others count only together with a `scorer`.
    """
    runs = [] if _on_starter(config) else list(_known_run(config))
    if scorer is not None:
        folder = scorer.directory.resolve()
        runs = [scorer, *(info for info in runs if info.directory.resolve() != folder)]
    judges = {place for info in runs for place in _judged_by(info)}
    scorers = [model for info in runs for model in _scorers(info, judges)]
    apart = [model for model in scorers if model.judges]
    free = sorted((model for model in scorers if not model.judges), key=lambda model: model.reward != "tmr-dense")
    reward = next(iter(free), next(iter(apart), None))
    return reward, next((model for model in apart if model is not reward), None)


def _judged_by(info: RunInfo) -> Iterator[Path]:
    """Yield the possible paths of the weights of a run's judge: its folder in a run, and the run."""
    judge = info.config.get("judge")
    weights = judge.get("weights") if isinstance(judge, Mapping) else None
    if info.command == "grpo" and isinstance(weights, str) and weights:
        yield from (Path(weights).resolve(), *(Path(weights, part).resolve() for part in _TEXT_REWARDS))


def _scorers(info: RunInfo, judges: Container[Path]) -> Iterator[_Scorer]:
    """Yield the models of text and motion that a run trained."""
    train = info.config.get("train")
    second = isinstance(train, Mapping) and train.get("half") == "second"
    for part, reward in _TEXT_REWARDS.items():
        folder = info.directory / part
        if info.command.startswith("pretrain") and folder.is_dir():
            yield _Scorer(reward, str(folder), second or folder.resolve() in judges)


def _use_policy(info: RunInfo) -> list[list[str]]:
    return [generate_line(str(info.directory), info.config)]


def _after_grpo(info: RunInfo) -> list[list[str]]:
    folder = str(info.directory)
    longer = ["--num-steps", str(2 * info.steps)]
    return [
        *_use_policy(info),
        ["eval", "text-to-motion", folder],
        [*shlex.split(_resumed(info))[1:], *longer],
        ["runs", "show", folder],
    ]


def _after_mdm(info: RunInfo) -> list[list[str]]:
    folder = str(info.directory)
    return [
        *_use_policy(info),
        training_line(info.config, policy=folder, home=_home(info)),
        ["eval", "text-to-motion", folder],
        ["runs", "show", folder],
    ]


def _after_text_reward(info: RunInfo) -> list[list[str]]:
    folder = str(info.directory)
    part = next((name for name in _TEXT_REWARDS if (info.directory / name).is_dir()), "tmr")
    train = training_line(info.config, scorer=info, home=_home(info))
    measure = [["eval", "retrieval", folder]] if part == "tmr" else []
    return [train, *measure, ["runs", "show", folder]]


def _after_encoder(info: RunInfo) -> list[list[str]]:
    folder = str(info.directory)
    model = plugins.get("trainers", "train-mpl").options
    return [
        ["train-mpl", "--encoder", folder, *words_for(model, info.config, ("data", "fps"))],
        ["runs", "show", folder],
    ]


def _after_predictor(info: RunInfo) -> list[list[str]]:
    """Return lines for a motion predictor.

    Its schedules span the epochs of the run, so that a longer run is a new one with the same settings.
    """
    folder = str(info.directory)
    again = ["--config", f"{folder}/config.json"]
    lines = [["eval", "mpl", folder], ["predict", folder, "motion.html"]]
    epochs = info.last().get("data/epoch")
    if isinstance(epochs, (int, float)) and epochs >= 1:
        lines.append(["train-mpl", *again, "--epochs", str(2 * round(epochs))])
    return [*lines, ["tune-bayes", "--base", f"{folder}/config.json"], ["report", folder]]


def _after_collect(info: RunInfo) -> list[list[str]]:
    """Return lines for episodes; those of an environment's scripted solution are also demonstrations."""
    folder = str(info.directory)
    env = words_for(plugins.get("trainers", "ppo").options, info.config, ("env",))
    clone = [["ppo", *env, "--init", folder]] if info.config.get("policy") == "scripted" else []
    return [["reward-train", "--data", folder], *clone, ["report", folder]]


def _after_reward(info: RunInfo) -> list[list[str]]:
    """Return lines for a success classifier, a reward in the environment of its pictures unless a check failed."""
    folder = str(info.directory)
    summary = (info.record.summary if info.record else None) or {}
    fit = all(check.get("status") != "fail" for check in summary.get("checks", ()))
    learn = []
    if fit and (table := _environment(info)) is not None:
        env = words_for(plugins.get("trainers", "ppo").options, {"env": table}, ("env",))
        learn = [["ppo", *env, "--reward", "success-classifier", "--reward.checkpoint", folder]]
    return [*learn, ["eval", "reward", folder], ["report", folder]]


def _environment(info: RunInfo) -> Mapping[str, Any] | None:
    """Return the settings of the environment of a classifier's pictures; None if unknown.

    They are those of the run of the pictures, else of the classifier's record, which must not name code.
    """
    data = info.config.get("data")
    for place in data.get("path") or () if isinstance(data, Mapping) else ():
        try:
            table = peek(str(place)).config.get("env")
        except MotionkitError:
            continue
        if isinstance(table, Mapping):
            return table
    table = getattr(info.record, "environment", None)
    named = table.get("name") if isinstance(table, Mapping) else None
    return table if isinstance(named, str) and not plugins.is_file(named) else None


def _after_ppo(info: RunInfo) -> list[list[str]]:
    folder = str(info.directory)
    env = words_for(plugins.get("trainers", "reward-collect").options, info.config, ("env",))
    return [["reward-collect", *env, "--policy", folder], ["report", folder]]


def _after_regions(info: RunInfo) -> list[list[str]]:
    folder = str(info.directory)
    data = words_for(plugins.get("trainers", "sa2va-rl").options, info.config, ("dataset",))
    return [["sa2va-rl", *data, "--policy.checkpoint", folder], ["eval", "sa2va", folder], ["report", folder]]


def _after_self_play(info: RunInfo) -> list[list[str]]:
    """Return lines for self-play; trusted code needs the flag again."""
    folder, policy = str(info.directory), info.config.get("policy")
    name = policy.get("name") if isinstance(policy, Mapping) else None
    trusted = shlex.split(typed_flags({"policy": policy}))
    chosen = ["--policy", str(name)] if trusted and "--policy" not in trusted else []
    further = ["--config", f"{folder}/config.json", "--policy.checkpoint", folder]
    return [
        ["report", folder],
        ["eval", "sa2va", folder, *chosen, *trusted],
        ["sa2va-rl", *further, *shlex.split(typed_flags(info.config, info.command))],
    ]


_AFTER: dict[str, Callable[[RunInfo], list[list[str]]]] = {
    "grpo": _after_grpo,
    "pretrain mdm": _after_mdm,
    "pretrain tmr": _after_text_reward,
    "pretrain t2m-evaluator": _after_text_reward,
    "pretrain mpl-encoder": _after_encoder,
    "pretrain regions": _after_regions,
    "train-mpl": _after_predictor,
    "reward-collect": _after_collect,
    "reward-train": _after_reward,
    "ppo": _after_ppo,
    "sa2va-rl": _after_self_play,
}
"""The lines of each trainer; others have those of `next_commands`."""
