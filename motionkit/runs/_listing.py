"""Reads existing runs, for listings, reports and commands that use an earlier run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import slot_words, typed_flags, words_for
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.runs._record import RECORD, RunRecord, folder_name, is_held, read_record
from motionkit.runs._resume import locate, no_run, read_settings, resume_line, run_folder
from motionkit.tracking import last_metrics, read_metrics


@dataclass(frozen=True)
class RunInfo:
    """A run folder, read."""

    directory: Path  # The folder
    # ``running`` while a process holds it, else ``done``, ``failed`` or ``interrupted`` (also when killed); ``damaged``
    # when run.json or config.json cannot be read.
    status: str
    record: RunRecord | None  # Content of run.json; None when it cannot be read
    config: dict[str, Any]  # Content of config.json; empty when the run is damaged
    problem: str = ""  # What is damaged; empty when nothing is

    @property
    def command(self) -> str:
        """The command that made it; the name of the folder above when run.json cannot be read."""
        return self.record.command if self.record else self.directory.parent.name

    @property
    def created(self) -> str:
        """When it was first started, UTC, ISO 8601; empty when run.json cannot be read."""
        return self.record.created if self.record else ""

    @property
    def steps(self) -> int:
        """Steps completed when its last attempt ended."""
        return self.record.steps if self.record else 0

    @property
    def total_steps(self) -> int | None:
        """Steps planned; None where the settings do not say."""
        place = self.config.get("run")
        total = place.get("num_steps") if isinstance(place, Mapping) else None
        return total if isinstance(total, int) else None

    def last(self) -> dict[str, Any]:
        """Return the last line of metrics.jsonl, without reading what is before; empty where there is none."""
        return last_metrics(self.directory / "metrics.jsonl")

    @property
    def summary(self) -> dict[str, Any]:
        """The summary document of its last attempt; empty when it has not ended."""
        return dict(self.record.summary or {}) if self.record else {}

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The tables of its result, as the console showed them; those that are whole."""
        found = self.record.tables if self.record else []
        return [one for one in found if isinstance(one.get("columns"), list) and isinstance(one.get("rows"), list)]

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of metrics.jsonl."""
        return read_metrics(self.directory / "metrics.jsonl")


def load(path: str | Path) -> RunInfo:
    """Read a run from its folder or from a checkpoint inside it.

    Example:
        >>> from motionkit.runs import open_run
        >>> with open_run("grpo", {"run": {"name": "first"}}) as run:
        ...     run.log(1, {"reward/mean": 0.5})
        ...     _ = run.finish()
        >>> info = load("runs/grpo/first")
        >>> info.status, [line["reward/mean"] for line in info.metrics()]
        ('done', [0.5])
    """
    directory, _, record, config = locate(path)
    return _known(_info(directory, record, config))


def peek(path: str | Path) -> RunInfo:
    """Read a run as far as it can be read: one that is damaged has the status ``damaged`` and says what is."""
    folder = run_folder(path)
    info = _look(folder)
    if info is None:
        raise no_run(Path(path))
    return _known(info)


def _known(info: RunInfo) -> RunInfo:
    """Look up the trainer of a run that another package brings, so that the metrics of its own are defined."""
    with suppress(MotionkitError):
        name = info.command.replace(" ", ".")
        if not plugins.find("trainers", name).builtin:
            plugins.get("trainers", name)
    return info


def made_by(path: str | Path) -> RunInfo | None:
    """Return the run that a model's folder is, or lies in; None where no run made it.

    Args:
        path: A run, a checkpoint of one, or a model's folder in one, such as ``RUN/policy``.
    """
    place = Path(path).expanduser()
    folder = next((one for one in (run_folder(place), place.parent) if (one / RECORD).is_file()), None)
    return None if folder is None else load(folder)


def find_one(name: str | Path, root: str | Path = "runs") -> RunInfo:
    """Find a run by its folder, a checkpoint in it, or the last part of its folder's name under `root`.

    A name that no run has may be the beginning of one's. Damaged runs are found too.
    """
    if os.path.lexists(run_folder(name) / RECORD):
        return peek(name)
    wanted = str(name).strip("/")
    known = find(None, root)
    for fits in (str.__eq__, str.startswith):
        found = [info for info in known if fits(info.directory.name, wanted) or fits(_short(info), wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(_short(info) for info in found[:4])
            raise MotionkitError(
                f"{len(found)} runs are called {wanted!r}: {names}{', ...' if len(found) > 4 else ''}.",
                fix=f"name one in full, such as {found[0].directory}",
            )
    error = no_run(Path(name))
    hint = did_you_mean(wanted, [info.directory.name for info in known])
    raise MotionkitError(error.message, why=error.why, fix=f"{hint} {error.fix}".strip())


def _short(info: RunInfo) -> str:
    return f"{info.directory.parent.name}/{info.directory.name}"


def newest_with(command: str, file: str | Path, root: str | Path = "runs") -> Path | None:
    """Return the newest run of a command below `root` that has come to its end and holds `file`; None without one."""
    for info in find(command, root):
        if info.status == "done" and (info.directory / file).is_file():
            return info.directory
    return None


def what_is(folder: Path) -> str:
    """Return what a folder is, in words: ``a run of motionkit COMMAND``, or ``no run``."""
    try:
        return f"a run of motionkit {peek(folder).command}"
    except MotionkitError:
        return "no run"


def find(command: str | None = None, root: str | Path = "runs") -> list[RunInfo]:
    """Return the runs under `root`, newest first, and damaged ones last.

    Args:
        command: Only runs of this command (``grpo``, ``pretrain mdm``); None for all.
        root: Parent of all runs: folders ``<command>/<run>``.
    """
    found = [info for file in Path(root).glob(f"*/*/{RECORD}") if (info := _look(file.parent)) is not None]
    if command is not None:
        found = [info for info in found if info.command == (command if info.record else folder_name(command))]
    return sorted(found, key=lambda run: (run.status != "damaged", run.created, run.directory.name), reverse=True)


def _look(folder: Path) -> RunInfo | None:
    record = None
    try:
        record = read_record(folder)
        return _info(folder, record, read_settings(folder)) if record else None
    except MotionkitError as error:
        return RunInfo(folder, "damaged", record, {}, error.why)


def _info(folder: Path, record: RunRecord, config: dict[str, Any]) -> RunInfo:
    killed = record.status == "running" and not is_held(folder)
    return RunInfo(folder, "interrupted" if killed else record.status, record, config)


# Commands to type after a run: made from its own settings, so that they name its data, environment and weights.

_STARTER = "starter"
_EXAMPLE = "a person walks | a person waves"
"""Texts that the starter's policy knows."""

