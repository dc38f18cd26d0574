"""The policy and what goes with it, as components, and the definitions of what is measured. It imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from motionkit.config import Chosen, Cli, Group, Place, slot
from motionkit.contracts.protocol import Argument, ProtocolSettings
from motionkit.plugins import Component, Metric
from motionkit.runs import RunInfo
from motionkit.runs.forms import POLICY, POLICY_DOCUMENT, ModelForm
from motionkit.text_to_motion.next import use_policy as after_training
from motionkit.text_to_motion.settings import LoraSettings
from motionkit.training.settings import OptimSettings, RunSettings, TrainerSettings
from motionkit_policy_kimodo import FPS, LONGEST

_PACKAGE = "motionkit_policy_kimodo"

File = Annotated[Path | None, Place()]
Model = Annotated[str, Place(hub=True)]
TmrSoma = Annotated[Model, Field(description="Folder of TMR-SOMA, or its id on the Hugging Face hub.")]
TMR_SOMA = "nvidia/TMR-SOMA-RP-v1"

_PAIRS = {"t2m": "texts whose own motion", "m2m": "motions whose true motion", "t2m_gt": "texts whose true motion"}
_SETS = {"gen_gt": "motions and true motions", "gt_text": "true motions and texts", "gen_text": "motions and texts"}

_ROWS = (
    ("skate_height", "m/s", "down", "Mean speed of toes below 5 cm.", "foot skate, by height"),
    ("skate_contacts", "m/s", "down", "Mean speed of feet where the model says contact.", "foot skate, by contacts"),
    ("skate_most", "m/s", "down", "Largest speed of feet where the model says contact.", "largest foot skate"),
    ("skate_ratio", "1", "down", "Share of the toes on the floor that are faster than 0.2 m/s.", "sliding toes"),
    ("consistency", "1", "up", "Share of the model's contacts that agree with speed and height.", "right contacts"),
    ("path_error", "m", "down", "Distance to the path that a prompt gives, on its frames.", "error of the path"),
    ("effectors_error", "m", "down", "Distance of joints to where a prompt wants them.", "error of joints"),
    *(
        (f"{pair}_R{k:02d}", "%", "up", f"Share of {who} is among the {k} nearest, by TMR-SOMA.", f"{pair} R@{k}")
        for pair, who in _PAIRS.items()
        for k in (1, 2, 3, 5, 10)
    ),
    *(
        (f"{pair}_MedR", "1", "down", f"Median rank of {who} is looked for, by TMR-SOMA.", f"{pair} median rank")
        for pair, who in _PAIRS.items()
    ),
    *(
        (f"FID_{name}", "1", "down", f"Frechet distance of {both}, by TMR-SOMA.", f"FID {name}")
        for name, both in _SETS.items()
    ),
)  # fmt: skip

METRICS = tuple(
    Metric(f"heldout/{name}", unit, better, meaning, label, short=True)  # type: ignore[arg-type]  # up or down, which mypy takes for str
    for name, unit, better, meaning, label in _ROWS
)


class KimodoOptions(Group):
    """Options of a Kimodo policy."""

    gpu: ClassVar[Mapping[str, Any]] = {"rollout.micro_batch": 16}  # the released size then fits into 24 GB

    checkpoint: Model = Field(
        "",
        description="Folder of a Kimodo model or its id, such as nvidia/Kimodo-SOMA-RP-v1.1; or a run that tuned one.",
    )
    reference: Annotated[Model, Cli("--reference")] = Field(
        "", description="Model that KL is measured to; default: the policy as it starts."
    )
    embeddings: File = Field(
        None, description="Table of text vectors, by motionkit kimodo-embed; default: that of the run."
    )
    body: File = Field(
        None, description="Joints of SMPL-X, for models of that body: joints.p of your Kimodo, or an SMPL-X file."
    )
    heading: float = Field(0.0, ge=-7, le=7, description="First heading of prompts without one, radians; 0 is +Z.")
    constraints: File = Field(
        None, description="Constraints of prompts without any, a JSON file as Kimodo's demo saves it."
    )
    constraint_guidance: float = Field(2.0, ge=0, le=100, description="Guidance scale of constraints.")
    cfg_type: Literal["separated", "regular", "nocfg"] | None = Field(
        None,
        description="Guidance of text and constraints: apart, together, or none; default: as the model's config says.",
    )
    retrieval: Model = Field(
        "", description="TMR-SOMA, by which held-out motions are measured too: nvidia/TMR-SOMA-RP-v1, or its folder."
    )
    root_gradient: bool = Field(
        False, description="Let the gradient pass from the body through the root; Kimodo's training cuts it there."
    )


class TmrOptions(Group):
    """Options of `kimodo-tmr`."""

    weights: TmrSoma = TMR_SOMA
    embeddings: File = Field(
        None, description="Table of text vectors, by motionkit kimodo-embed; default: the policy's."
    )


class RetrievalSettings(ProtocolSettings):
    """Measure TMR-SOMA on the true motions of Kimodo's benchmark: does it find the motion of each text?

    CASES is a folder in which each meta.json has gt_motion.npz beside it. Published R@3: 89.1 (content), 93.9
    (repetition), each of testsuite/SPLIT/text2motion/overview.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (Argument("CASES", "Folder of the benchmark."),)

    weights: Annotated[TmrSoma, Cli("--weights")] = TMR_SOMA
    embeddings: Annotated[File, Cli("--embeddings")] = Field(
        None, description="Table of text vectors, by motionkit kimodo-embed CASES."
    )


