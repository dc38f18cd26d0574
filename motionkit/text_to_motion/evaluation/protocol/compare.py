"""Paired comparison of policies on the same prompts with the same noise; and the policies that evaluations open."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit import starter
from motionkit.config import Chosen, choose_one
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.evaluation import protocol_reading
from motionkit.contracts.open_model import FoundModel, gives_of_model, open_model
from motionkit.errors import MotionkitError
from motionkit.metrics import FrechetReference, distances, match_hits
from motionkit.metrics.paired import Paired, compare
from motionkit.text_to_motion.evaluation.protocol.figures import EMBEDDED, MOVING, Sheet, ordered
from motionkit.text_to_motion.evaluation.protocol.measure import Embedded, Measurement, Sampling
from motionkit.text_to_motion.evaluation.protocol.tables import titled, tracked
from motionkit.text_to_motion.evaluation.set_figures import (
    pair_distances,
    pair_kid,
    pair_kinetic_fid,
    pair_npss,
)
from motionkit.text_to_motion.findings import is_noise
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.tracking import DOUBTED, NO_CHANGE, Change, definition, table_of

_BATCH = 32
NO_DIFFERENCE = "no difference"
_SMALL = 4_000_000  # parameters of a network below which more threads make it slower


@dataclass(frozen=True)
class Comparison:
    """The result of `compare_policies`."""

    names: list[str]  # the policies; the others are compared with the first
    means: dict[str, dict[str, float]]  # figure of each policy, by quantity
    differences: dict[str, dict[str, Paired]]  # by quantity and other policy
    truth: dict[str, float]  # figures of the reference motions
    missing: dict[str, str] = field(default_factory=dict)  # by quantity, why it could not be measured
    notes: dict[str, str] = field(default_factory=dict)  # by quantity, a remark on its figures
    prompts: int = 0  # prompts per policy
    doubt: str = ""  # why nothing is read off the evaluator's figures; empty if they have verdicts

    def verdict(self, quantity: str, name: str) -> str:
        """Return the verdict on a difference (`motionkit.tracking.Change.verdict`); for no change `NO_DIFFERENCE`."""
        word = self.change(quantity, name).verdict
        return NO_DIFFERENCE if word == NO_CHANGE else word

    def change(self, quantity: str, name: str) -> Change:
        """Return the difference of a policy to the first."""
        pair = self.differences[quantity][name]
        noise = is_noise(self.means.get("jerk", {}).get(name, 0.0), self.truth.get("jerk"))
        return Change(
            quantity, definition(tracked(quantity)), pair.before, pair.after, pair.delta, pair.ci95, pair.n,
            real=self.truth.get(quantity), noise="its motions are noise" if noise else "",
            doubt=self.doubt if quantity in EMBEDDED else "",
            digits=4 if max(abs(pair.before), abs(pair.after)) < 0.1 else 3,  # as many as `_number` shows
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Return the figures as ``--json`` has them."""
        result: dict[str, Any] = {}
        for quantity, means in self.means.items():
            pairs = self.differences.get(quantity, {})
            result[quantity] = {
                "means": means,
                "ground_truth": self.truth.get(quantity),
                "differences": {
                    name: {**pair.document(), "verdict": self.verdict(quantity, name)} for name, pair in pairs.items()
                },
                **({"note": self.notes[quantity]} if quantity in self.notes else {}),
                **({"doubt": self.doubt} if self.doubt and quantity in EMBEDDED else {}),
            }
        result |= {name: {"means": None, "why": why} for name, why in self.missing.items()}
        return result

    def remarks(self) -> list[str]:
        """Return why figures or verdicts are n/a, and remarks on others, each for all quantities that share it."""
        by_reason: dict[str, list[str]] = {}
        for name, why in (self.missing | self.notes).items():
            by_reason.setdefault(f"{'n/a: ' if name in self.missing else ''}{why}", []).append(titled(name))
        said = [f"{', '.join(names)} {why}" for why, names in by_reason.items()]
        if self.doubt and not self.differences.keys().isdisjoint(EMBEDDED):
            said.append(f"the evaluator's figures have no verdict ({DOUBTED}), because {self.doubt}")
        return said

    def table(self, title: str) -> dict[str, Any]:
        """Return a row per quantity: the figure of every policy, then each difference with its interval."""
        base, *others = self.names
        heads = ["", base, *others, "reference"]
        for name in others:
            heads += [f"{name} - {base}" if len(others) > 1 else "difference", "95 %", "verdict"]
        rows: list[tuple[str, ...]] = []
        for quantity in ordered([*self.means, *self.missing]):
            if quantity in self.missing:
                rows.append((titled(quantity), *["n/a"] * len(self.names), *[""] * (len(heads) - len(self.names) - 1)))
                continue
            unit = definition(tracked(quantity)).unit
            row = [f"{titled(quantity)} ({unit})" if unit != "1" else titled(quantity)]
            row += [_number(self.means[quantity][name]) for name in self.names]
            row.append(_number(self.truth[quantity]) if quantity in self.truth else "")
            for name in others:
                if pair := self.differences.get(quantity, {}).get(name):
                    digits = self.change(quantity, name).digits
                    delta, low, high = (f"{value:+.{digits}f}" for value in (pair.delta, *pair.ci95))
                    row += [delta, f"{low} .. {high}", self.verdict(quantity, name)]
                else:
                    row += ["", "", ""]
            rows.append(tuple(row))
        return table_of(title, heads, rows, range(1, len(self.names) + 2))


