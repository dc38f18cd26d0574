"""The protocols of text-to-motion: policies, comparisons of policies, retrieval, and what a reward does not see."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, cast

import torch

from motionkit import plugins
from motionkit.config import Chosen, choose_one, words_for
from motionkit.contracts.console import Console
from motionkit.contracts.dataset import TextMotionDataset, clips_fingerprint, leave_out_clips
from motionkit.contracts.device import resolve_device
from motionkit.contracts.device import set_threads as limit_threads
from motionkit.contracts.evaluation import claim, tell_test_split, write_evaluation
from motionkit.contracts.open_model import FoundModel, open_model, trained_on
from motionkit.contracts.own_data import dataset_for
from motionkit.contracts.policy import DiffusionPolicy
from motionkit.contracts.protocol import Result
from motionkit.errors import MotionkitError
from motionkit.motion import HasActions
from motionkit.runs import fingerprint_tensors, folder_of, generate_line
from motionkit.text_to_motion.evaluation.judge import open_judge, open_reward
from motionkit.text_to_motion.evaluation.protocol.compare import (
    Comparison,
    compare_policies,
    find_policy,
    open_policy,
    set_threads,
)
from motionkit.text_to_motion.evaluation.protocol.figures import COLUMNS, PUBLISHED, comparable, explain, formatted
from motionkit.text_to_motion.evaluation.protocol.measure import Sampling, amount_of, common_guidance, sampling_of
from motionkit.text_to_motion.evaluation.protocol.run import Opened, evaluate, open_all
from motionkit.text_to_motion.evaluation.quality import real_motions
from motionkit.text_to_motion.evaluation.retrieval import measure_retrieval, open_retrieval, read_nsim
from motionkit.text_to_motion.evaluation.sensitivity.audit import audit
from motionkit.text_to_motion.evaluation.sensitivity.bench import (
    SOURCES,
    Audited,
    Clips,
    kinds_of_reward,
    trained_kinds,
)
from motionkit.text_to_motion.evaluation.sensitivity.pages import sensitivity_page
from motionkit.text_to_motion.evaluation.sensitivity.words import document, tables, verdict
from motionkit.text_to_motion.evaluation.settings import (
    CompareSettings,
    MotionSettings,
    RetrievalSettings,
    SensitivitySettings,
    TextToMotionSettings,
)
from motionkit.text_to_motion.rewards.ask import try_reward
from motionkit.text_to_motion.rewards.mix import RewardMix

_STARTER = "starter"


class TextToMotion:
    """``eval text-to-motion``."""

    name = "text-to-motion"

    def __init__(self, settings: TextToMotionSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    @staticmethod
    def explain() -> Result:
        """Return the definition of every figure."""
        return _explained()

    def measure(self, policy: str) -> Result:
        """Measure a policy, the starter's where it is empty."""
        return _text_to_motion(self.settings, policy or _STARTER, self.console)


class Compare:
    """``eval compare``."""

    name = "compare"

    def __init__(self, settings: CompareSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, policies: Sequence[str]) -> Result:
        """Compare each policy with the first."""
        return _compare(self.settings, policies, self.console)


class Retrieval:
    """``eval retrieval``."""

    name = "retrieval"

    def __init__(self, settings: RetrievalSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, model: str) -> Result:
        """Measure a TMR."""
        return _retrieval(self.settings, model, self.console)


class Sensitivity:
    """``eval sensitivity``."""

    name = "sensitivity"

    def __init__(self, settings: SensitivitySettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self) -> Result:
        """Audit the rewards of the settings."""
        return _sensitivity(self.settings, self.console)


_MANY = 2000
"""Motions from which a shorter way is named."""

_SAME = ("dataset", "split", "protocol", "evaluator", "prompts", "sampler")
"""Settings of an evaluation that a comparison after it shares."""


def _explained() -> Result:
    """Return the definition of every figure, as a table."""
    rows = explain()
    metrics = {name: {"unit": unit, "better": better, "meaning": text} for name, unit, better, text in rows}
    table = {"title": "", "columns": ["figure", "unit", "better", "meaning"], "rows": rows}
    return Result({"definitions": metrics}, tables=[table])


