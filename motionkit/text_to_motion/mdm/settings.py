"""Settings of the Motion Diffusion Model (Tevet et al. 2022), of its plugin and of its training. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from motionkit.config import Chosen, Cli, Group, Place, slot, with_later
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.text_to_motion.pairs.settings import refuse_size
from motionkit.training.settings import OptimSettings, RunSettings, TrainerSettings

Padding = Literal["exact", "full"]
_STEMS = {"clip": ("clip", 512), "bert": ("distilbert", 768)}


class MDMSettings(Group):
    """Architecture and diffusion of an MDM network.

    With ``patch_size=1`` and ``clause_frames=False`` this is the published model (Tevet et al. 2022, arXiv:2209.14916);
    other values are motionkit's extensions. The upper bounds are far above any model in use, and limit the memory that
    an untrusted file can ask for.
    """

    arch: Literal["trans_enc", "trans_dec"] = Field(
        default="trans_enc", description="encoder with a prefix token, or decoder"
    )
    layers: int = Field(default=8, ge=1, le=256, description="transformer layers")
    latent_dim: int = Field(default=512, ge=2, le=16_384, description="features per token")
    num_heads: int = Field(default=4, ge=1, le=16_384, description="attention heads")
    ff_size: int = Field(default=1024, ge=1, le=131_072, description="width of the feed-forward")
    dropout: float = Field(default=0.1, ge=0, lt=1, description="dropout while pretraining")
    emb_trans_dec: bool = Field(default=False, description="time embedding as a prefix of the decoder's input")
    cond_mask_prob: float = Field(default=0.1, ge=0, le=1, description="share of samples trained without text")
    mask_frames: bool = Field(
        default=False, description="frames past a motion's end were never attended to in training"
    )
    diffusion_steps: int = Field(default=50, ge=2, le=10_000, description="steps of the noise schedule")
    noise_schedule: Literal["cosine", "linear"] = Field(default="cosine", description="form of the noise schedule")
    noise_shift: float = Field(
        default=1.0, gt=0, le=1000, description="factor of the noise of each step, relative to the schedule"
    )
    pos_embed_max_len: int = Field(default=5000, ge=1, le=50_000, description="rows of the position table")
    patch_size: int = Field(default=1, ge=1, le=1024, description="frames per token")
    patch_overlap: bool = Field(
        default=False, description="each token writes half a patch into both neighbours' frames; the writings add up"
    )
    clause_frames: bool = Field(default=False, description="each frame is given the text of its own clause")
    context_len: int = Field(default=0, ge=0, le=10_000, description="clean frames that a block continues; 0: no DiP")
    pred_len: int = Field(default=0, ge=0, le=10_000, description="frames of a block of DiP")
    features: int = Field(default=263, ge=1, le=16_384, description="features per frame")
    text_encoder: str = Field(default="clip", description="text encoder's name")
    text_width: int = Field(default=512, ge=1, le=131_072, description="features of the text encoder")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.latent_dim % self.num_heads:
            raise ValueError(f"latent_dim {self.latent_dim} is not a multiple of num_heads {self.num_heads}")
        if self.latent_dim % 2:
            raise ValueError(f"latent_dim {self.latent_dim} must be even")
        if self.patch_overlap and self.patch_size % 2:
            raise ValueError(f"patch_overlap needs an even patch_size, not {self.patch_size}")
        if self.clause_frames and self.arch != "trans_enc":
            raise ValueError("clause_frames needs arch trans_enc")
        if (self.context_len > 0) != (self.pred_len > 0):
            raise ValueError(f"context_len {self.context_len} and pred_len {self.pred_len} must both be above 0, or 0")
        if self.context_len and (self.patch_size > 1 or self.clause_frames):
            raise ValueError("a model with context_len has no patch_size and no clause_frames")
        if self.context_len + self.pred_len >= self.pos_embed_max_len:
            raise ValueError(f"context_len and pred_len do not fit into pos_embed_max_len {self.pos_embed_max_len}")
        return self

    @property
    def token_memory(self) -> bool:
        """Whether the text enters as one token per word (DistilBERT) and not as one vector."""
        return self.arch == "trans_dec" and self.text_encoder == "distilbert"

    def stock_obstacles(self) -> list[str]:
        """Return the settings, as ``name=value``, that the original MDM code cannot express."""
        stock = type(self)()
        names = ["num_heads", "ff_size", "patch_size", "patch_overlap", "clause_frames", "noise_shift"]
        odd = [f"{name}={getattr(self, name)}" for name in names if getattr(self, name) != getattr(stock, name)]
        if self.text_encoder not in ("clip", "distilbert"):
            odd.append(f"text_encoder={self.text_encoder}")
        return odd


def settings_from_args(args: dict[str, Any], *, origin: str) -> MDMSettings:
    """Read the flat args.json of the original code, with its defaults for missing keys; other keys are ignored."""
    arch = str(args.get("arch", "trans_enc"))
    if arch == "gru":
        raise MotionkitError(
            f"{origin}: arch gru is not supported.",
            why="the original GRU runs over the batch axis, so a sample depends on the others in its batch.",
            fix="use a trans_enc or trans_dec checkpoint.",
        )
    if args.get("emb_policy", "add") != "add" or args.get("keyframe_cond_type"):
        policy, keyframes = (str(args.get(name, ""))[:40] for name in ("emb_policy", "keyframe_cond_type"))
        raise MotionkitError(
            f"{origin} is a variant of DiP that motionkit does not run (emb_policy {policy!r}, "
            f"keyframe_cond_type {keyframes!r}).",
            fix="use DiP_no-target_10steps_context20_predict40, or another file with emb_policy add.",
        )
    if args.get("unconstrained") or args.get("cond_mode") == "no_cond":
        raise MotionkitError(f"{origin} is an unconditional model.", why="it ignores text.", fix="use a text model.")
    if args.get("cond_mode") == "action" or args.get("dataset") in ("humanact12", "uestc"):
        raise MotionkitError(f"{origin} is an action-class model.", why="it ignores text.", fix="use a text model.")
    if args.get("predict_epsilon"):
        raise MotionkitError(f"{origin} predicts noise (predict_epsilon).", why="motionkit runs x0 prediction only.")
    if not args.get("sigma_small", True):
        raise MotionkitError(
            f"{origin} samples with the larger variance (sigma_small is false).",
            why="motionkit samples with the posterior variance only.",
            fix="use a checkpoint with sigma_small, as all released ones are.",
        )
    if arch not in ("trans_enc", "trans_dec"):
        raise MotionkitError(f"{origin}: unknown arch {arch!r}.", fix="trans_enc or trans_dec.")
    encoder, width = _STEMS.get(str(args.get("text_encoder_type", "clip")), (str(args.get("text_encoder_type")), 0))
    if encoder == "distilbert" and arch == "trans_enc":
        raise MotionkitError(f"{origin}: trans_enc with a BERT encoder does not exist in MDM.")
    names = MDMSettings.model_fields.keys() - {"text_encoder", "text_width", "features"}
    values = {key: args[key] for key in names if key in args}
    values["arch"] = arch
    if args.get("context_len") and not args.get("pred_len"):
        values["pred_len"] = args["context_len"]  # as the original code reads it
    values |= {"text_encoder": encoder, "text_width": args.get("text_width") or width or 512}
    try:
        return MDMSettings.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error)
        raise MotionkitError(f"{origin}: args.json: {problem}.", fix="mend args.json, or copy it again.") from error


def first_problem(error: ValidationError) -> str:
    """Return the message of the first error, with the name of the setting."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"])
    text = problem["msg"].removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


