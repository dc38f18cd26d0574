"""`motionkit eval text-to-motion` from opened inputs to the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from motionkit._version import __version__
from motionkit.datasets.base import Split, TextMotionDataset
from motionkit.encoders.t2m._model import T2MEvaluator
from motionkit.encoders.t2m._native import is_native
from motionkit.evaluation._fit import require_fit
from motionkit.evaluation._opened import STARTER, FoundModel
from motionkit.evaluation._real import RealMotions, single_clips
from motionkit.evaluation.text_to_motion._doubt import doubt_of
from motionkit.evaluation.text_to_motion._how import Amount, Sampling
from motionkit.evaluation.text_to_motion._measure import Measurement, Replication
from motionkit.evaluation.text_to_motion._page import page_of
from motionkit.evaluation.text_to_motion._questions import Questions
from motionkit.evaluation.text_to_motion._store import PAGE, ReplicationStore
from motionkit.evaluation.text_to_motion._summary import summarise, table, verdict
from motionkit.policies.base import DiffusionPolicy
from motionkit.rewards.mdm.opening import open_evaluator
from motionkit.rewards.mix import RewardMix
from motionkit.runs import TrainedOn, fingerprint_tensors


@dataclass(frozen=True)
class Opened:
    """Inputs of an evaluation.

    Attributes:
        evaluator: Embeds texts and motions.
        questions: What is asked.
        singles: Clips of single actions behind a composite set, where they are known.
        real: Real motions of the split, by what they do.
        doubt: Why the evaluator's figures would mean nothing; empty when they do.
        dataset: Name of the data.
        split: Their split.
        evaluator_name: ``starter`` or a path.
    """

    evaluator: T2MEvaluator
    questions: Questions
    singles: Questions | None
    real: RealMotions
    doubt: str
    dataset: str
    split: Split
    evaluator_name: str

    def measurement(self, amount: Amount, *, seed: int, batch: int, rewards: RewardMix | None = None) -> Measurement:
        """Return what replications share."""
        return Measurement(
            self.evaluator,
            self.questions,
            actions=self.real.actions,
            amount=amount,
            seed=seed,
            batch=batch,
            doubt=self.doubt,
            singles=self.singles,
            rewards=rewards,
        )


def open_all(
    dataset: TextMotionDataset,
    split: Split,
    policies: Mapping[str, DiffusionPolicy],
    *,
    label: str,
    evaluator: str = STARTER,
    glove: Path | None = None,
    stats: Path | None = None,
    k_segments: int = 0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    trained: TrainedOn | None = None,
) -> Opened:
    """Open the evaluator and the questions, and check that everything fits.

    Args:
        dataset: Where captions and real motions come from.
        split: Which of them.
        policies: What will be asked, by name.
        label: Name of the dataset.
        evaluator: ``starter``, or a folder or file.
        glove: Folder of a released evaluator's ``our_vab`` files.
        stats: Folder of a released evaluator's statistics.
        k_segments: Segments per prompt, of composite data.
        seed: Seed of the draw.
        device: Where the evaluator goes.
        trained: What the policies were trained on, which is not asked for.

    Raises:
        MotionkitError: Something is refused, or does not fit.
    """
    opened = open_evaluator(evaluator, glove=glove, stats=stats, device=device)
    longest = min(policy.max_length for policy in policies.values())
    questions = Questions(dataset, split, longest=longest, k_segments=k_segments, seed=seed, trained=trained)
    asked = [question.prompt for question in questions.draw(0, questions.count)]
    for policy in policies.values():
        require_fit(policy, asked, fps=dataset.fps, label=label)
    opened.use_tokens(questions.tokens())
    source = single_clips(dataset)
    singles = Questions(source, split, longest=longest, seed=seed) if source is not None else None
    real = [*questions.clips] or [*(singles.clips if singles is not None else [])]
    doubt = ""
    if real:
        opened.check_width(real[0].features)
        released = evaluator != STARTER and not is_native(Path(opened.origin))
        doubt = doubt_of(
            opened,
            real,
            released=released,
            dataset=dataset.normalizer,
            known=getattr(dataset, "evaluator_normalizer", None),
        )
    motions = RealMotions(dataset, split, questions.prompts)
    return Opened(opened, questions, singles, motions, doubt, label, split, evaluator)


@dataclass(frozen=True)
class Outcome:
    """The result of an evaluation.

    Attributes:
        document: What ``--json`` prints.
        table: The table, as the command line prints it.
        notes: What to know before comparing.
        sentence: The verdict.
    """

    document: dict[str, Any]
    table: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    sentence: str = ""


def evaluate(
    found: FoundModel,
    policy: DiffusionPolicy,
    opened: Opened,
    how: Sampling,
    amount: Amount,
    out: Path,
    *,
    protocol: str,
    mode: str,
    seed: int = 0,
    batch: int = 64,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Measure a policy, or go on with a measurement that was stopped.

    Args:
        found: Where the policy comes from.
        policy: The policy.
        opened: The other inputs.
        how: How it is sampled.
        amount: How much.
        out: Folder; see `ReplicationStore`.
        protocol: Name of the protocol, for the record.
        mode: Name of the mode, for the record.
        seed: Seed of prompts and noise.
        batch: Motions sampled at once; changes nothing but memory and time.
        overwrite: Replace an evaluation in `out`.
        progress: Called with how many motions are done since its last call, those of earlier attempts included.

    Raises:
        MotionkitError: `out` is refused (exit code 2), or motions are not finite or files cannot be written (1).
    """
    measurement = opened.measurement(amount, seed=seed, batch=batch)
    key = {
        "policy": found.path,
        "policy weights": fingerprint_tensors(policy.tensors()),
        "text model": getattr(policy, "inputs", {}).get("text_model", ""),
        "evaluator": opened.evaluator.fingerprint(),
        "dataset": opened.dataset,
        "data": opened.questions.fingerprint(),
        "split": opened.split,
        "protocol": protocol,
        "mode": mode,
        **{f"amount {name}": value for name, value in vars(amount).items() if name != "replications"},
        "sampler": how.words,
        "timesteps": how.plan.timesteps.tolist(),
        "seed": seed,
        "version": __version__,
    }
    store = ReplicationStore(out, key, overwrite=overwrite)
    sheets: list[Replication] = []
    with store.opened():
        for number in range(amount.replications):
            begun = time.process_time()
            done = store.read(number)
            if done is None:
                done = measurement.replicate(policy, how, number, progress)
                store.write(number, done, time.process_time() - begun)
            elif progress is not None:
                progress(amount.motions)
            sheets.append(done)
        outcome = _outcome(found, opened, how, amount, sheets, protocol=protocol, mode=mode, out=out)
        facts = {name: str(value) for name, value in outcome.document["how"].items()}
        title = f"{found.path}: text to motion, {opened.split} split of {opened.dataset}"
        store.finish(outcome.document, page_of(title, outcome.sentence, facts, outcome.table, outcome.notes))
    return outcome