_TEXT_REWARDS = {"tmr": "tmr-dense", "evaluator": "mdm-dense"}
"""Folders of a run whose model scores texts and motions, and the reward that reads each."""

_POLICY = "policy"
_DONE = "done"


@dataclass(frozen=True)
class _Scorer:
    """A model of text and motion that a run trained: the reward that reads it, its weights, for a judge or not."""

    reward: str
    weights: str
    judges: bool


def next_commands(info: RunInfo) -> list[str]:
    """Return shell lines that make sense after a run: use its model, train on, look at it again."""
    folder = str(info.directory)
    if info.status != _DONE:
        return [_resumed(info), *_lines([["runs", "show", folder]])]
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
        path: What ``--policy.checkpoint`` takes: a run, a policy's folder, or starter.
        config: Settings of the run that made it; empty where none did.
    """
    policy = config.get("policy") if isinstance(config.get("policy"), Mapping) else {"name": "mdm"}
    own = {key: value for key, value in policy.items() if key != "reference"} if isinstance(policy, Mapping) else {}
    asked = slot_words("dataset", config.get("dataset"), "datasets", default=_STARTER)
    use = slot_words("policy", {**own, "checkpoint": path}, "policies", default="mdm")
    return ["generate", *(asked or [_EXAMPLE]), "motions", *use]


def training_line(config: Mapping[str, Any], *, policy: str = "", scorer: RunInfo | None = None) -> list[str]:
    """Return the words of a `grpo` on the data of a run, or of the training that has to come first.

    The starter's policy and rewards know the starter's data only. On other data both have to be trained on them; the
    one that is not given is looked for among the finished runs below ``runs``. Of two models of text and motion, the
    one that was trained on the second half of the clips, or that a `grpo` of these data was judged by, is the judge.

    Args:
        config: Settings of the run; its dataset is read.
        policy: Policy to train; the starter's, or the newest of the data, where it is left out.
        scorer: Run of a model of text and motion that is taken before all others for what it was trained for.
    """
    model = plugins.get("trainers", "grpo").options
    data = words_for(model, config, ("dataset",))
    if not _on_starter(config) and not policy:
        policy = next((str(one.directory) for one in _known_run(config) if (one.directory / _POLICY).is_dir()), "")
    reward, judge = _reward_and_judge(config, scorer)
    if not _on_starter(config):
        missing = "" if policy and reward else "pretrain.tmr" if policy else "pretrain.mdm"
        if missing:
            first, text = plugins.get("trainers", missing).options, config.get("text")
            # A diffusion policy reads a vector per text, which DistilBERT does not give.
            same = not isinstance(text, Mapping) or text.get("encoder") != "distilbert"
            return [*missing.split("."), *words_for(first, config, ("dataset", "text") if same else ("dataset",))]
    use = ["--policy.checkpoint", policy] if policy else []
    scored = ["--reward", reward.reward, "--reward.weights", reward.weights] if reward else []
    judged = ["--judge", judge.reward, "--judge.weights", judge.weights] if judge else []
    return ["grpo", *use, *data, *scored, *judged]


def _lines(commands: Sequence[Sequence[str]]) -> list[str]:
    return [shlex.join(["motionkit", *words]) for words in commands]


def _resumed(info: RunInfo) -> str:
    return f"{resume_line(info.command, info.directory)} {typed_flags(info.config)}".rstrip()


def _on_starter(config: Mapping[str, Any]) -> bool:
    table = config.get("dataset")
    return not isinstance(table, Mapping) or table.get("name", _STARTER) == _STARTER


def _known_run(config: Mapping[str, Any]) -> Iterator[RunInfo]:
    """Yield the finished runs below ``runs`` on the same data, newest first."""
    table = config.get("dataset")
    wanted = slot_words("dataset", table, "datasets")
    for info in find(None):
        if info.status == _DONE and slot_words("dataset", info.config.get("dataset"), "datasets") == wanted:
            yield info


def _reward_and_judge(config: Mapping[str, Any], scorer: RunInfo | None) -> tuple[_Scorer | None, _Scorer | None]:
    """Return the models of text and motion to train by and to judge by; the newest of each, but `scorer` before them.

    On the starter's data, whose own models are known, others count only beside a `scorer`.
    """
    known = [] if _on_starter(config) else list(_known_run(config))
    if scorer is not None:
        own = scorer.directory.resolve()
        known = [scorer, *(info for info in known if info.directory.resolve() != own)]
    judges = {place for info in known for place in _judged_by(info)}
    found = [one for info in known for one in _scorers(info, judges)]
    apart = [one for one in found if one.judges]
    reward = next((one for one in found if not one.judges), next(iter(apart), None))
    return reward, next((one for one in apart if one is not reward), None)


def _judged_by(info: RunInfo) -> Iterator[Path]:
    """Yield the places that the weights of a run's judge may be known by: its folder in a run, and the run."""
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
    return [generate_line(str(info.directory), {**info.config, "policy": _own_policy(info)})]


