"""The algorithms as plugins, and their options. Imports no torch.

The groups of an algorithm extend and replace the settings' groups of the same name, so that its options are
``rollout.group_size``, ``sampler.window_size``, ``objective.clip_range`` and so on. Groups that several algorithms
share come first, then those of the algorithms on finished samples (`awm`, `dpo`, `nft`), then those of the others. The
components at the end are in the order of the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from motionkit.config import Cli, Group
from motionkit.plugins import Component
from motionkit.text_to_motion.grpo.settings import GrpoOptimSettings, ObjectiveSettings, RolloutSettings
from motionkit.text_to_motion.settings import SamplerSettings
from motionkit.training.settings import RunSettings

_SAMPLES = 2**17  # samples per update; each takes up to 200 KB


GROUPS_ON_GPU: Mapping[str, Any] = {"rollout.prompts": 32, "rollout.group_size": 16, "rollout.micro_batch": 512}
"""Values of ``--preset gpu`` for algorithms that compare groups: more and larger groups, forwards of 512 motions."""


KL_WITHOUT_TEXT: Mapping[str, Any] = {"objective.kl_coef": 0.02}
"""Values for rewards of which none reads the text: the KL to the start."""


class GroupRollout(RolloutSettings):
    """What is sampled before each update: a group of motions per prompt, which are compared to each other."""

    group_size: Annotated[int, Cli("--group-size")] = Field(8, ge=2, le=4096, description="Samples per prompt (G).")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.prompts * self.group_size > _SAMPLES:
            raise ValueError(f"{self.prompts} prompts x {self.group_size} samples are more than {_SAMPLES} per update")
        return self


class TrainSampler(SamplerSettings):
    """How the policy is sampled while it trains and while it is measured."""

    train_timesteps: Annotated[int, Cli("--train-timesteps")] = Field(
        5, ge=1, le=10_000, description="Sampling steps of a rollout: a subset of the trained timesteps."
    )
    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        5, ge=1, le=10_000, description="Sampling steps of the held-out measurement (deterministic DDIM)."
    )
    spacing: Literal["early", "even"] = Field(
        "early", description="Timesteps visited: early is densest at the noisy end, where a motion is decided."
    )
    guidance_scale: Annotated[float, Cli("--guidance-scale")] = Field(
        1.0, ge=0.0, description="Classifier-free guidance of rollouts, training and measurement; 1 is off."
    )


class WindowSampler(TrainSampler):
    """Which steps of a rollout are stochastic, hence trained."""

    window: Literal["fixed", "sliding", "snr"] = Field(
        "fixed",
        description="Steps that are stochastic and trained: always the same, moving from noisy to clean, or the "
        "noisiest ones up to a share of the information.",
    )
    window_start: int = Field(0, ge=0, description="First rollout step that is stochastic and trained.")
    window_size: int = Field(2, ge=0, description="How many rollout steps are stochastic and trained.")
    window_shift: int = Field(1, ge=1, description="Steps that a sliding window moves at a time.")
    window_every: int = Field(25, ge=1, description="Updates after which a sliding window moves.")
    window_share: float = Field(
        0.05, gt=0.0, le=1.0, description="Share of the summed squared sensitivity that window snr trains at most."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        acting = {
            "window_start": ("fixed", "sliding"),
            "window_size": ("fixed", "sliding"),
            "window_shift": ("sliding",),
            "window_every": ("sliding",),
            "window_share": ("snr",),
        }
        return {
            name: f"it acts with sampler.window {' or '.join(kinds)} only"
            for name, kinds in acting.items()
            if self.window not in kinds
        }


class SegmentObjective(ObjectiveSettings):
    """Which frames a reward acts on."""

    credit: Annotated[Literal["sample", "segment"], Cli("--credit")] = Field(
        "segment", description="segment: each segment's advantage weighs its own frames; sample: one for all frames."
    )


class CreditObjective(SegmentObjective):
    """How the rewards of a group become advantages."""

    advantage: Literal["leave-one-out", "global-std", "group-std", "dr-grpo"] = Field(
        "leave-one-out", description="How rewards become advantages; dr-grpo divides by no standard deviation."
    )
    std_floor: float = Field(0.02, ge=0.0, description="Smallest standard deviation an advantage is divided by.")
    advantage_clip: float = Field(5.0, gt=0.0, description="Advantages are clipped to this magnitude.")
    credit_share: float = Field(
        0.0, ge=0.0, le=1.0, description="Share of the whole-sample advantage mixed into each segment's."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        result = {} if self.credit == "segment" else {"credit_share": "it acts with objective.credit segment only"}
        undivided = {"std_floor": "advantage dr-grpo divides by no standard deviation"}
        return result | (undivided if self.advantage == "dr-grpo" else {})


class HoldObjective(ObjectiveSettings):
    """Loss terms besides the negative reward, of algorithms that follow its gradient."""

    own_jerk: ClassVar[float] = 0.12  # weight of `jerk` where it is not given

    anchor: float = Field(
        5.0, ge=0.0, description="Smoothness penalty: keeps motions from jittering more than the reference's; 0 is off."
    )
    hold: float = Field(
        8.0, ge=0.0, description="Weight of the distance to the reference's predictions, times alpha-bar of the step."
    )
    jerk: float | None = Field(
        None, ge=0.0, description="Weight of the log of jerk per speed; default: 0.12, and 0 with a physics reward."
    )
    skate: float | None = Field(
        None, ge=0.0, description="Weight of the foot skate in m/s; default: 0.02, and 0 with a physics reward."
    )
    data: float = Field(
        3.0, ge=0.0, description="Weight of the supervised loss on the dataset's training clips; 0 is off."
    )


class CosineOptim(GrpoOptimSettings):
    """AdamW; the learning rate falls along a cosine."""

    schedule: Literal["constant", "cosine"] = Field("cosine", description="Learning rate after the warm-up.")


class MatchingRollout(GroupRollout):
    """What is sampled before each update."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(16, ge=1, le=16384, description="Prompts per update.")
    group_size: Annotated[int, Cli("--group-size")] = Field(4, ge=2, le=4096, description="Samples per prompt (G).")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")
    micro_batch: int = Field(64, ge=1, description="(sample, timestep) pairs per forward and backward pass.")
    averaged: bool = Field(False, description="Sample with the moving average of the weights (ema.decay).")


