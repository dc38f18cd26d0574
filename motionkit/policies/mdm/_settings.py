"""Shape of an MDM network and its diffusion, as in args.json. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from motionkit.config import Group
from motionkit.errors import MotionkitError

Padding = Literal["exact", "full"]


class MDMSettings(Group):
    """Everything that fixes an MDM network, independent of its weights.

    With ``patch_size=1`` and ``clause_frames=False`` this is the published model (Tevet et al. 2022, arXiv:2209.14916);
    the other two are motionkit's extensions. The upper bounds are far above any model in use: a description from a file
    must not cause any amount of memory or time.
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
        default=1.0, gt=0, le=1000, description="how many times as much noise each step has as the schedule says"
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


_STEMS = {"clip": ("clip", 512), "bert": ("distilbert", 768)}


def settings_from_args(args: dict[str, Any], *, origin: str) -> MDMSettings:
    """Read the flat args.json of the original code.

    Args:
        args: Parsed file. Keys that old files lack take the original code's defaults; keys that do not concern the
            network are ignored.
        origin: File, for messages.

    Raises:
        MotionkitError: An architecture motionkit does not run, with the reason.
    """
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
    given = {key: args[key] for key in names if key in args}
    given["arch"] = arch
    if args.get("context_len") and not args.get("pred_len"):
        given["pred_len"] = args["context_len"]  # as the original code reads it
    given |= {"text_encoder": encoder, "text_width": args.get("text_width") or width or 512}
    try:
        return MDMSettings.model_validate(given)
    except ValidationError as error:
        problem = first_problem(error)
        raise MotionkitError(f"{origin}: args.json: {problem}.", fix="mend args.json, or copy it again.") from error


def first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong, with the name of the setting."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"])
    text = problem["msg"].removeprefix("Value error, ")
    return f"{name}: {text}" if name else text