def _text_to_motion(settings: TextToMotionSettings, path: str, console: Console) -> Result:
    device = resolve_device(settings.device)
    found = find_policy(chosen_path(settings, path))
    label, dataset = open_data(settings, found)
    policy = open_policy(found, settings.policy, dataset, full=settings.protocol == "mdm", device=device)
    opened = open_inputs(settings, dataset, label, {found.path: policy}, device)
    starter = is_starter(label, dataset)
    mode, amount = amount_of(
        settings.mode,
        settings.protocol,
        starter=starter,
        available=opened.questions.count,
        replications=settings.replications,
        limit=settings.prompts.limit,
    )
    how = how_sampled(settings, found, policy, starter=starter, guidance=settings.sampler.guidance_scale)
    out = settings.out or folder_of("eval text-to-motion", "runs", None, None)
    total = amount.motions * amount.replications
    console.say(
        f"{amount.prompts} prompts x {amount.replications} of the {settings.split} split of {label}, {total} motions; "
        f"{how.words}"
    )
    if total > _MANY:
        console.say("a quick look: --mode debug --limit 64 (320 motions, wider intervals)")
    tell_test_split(settings.split, [found.run], console)
    with console.working(total, after=f"the same command with --out {out} goes on from there") as step:
        outcome = evaluate(
            found,
            policy,
            opened,
            how,
            amount,
            out,
            protocol=settings.protocol,
            mode=mode,
            seed=settings.seed,
            batch=settings.batch_size,
            overwrite=settings.overwrite,
            progress=step,
        )
    closing = [*outcome.notes, outcome.sentence, f"page: {outcome.document['page']}"]
    return Result(outcome.document, tables=[outcome.table], closing=closing, next=next_lines(found, settings))


def _compare(settings: CompareSettings, paths: Sequence[str], console: Console) -> Result:
    if len(paths) < 2 and not settings.published:
        raise MotionkitError(
            "eval compare takes two policies or more.", fix="name another one, or --published for published figures."
        )
    if len(set(paths)) < len(paths):
        raise MotionkitError("one policy is named twice.", fix="name each policy once.")
    device = resolve_device(settings.device)
    models = [find_policy(path) for path in paths]
    # The data of the first that says what they are; the others are asked the same.
    told = next((found for found in models if found.run is not None), models[0])
    label, dataset = open_data(settings, told)
    starter = is_starter(label, dataset)
    policies = {
        found.path: open_policy(found, settings.policy, dataset, full=settings.protocol == "mdm", device=device)
        for found in models
    }
    scale = common_guidance([(found, policies[found.path]) for found in models], settings.sampler.guidance_scale)
    opened = open_inputs(settings, dataset, label, policies, device)
    how = {
        name: how_sampled(settings, told, policy, starter=starter, guidance=scale) for name, policy in policies.items()
    }
    _, amount = amount_of(
        "debug", settings.protocol, starter=starter, available=opened.questions.count, replications=1,
        limit=settings.prompts.limit,
    )  # fmt: skip
    tell_test_split(settings.split, [found.run for found in models], console)
    words = ", ".join(dict.fromkeys(one.words for one in how.values()))
    console.say(f"{amount.prompts} prompts of the {settings.split} split of {label} x {len(models)} policies; {words}")
    if differs := _other_guidance(settings, models, policies, starter=starter, scale=scale):
        console.say(differs)
    judge = [(open_reward(settings.judge, dataset, device=device), 1.0)] if settings.judge is not None else []
    measurement = opened.measurement(
        amount, seed=settings.seed, batch=settings.batch_size, rewards=RewardMix(judge) if judge else None
    )
    with console.working(amount.prompts * len(models)) as step:
        found = compare_policies(
            {name: (policy, how[name]) for name, policy in policies.items()}, measurement, progress=step
        )
    title = f"{found.prompts} prompts of the {settings.split} split of {label}, same noise; {words}"
    tables = [found.table(title)]
    notes = [*filter(None, [opened.questions.kept.sentence(opened.questions.what)])]
    closing = [*notes, *found.remarks()]
    document: dict[str, Any] = {
        "models": found.names, "base": found.names[0], "dataset": label, "split": settings.split,
        "protocol": settings.protocol, "prompts": found.prompts, "sampler": words, "guidance_scale": scale,
        "inputs": {
            "dataset": opened.questions.fingerprint(), "evaluator": opened.evaluator.fingerprint(),
            **{name: fingerprint_tensors(policy.tensors()) for name, policy in policies.items()},
        },
        "notes": notes, "quantities": found.document(),
    }  # fmt: skip
    if settings.published:
        rows, note = published_rows(found, opened, label, settings)
        tables.append(rows)
        closing.append(note)
        document["published"] = {"rows": [vars(row) for row in PUBLISHED], "columns": list(COLUMNS), "note": note}
    text = formatted(tables, settings.format)
    return Result(document, tables=tables, text=text, closing=closing)


