"""Commands to type next: what makes motions with a policy, and the road from clips to `grpo`.

On a user's own data the reward is trained first, then the evaluator, then the policy, then `grpo`: `training_line` says
which comes next.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins, starter
from motionkit.runs import RunInfo, find, folder_name, resumed
from motionkit.runs.forms import POLICY
from motionkit.runs.words import slot_words, words_for

STARTER = "starter"
_TEXT_REWARDS = {"tmr": "tmr-dense", "evaluator": "mdm-dense"}
"""Folders of a run whose model scores texts and motions, and the reward that reads each."""

_ROAD = {"pretrain.tmr": "tmr", "pretrain.t2m-evaluator": "evaluator", "pretrain.mdm": "mdm"}
"""Trainings that come before `grpo` on one's own data, in this order, and the folder that each is given."""


@dataclass(frozen=True)
class _Scorer:
    """A model of text and motion that a run trained: the reward that reads it, its weights, for a judge or not."""

    reward: str
    weights: str
    judges: bool


def use_policy(info: RunInfo) -> list[list[str]]:
    """Return what makes motions with the policy of a run."""
    return [generate_line(str(info.directory), info.config)]


def after_grpo(info: RunInfo) -> list[list[str]]:
    """Return the commands after `grpo`."""
    folder = str(info.directory)
    longer = ["--num-steps", str(2 * info.steps)]
    return [
        *use_policy(info),
        ["eval", "text-to-motion", folder],
        [*resumed(info), *longer],
        ["runs", "show", folder],
    ]


def after_mdm(info: RunInfo) -> list[list[str]]:
    """Return the commands after `pretrain mdm`."""
    folder = str(info.directory)
    return [
        *use_policy(info),
        training_line(info.config, policy=folder, home=_home(info)),
        ["eval", "text-to-motion", folder],
        ["runs", "show", folder],
    ]


def after_scorer(info: RunInfo) -> list[list[str]]:
    """Return the commands after `pretrain tmr` and `pretrain t2m-evaluator`."""
    folder = str(info.directory)
    part = next((name for name in _TEXT_REWARDS if (info.directory / name).is_dir()), "tmr")
    train = training_line(info.config, scorer=info, home=_home(info))
    measure = [["eval", "retrieval", folder]] if part == "tmr" else []
    return [train, *measure, ["runs", "show", folder]]


def after_conversion(out: Path, *, to: str, captions: bool) -> list[list[str]]:
    """Return the commands after a conversion to the layout of a dataset.

    Args:
        out: The folder.
        to: Format written, which is the name of the dataset that reads it.
        captions: Whether any clip has a caption, which training on text needs.
    """
    data = {"dataset": {"name": to, "root": str(out)}}
    return [*([training_line(data, home=Path("runs"))] if captions else []), ["view", str(out)]]


def generate_line(path: str, config: Mapping[str, Any]) -> list[str]:
    """Return the words of a command that generates motions with a policy.

    Args:
        path: Value of ``--policy.checkpoint``: a run, a policy's folder, or starter.
        config: Settings of the run that made it; empty for none.
    """
    policy = config.get("policy") if isinstance(config.get("policy"), Mapping) else {"name": starter.POLICY}
    options = {key: value for key, value in policy.items() if key != "reference"} if isinstance(policy, Mapping) else {}
    words = slot_words("dataset", config.get("dataset"), "datasets", default=STARTER)
    use = slot_words("policy", {**options, "checkpoint": path}, "policies", default=starter.POLICY)
    return ["generate", *(words or [starter.EXAMPLE]), "motions", *use]


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
        policy = next((str(info.directory) for info in _known_run(config) if (info.directory / POLICY).is_dir()), "")
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
            how = ["--init", STARTER]
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


def _home(info: RunInfo) -> Path | None:
    """Return the folder of a run that was put there by ``--out``; None if it is that of its command."""
    parent = info.directory.parent
    return None if parent.name == folder_name(info.command) else parent


def _on_starter(config: Mapping[str, Any]) -> bool:
    table = config.get("dataset")
    return not isinstance(table, Mapping) or table.get("name", STARTER) == STARTER


def _known_run(config: Mapping[str, Any]) -> Iterator[RunInfo]:
    """Yield the finished runs below ``runs``, and in the folders of this one (``--out runs/tmr``), on the same data.

    The newest come first.
    """
    table = config.get("dataset")
    data = slot_words("dataset", table, "datasets")
    for info in sorted([*find(None), *find(None, ".")], key=lambda run: run.created, reverse=True):
        if info.status == "done" and slot_words("dataset", info.config.get("dataset"), "datasets") == data:
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