@torch.no_grad()
def compare_policies(
    policies: Mapping[str, tuple[DiffusionPolicy, Sampling]],
    measurement: Measurement,
    *,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Sample every policy with the same prompts and noise, and compare each with the first.

    Differences are paired by prompt; the interval is a percentile bootstrap over prompts. For the FID, each resample
    gives both covariances, and the reference motions stay fixed. The variance of training seeds is not included.
    """
    evaluator, questions = measurement.evaluator, measurement.questions
    asked = questions.draw(0, measurement.amount.prompts)
    text = evaluator.encode_texts([evaluator.whole_text(question.prompt) for question in asked])
    first = next(iter(policies.values()))[0]
    real_text, real = measurement.real(first, 0)
    reference = measurement.real(first, -1)[1]
    embedded = {name: measurement.generated(policy, how, asked, progress) for name, (policy, how) in policies.items()}
    sheets = {name: measurement.sheet(text, motions, reference, measurement.seed) for name, motions in embedded.items()}
    truth = measurement.sheet(real_text, real, reference, measurement.seed)
    truth.values.pop("npss", None)  # a reference motion is compared with itself
    base, *others = embedded
    columns = {name: _per_prompt(text, motions) for name, motions in embedded.items()}
    means, differences = paired(sheets, columns)
    if "fid" in means:
        real_motions = FrechetReference(reference.motion)
        differences["fid"] = {
            name: _fid_difference(embedded[base].motion, embedded[name].motion, real_motions) for name in others
        }
    if "kid" in means:
        differences["kid"] = {
            name: pair_kid(_rows(embedded[base]), _rows(embedded[name]), reference.motion) for name in others
        }
    sets = _set_differences(embedded, reference, base, others)
    differences |= {name: pairs for name, pairs in sets.items() if name in means}
    merged = Sheet()
    for sheet in sheets.values():
        merged.add(sheet)
    wanted = {*EMBEDDED, *MOVING, "kinetic_fid", "npss"} - {"multimodality"}
    missing = {name: why for name, why in merged.missing.items() if name in wanted}
    names, prompts = list(embedded), measurement.amount.prompts
    return Comparison(names, means, differences, truth.values, missing, merged.notes, prompts)


def paired(
    sheets: Mapping[str, Sheet], columns: Mapping[str, Mapping[str, Tensor]]
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Paired]]]:
    """Return `Comparison.means` and `Comparison.differences` of policies by name, the first of which is the base.

    Args:
        sheets: Figures of each policy; those that all have are compared.
        columns: ``[P]`` of the figures that have a value of each prompt.
    """
    base, *others = sheets
    means: dict[str, dict[str, float]] = {}
    differences: dict[str, dict[str, Paired]] = {}
    for quantity in ordered(sheets[base].values):
        if all(quantity in sheet.values for sheet in sheets.values()):
            means[quantity] = {name: sheet.values[quantity] for name, sheet in sheets.items()}
            if all(quantity in values for values in columns.values()):
                rows = {name: values[quantity].double().cpu().numpy()[:, None] for name, values in columns.items()}
                differences[quantity] = {name: compare(rows[base], rows[name]) for name in others}
    return means, differences


def _per_prompt(text: Tensor, embedded: Embedded) -> dict[str, Tensor]:
    """Return ``[P]`` values of each quantity per prompt; NaN for prompts that do not fill a batch of 32."""
    count, batched = len(text), len(text) // _BATCH * _BATCH
    columns: dict[str, Tensor] = dict(embedded.columns)
    if batched:
        hits = match_hits(text, embedded.motion)
        matched = distances(text[:batched, None], embedded.motion[:batched, None])[:, 0, 0]
        remainder = hits.new_full((count - batched,), torch.nan)
        columns |= {f"r_precision_{k}": torch.cat([row, remainder]) for k, row in enumerate(hits, 1)}
        columns["mm_dist"] = torch.cat([matched.double(), remainder])
    return columns


def _rows(embedded: Embedded) -> NDArray[np.float32]:
    """Return the latents of the motions of P prompts, ``[P, 1, E]``."""
    return embedded.motion.float().cpu().numpy()[:, None]


def _fid_difference(base: Tensor, other: Tensor, reference: FrechetReference) -> Paired:
    def fids(rows: Tensor) -> tuple[float, float]:
        rows = rows.to(base.device)
        return reference.distance(base[rows]), reference.distance(other[rows])

    return pair_distances(fids, len(base), len(base))


def _set_differences(
    embedded: Mapping[str, Embedded], real: Embedded, base: str, others: Sequence[str]
) -> dict[str, dict[str, Paired]]:
    """Return the differences of kinetic FID and NPSS; empty if they cannot be measured."""

    def rows(name: str, *columns: str) -> NDArray[np.float64]:
        result = torch.stack([embedded[name].moving[column] for column in columns], dim=-1)
        return result.double().cpu().numpy()[:, None]

    differences: dict[str, dict[str, Paired]] = {"kinetic_fid": {}, "npss": {}}
    if "kinetic" not in real.moving:
        return differences
    clips = real.moving["kinetic"]
    clips = clips[clips.isfinite().all(1)].cpu()
    terms = ("npss_moved", "npss_power")
    for name in others:
        kinetic = [rows(policy, "kinetic")[..., 0] for policy in (base, name)]
        pairs = {
            "kinetic_fid": pair_kinetic_fid(kinetic[0], kinetic[1], clips),
            "npss": pair_npss(rows(base, *terms), rows(name, *terms)),
        }
        for quantity, pair in pairs.items():
            if pair is not None:
                differences[quantity][name] = pair
    return differences


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def set_threads(policies: Sequence[DiffusionPolicy], wanted: int) -> None:
    """Set torch's CPU threads to `wanted`; for 0 to one if all networks are small."""
    sizes = [sum(parameter.numel() for parameter in policy.network.parameters()) for policy in policies]
    if wanted or max(sizes) < _SMALL:
        torch.set_num_threads(wanted or 1)


def find_policy(path: str, chosen: Chosen) -> FoundModel:
    """Return the text-to-motion policy that a path holds; one that is not motionkit's is left to the chosen plugin."""
    try:
        model = open_model(path)
    except MotionkitError:
        if chosen.label == starter.POLICY:
            raise
        return FoundModel(path, "policies", chosen.label, f"for the policy {chosen.label}")
    gives = gives_of_model(model)
    if gives == "diffusion":
        return model
    if model.kind == "policies":
        protocol = protocol_reading(gives)
        fix = f"motionkit eval {protocol} {shlex.quote(path)} measures it." if protocol else ""
    elif "evaluator" in model.what:
        fix = f"motionkit eval text-to-motion --evaluator {shlex.quote(path)}"
    else:
        fix = f"motionkit eval retrieval {shlex.quote(path)} measures a TMR."
    raise MotionkitError(f"{model.describe()}; what is measured is a policy of text to motion.", fix=fix)


def open_policy(
    model: FoundModel, chosen: Chosen, dataset: TextMotionDataset, *, full: bool, device: torch.device | str
) -> DiffusionPolicy:
    """Open a policy with its moving average and its adapters, and with the options that were given."""
    if chosen.label != model.plugin and model.plugin:
        chosen = choose_one("policies", model.plugin, {})
    given_fields = chosen.options.model_fields_set
    if chosen.get("reference", ""):
        raise MotionkitError(
            "--reference has no effect in eval.",
            why="it is the reference of the KL term in training.",
            fix="leave it out.",
        )
    more: dict[str, object] = {"checkpoint": model.path}
    if full and "padding" in type(chosen.options).model_fields and "padding" not in given_fields:
        more["padding"] = "full"
    # Validated, as the checkpoint of another package's policy may be a path.
    options = type(chosen.options).model_validate({**chosen.options.model_dump(include=given_fields), **more})
    policy: DiffusionPolicy = Chosen(chosen.kind, chosen.name, options).build(device=device, dataset=dataset)
    return policy
