"""Settings of ``eval text-to-motion``, ``compare``, ``retrieval`` and ``sensitivity``. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from motionkit.config import Chosen, Cli, Group, slot, slots
from motionkit.contracts.protocol import (
    DATA_HELP,
    DEVICE_HELP,
    SPLIT_HELP,
    Argument,
    ProtocolSettings,
    Split,
    dataset_plan,
)
from motionkit.plugins import Component
from motionkit.text_to_motion.settings import PromptSettings

AUTO, NONE = "auto", "none"
"""Words for the evaluator of the data, and for no evaluator."""


class EvaluatorSettings(Group):
    """The evaluator whose embeddings are compared."""

    weights: Annotated[str, Cli("--evaluator", panel="What")] = Field(
        AUTO,
        description="'starter', finest.tar, a folder with it, or a run of pretrain t2m-evaluator; auto: the newest "
        "finished run on the same data, else the starter's.",
    )
    glove: Annotated[Path | None, Cli("--glove", panel="What")] = Field(
        None, description="Folder of our_vab_*, the words of a released evaluator; looked for above it."
    )
    stats: Annotated[Path | None, Cli("--evaluator-stats", panel="What")] = Field(
        None, description="Folder with mean and std of a released evaluator; looked for above it."
    )


class EvalPrompts(PromptSettings):
    """Prompts of an evaluation."""

    k_segments: Annotated[int, Cli("--k-segments")] = Field(
        0, ge=0, le=1000, description="Segments per prompt of a composite set; must be the set's own."
    )
    limit: Annotated[int, Cli("--limit")] = Field(
        0, ge=0, le=1_000_000, description="Prompts per replication; 0: 1,024 (mdm) or the whole split."
    )


class EvalSampler(Group):
    """How policies are sampled."""

    kind: Annotated[Literal["auto", "ddpm", "ddim"], Cli("--sampler")] = Field(
        "auto",
        description="ddpm: ancestral, as MDM is evaluated; ddim: deterministic; auto: the policy's own, ddpm for MDM; "
        "on starter data ddim in a few steps.",
    )
    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        0,
        ge=0,
        le=10_000,
        description="Sampling steps; 0: the few of --sampler auto, else the policy's number, else all.",
    )
    guidance_scale: Annotated[float | None, Cli("--guidance-scale")] = Field(
        None, ge=0, description="Classifier-free guidance scale; default: that of the run or the policy, else 2.5."
    )


class MotionSettings(ProtocolSettings):
    """Settings that all commands that measure policies have."""

    policy: Chosen = slot("policies", "mdm", gives="diffusion")
    dataset: Chosen | None = slot("datasets", None, description=DATA_HELP, gives=("text-motion", "composite"))
    split: Split = Field("val", description=SPLIT_HELP)
    protocol: Annotated[Literal["mdm", "whole"], Cli("--protocol", panel="What")] = Field(
        "mdm",
        description="mdm: 1,024 prompts, padded frames attended to, as MDM is evaluated; whole: every clip of the "
        "split once, as T2M, MLD and MoMask are.",
    )
    evaluator: EvaluatorSettings = EvaluatorSettings()
    prompts: EvalPrompts = EvalPrompts()
    sampler: EvalSampler = EvalSampler()
    batch_size: Annotated[int, Cli("--batch-size", panel="Sampler")] = Field(
        64, ge=1, le=10_000, description="Motions sampled at once; changes memory and time only."
    )
    seed: Annotated[int, Cli("--seed", panel="Sampler")] = Field(0, ge=0, description="Seed of prompts and noise.")
    device: Annotated[str, Cli("--device", panel="Run")] = Field("auto", description=DEVICE_HELP)
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0: one for networks as small as the starter's, else torch's choice."
    )


class TextToMotionSettings(MotionSettings):
    """Measure a policy as the field does: R-precision, MM-Dist, FID, Diversity, MultiModality, and physics.

    A folder gets a file per replication and evaluation.html. Without POLICY the starter's policy is measured.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("POLICY", "Run, policy folder or model%09d.pt; default: the starter's.", ""),
    )
    explains: ClassVar[bool] = True

    mode: Annotated[Literal["auto", "wo_mm", "mm_short", "debug", "full"], Cli("--mode", panel="What")] = Field(
        "auto",
        description="wo_mm: 20 replications; mm_short: 5, with MultiModality 100 x 30; debug: 5; full: 20, with "
        "MultiModality; auto: wo_mm, on starter data 5 with MultiModality 50 x 10.",
    )
    replications: Annotated[int, Cli("--replications", panel="What")] = Field(
        0, ge=0, le=1000, description="Repetitions with new prompts and noise; 0: those of the mode."
    )
    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Folder of the result; the same command with it resumes after a stop."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an evaluation in that folder."
    )

    def plan(self, policy: str) -> Mapping[str, object]:
        """Return the dataset, which may depend on the model's run."""
        return dataset_plan(policy, self.dataset)