class MatchingObjective(ObjectiveSettings):
    """Where finished samples are matched."""

    noisiest: float = Field(
        0.12, gt=0.0, le=1.0, description="Share of the timesteps, from the noisy end, at which samples are matched."
    )
    draws: int = Field(2, ge=1, le=10_000, description="Noised states per sample and pass.")
    inner_epochs: Annotated[int, Cli("--inner-epochs")] = Field(
        1, ge=1, description="Optimiser passes over each rollout."
    )
    anchor: float = Field(
        20.0,
        ge=0.0,
        description="Smoothness penalty: keeps motions from jittering more than the reference's; 0 is off.",
    )
    hold: float = Field(
        8.0, ge=0.0, description="Weight of the distance to the reference's predictions, times alpha-bar of the step."
    )


class MatchingOptions(Group):
    """Options that each of these algorithms has."""

    gpu: ClassVar[Mapping[str, Any]] = GROUPS_ON_GPU
    run: RunSettings = RunSettings(num_steps=200)
    rollout: MatchingRollout = MatchingRollout()
    sampler: TrainSampler = TrainSampler()
    objective: MatchingObjective = MatchingObjective()
    optim: CosineOptim = CosineOptim()


class AwmObjective(MatchingObjective, CreditObjective):
    """The weighted error that is minimised."""

    kl_coef: Annotated[float, Cli("--kl-coef")] = Field(
        0.0, ge=0.0, description="Weight of the closed-form KL to the reference, per dimension."
    )


class AwmOptions(MatchingOptions):
    """Options of the algorithm `awm`."""

    textless: ClassVar[Mapping[str, Any]] = KL_WITHOUT_TEXT

    objective: AwmObjective = AwmObjective()


class DpoObjective(MatchingObjective, SegmentObjective):
    """The preference of a group's best sample to its worst that is learnt."""

    dpo_beta: float = Field(
        5.0, gt=0.0, description="Beta of DPO: a larger one keeps the policy closer to the reference."
    )
    min_gap: float = Field(0.0, ge=0.0, description="Pairs whose rewards differ by no more than this are left out.")