def _other_guidance(
    settings: CompareSettings,
    models: list[FoundModel],
    policies: Mapping[str, DiffusionPolicy],
    *,
    starter: bool,
    scale: float,
) -> str:
    """Return for which of the policies eval text-to-motion takes another guidance scale; empty where for none."""
    alone = {
        found.path: how_sampled(settings, found, policies[found.path], starter=starter, guidance=None).guidance
        for found in models
    }
    others = " and ".join(f"{own:g} for {name}" for name, own in alone.items() if own != scale)
    if not others:
        return ""
    whose = "that of the run, for all policies" if settings.sampler.guidance_scale is None else "as given"
    return f"guidance {scale:g}, {whose}; eval text-to-motion alone takes {others}, so that its figures differ"


def published_rows(
    found: Comparison, opened: Opened, label: str, settings: CompareSettings
) -> tuple[dict[str, Any], str]:
    """Return ours and published figures in one table, and what compares."""
    ours = [
        (name, *(f"{found.means[one][name]:.3f}" if one in found.means else "" for one in COLUMNS), "here")
        for name in found.names
    ]
    theirs = [(row.name, *row.figures, f"{row.prompts}; {row.source}") for row in PUBLISHED]
    note = comparable(
        label, settings.split, settings.evaluator.weights, settings.protocol, width=opened.evaluator.latent
    )
    columns = ["", "R@1", "R@2", "R@3", "FID", "MM-Dist", "Diversity", "MultiModality", "motions; source"]
    table = {"title": "Beside published figures (HumanML3D, test)", "columns": columns, "rows": [*ours, *theirs]}
    return {**table, "numbers": list(range(1, 8))}, note


def open_inputs(
    settings: MotionSettings,
    dataset: TextMotionDataset,
    label: str,
    policies: Mapping[str, DiffusionPolicy],
    device: torch.device,
) -> Opened:
    """Open the evaluator and the questions, and set the threads."""
    set_threads([*policies.values()], settings.threads)
    return open_all(
        dataset,
        settings.split,
        policies,
        label=label,
        evaluator=settings.evaluator.weights,
        glove=settings.evaluator.glove,
        stats=settings.evaluator.stats,
        k_segments=settings.prompts.k_segments,
        seed=settings.seed,
        device=device,
        trained=reduce(or_, map(trained_on, policies)),
    )


def how_sampled(
    settings: MotionSettings, found: FoundModel, policy: DiffusionPolicy, *, starter: bool, guidance: float | None
) -> Sampling:
    """Return how a policy is sampled: as the settings say, else as the run of `found` was."""
    sampler = settings.sampler
    return sampling_of(
        found, policy, starter=starter, kind=sampler.kind, steps=sampler.inference_timesteps, guidance=guidance
    )


def chosen_path(settings: MotionSettings, path: str) -> str:
    """Return the policy that is meant: the argument, or ``--policy.checkpoint``."""
    option = str(getattr(settings.policy.options, "checkpoint", _STARTER))
    if path != _STARTER and option not in (_STARTER, path):
        raise MotionkitError(
            f"POLICY ({path}) and --policy.checkpoint ({option}) were both given.", fix="leave one of them out."
        )
    return option if path == _STARTER else path


def open_data(settings: MotionSettings, found: FoundModel) -> tuple[str, TextMotionDataset]:
    """Return the name of the data and the data."""
    chosen = dataset_for(found, settings.dataset)
    return chosen.label, cast("TextMotionDataset", chosen.build())