def _own_policy(info: RunInfo) -> object:
    """Return the settings of a run's policy; of a run that trains one from nothing there are none."""
    return info.config.get("policy")


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
        training_line(info.config, policy=folder),
        ["eval", "text-to-motion", folder],
        ["runs", "show", folder],
    ]


def _after_text_reward(info: RunInfo) -> list[list[str]]:
    folder = str(info.directory)
    part = next((one for one in _TEXT_REWARDS if (info.directory / one).is_dir()), "tmr")
    train = training_line(info.config, scorer=info)
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
    """Return lines for a motion predictor, which are measured and used on the clips of their run.

    Its schedules span the epochs of the run, so that a longer one is a new run with the same settings, not a resumed
    one.
    """
    folder = str(info.directory)
    again = ["--config", f"{folder}/config.json"]
    lines = [["eval", "mpl", folder], ["predict", folder, "motion.html"]]
    epochs = info.last().get("data/epoch")
    if isinstance(epochs, (int, float)) and epochs >= 1:
        lines.append(["train-mpl", *again, "--epochs", str(2 * round(epochs))])
    return [*lines, ["tune-bayes", "--base", f"{folder}/config.json"], ["report", folder]]


def _after_collect(info: RunInfo) -> list[list[str]]:
    """Return lines for episodes; those that an environment's own solution made are demonstrations too."""
    folder = str(info.directory)
    env = words_for(plugins.get("trainers", "ppo").options, info.config, ("env",))
    clone = [["ppo", *env, "--init", folder]] if info.config.get("policy") == "scripted" else []
    return [["reward-train", "--data", folder], *clone, ["report", folder]]


def _after_reward(info: RunInfo) -> list[list[str]]:
    """Return lines for a success classifier, which pays in the environment whose pictures it was trained on."""
    folder = str(info.directory)
    learn = []
    if (table := _environment(info)) is not None:
        env = words_for(plugins.get("trainers", "ppo").options, {"env": table}, ("env",))
        learn = [["ppo", *env, "--reward", "success-classifier", "--reward.checkpoint", folder]]
    return [*learn, ["eval", "reward", folder], ["report", folder]]


def _environment(info: RunInfo) -> Mapping[str, Any] | None:
    """Return the settings of the environment that a classifier's pictures come from; None where nothing says.

    The run of the pictures knows what was typed; else the classifier's own record counts, which names no code.
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
    """Return lines for self-play: code that was trusted has to be trusted again."""
    folder, policy = str(info.directory), info.config.get("policy")
    name = policy.get("name") if isinstance(policy, Mapping) else None
    trusted = shlex.split(typed_flags({"policy": policy}))
    chosen = ["--policy", str(name)] if trusted and "--policy" not in trusted else []
    further = ["--config", f"{folder}/config.json", "--policy.checkpoint", folder]
    return [
        ["report", folder],
        ["eval", "sa2va", folder, *chosen, *trusted],
        ["sa2va-rl", *further, *shlex.split(typed_flags(info.config))],
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