class DpoOptions(MatchingOptions):
    """Options of the algorithm `dpo`."""

    objective: DpoObjective = DpoObjective()


class NftObjective(MatchingObjective, CreditObjective):
    """The errors of an implicit better and an implicit worse policy that are minimised."""

    nft_beta: float = Field(1.0, gt=0.0, description="Distance of the implicit policies from the sampling policy.")


class NftOptions(MatchingOptions):
    """Options of the algorithm `nft`."""

    objective: NftObjective = NftObjective()


class EasyTuneRollout(RolloutSettings):
    """What is sampled before each update: one motion per prompt."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(16, ge=1, le=16384, description="Prompts per update.")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")


class EasyTuneObjective(HoldObjective):
    """Loss terms besides the negative reward of each step's prediction."""

    step_weight: Literal["uniform", "signal"] = Field(
        "uniform", description="Weight of a step's reward; signal: alpha-bar, since early predictions are blurred."
    )


class EasyTuneOptions(Group):
    """Options of the algorithm `easytune`."""

    gpu: ClassVar[Mapping[str, Any]] = {"rollout.prompts": 64}
    run: RunSettings = RunSettings(num_steps=300)
    rollout: EasyTuneRollout = EasyTuneRollout()
    sampler: TrainSampler = TrainSampler()
    objective: EasyTuneObjective = EasyTuneObjective()
    optim: CosineOptim = CosineOptim()


class ExploredRollout(GroupRollout):
    """What is sampled before each update, and which noise tells the samples of a group apart."""

    antithetic: bool = Field(True, description="Samples 2i and 2i+1 of a group use opposite noise in the SDE window.")
    shared_noise: bool = Field(
        True, description="All samples of a group start from the same x_T, so that only trained steps tell them apart."
    )
    low_pass: float = Field(
        0.0,
        ge=0.0,
        description="Explore below this many Hz only: samples of a group share all faster step noise; 0 is off.",
    )
    micro_batch: int = Field(64, ge=1, description="(sample, timestep) pairs per forward and backward pass.")


