"""`motionkit eval text-to-motion`: opens the inputs, measures, and writes replications, the result and its page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.evaluation import KIND, RECORD, find_record
from motionkit.contracts.open_model import STARTER, FoundModel
from motionkit.contracts.protocol import Result
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.page.html import definitions, details, note, result_page
from motionkit.page.html import table as page_table
from motionkit.runs import LOCK, TrainedOn, disk_errors, fingerprint_tensors, hold, write_bytes_atomic
from motionkit.text_to_motion.evaluation.judge import require_fit
from motionkit.text_to_motion.evaluation.protocol.figures import EMBEDDED, QUANTITIES, Sheet, ordered
from motionkit.text_to_motion.evaluation.protocol.measure import (
    Amount,
    Measurement,
    Questions,
    Replication,
    Sampling,
    amount_of,
)
from motionkit.text_to_motion.evaluation.protocol.prompts_alone import PromptsAlone
from motionkit.text_to_motion.evaluation.protocol.tables import explain, summarise, table, verdict
from motionkit.text_to_motion.evaluation.real_motions import RealMotions, single_clips
from motionkit.text_to_motion.evaluation.same_data import Named, evaluator_doubt, evaluator_notes
from motionkit.text_to_motion.evaluation.styles import Styles, captions_of, styles_of
from motionkit.text_to_motion.evaluator.files import doubt_of, is_native, open_evaluator
from motionkit.text_to_motion.evaluator.model import T2MEvaluator
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.version import __version__

PAGE, FOLDER = "evaluation.html", "replications"


def page_of(title: str, result: Result) -> str:
    """Return the page of an evaluation."""
    (shown,), document = result.tables, result.document
    parts = [
        "<h2>Figures</h2>",
        page_table(shown["columns"], shown["rows"], numbers=shown["numbers"]),
        *(note(text) for text in document["notes"]),
        "<h2>How it was measured</h2>",
        definitions(document["how"]),
    ]
    explained = explain(ordered([*QUANTITIES, *document["metrics"]]))
    meaning = {name: f"{text} Unit {unit}; better: {better}." for name, unit, better, text in explained}
    parts.append(details("What each figure means", definitions(meaning), opened=True))
    return result_page(title, [document["verdict"]], parts, made_by="eval")


class ReplicationStore:
    """The folder of an evaluation, with a file per replication, so that it can be resumed."""

    def __init__(self, path: Path, key: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.path = path
        self._key = json.loads(json.dumps(key, default=str))
        self._overwrite = overwrite

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Claim the folder and lock it while the block runs; yields the number of replications in it."""
        before = self._before()
        with disk_errors("make the folder", self.path, code=2):
            (self.path / FOLDER).mkdir(parents=True, exist_ok=True)
        with hold(self.path):
            if before is None or self._overwrite:
                for file in sorted((self.path / FOLDER).glob("[0-9]*.json")):
                    file.unlink()
                self._write(RECORD, {"kind": KIND, "schema": 1, "status": "running", "settings": self._key})
            yield sum(1 for _ in (self.path / FOLDER).glob("[0-9]*.json"))

    def read(self, number: int) -> Replication | None:
        """Return a stored replication, or None."""
        file = self.path / FOLDER / f"{number:04d}.json"
        if not file.is_file():
            return None
        document = read_json(file, dict, fix="delete that file, and it is measured again.")
        try:
            return Replication(*(_sheet(document[part]) for part in ("metrics", "ground_truth")))
        except (KeyError, TypeError, ValueError) as error:
            raise MotionkitError(
                f"{file} is damaged.", why=str(error), fix="delete that file, and it is measured again."
            ) from error

    def write(self, number: int, replication: Replication, seconds: float) -> None:
        """Store a replication."""
        parts = {"metrics": replication.metrics, "ground_truth": replication.truth}
        document = {name: vars(sheet) for name, sheet in parts.items()}
        self._write(f"{FOLDER}/{number:04d}.json", {"replication": number, "seconds": seconds, **document})

    def finish(self, document: Mapping[str, Any], page: str) -> None:
        """Write the result and its page."""
        with disk_errors("write the page", self.path):
            write_bytes_atomic(self.path / PAGE, page.encode())
        record = {"kind": KIND, "schema": 1, "status": "done", "settings": self._key, "result": dict(document)}
        self._write(RECORD, record)

    def _before(self) -> dict[str, Any] | None:
        """Return the record of an evaluation that may be resumed or replaced; None for a new folder."""
        record = find_record(self.path, besides={FOLDER, LOCK})  # left by a run that stopped before the first result
        if record is None or self._overwrite:
            return record
        if record.get("status") == "done":
            raise MotionkitError(
                f"{self.path} holds a finished evaluation.", fix="choose another --out, or --overwrite it."
            )
        settings = record.get("settings")
        changed = [
            name for name, value in self._key.items() if not isinstance(settings, dict) or settings.get(name) != value
        ]
        if changed:
            raise MotionkitError(
                f"{self.path} holds an evaluation with another {', '.join(changed)}.",
                why="its replications would not be repetitions of one measurement.",
                fix="give the same options to resume it, choose another --out, or --overwrite it.",
            )
        return record

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
        with disk_errors(f"write {name}", self.path):
            write_bytes_atomic(self.path / name, text.encode(errors="backslashreplace"))