def is_starter(label: str, dataset: TextMotionDataset) -> bool:
    """Whether data are the starter's, composites of its clips included."""
    return _STARTER in (label, getattr(dataset, "source_name", label))


def next_lines(found: FoundModel, settings: MotionSettings) -> list[str]:
    """Return commands that make sense next, for the same model and data."""
    config = found.run.config if found.run is not None else {}
    started = config.get("policy")
    base = str(started.get("checkpoint", "")) if isinstance(started, Mapping) else ""
    data = config.get("dataset")
    if not base and isinstance(data, Mapping) and data.get("name") == _STARTER:
        base = _STARTER
    lines = []
    if base and base != found.path:
        same = words_for(CompareSettings, settings.model_dump(mode="json"), _SAME)
        lines.append(["eval", "compare", found.path, base, *same])
    if found.run is not None or found.path == _STARTER:
        lines.append(generate_line(found.path, config))
    lines.append(["eval", "text-to-motion", "--explain"])
    return [shlex.join(["motionkit", *line]) for line in lines]


# Retrieval.


def _retrieval(settings: RetrievalSettings, model: str, console: Console) -> Result:
    nsim = read_nsim(settings.nsim) if settings.nsim is not None else ()
    found, tmr = open_retrieval(
        model, stats=settings.stats, text_model=settings.text_model, device=resolve_device(settings.device)
    )
    chosen = dataset_for(found, settings.dataset)
    dataset = chosen.build()
    clips = dataset.clips(settings.split)
    kept = leave_out_clips(trained_on(found.path), dataset, clips)
    kept.require("clips", f"the {settings.split} split of {chosen.label}", "give --dataset with other clips.")
    clips = [clips[place] for place in kept.places]
    tell_test_split(settings.split, [found.run], console)
    with console.working(len(clips)) as step:
        action = dataset.action if isinstance(dataset, HasActions) else None
        result = measure_retrieval(tmr, clips, threshold=settings.threshold, nsim=nsim, action=action, progress=step)
    notes = [*filter(None, [kept.sentence("clips")]), *result.notes]
    document = {
        "model": found.path,
        "dataset": chosen.label,
        "split": settings.split,
        "inputs": {"model": tmr.fingerprint(), "dataset": clips_fingerprint(clips)},
        "candidates": result.candidates,
        "protocols": result.protocols,
        "right_action": dict(result.right_action),
        "notes": notes,
    }
    title = f"{found.path}, {settings.split} split of {chosen.label}: retrieval in percent"
    return Result(document, tables=[result.table(title)], closing=notes)


# The audit of rewards: real clips are changed and scored again.


_NONE, _AUTO = "none", "auto"
_EVALUATOR = "mdm-matching"


def _sensitivity(settings: SensitivitySettings, console: Console) -> Result:
    out = settings.out or folder_of("eval sensitivity", "runs", None, None)
    claim(out, "sensitivity", overwrite=settings.overwrite)
    device = resolve_device(settings.device)
    limit_threads(settings.threads, device, small=True)
    found = _found(settings)
    chosen = _data(settings, found)
    dataset = cast("TextMotionDataset", chosen.build())
    with plugins.catching():
        audited, notes = _audited(settings, dataset, device)
        _try_rewards(audited, dataset, settings, device)
    clips = Clips(dataset, settings.split, seed=settings.seed)
    tell_test_split(settings.split, [one.run for one in found], console)
    console.say(
        f"{len(clips)} clips of the {settings.split} split of {chosen.label}; {', '.join(one.name for one in audited)}"
    )
    begun = time.process_time()
    with console.working(len(SOURCES)) as step:
        result = audit(
            clips, audited, device=device, limit=settings.clips, seed=settings.seed, classify=True, progress=step
        )
    verdicts = [verdict(result, name) for name in result.names]
    sentences = [one.sentence for one in verdicts]
    how: dict[str, Any] = {
        "dataset": chosen.label,
        "split": settings.split,
        "clips": len(clips),
        "most_clips_a_change": settings.clips,
        "seed": settings.seed,
    }
    notes += list(result.notes)
    title = f"Seen, in percent of what an unrelated caption costs (95 %): {settings.split} split of {chosen.label}"
    how["cpu_seconds"] = round(time.process_time() - begun, 1)
    made = {**how, "opened_test": settings.split == "test", **document(result), "notes": notes}
    names = [chosen.label for chosen in settings.reward]
    page = write_evaluation(
        out, "sensitivity", made, lambda: sensitivity_page(made, result, clips), name="sensitivity.html"
    )
    closing = [*notes, _LEGEND, *sentences, f"{how['cpu_seconds']:.0f} CPU-seconds; page: {page}"]
    return Result({**made, "page": str(page)}, tables=tables(result, title, names), closing=closing)