def _outcome(
    found: FoundModel,
    opened: Opened,
    how: Sampling,
    amount: Amount,
    sheets: list[Replication],
    *,
    protocol: str,
    mode: str,
    out: Path,
) -> Outcome:
    metrics, truth = (summarise([getattr(one, part) for one in sheets]) for part in ("metrics", "truth"))
    notes = _notes(opened, amount, protocol)
    multi = f", MultiModality {amount.mm_prompts} x {amount.mm_repeats}" if amount.mm_prompts else ""
    title = (
        f"{found.path}, {opened.split} split of {opened.dataset}, protocol {protocol}: {amount.prompts} prompts x "
        f"{amount.replications}{multi}; {how.words}"
    )
    sentence = verdict(metrics, truth)
    facts = {
        "policy": found.describe(),
        "dataset": f"{opened.dataset}, {opened.split} split: {opened.questions.count} items, "
        f"{opened.questions.captions} captions",
        "evaluator": f"{opened.evaluator_name}, {opened.evaluator.latent} wide",
        "sampler": how.words,
        "protocol": f"{protocol}, mode {mode}",
        "prompts": f"{amount.prompts} x {amount.replications} replications{multi}",
        "interval": "mean ± 1.96 std / sqrt(replications)",
    }
    document = {
        "policy": found.path,
        "protocol": protocol,
        "mode": mode,
        "replications": amount.replications,
        "prompts": amount.prompts,
        "dataset": opened.dataset,
        "split": opened.split,
        "sampler": how.words,
        "guidance_scale": how.guidance,
        "evaluator": {"name": opened.evaluator_name, "width": opened.evaluator.latent},
        "metrics": metrics,
        "ground_truth": truth,
        "verdict": sentence,
        "notes": notes,
        "how": facts,
        "out": str(out),
        "page": str(out / PAGE),
    }
    return Outcome(document, table(title, {"policy": metrics, "ground truth": truth}), notes, sentence)


def _notes(opened: Opened, amount: Amount, protocol: str) -> list[str]:
    notes = [opened.doubt] if opened.doubt else []
    count, what = opened.questions.count, opened.questions.what
    if said := opened.questions.kept.sentence(what):
        notes.insert(0, said)
    if amount.prompts > count:
        notes.append(
            f"the {opened.split} split has {count} {what}: each is asked {amount.prompts / count:.2g} times per "
            "replication, each time with a new caption, cut and noise, and again only after all others."
        )
    if opened.evaluator_name == STARTER:
        notes.append("figures in the space of the starter's evaluator compare with each other only.")
    elif protocol == "mdm":
        notes.append(
            "MDM's figures compare 1,024 motions with the whole split; others of the field generate all of it."
        )
    return notes