def _sheet(document: Mapping[str, Any]) -> Sheet:
    values = {str(name): float(value) for name, value in document["values"].items()}
    missing, notes = ({str(k): str(v) for k, v in document[name].items()} for name in ("missing", "notes"))
    return Sheet(values, missing, notes)


@dataclass(frozen=True)
class Opened:
    """Inputs of an evaluation."""

    named: Named  # the evaluator
    questions: Questions
    singles: Questions | None  # the single clips that a composite set was made from, if they are known
    real: RealMotions  # reference motions of the split, by action
    doubt: str  # why the evaluator's figures are not valid; empty if they are
    dataset: str  # the plugin that reads the data
    called: str  # the data in words (`motionkit.contracts.dataset.called`)
    split: Split
    styles: Mapping[str, Styles]  # of captions that name a style
    command: str = ""  # trains an evaluator of these data

    @property
    def evaluator(self) -> T2MEvaluator:
        """The network of the evaluator."""
        return self.named.evaluator

    @property
    def marks(self) -> dict[str, str]:
        """Fingerprints of evaluator and data."""
        return {"dataset": self.questions.fingerprint(), "evaluator": self.evaluator.fingerprint()}

    @property
    def count(self) -> int:
        """Number of items to ask for."""
        return self.questions.count

    def amount(self, mode: str, protocol: str, *, starter: bool, replications: int, limit: int) -> tuple[str, Amount]:
        """Return the name of the mode that is used, and its amount; see `amount_of`."""
        return amount_of(mode, protocol, starter=starter, available=self.count, replications=replications, limit=limit)

    @property
    def by(self) -> str:
        """Who measures, for titles."""
        return self.named.words

    @property
    def about(self) -> dict[str, Any]:
        """The evaluator, for documents."""
        return {"name": self.named.name, "said": self.named.said, "width": self.evaluator.latent}

    @property
    def facts(self) -> dict[str, str]:
        """Data and evaluator in words, for the page."""
        return {
            "dataset": f"{self.called}, {self.split} split: {self.count} items, {self.questions.captions} captions",
            "evaluator": f"{self.named.said}, {self.evaluator.latent} wide",
        }

    def doubts(self, real_r3: float | None) -> list[str]:
        """Return why the evaluator's figures say little, by its R@3 of reference motions."""
        return evaluator_notes(self.named, self._asked, real_r3, self.command)

    def doubted(self, real_r3: float | None) -> str:
        """Return why the evaluator's figures have no verdict; empty if they have."""
        return evaluator_doubt(self.named, self._asked, real_r3)

    def repeated(self, prompts: int) -> str:
        """Return how often each item is used for so many prompts; empty if at most once."""
        count, items = self.questions.count, self.questions.what
        if prompts <= count:
            return ""
        return (
            f"the {self.split} split has {count} {items}: each is used {prompts / count:.2g} times, "
            "each time with a new caption, crop and noise, and again only after all others."
        )

    @property
    def _asked(self) -> list[str]:
        asked = [clip.captions[0] for clip in self.questions.clips]
        return asked or [text for prompt in self.questions.prompts for text in prompt.segments]

    def measurement(self, amount: Amount, *, seed: int, batch: int, rewards: RewardMix | None = None) -> Measurement:
        """Return the measurement that replications share."""
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
            styles=self.styles,
        )


def open_all(
    dataset: TextMotionDataset,
    split: Split,
    policies: Mapping[str, DiffusionPolicy],
    *,
    label: str,
    called: str = "",
    evaluator: Named | None = None,
    command: str = "",
    k_segments: int = 0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    trained: TrainedOn | None = None,
) -> Opened:
    """Open the questions, and check that they and the evaluator fit the policies; without one it is the starter's."""
    named = evaluator or Named(open_evaluator(device=device), STARTER, "of the starter pack")
    embedder = named.evaluator
    longest = min(policy.max_length for policy in policies.values())
    questions = Questions(dataset, split, longest=longest, k_segments=k_segments, seed=seed, trained=trained)
    asked = [question.prompt for question in questions.draw(0, questions.count)]
    for policy in policies.values():
        require_fit(policy, asked, fps=dataset.fps, label=label)
    embedder.use_tokens(questions.tokens())
    source = single_clips(dataset)
    singles = Questions(source, split, longest=longest, seed=seed) if source is not None else None
    clips = questions.clips or (singles.clips if singles is not None else ())
    doubt = ""
    if clips:
        embedder.check_width(clips[0].features)
        released = named.name != STARTER and not is_native(Path(embedder.origin))
        known = dataset.evaluator_normalizer
        doubt = doubt_of(embedder, clips, released=released, dataset=dataset.normalizer, known=known)
    motions = RealMotions(dataset, split, questions.prompts)
    styles = styles_of(captions_of(dataset, split))
    return Opened(named, questions, singles, motions, doubt, label, called or label, split, styles, command)