def _try_rewards(
    audited: Sequence[Audited], dataset: TextMotionDataset, settings: SensitivitySettings, device: torch.device
) -> None:
    """Let each reward of another package or file score two clips, so that what is wrong is said before anything starts.

    Raises:
        MotionkitError: It returns something else than scores (exit code 2).
        PluginError: It raised something.
    """
    foreign = [one.reward for one in audited if not one.own]
    found = real_motions(dataset, settings.split, 2, device=device) if foreign else None
    if found is not None:
        for reward in foreign:
            try_reward(reward, *found)


_LEGEND = (
    "* trained against this change. A reward that reads no text, or tells no captions apart: the fall in "
    "standard deviations over real clips. "
    "Of captions also how often the right one scores higher; chance is 50 %. Told alone: how often a classifier tells "
    "the change by the motion without its caption, or by the caption without its motion; chance is 50 %."
)


def _found(settings: SensitivitySettings) -> list[FoundModel]:
    """Return the models that rewards, judge and evaluator name by a path; released ones are made by no run."""
    chosen = [*settings.reward, *([settings.judge] if settings.judge is not None else [])]
    places = [str(getattr(one.options, "weights", _STARTER)) for one in chosen]
    if settings.evaluator.weights not in (_AUTO, _NONE):
        places.append(settings.evaluator.weights)
    found = []
    for place in dict.fromkeys(places):
        if place.partition(":")[0] == _STARTER:
            continue
        try:
            found.append(open_model(place))
        except MotionkitError:
            if not Path(place).expanduser().exists():
                raise
            found.append(FoundModel(place, "rewards", _EVALUATOR, "a released model"))
    return found


def _data(settings: SensitivitySettings, found: list[FoundModel]) -> Chosen:
    """Return the dataset that was asked for, else that of the first run that made a reward, else the starter's."""
    made = next((one for one in found if one.run is not None), None)
    model = made or (found[0] if found else FoundModel(_STARTER, "rewards", "tmr-dense", "the starter's TMR"))
    return dataset_for(model, settings.dataset)


def _audited(
    settings: SensitivitySettings, dataset: TextMotionDataset, device: torch.device
) -> tuple[list[Audited], list[str]]:
    """Open what is audited; returns it with what a reader should know."""
    notes: list[str] = []
    rewards = [(chosen, open_reward(chosen, dataset, device=device)) for chosen in settings.reward]
    audited = [Audited.of(chosen, reward) for chosen, reward in rewards]
    judge, why = open_judge(settings.judge, dataset, device=device, trained=rewards)
    if judge is not None and all(judge is not reward for _, reward in rewards):
        named = settings.judge
        kinds = kinds_of_reward(named.label, named.options) if named is not None else trained_kinds(f"{_STARTER}:judge")
        own = named is None or plugins.is_own(named.kind, named.name)
        audited.append(Audited("judge", judge, summed=False, kinds=kinds, own=own))
    elif why:
        notes.append(why if judge is not None else f"no judge: {why}")
    weights = settings.evaluator.weights
    if weights == _AUTO:
        weights = _STARTER if _STARTER in (dataset.name, getattr(dataset, "source_name", "")) else _NONE
    if weights != _NONE:
        options = {"weights": weights, "glove": settings.evaluator.glove, "stats": settings.evaluator.stats}
        chosen = choose_one("rewards", _EVALUATOR, options)
        kinds = kinds_of_reward(_EVALUATOR, chosen.options)
        audited.append(Audited("evaluator", open_reward(chosen, dataset, device=device), summed=False, kinds=kinds))
    return audited, notes
