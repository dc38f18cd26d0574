"""The protocols of text-to-motion: evaluation and comparison of policies, retrieval, and sensitivity of rewards."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, cast

import torch

from motionkit import plugins
from motionkit.config import Chosen, choose_from_file, choose_one
from motionkit.contracts.console import Console
from motionkit.contracts.dataset import TextMotionDataset, called
from motionkit.contracts.device import resolve_device
from motionkit.contracts.device import set_threads as limit_threads
from motionkit.contracts.evaluation import claim, tell_test_split, write_evaluation
from motionkit.contracts.open_model import FoundModel, open_model, trained_on
from motionkit.contracts.protocol import Result
from motionkit.errors import MotionkitError
from motionkit.runs import fingerprint_tensors, folder_of
from motionkit.runs.words import words_for
from motionkit.text_to_motion.evaluation.judge import open_judge, open_reward
from motionkit.text_to_motion.evaluation.protocol.compare import (
    Comparison,
    compare_policies,
    find_policy,
    open_policy,
    set_threads,
)
from motionkit.text_to_motion.evaluation.protocol.measure import Sampling, common_guidance, sampling_of
from motionkit.text_to_motion.evaluation.protocol.prompts_alone import OnPrompts, PromptsAlone
from motionkit.text_to_motion.evaluation.protocol.run import Opened, evaluate, open_all
from motionkit.text_to_motion.evaluation.protocol.tables import COLUMNS, PUBLISHED, comparable, explain, formatted
from motionkit.text_to_motion.evaluation.real_motions import real_motions
from motionkit.text_to_motion.evaluation.retrieval import measure_retrieval, open_retrieval, read_nsim
from motionkit.text_to_motion.evaluation.same_data import SameData, better_evaluator, find_evaluator, is_starter
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
    AUTO,
    NONE,
    CompareSettings,
    MotionSettings,
    RetrievalSettings,
    SensitivitySettings,
    TextToMotionSettings,
)
from motionkit.text_to_motion.next import generate_line
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.ask import try_reward
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.trained import clips_fingerprint, leave_out_clips
from motionkit.tracking import table_of

_STARTER = "starter"
_MANY = 2000  # motions from which a quicker mode is suggested
# Settings of an evaluation that the suggested comparison repeats.
_SAME = ("dataset", "split", "protocol", "evaluator", "prompts", "sampler")
_EVALUATOR = "mdm-matching"
_LEGEND = (
    "* trained against this change. For a reward that reads no text, or tells no captions apart: the fall in standard "
    "deviations over reference clips. For changed captions also how often the right one scores higher; chance is 50 %. "
    "Told alone: how often a classifier detects the change from the motion without its caption, or from the caption "
    "without its motion; chance is 50 %."
)


class TextToMotion:
    """``eval text-to-motion``."""

    name = "text-to-motion"

    def __init__(self, settings: TextToMotionSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    @staticmethod
    def explain() -> Result:
        """Return the definition of every figure, as a table."""
        rows = explain()
        metrics = {name: {"unit": unit, "better": better, "meaning": text} for name, unit, better, text in rows}
        columns = ["figure", "unit", "better", "meaning"]
        return Result({"definitions": metrics}, tables=[table_of("", columns, rows, ())])

    def measure(self, policy: str) -> Result:
        """Measure a policy; an empty text means the starter's."""
        settings, console = self.settings, self.console
        device = resolve_device(settings.device)
        model = find_policy(chosen_path(settings, policy or _STARTER), settings.policy)
        chosen, dataset = open_data(settings, model)
        diffusion = open_policy(model, settings.policy, dataset, full=settings.protocol == "mdm", device=device)
        opened = open_inputs(settings, dataset, chosen, {model.path: diffusion}, device)
        starter = is_starter(dataset, chosen.label)
        mode, amount = opened.amount(
            settings.mode,
            settings.protocol,
            starter=starter,
            replications=settings.replications,
            limit=settings.prompts.limit,
        )
        how = how_sampled(settings, model, diffusion, starter=starter, guidance=settings.sampler.guidance_scale)
        out = settings.out or folder_of("eval text-to-motion", "runs", None, None)
        total = amount.motions * amount.replications
        console.say(
            f"{amount.prompts} prompts x {amount.replications} of the {settings.split} split of {opened.called}, "
            f"{total} motions; {how.words}"
        )
        if total > _MANY:
            console.say("a quick look: --mode debug --limit 64 (320 motions, wider intervals)")
        tell_test_split(settings.split, [model.run], console)
        with console.working(total, after=f"the same command with --out {out} goes on from there") as step:
            result = evaluate(
                model,
                diffusion,
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
        return replace(result, next=next_lines(model, settings))


class Compare:
    """``eval compare``."""

    name = "compare"

    def __init__(self, settings: CompareSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, policies: Sequence[str]) -> Result:
        """Compare each policy with the first."""
        settings, console = self.settings, self.console
        if len(policies) < 2 and not settings.published:
            raise MotionkitError(
                "eval compare takes two policies or more.",
                fix="name another one, or --published for published figures.",
            )
        if len(set(policies)) < len(policies):
            raise MotionkitError("one policy is named twice.", fix="name each policy once.")
        device = resolve_device(settings.device)
        models = [find_policy(path, settings.policy) for path in policies]
        # The data of the first policy with a run are used for all.
        data_model = next((model for model in models if model.run is not None), models[0])
        chosen, dataset = open_data(settings, data_model)
        if settings.published and not dataset.has_clips:
            raise MotionkitError(
                f"{chosen.label} has prompts and no clips, and published figures compare with clips.",
                fix="leave --published out, or give --dataset with clips.",
            )
        starter = is_starter(dataset, chosen.label)
        by_path = {
            model.path: open_policy(model, settings.policy, dataset, full=settings.protocol == "mdm", device=device)
            for model in models
        }
        scale = common_guidance([(model, by_path[model.path]) for model in models], settings.sampler.guidance_scale)
        opened = open_inputs(settings, dataset, chosen, by_path, device)
        how = {
            path: how_sampled(settings, data_model, policy, starter=starter, guidance=scale)
            for path, policy in by_path.items()
        }
        _, amount = opened.amount(
            "debug", settings.protocol, starter=starter, replications=1, limit=settings.prompts.limit
        )
        tell_test_split(settings.split, [model.run for model in models], console)
        words = ", ".join(dict.fromkeys(sampling.words for sampling in how.values()))
        console.say(
            f"{amount.prompts} prompts of the {settings.split} split of {opened.called} x {len(models)} policies; "
            f"{words}"
        )
        if note := _other_guidance(settings, models, by_path, starter=starter, scale=scale):
            console.say(note)
        judge = [(open_reward(settings.judge, dataset, device=device), 1.0)] if settings.judge is not None else []
        measurement = opened.measurement(
            amount, seed=settings.seed, batch=settings.batch_size, rewards=RewardMix(judge) if judge else None
        )
        sampled = {path: (policy, how[path]) for path, policy in by_path.items()}
        with console.working(amount.prompts * len(models)) as step:
            if isinstance(measurement, OnPrompts):
                comparison = measurement.compare(sampled, progress=step)
            else:
                comparison = compare_policies(sampled, measurement, progress=step)
        notes = list[str]()
        if isinstance(opened, Opened):
            real_r3 = comparison.truth.get("r_precision_3")
            comparison = replace(comparison, doubt=opened.doubted(real_r3))
            notes = [*filter(None, [opened.questions.kept.sentence(opened.questions.what)])]
            if repeated := opened.repeated(comparison.prompts):
                notes.append(f"{repeated} Intervals take them for that many prompts, and are too narrow")
            notes += opened.doubts(real_r3)
        title = (
            f"{comparison.prompts} prompts of the {settings.split} split of {opened.called}, same noise; {words}; "
            f"{opened.by}"
        ).removesuffix("; ")
        tables = [comparison.table(title)]
        if len({sampling.words for sampling in how.values()}) > 1:
            notes.append(
                "the policies are sampled in different ways, and a difference may be that of the sampling alone: "
                "--inference-timesteps N and --sampler KIND take one for all"
            )
        closing = [*notes, *comparison.remarks()]
        document: dict[str, Any] = {
            "models": comparison.names, "base": comparison.names[0], "dataset": chosen.label, "split": settings.split,
            "protocol": settings.protocol, "prompts": comparison.prompts, "sampler": words, "guidance_scale": scale,
            "evaluator": opened.about,
            "inputs": {
                **opened.marks, **{path: fingerprint_tensors(policy.tensors()) for path, policy in by_path.items()},
            },
            "notes": notes, "quantities": comparison.document(),
        }  # fmt: skip
        if settings.published and isinstance(opened, Opened):
            rows, note = published_rows(comparison, opened, settings)
            tables.append(rows)
            closing.append(note)
            document["published"] = {"rows": [vars(row) for row in PUBLISHED], "columns": list(COLUMNS), "note": note}
        return Result(document, tables=tables, text=formatted(tables, settings.format), closing=closing)


def _other_guidance(
    settings: CompareSettings,
    models: list[FoundModel],
    policies: Mapping[str, DiffusionPolicy],
    *,
    starter: bool,
    scale: float,
) -> str:
    """Return a note on policies that eval text-to-motion samples with another guidance scale; empty for none."""
    alone = {
        model.path: how_sampled(settings, model, policies[model.path], starter=starter, guidance=None).guidance
        for model in models
    }
    others = " and ".join(f"{scale_alone:g} for {name}" for name, scale_alone in alone.items() if scale_alone != scale)
    if not others:
        return ""
    whose = "that of the run, for all policies" if settings.sampler.guidance_scale is None else "as given"
    return f"guidance {scale:g}, {whose}; eval text-to-motion alone takes {others}, so that its figures differ"


def published_rows(comparison: Comparison, opened: Opened, settings: CompareSettings) -> tuple[dict[str, Any], str]:
    """Return a table of our figures and the published ones, and a note on which of them compare."""
    means = comparison.means
    ours = [
        (name, *(f"{means[figure][name]:.3f}" if figure in means else "" for figure in COLUMNS), "here")
        for name in comparison.names
    ]
    theirs = [(row.name, *row.figures, f"{row.prompts}; {row.source}") for row in PUBLISHED]
    note = comparable(
        opened.dataset, settings.split, opened.named.name, settings.protocol, width=opened.evaluator.latent
    )
    columns = ["", "R@1", "R@2", "R@3", "FID", "MM-Dist", "Diversity", "MultiModality", "motions; source"]
    title = "Beside published figures (HumanML3D, test)"
    return table_of(title, columns, [*ours, *theirs], range(1, len(columns) - 1)), note


def open_inputs(
    settings: MotionSettings,
    dataset: TextMotionDataset,
    chosen: Chosen,
    policies: Mapping[str, DiffusionPolicy],
    device: torch.device,
) -> Opened | PromptsAlone:
    """Open the evaluator and the questions, and set the threads."""
    set_threads([*policies.values()], settings.threads)
    if not dataset.has_clips:
        if settings.evaluator.weights != AUTO:
            raise MotionkitError(
                f"{chosen.label} has prompts and no clips, with which an evaluator compares motions.",
                fix="leave --evaluator out, or give --dataset with clips.",
            )
        named_by = called(chosen.label, chosen.options)
        return PromptsAlone.of(
            dataset, settings.split, policies, label=chosen.label, called=named_by,
            k_segments=settings.prompts.k_segments, seed=settings.seed,
        )  # fmt: skip
    same = SameData(dataset, settings.split)
    named = find_evaluator(settings.evaluator, same, device=device, fallback=_STARTER)
    if named is None:
        raise MotionkitError(
            "eval needs an evaluator.",
            why="R-precision and FID are measured in its space.",
            fix="leave --evaluator out, or name one: motionkit pretrain t2m-evaluator trains it.",
        )
    return open_all(
        dataset,
        settings.split,
        policies,
        label=chosen.label,
        called=called(chosen.label, chosen.options),
        evaluator=named,
        command=better_evaluator(same, named, chosen),
        k_segments=settings.prompts.k_segments,
        seed=settings.seed,
        device=device,
        trained=reduce(or_, map(trained_on, policies)),
    )


def how_sampled(
    settings: MotionSettings, model: FoundModel, policy: DiffusionPolicy, *, starter: bool, guidance: float | None
) -> Sampling:
    """Return how a policy is sampled: by the settings, else as in the run of `model`."""
    sampler = settings.sampler
    return sampling_of(
        model, policy, starter=starter, kind=sampler.kind, steps=sampler.inference_timesteps, guidance=guidance
    )


def chosen_path(settings: MotionSettings, path: str) -> str:
    """Return the path of the policy: the argument, or ``--policy.checkpoint``."""
    option = str(settings.policy.get("checkpoint", _STARTER)) or _STARTER
    if path != _STARTER and option not in (_STARTER, path):
        raise MotionkitError(
            f"POLICY ({path}) and --policy.checkpoint ({option}) were both given.", fix="leave one of them out."
        )
    return option if path == _STARTER else path


def open_data(settings: MotionSettings, model: FoundModel) -> tuple[Chosen, TextMotionDataset]:
    """Return the choice of the data and the data."""
    chosen = _dataset_for(model, settings.dataset)
    return chosen, cast("TextMotionDataset", chosen.build())


def next_lines(model: FoundModel, settings: MotionSettings) -> list[str]:
    """Return the suggested next commands, for the same model and data."""
    config = model.run.config if model.run is not None else {}
    started = config.get("policy")
    base = str(started.get("checkpoint", "")) if isinstance(started, Mapping) else ""
    data = config.get("dataset")
    if not base and isinstance(data, Mapping) and data.get("name") == _STARTER:
        base = _STARTER
    lines = []
    if base and base != model.path:
        same = words_for(CompareSettings, settings.model_dump(mode="json"), _SAME)
        lines.append(["eval", "compare", base, model.path, *same])
    if model.run is not None or model.path == _STARTER:
        lines.append(generate_line(model.path, config))
    lines.append(["eval", "text-to-motion", "--explain"])
    return [shlex.join(["motionkit", *line]) for line in lines]


class Retrieval:
    """``eval retrieval``."""

    name = "retrieval"

    def __init__(self, settings: RetrievalSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, model: str) -> Result:
        """Measure a TMR."""
        settings, console = self.settings, self.console
        nsim = read_nsim(settings.nsim) if settings.nsim is not None else ()
        device = resolve_device(settings.device)
        limit_threads(settings.threads, device, small=False)
        source, tmr = open_retrieval(model, stats=settings.stats, text_model=settings.text_model, device=device)
        chosen = _dataset_for(source, settings.dataset)
        dataset, data = chosen.build(), called(chosen.label, chosen.options)
        clips = dataset.clips(settings.split)
        held_out = leave_out_clips(trained_on(source.path), dataset, clips)
        held_out.require("clips", f"the {settings.split} split of {data}", "give --dataset with other clips.")
        clips = [clips[place] for place in held_out.places]
        tell_test_split(settings.split, [source.run], console)
        with console.working(len(clips)) as step:
            result = measure_retrieval(
                tmr, clips, threshold=settings.threshold, nsim=nsim, action=dataset.action, progress=step
            )
        notes = [*filter(None, [held_out.sentence("clips")]), *result.notes]
        document = {
            "model": source.path,
            "dataset": chosen.label,
            "split": settings.split,
            "inputs": {"model": tmr.fingerprint(), "dataset": clips_fingerprint(clips)},
            "candidates": result.candidates,
            "protocols": result.protocols,
            "right_action": dict(result.right_action),
            "notes": notes,
        }
        title = f"{source.path}, {settings.split} split of {data}: retrieval in percent"
        return Result(document, tables=[result.table(title)], closing=notes)


class Sensitivity:
    """``eval sensitivity``."""

    name = "sensitivity"

    def __init__(self, settings: SensitivitySettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self) -> Result:
        """Audit the rewards of the settings."""
        settings, console = self.settings, self.console
        out = settings.out or folder_of("eval sensitivity", "runs", None, None)
        claim(out, "sensitivity", overwrite=settings.overwrite)
        device = resolve_device(settings.device)
        limit_threads(settings.threads, device, small=True)
        models = _models(settings)
        chosen = _data(settings, models)
        dataset, data = cast("TextMotionDataset", chosen.build()), called(chosen.label, chosen.options)
        with plugins.catching():
            audited, notes = _audited(settings, dataset, device)
            _try_rewards(audited, dataset, settings, device)
        clips = Clips(dataset, settings.split, seed=settings.seed)
        tell_test_split(settings.split, [model.run for model in models], console)
        names = ", ".join(item.name for item in audited)
        console.say(f"{len(clips)} clips of the {settings.split} split of {data}; {names}")
        begun = time.process_time()
        with console.working(len(SOURCES)) as step:
            result = audit(
                clips, audited, device=device, limit=settings.clips, seed=settings.seed, classify=True, progress=step
            )
        notes += result.notes
        record = {
            "dataset": chosen.label,
            "split": settings.split,
            "clips": len(clips),
            "most_clips_a_change": settings.clips,
            "seed": settings.seed,
            "cpu_seconds": round(time.process_time() - begun, 1),
            "opened_test": settings.split == "test",
            **document(result),
            "notes": notes,
        }
        title = f"Seen, in percent of what an unrelated caption costs (95 %): {settings.split} split of {data}"
        shown = tables(result, title, [chosen.label for chosen in settings.reward])
        sentences = [verdict(result, name).sentence for name in result.names]
        return write_evaluation(
            out,
            "sensitivity",
            Result(record, tables=shown, closing=[*notes, _LEGEND, *sentences]),
            lambda: sensitivity_page(record, result, clips, data),
            name="sensitivity.html",
            said=f"{record['cpu_seconds']:.0f} CPU-seconds; ",
        )


def _try_rewards(
    audited: Sequence[Audited], dataset: TextMotionDataset, settings: SensitivitySettings, device: torch.device
) -> None:
    """Let each reward of another package or file score two clips, so that errors in it are reported at the start."""
    foreign = [item.reward for item in audited if not item.own]
    motions = real_motions(dataset, settings.split, 2, device=device) if foreign else None
    if motions is not None:
        for reward in foreign:
            try_reward(reward, *motions)


def _models(settings: SensitivitySettings) -> list[FoundModel]:
    """Return the models of rewards, judge and evaluator that are given by a path."""
    rewards = [*settings.reward, *([settings.judge] if settings.judge is not None else [])]
    places = [str(chosen.get("weights", _STARTER)) for chosen in rewards]
    if settings.evaluator.weights not in (AUTO, NONE):
        places.append(settings.evaluator.weights)
    models = []
    for place in dict.fromkeys(places):
        if place.partition(":")[0] == _STARTER:
            continue
        try:
            models.append(open_model(place))
        except MotionkitError:
            if not Path(place).expanduser().exists():
                raise
            models.append(FoundModel(place, "rewards", _EVALUATOR, "a released model"))
    return models


def _data(settings: SensitivitySettings, models: list[FoundModel]) -> Chosen:
    """Return the dataset of the settings, else that of the first run that made a reward, else the starter's."""
    trained = [model for model in models if model.run is not None]
    model = next(iter(trained + models), FoundModel(_STARTER, "rewards", "tmr-dense", "the starter's TMR"))
    return _dataset_for(model, settings.dataset)


def _audited(
    settings: SensitivitySettings, dataset: TextMotionDataset, device: torch.device
) -> tuple[list[Audited], list[str]]:
    """Open the rewards, the judge and the evaluator; returns them with notes for the result."""
    notes: list[str] = []
    rewards = [(chosen, open_reward(chosen, dataset, device=device)) for chosen in settings.reward]
    audited = [Audited.of(chosen, reward) for chosen, reward in rewards]
    judge, why = open_judge(settings.judge, dataset, device=device, trained=rewards)
    if judge is not None and all(judge is not reward for _, reward in rewards):
        if settings.judge is None:
            item = Audited("judge", judge, kinds=trained_kinds(f"{_STARTER}:judge"))
        else:
            item = Audited.of(settings.judge, judge)
        audited.append(replace(item, name="judge", weight=1.0, summed=False))
    elif why:
        notes.append(why if judge is not None else f"no judge: {why}")
    if (named := find_evaluator(settings.evaluator, SameData(dataset, settings.split), device=device)) is not None:
        notes.append(f"evaluator {named.said}")
        options = {"weights": named.name, "glove": settings.evaluator.glove, "stats": settings.evaluator.stats}
        chosen = choose_one("rewards", _EVALUATOR, options)
        kinds = kinds_of_reward(_EVALUATOR, str(chosen.get("weights", "")))
        audited.append(Audited("evaluator", open_reward(chosen, dataset, device=device), summed=False, kinds=kinds))
    return audited, notes


def _dataset_for(model: FoundModel, chosen: Chosen | None) -> Chosen:
    """Return the dataset to measure a model on.

    Args:
        model: The model.
        chosen: ``--dataset``; None takes that of the model's run, or the starter's for a model of the starter pack.
    """
    if chosen is not None:
        return chosen
    if model.path.partition(":")[0] == _STARTER:
        return choose_one("datasets", _STARTER, {})
    table = model.run.config.get("dataset") if model.run is not None else None
    if (named := choose_from_file("datasets", table)) is not None:
        return named
    raise MotionkitError(
        f"{model.path} does not say what data it was trained on.",
        why="only a run of motionkit knows its dataset.",
        fix="--dataset humanml --dataset.root DIR",
    )