class GrpoRollout(ExploredRollout):
    """What is sampled before each update: antithetic pairs of many prompts, which differ by slow noise only."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(32, ge=1, le=16384, description="Prompts per update.")
    group_size: Annotated[int, Cli("--group-size")] = Field(2, ge=2, le=4096, description="Samples per prompt (G).")
    low_pass: float = Field(
        3.0,
        ge=0.0,
        description="Explore below this many Hz only: samples of a group share all faster step noise; 0 is off.",
    )


class GrpoSampler(WindowSampler):
    """How the policy is sampled while it trains and while it is measured."""

    kind: Literal["ddim", "ddpm"] = Field("ddim", description="Reverse process of the rollouts.")
    eta: float = Field(1.0, ge=0.0, le=1.0, description="DDIM noise inside the window; outside it is 0.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        result = {"eta": "it is the noise of ddim, and sampler.kind is ddpm"} if self.kind == "ddpm" else {}
        return {**super().idle(), **result}


class GrpoObjective(CreditObjective):
    """The surrogate that is maximised."""

    ratio_norm: Literal["snr", "guard", "none"] = Field(
        "snr", description="Per-step normalisation of the log-ratio, which x0-prediction needs."
    )
    clip_range: Annotated[float, Cli("--clip-range")] = Field(
        0.2, gt=0.0, description="Clip range of the normalised ratio; acts from the second inner epoch on."
    )
    clip_high: float | None = Field(
        None, gt=0.0, description="Upper clip range, if it differs (DAPO: 0.28); default: clip_range."
    )
    kl_coef: Annotated[float, Cli("--kl-coef")] = Field(
        0.0, ge=0.0, description="Weight of the closed-form KL to the reference, per dimension."
    )
    kl_target: float = Field(
        0.0,
        ge=0.0,
        description="KL to the reference (nats per dim) that kl_coef is adapted to, by halving and doubling; 0 is off.",
    )
    anchor: float = Field(
        20.0,
        ge=0.0,
        description="Smoothness penalty: keeps motions from jittering more than the reference's; 0 is off.",
    )
    inner_epochs: Annotated[int, Cli("--inner-epochs")] = Field(
        1, ge=1, description="Optimiser passes over each rollout."
    )
    kl_stop: float = Field(
        0.0,
        ge=0.0,
        description="Leave the inner epochs when the KL to the rollout policy passes this (nats per dim); 0 = never.",
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        later = "it acts from the second of objective.inner_epochs on, which is 1"
        result = dict.fromkeys(("clip_range", "clip_high", "kl_stop"), later) if self.inner_epochs == 1 else {}
        return {**super().idle(), **result}


class GrpoOptions(Group):
    """Options of the algorithm `grpo`."""

    gpu: ClassVar[Mapping[str, Any]] = GROUPS_ON_GPU
    textless: ClassVar[Mapping[str, Any]] = KL_WITHOUT_TEXT
    rollout: GrpoRollout = GrpoRollout()
    sampler: GrpoSampler = GrpoSampler()
    objective: GrpoObjective = GrpoObjective()
    optim: CosineOptim = CosineOptim()


class FlowSampler(WindowSampler):
    """How the policy is sampled while it trains and while it is measured."""

    train_timesteps: Annotated[int, Cli("--train-timesteps")] = Field(
        10, ge=1, le=10_000, description="Sampling steps of a rollout: a subset of the trained timesteps."
    )
    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        40, ge=1, le=10_000, description="Sampling steps of the held-out measurement (deterministic)."
    )
    kind: Literal["flow-sde", "dance-sde", "cps"] = Field(
        "flow-sde", description="Noise of a rollout: Flow-GRPO's, DanceGRPO's, or coefficients-preserving sampling."
    )
    noise_scale: Annotated[float, Cli("--noise-scale")] = Field(
        0.7,
        gt=0.0,
        description="Noise per step. flow-sde: a in a sqrt(t / (1 - t)); dance-sde: the same at all t, 0.3 is usual; "
        "cps: share of the noise that is drawn anew, as sin(a pi / 2), at most 1.",
    )
    window_size: int = Field(4, ge=0, description="How many rollout steps are stochastic and trained.")
    ode_steps: int = Field(
        3, ge=1, le=10_000, description="Steps at the end of a rollout that add no noise, whatever the window."
    )

    @model_validator(mode="after")
    def _share(self) -> Self:
        if self.kind == "cps" and self.noise_scale > 1.0:
            raise ValueError(f"noise_scale is a share in sampler.kind cps: at most 1, not {self.noise_scale:g}")
        return self


class FlowOptions(Group):
    """Options of the algorithm `flow-grpo`."""

    gpu: ClassVar[Mapping[str, Any]] = GROUPS_ON_GPU
    textless: ClassVar[Mapping[str, Any]] = KL_WITHOUT_TEXT
    rollout: ExploredRollout = ExploredRollout()
    sampler: FlowSampler = FlowSampler()
    objective: GrpoObjective = GrpoObjective()


class GradientRollout(RolloutSettings):
    """What is sampled before each update."""

    prompts: Annotated[int, Cli("--batch-size")] = Field(16, ge=1, le=16384, description="Prompts per update.")
    samples: int = Field(1, ge=1, le=8, description="Motions per prompt; objective.diversity needs two.")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")


class GradientSampler(TrainSampler):
    """How the policy is sampled while it trains and while it is measured."""

    jitter: bool = Field(True, description="Draw the timesteps of each rollout around those of the spacing.")


class GradientObjective(HoldObjective):
    """Loss terms besides the negative reward."""

    own_jerk: ClassVar[float] = 0.2

    data: float = Field(
        2.0, ge=0.0, description="Weight of the supervised loss on the dataset's training clips; 0 is off."
    )
    jerk: float | None = Field(
        None, ge=0.0, description="Weight of the log of jerk per speed; default: 0.2, and 0 with a physics reward."
    )

    chain: Literal["all", "first", "last"] = Field(
        "all",
        description="Sampling steps whose network calls are differentiated: all, or the first or last chain_steps.",
    )
    chain_steps: int = Field(1, ge=1, le=10_000, description="K of chain first and last.")
    save_memory: Literal["auto", "on", "off"] = Field(
        "auto", description="Compute each step twice and keep one in memory; auto: for large networks and many steps."
    )
    hold: float = Field(
        4.0, ge=0.0, description="Weight of the distance to the reference's predictions, times alpha-bar of the step."
    )
    diversity: float = Field(
        0.0, ge=0.0, description="Weight of the log of how far the motions of a prompt differ, such as 0.01; 0 is off."
    )


class GradientOptim(CosineOptim):
    """AdamW; the learning rate rises for a few updates, then falls along a cosine."""

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(
        0.0, ge=0.0, description="Peak learning rate; 0 picks 5e-3 for LoRA and 1e-4 for full fine-tuning."
    )
    # A setting, so that runs from before it go on at the rate that they began with (`GrpoSettings.recorded`).
    lora_learning_rate: float = Field(5e-3, gt=0.0, description="Peak learning rate that 0 picks for LoRA.")
    warmup_steps: int = Field(10, ge=0, description="Steps of linear warm-up.")

    def peak(self, *, lora: bool) -> float:
        """Return the peak learning rate; see `GrpoOptimSettings.peak`."""
        return self.learning_rate or (self.lora_learning_rate if lora else self.full_rate)


class GradientOptions(Group):
    """Options of the algorithm `reward-gradient`."""

    gpu: ClassVar[Mapping[str, Any]] = {"rollout.prompts": 64}
    run: RunSettings = RunSettings(num_steps=240)
    rollout: GradientRollout = GradientRollout()
    sampler: GradientSampler = GradientSampler()
    objective: GradientObjective = GradientObjective()
    optim: GradientOptim = GradientOptim()


class MixedRollout(ExploredRollout):
    """What is sampled before each update: small groups, since most of the gradient needs none."""

    group_size: Annotated[int, Cli("--group-size")] = Field(4, ge=2, le=4096, description="Samples per prompt (G).")
    by_length: bool = Field(True, description="Put prompts of similar length into one update, which saves padding.")


class MixedObjective(HoldObjective):
    """Loss terms besides the negative rewards."""

    save_memory: Literal["auto", "on", "off"] = Field(
        "auto", description="Compute each step twice and keep one in memory; auto: for large networks and many steps."
    )


class MixedOptions(Group):
    """Options of the algorithm `mixed`."""

    gpu: ClassVar[Mapping[str, Any]] = {"rollout.prompts": 32}
    run: RunSettings = RunSettings(num_steps=300)
    rollout: MixedRollout = MixedRollout()
    sampler: GrpoSampler = GrpoSampler()
    objective: MixedObjective = MixedObjective()
    optim: CosineOptim = CosineOptim()


grpo = Component(
    summary="Clipped surrogate on the Gaussian reverse steps, with an exact KL",
    options=GrpoOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.grpo:grpo",
)
flow_grpo = Component(
    summary="GRPO on the stochastic flow of a diffusion model: Flow-GRPO, DanceGRPO or CPS",
    options=FlowOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.grpo:flow_grpo",
)
reward_gradient = Component(
    summary="Back-propagation of the reward through the sampler, for rewards that have a gradient",
    options=GradientOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.reward_gradient:RewardGradient",
)
mixed = Component(
    summary="Rewards with a gradient by their gradient, the others by the policy gradient, summed",
    options=MixedOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.mixed:Mixed",
)
easytune = Component(
    summary="Gradient of the reward at each sampling step alone, for networks whose whole chain needs too much memory",
    options=EasyTuneOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.easytune:EasyTune",
)
awm = Component(
    summary="Advantage weighted matching: finished samples are noised and predicted again, more or less of them",
    options=AwmOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.awm:AWM",
)
nft = Component(
    summary="DiffusionNFT: towards good and away from bad samples, between two implicit policies",
    options=NftOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.nft:NFT",
)
dpo = Component(
    summary="Diffusion-DPO on the best and the worst sample of each group",
    options=DpoOptions,
    factory="motionkit.text_to_motion.grpo.algorithms.dpo:DPO",
)