class CompareSettings(MotionSettings):
    """Ask several policies the same prompts with the same noise, and compare each with the first.

    The interval of a difference is a bootstrap over prompts; "no difference" if it contains 0.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("POLICY...", "Runs, policy folders, files, or starter; first: base.", many=True),
    )

    judge: Chosen | None = slot("rewards", None, description="A reward to measure as well, paired in the same way.")
    published: Annotated[bool, Cli("--published", panel="Output")] = Field(
        False, description="Also show published figures, with a note on which of them compare."
    )
    format: Annotated[Literal["table", "markdown", "latex", "csv"], Cli("--format", panel="Output")] = Field(
        "table", description="Format of the tables on stdout; --json has all figures."
    )

    def plan(self, policies: Sequence[str]) -> Mapping[str, object]:
        """Return the dataset, which may depend on the model's run."""
        return dataset_plan(policies[0], self.dataset)


class RetrievalSettings(ProtocolSettings):
    """Measure a text-motion retrieval model by TMR's four protocols, in both directions and for both rules of ties."""

    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("TMR", "Run of pretrain tmr, TMR folder or file; default: the starter's.", "starter"),
    )

    dataset: Chosen | None = slot("datasets", None, description=DATA_HELP, gives=("text-motion", "composite"))
    split: Split = Field("val", description=SPLIT_HELP)
    stats: Annotated[Path | None, Cli("--stats")] = Field(None, description="Folder with TMR's own mean and std.")
    text_model: Annotated[str, Cli("--text-model")] = Field(
        "", description="Text model: name, folder, hub id, or precomputed token_embeddings folder."
    )
    threshold: Annotated[float, Cli("--threshold")] = Field(
        0.95, ge=0, le=1, description="Protocol threshold: captions count as equal from a cosine of 2 X - 1 on."
    )
    nsim: Annotated[Path | None, Cli("--nsim")] = Field(
        None, description="Protocol nsim: file with one clip id per line; default: 100 items are chosen."
    )
    device: Annotated[str, Cli("--device")] = Field("auto", description=DEVICE_HELP)
    threads: Annotated[int, Cli("--threads")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0 leaves the choice to torch."
    )

    def plan(self, model: str) -> Mapping[str, object]:
        """Return the dataset, which may depend on the model's run."""
        return dataset_plan(model, self.dataset)


class OptionalEvaluator(EvaluatorSettings):
    """An evaluator that may be absent."""

    weights: Annotated[str, Cli("--evaluator", panel="What")] = Field(
        AUTO,
        description="'starter', finest.tar, a folder with it, a run of pretrain t2m-evaluator, or none; auto: the "
        "starter's on starter data, else the newest finished run on the same data.",
    )


class SensitivitySettings(ProtocolSettings):
    """Measure what a reward does not see: reference clips are changed, each in one way, and scored again.

    Seen is the fall in score due to a change, as a share of the fall due to an unrelated caption. A folder gets the
    figures and sensitivity.html.
    """

    arguments: ClassVar[tuple[Argument, ...]] = ()

    dataset: Chosen | None = slot(
        "datasets",
        None,
        description="Source of the clips; default: the data of the run that made a reward, or the starter's.",
        gives=("text-motion", "composite"),
    )
    reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",), reads="motion", description="Rewards to audit.")
    judge: Chosen | None = slot(
        "rewards", None, description="A judge to audit as well; default: the starter's own on starter data."
    )
    evaluator: OptionalEvaluator = OptionalEvaluator()
    split: Split = Field("val", description="Split of the clips; the use of test is recorded.")
    clips: Annotated[int, Cli("--clips", panel="What")] = Field(
        288, ge=0, le=1_000_000, description="Most clips per change, spread over the split; 0: all that it applies to."
    )
    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Folder of the result and of sensitivity.html; default: one below runs/eval-sensitivity."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an evaluation in that folder."
    )
    seed: Annotated[int, Cli("--seed", panel="Run")] = Field(
        0, ge=0, lt=2**31, description="Seed of random changes and of the unrelated captions."
    )
    device: Annotated[str, Cli("--device", panel="Run")] = Field("auto", description=DEVICE_HELP)
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0: one on a small machine, else torch's choice."
    )


text_to_motion = Component(
    summary="Measure a policy as the field does: R-precision, FID, Diversity, physics",
    options=TextToMotionSettings,
    factory="motionkit.text_to_motion.evaluation.protocols:TextToMotion",
    reads="diffusion",
)
compare = Component(
    summary="Compare policies on the same prompts with the same noise",
    options=CompareSettings,
    factory="motionkit.text_to_motion.evaluation.protocols:Compare",
    reads="several",
)
retrieval = Component(
    summary="Measure a text-motion retrieval model by TMR's protocols",
    options=RetrievalSettings,
    factory="motionkit.text_to_motion.evaluation.protocols:Retrieval",
    reads="retrieval",
)
sensitivity = Component(
    summary="Measure what a reward does not see",
    options=SensitivitySettings,
    factory="motionkit.text_to_motion.evaluation.protocols:Sensitivity",
    reads="reward",
)