class MdmModelSettings(Group):
    """Shape of the network; the defaults are the starter policy's, the published model's are in brackets.

    With --init it is that policy's.
    """

    arch: Annotated[Literal["trans_enc", "trans_dec"], Cli("--model.arch")] = Field(
        default="trans_enc", description="Encoder with prefix tokens, or decoder with the text as memory."
    )
    layers: Annotated[int, Cli("--model.layers")] = Field(
        default=4, ge=1, le=256, description="Transformer layers (published: 8)."
    )
    latent_dim: Annotated[int, Cli("--model.latent-dim")] = Field(
        default=160, ge=2, le=16384, description="Features per token (published: 512)."
    )
    num_heads: int = Field(default=4, ge=1, le=1024, description="Attention heads (published: 4).")
    ff_size: int = Field(default=384, ge=1, le=65536, description="Width of the feed-forward (published: 1024).")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout (published: 0.1).")
    emb_trans_dec: bool = Field(default=False, description="Time embedding as a prefix of the decoder's input.")
    patch_size: Annotated[int, Cli("--model.patch-size")] = Field(
        default=4, ge=1, le=1024, description="Frames per token (published: 1)."
    )
    patch_overlap: bool | None = Field(
        default=None,
        description="Tokens also write into half of their neighbours' frames (published: no); default: where the patch "
        "size is even.",
    )
    clause_frames: bool = Field(default=True, description="Each frame gets the text of its clause (published: no).")
    diffusion_steps: int = Field(
        default=50, ge=2, le=10_000, description="Steps of the noise schedule (published: 50 or 1000)."
    )
    noise_schedule: Literal["cosine", "linear"] = Field(default="cosine", description="Form of the noise schedule.")
    noise_shift: float | None = Field(
        default=None,
        gt=0,
        le=1000,
        description="How many times as much noise each step has (published: 1); default: 4, with --init as in that "
        "policy.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_size(self.layers, self.latent_dim, self.ff_size)
        try:
            self.network(0.0)
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
        return self

    def network(self, cond_mask_prob: float) -> MDMSettings:
        """Return the network's settings; features and text width follow from data and encoder."""
        values = self.model_dump()
        if self.patch_overlap is None:
            values["patch_overlap"] = self.patch_size % 2 == 0
        if self.noise_shift is None:
            values["noise_shift"] = 4.0
        return MDMSettings(**values, mask_frames=True, cond_mask_prob=cond_mask_prob)


class MdmTextSettings(Group):
    """The frozen text encoder."""

    encoder: Annotated[Literal["auto", "clip", "distilbert", "minilm", "stored"], Cli("--text.encoder")] = Field(
        default="auto",
        description="auto: the stored table for the starter dataset, minilm for others; with --init as in that policy.",
    )
    model: Annotated[str, Cli("--text.model")] = Field(
        default="", description="Text model, a transformers folder or hub id; default: the local cache."
    )


class MdmTrainSettings(Group):
    """Batches and loss."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(default=64, ge=1, le=65536, description="Clips per step.")
    cond_drop: float = Field(default=0.1, ge=0, le=1, description="Share of samples trained without their text.")
    early: float = Field(
        default=0.0, ge=0, le=1, description="Share of timesteps drawn densest at the noisy end (published: 0)."
    )
    clutter: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="clause_frames only: share of batches whose clips are set among unrelated pieces with unrelated "
        "texts, without loss.",
    )
    mirror: bool = Field(
        default=False,
        description="Train on the mirror image of each clip too, with left and right swapped in its text.",
    )
    velocity: float = Field(
        default=1.0, ge=0, description="Weight of the frame-to-frame differences' error, against jitter (published: 0)."
    )
    joint_velocity: float = Field(
        default=1.0, ge=0, description="Weight of the joint velocities' error, in (m/s)^2 (published: 0)."
    )
    max_weight: float = Field(
        default=5.0,
        ge=1,
        description="Loss weight of a timestep: its signal-to-noise ratio, but at least 1 and at most this "
        "(published: 1).",
    )
    ema: float = Field(default=0.999, ge=0, lt=1, description="Decay of the averaged weights, which are saved.")
    final_rate: float = Field(default=0.02, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    val_every: int = Field(default=250, ge=0, description="Steps between held-out losses; 0 at the end only.")
    val_clips: int = Field(default=256, ge=1, description="Held-out clips used for the loss.")
    samples: int = Field(
        default=256,
        ge=0,
        description="Held-out captions sampled at the end, for FID and the page; 0 samples none.",
    )
    sampling_steps: int | None = Field(
        default=None,
        ge=0,
        description="Steps, densest at the noisy end, in which motionkit generate samples the policy; 0 takes all. "
        "Default: 20, or all of a shorter schedule.",
    )


class PretrainMDMSettings(TrainerSettings):
    """Settings of `motionkit pretrain mdm`."""

    run: RunSettings = RunSettings(num_steps=3000)
    init: Annotated[str, Cli("--init")] = Field(
        default="",
        description="Policy to start from: 'starter', a policy or run folder; its shape, text model and "
        "statistics are kept. Default: random weights.",
    )
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    judge: Chosen | None = slot(
        "rewards",
        None,
        description="Score and space of FID at the end, such as a TMR; default: the starter's judge, on other data the "
        "newest finished evaluator of these (FID alone).",
    )
    model: MdmModelSettings = MdmModelSettings()
    text: MdmTextSettings = MdmTextSettings()
    train: MdmTrainSettings = MdmTrainSettings()
    optim: OptimSettings = OptimSettings(learning_rate=1e-3, weight_decay=0.01, warmup_steps=100)
    motions: int = Field(
        default=4,
        ge=0,
        le=12,
        description="Held-out captions whose motion is kept at the start and when the loss is measured, at most twelve "
        "times, for the page and trackers; 0 keeps none.",
    )

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a run with those that came later: mirror images of clips."""
        return with_later(table, {"train": {"mirror": False}})


class MDMOptions(Group):
    """Options of an MDM policy."""

    checkpoint: Annotated[str, Place(("starter",), hub=True)] = Field(
        default="starter",
        description="'starter', a released model%09d.pt with args.json, or its folder; or a policy or run folder, or "
        "an id of the Hugging Face hub.",
    )
    reference: Annotated[str, Cli("--reference"), Place(("starter",), hub=True)] = Field(
        default="", description="Policy that KL is measured to; default: the policy as it starts."
    )
    stats: Annotated[Path | None, Place()] = Field(
        default=None, description="Folder with Mean.npy and Std.npy; default: the policy's own, else the dataset's."
    )
    text_model: Annotated[str, Place(hub=True, name=True)] = Field(
        default="", description="Text model, a transformers folder or hub id; default: the local cache."
    )
    padding: Literal["exact", "full"] = Field(
        default="exact",
        description="exact: frames past a motion's end are never attended to; full: as in MDM's evaluation.",
    )
    diffusion_steps: int | None = Field(
        default=None,
        ge=2,
        le=10_000,
        description="Steps of the policy's training, if its args.json is wrong: files of the guides' GRPO code "
        "say 1000 whatever their base has.",
    )
    prefix: Annotated[Path | None, Place()] = Field(
        default=None,
        description="DiP only: .npy of features that motions continue; default: the start of the prompt's own motion "
        "in the dataset, else a person who stands still.",
    )


component = Component(
    summary="Motion Diffusion Model: starter, released or motionkit weights",
    options=MDMOptions,
    factory="motionkit.text_to_motion.mdm.open:open_policy",
    exports={"mdm": "motionkit.text_to_motion.mdm.open:export_checkpoint"},
    models="motionkit.text_to_motion.models:MODELS",
    next="motionkit.text_to_motion.next:use_policy",
)


pretrain = Component(
    summary="Train a text-to-motion diffusion model on a dataset (MDM).",
    options=PretrainMDMSettings,
    factory="motionkit.text_to_motion.mdm.train:PretrainMDM",
    sections="motionkit.text_to_motion.evaluation.pages:SECTIONS",
    charts="motionkit.text_to_motion.evaluation.pages:CHARTS",
    findings="motionkit.text_to_motion.findings:FINDINGS",
    metrics="motionkit.text_to_motion.metrics:METRICS",
    models="motionkit.text_to_motion.models:MODELS",
    next="motionkit.text_to_motion.next:after_mdm",
)