def evaluate(
    model: FoundModel,
    policy: DiffusionPolicy,
    opened: Opened | PromptsAlone,
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
) -> Result:
    """Measure a policy, or resume a measurement that was stopped.

    Args:
        model: Model of the policy, with its run.
        policy: What is measured.
        opened: The other inputs.
        how: How it is sampled.
        amount: How much is sampled.
        out: Folder of the `ReplicationStore`.
        protocol: Name of the protocol, for the record.
        mode: Name of the mode, for the record.
        seed: Seed of prompts and noise.
        batch: Motions sampled at once; changes memory and time only.
        overwrite: Replace an evaluation in `out`.
        progress: Called with the number of motions since its last call, those of earlier attempts included.
    """
    measurement, marks = opened.measurement(amount, seed=seed, batch=batch), opened.marks
    key = {
        "policy": model.path,
        "policy weights": fingerprint_tensors(policy.tensors()),
        "text model": (policy.inputs or {}).get("text_model", ""),
        "evaluator": marks.get("evaluator", ""),
        "dataset": opened.dataset,
        "data": marks["dataset"],
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
            replication = store.read(number)
            if replication is None:
                replication = measurement.replicate(policy, how, number, progress)
                store.write(number, replication, time.process_time() - begun)
            elif progress is not None:
                progress(amount.motions)
            sheets.append(replication)
        result = _result(model, opened, how, amount, sheets, protocol=protocol, mode=mode, out=out)
        title = f"{model.path}: text to motion, {opened.split} split of {opened.called}"
        store.finish(result.document, page_of(title, result))
    return result


def _result(
    model: FoundModel,
    opened: Opened | PromptsAlone,
    how: Sampling,
    amount: Amount,
    sheets: list[Replication],
    *,
    protocol: str,
    mode: str,
    out: Path,
) -> Result:
    metrics, truth = (summarise([getattr(sheet, part) for sheet in sheets]) for part in ("metrics", "truth"))
    real_r3 = truth.get("r_precision_3", {}).get("mean")
    notes, doubt = list[str](), ""
    if isinstance(opened, Opened):
        notes, doubt = _notes(opened, amount, protocol, real_r3), opened.doubted(real_r3)
    for name in EMBEDDED if doubt else ():
        for block in (metrics.get(name), truth.get(name)):
            if block is not None and block["mean"] is not None:
                block["note"] = "; ".join(filter(None, (block.get("note"), f"says little: {doubt}")))
    multi = f", MultiModality {amount.mm_prompts} x {amount.mm_repeats}" if amount.mm_prompts else ""
    # Protocols and modes say how clips are asked for.
    asked = {"protocol": protocol, "mode": mode} if isinstance(opened, Opened) else {}
    title = (
        f"{model.path}, {opened.split} split of {opened.called}{f', protocol {protocol}' if asked else ''}: "
        f"{amount.prompts} prompts x {amount.replications}{multi}; {how.words}{opened.by and f'; {opened.by}'}"
    )
    sentence = verdict(metrics, truth, doubt)
    facts = {
        "policy": model.describe(),
        **opened.facts,
        "sampler": how.words,
        **({"protocol": f"{protocol}, mode {mode}"} if asked else {}),
        "prompts": f"{amount.prompts} x {amount.replications} replications{multi}",
        "interval": "mean ± 1.96 std / sqrt(replications)",
    }
    document = {
        "policy": model.path,
        **asked,
        "replications": amount.replications,
        "prompts": amount.prompts,
        "dataset": opened.dataset,
        "split": opened.split,
        "sampler": how.words,
        "guidance_scale": how.guidance,
        "evaluator": opened.about,
        "metrics": metrics,
        "ground_truth": truth,
        "verdict": sentence,
        "notes": notes,
        "how": facts,
        "out": str(out),
        "page": str(out / PAGE),
    }
    shown = table(title, {"policy": metrics, **({"reference": truth} if truth else {})})
    return Result(document, tables=[shown], closing=[*notes, sentence, f"page: {document['page']}"])


def _notes(opened: Opened, amount: Amount, protocol: str, real_r3: float | None) -> list[str]:
    notes = [opened.doubt] if opened.doubt else []
    if left_out := opened.questions.kept.sentence(opened.questions.what):
        notes.insert(0, left_out)
    if repeated := opened.repeated(amount.prompts):
        notes.append(repeated)
    notes += opened.doubts(real_r3)
    if opened.named.name == STARTER:
        notes.append("figures in the space of the starter's evaluator compare with each other only.")
    elif protocol == "mdm":
        notes.append("MDM's figures compare 1,024 motions with the whole split; other work generates all of it.")
    return notes