class ConstraintRewardOptions(Group):
    """Options of `kimodo-constraints`."""

    of: Literal["all", "path", "effectors"] = Field(
        "all", description="Which constraints count: all, those of the path, or those of joints."
    )


class HingeOptions(Group):
    """Options of `g1-hinges`."""

    reads_text: ClassVar[bool] = False


class BalanceOptions(Group):
    """Options of `g1-balance`."""

    reads_text: ClassVar[bool] = False

    mjcf: File = Field(
        None, description="Robot file of the G1 for MuJoCo (XML), for masses and foot shapes; it is read, not run."
    )


class PretrainModel(Group):
    """Shape of a new network."""

    latent: int = Field(128, ge=2, le=16384, description="Features per token (released: 1024).")
    feedforward: int = Field(256, ge=1, le=65536, description="Width of the feed-forward (released: 2048).")
    layers: int = Field(4, ge=1, le=200, description="Layers of each of the two stages (released: 16).")
    heads: int = Field(4, ge=1, le=1024, description="Attention heads (released: 8).")
    norm_first: bool = Field(False, description="LayerNorm before attention and feed-forward (released: after).")


class PretrainData(Group):
    """Batches and loss."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(8, ge=1, le=65536, description="Clips per step.")
    cond_drop: float = Field(0.1, ge=0, le=1, description="Share of samples trained without their text.")
    constraints: float = Field(0.5, ge=0, le=1, description="Share of samples trained with random constraints.")
    headings: float = Field(1.0, ge=0, le=1, description="First headings: 1 is the whole circle, 0 is +Z alone.")
    early: float = Field(
        0.0, ge=0, le=1, description="Share of timesteps drawn densest at the noisy end, where the text matters most."
    )
    early_power: float = Field(2.0, ge=1, le=10, description="How dense: those are 1 - u^N of all steps, u uniform.")
    text_noise: float = Field(0.0, ge=0, le=10, description="Noise on text vectors, for texts that are worded anew.")
    velocities: float = Field(1.0, ge=0, description="Weight of the joints' velocities; 0: the paper's loss.")
    accelerations: float = Field(0.3, ge=0, description="Weight of the joints' accelerations; 0: the paper's loss.")
    given: float = Field(
        0.0, ge=0, description="Weight of the losses of what constraints give, alone; 0: the paper's loss."
    )
    dense: float = Field(0.0, ge=0, le=1, description="Share of the constraints that are of all frames, not of some.")
    points: float = Field(
        0.0, ge=0, le=1, description="Share of the constraints that are one to three points of a path."
    )
    stage: Literal["both", "root"] = Field(
        "both", description="What is trained; root: the first stage alone, which makes the path, at half the cost."
    )
    bent: float = Field(
        0.0, ge=0, le=10, description="Metres by which ways with constraints are bent, past what the text says of them."
    )
    ema: float = Field(0.999, ge=0, lt=1, description="Decay of the averaged weights, which are saved.")
    final_rate: float = Field(0.02, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    val_every: int = Field(250, ge=0, description="Steps between held-out losses; 0 at the end only.")
    val_clips: int = Field(64, ge=1, description="Held-out clips used for the loss.")
    samples: int = Field(16, ge=1, le=1024, description="Held-out captions sampled at the end, for their jerk.")


class PretrainKimodoSettings(TrainerSettings):
    """Settings of `motionkit pretrain kimodo`."""

    run: RunSettings = RunSettings(num_steps=8000)
    init: Annotated[Model, Cli("--init")] = Field(
        "", description="Kimodo model to start from; default: a new small one, on the bones of the first clip."
    )
    body: Annotated[File, Cli("--body")] = Field(
        None, description="Joints of SMPL-X, for --init with a model of that body."
    )
    embeddings: Annotated[File, Cli("--embeddings")] = Field(
        None, description="Table of text vectors, by motionkit kimodo-embed; default: the starter's own for its clips."
    )
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion",))
    model: PretrainModel = PretrainModel()
    train: PretrainData = PretrainData()
    lora: LoraSettings = LoraSettings()
    optim: OptimSettings = OptimSettings(learning_rate=1e-3, warmup_steps=100)


MODELS = (
    ModelForm(
        POLICY,
        POLICY_DOCUMENT,
        "a Kimodo policy",
        "motionkit generate --policy kimodo --policy.checkpoint FOLDER --policy.embeddings TABLE TEXT motion.html",
        tags=("text-to-motion", "diffusion", "kimodo"),
        word="kimodo",
        plugin=("policies", "kimodo"),
    ),
)


class PromptOptions(Group):
    """Options of prompts."""

    path: File = Field(None, description="Text file, CSV with the column text, or folder with meta.json files.")
    seconds: float | None = Field(None, gt=0, le=LONGEST / FPS, description="Seconds of prompts that have none.")
    held_out: float = Field(0.2, gt=0, lt=1, description="Share of the texts that are for val and test.")


policy = Component(
    summary="Kimodo: humans (SOMA, SMPL-X) and the robot Unitree G1, from text and constraints",
    options=KimodoOptions,
    factory=f"{_PACKAGE}.policy:KimodoPolicy",
    exports={"kimodo": f"{_PACKAGE}.policy:export"},
    models=f"{_PACKAGE}.settings:MODELS",
    next=f"{_PACKAGE}.settings:use_policy",
    metrics=METRICS,
)

pretrain = Component(
    summary="Train Kimodo on clips with captions.",
    options=PretrainKimodoSettings,
    factory=f"{_PACKAGE}.train:PretrainKimodo",
    models=f"{_PACKAGE}.settings:MODELS",
    next=f"{_PACKAGE}.settings:use_policy",
)

retrieval = Component(
    summary="Measure TMR-SOMA on the true motions of Kimodo's benchmark",
    options=RetrievalSettings,
    factory=f"{_PACKAGE}.tmr:TrueRetrieval",
    metrics=METRICS,
)


def _dataset(name: str, summary: str) -> Component:
    return Component(summary=summary, options=PromptOptions, factory=f"{_PACKAGE}.dataset:{name}")


clips = _dataset("KimodoClips", "Motions of SOMA with their texts: folders with meta.json and gt_motion.npz")
prompts = _dataset("KimodoPrompts", "Prompts for Kimodo, without clips: a text file, a CSV, or folders with meta.json")
motions = _dataset(
    "KimodoMotions",
    "Motions of Kimodo's own bodies with their texts, by a CSV with the columns text, seconds and motion",
)


def _reward(name: str, options: type[Group], summary: str) -> Component:
    return Component(summary=summary, options=options, factory=f"{_PACKAGE}.rewards:{name}", gradient=True)


tmr = _reward("KimodoTmr", TmrOptions, "Kimodo's TMR-SOMA: cosine of motion and text")
constraint_error = _reward(
    "KimodoConstraints", ConstraintRewardOptions, "Kimodo's constraints: minus their error in metres"
)
hinges = _reward(
    "G1Hinges", HingeOptions, "Minus how far joints of the Unitree G1 are off their hinges and limits, in radians"
)
balance = _reward(
    "G1Balance",
    BalanceOptions,
    "Minus how far the Unitree G1 is out of balance, in metres, by masses and feet of a robot file",
)


def use_policy(info: RunInfo) -> list[list[str]]:
    """Return what makes motions with the policy of a run."""
    if "policy" in info.config:
        return after_training(info)
    policy = ["--policy", "kimodo", "--policy.checkpoint", str(info.directory)]
    return [["generate", *policy, "a person walks backward.", "motions"]]
