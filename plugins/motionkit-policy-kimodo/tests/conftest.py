"""What was recorded from Kimodo's own code: ../shared/fixtures/kimodo, and its README."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from motionkit.config import resolve
from motionkit.nn import stock_keys
from motionkit.testing import TEXTS as CHECKED
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.text_to_motion.grpo.train import GrpoTrainer
from motionkit.training.memory import Alive
from motionkit_policy_kimodo.network import KimodoNetwork, Shape
from motionkit_policy_kimodo.settings import KimodoOptions
from motionkit_policy_kimodo.skeletons import body, table
from motionkit_policy_kimodo.texts import KNOWN, clean, write_vectors

FOLDER = Path(__file__).parents[4] / "shared" / "fixtures" / "kimodo"


@pytest.fixture(scope="session")
def recorded() -> Path:
    if not FOLDER.is_dir():
        pytest.skip("../shared/fixtures/kimodo (recorded outputs) is not here")
    return FOLDER


@pytest.fixture(scope="session")
def tensors(recorded: Path) -> Callable[[str], dict[str, Tensor]]:
    """Read an .npz of the fixtures as tensors."""

    def read(name: str) -> dict[str, Tensor]:
        with np.load(recorded / name) as content:
            return {key: torch.as_tensor(content[key]) for key in content.files}

    return read


def by_formula(shapes: Mapping[str, Sequence[int]], seed: int) -> dict[str, Tensor]:
    """Make weights by the formula of the fixtures' README."""
    made = {}
    for number, (name, shape) in enumerate(shapes.items()):
        x = np.random.RandomState([seed, number]).standard_normal(shape)
        if "norm" in name:
            x = 0.1 * x + name.endswith("weight")
        elif name.endswith("bias"):
            x *= 0.02
        elif name == "root_model.output_linear.weight":
            x *= 0.03 / np.sqrt(shape[-1])
        elif name != "tokens":
            x *= 1.2 / np.sqrt(shape[-1])
        made[name] = torch.from_numpy(x)
    return made


@pytest.fixture(scope="session")
def formula(recorded: Path) -> Callable[[dict[str, Any], int], dict[str, Tensor]]:
    """Make weights of recorded names by the formula, and check their sums."""

    def make(names: dict[str, Any], seed: int) -> dict[str, Tensor]:
        made = by_formula({name: shape for name, (shape, _) in names.items()}, seed)
        for name, (_, total) in names.items():
            assert abs(float(made[name].sum()) - total) < 1e-6 * max(1.0, float(made[name].abs().sum()))
        return {name: value.float() for name, value in made.items()}

    return make


@pytest.fixture(scope="session")
def meta(recorded: Path) -> Callable[[str], dict[str, Any]]:
    def read(name: str) -> dict[str, Any]:
        return json.loads((recorded / name / "meta.json").read_text())

    return read


@pytest.fixture
def released_tmr(recorded: Path, tmp_path: Path, meta: Callable[..., Any], formula: Callable[..., Any]) -> Path:
    """Make TMR-SOMA at its released size, with weights by the formula."""
    about, folder = meta("full_tmr"), tmp_path / "TMR-SOMA"
    shutil.copytree(recorded / "full_tmr" / "stats", folder / "stats")
    text = (recorded / "tiny_tmr" / "config.yaml").read_text().replace("num_heads: 3", "num_heads: 4")
    (folder / "config.yaml").write_text(text)
    (folder / "last_weights").mkdir()
    for number, name in enumerate(("motion_encoder", "text_encoder")):
        made = formula(about["weights"][name], about["seed"] + number)
        torch.save(made, folder / "last_weights" / f"{name}.pt")
    return folder


TINY = {"text_width": 8, "text_slots": 3, "latent": 16, "feedforward": 32, "layers": 1, "heads": 2}
CONFIG = Template("""
_target_: kimodo.model.Kimodo
num_base_steps: 1000
cfg_type: separated
denoiser:
  _target_: kimodo.model.TwostageDenoiser
  motion_mask_mode: concat
  ckpt_path: $${oc.select:checkpoint_dir}/model.safetensors
  motion_rep:
    _target_: kimodo.motion_rep.KimodoMotionRep
    fps: 30
    stats_path: $${oc.select:checkpoint_dir}/stats/motion/
    skeleton:
      _target_: kimodo.skeleton.$skeleton
  llm_shape: [1, $text_width]
  use_text_mask: false
  latent_dim: $latent
  ff_size: $feedforward
  num_layers: $layers
  num_heads: $heads
  activation: gelu
  norm_first: false
  num_text_tokens_override: $text_slots
  input_first_heading_angle: true
""")


@pytest.fixture
def make_checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder in the layout of Kimodo's, with weights by the formula; other sizes are fields of `Shape`."""

    def make(skeleton: str, joints: int, **sizes: int) -> Path:
        folder, width = tmp_path / f"Kimodo-{skeleton}", 12 * joints + 9
        shape = Shape(width, **TINY | sizes)
        with torch.device("meta"):
            network = KimodoNetwork(shape)
        made = by_formula({name: value.shape for name, value in stock_keys(network.state_dict()).items()}, seed=1)
        for part, size in {"global_root": 5, "local_root": 4, "body": width - 5}.items():
            (folder / "stats" / "motion" / part).mkdir(parents=True)
            np.save(folder / "stats" / "motion" / part / "mean.npy", np.linspace(0, 1, size, dtype=np.float32))
            np.save(folder / "stats" / "motion" / part / "std.npy", np.linspace(1, 2, size, dtype=np.float32))
        (folder / "config.yaml").write_text(CONFIG.substitute(vars(shape), skeleton=skeleton))
        tensors = {f"denoiser.backbone.{name}": value.float() for name, value in made.items()}
        save_file(tensors, folder / "model.safetensors")
        return folder

    return make


@pytest.fixture
def checkpoint(make_checkpoint: Callable[[str, int], Path]) -> Path:
    return make_checkpoint("G1Skeleton34", 34)


TEXTS = ("A person walks.", "A person waves.", "Someone turns around.", "A man sits down.", "A robot stands still.")


@pytest.fixture
def make_table(tmp_path: Path) -> Callable[..., Path]:
    """Write a table of vectors that the test makes up, of `TEXTS` and others."""

    def make(width: int, *texts: str, name: str = "texts.safetensors") -> Path:
        names = dict.fromkeys(map(clean, (KNOWN, *TEXTS, *CHECKED, *texts)))
        rows = torch.randn(len(names), width, generator=torch.Generator().manual_seed(1))
        write_vectors(tmp_path / name, dict(zip(names, rows, strict=True)), encoder="test")
        return tmp_path / name

    return make


@pytest.fixture
def soma(recorded: Path, make_table: Callable[..., Path]) -> KimodoOptions:
    """Options that open the recorded tiny model of SOMA, with a table of its width."""
    return KimodoOptions(checkpoint=str(recorded / "tiny_soma"), embeddings=make_table(16))


REWARD = """
import torch


def high(motions, prompts):
    return torch.tanh(torch.where(motions.mask, motions.joints[..., 1].mean(-1), 0.0).sum(1) / motions.lengths)
"""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Write prompts with seconds."""
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\t{0.5 + 0.1 * number:.1f}\n" for number, text in enumerate(TEXTS)))
    return path


@pytest.fixture
def asked(soma: KimodoOptions, texts: Path, tmp_path: Path) -> tuple[str, ...]:
    """Return the words of a small run of grpo."""
    (tmp_path / "high.py").write_text(REWARD)
    return (
        "grpo", "--policy", "kimodo", "--policy.checkpoint", soma.checkpoint, "--policy.embeddings",
        str(soma.embeddings), "--dataset", "kimodo-prompts", "--dataset.path", str(texts), "--lora", "--batch-size",
        "2",
    )  # fmt: skip


@pytest.fixture
def write_robot(tmp_path: Path) -> Callable[..., Path]:
    """Write MuJoCo's XML of the G1: the attributes of each body and of its inertial, the shapes of a foot, defaults."""
    made = body("g1")
    rows = [row["joint"] for row in table("g1")["hinges"]]

    def write(links: Sequence[tuple[str, str]], feet: str, defaults: str = "") -> Path:
        def element(name: str) -> str:
            row, (place, inertial) = made.joint_names.index(name), links[["pelvis_skel", *rows].index(name)]
            below = "".join(element(other) for other in rows if made.parents[made.joint_names.index(other)] == row)
            joint = f'<joint name="{name.replace("_skel", "_joint")}"/>' if row else "<freejoint/>"
            shapes = feet if "ankle_roll" in name else '<geom type="mesh" mesh="m"/>'
            return f'<body name="{name}" {place}><inertial {inertial}/>{joint}{shapes}{below}</body>'

        text = f"<mujoco><default>{defaults}</default><worldbody>{element('pelvis_skel')}</worldbody></mujoco>"
        (tmp_path / "g1.xml").write_text(text)
        return tmp_path / "g1.xml"

    return write


@pytest.fixture
def robot_file(write_robot: Callable[..., Path]) -> Path:
    """Write the G1 with links of 1 kg at their joints, and four balls at each foot."""
    balls = "".join(f'<geom class="foot" pos="{x} {y} -0.025"/>' for x in (-0.05, 0.13) for y in (-0.03, 0.03))
    link = ("", 'mass="1" diaginertia="0.01 0.01 0.01"')
    return write_robot([link] * 30, balls, '<default class="foot"><geom size="0.01"/></default>')


@pytest.fixture
def recorded_robot(recorded: Path, write_robot: Callable[..., Path]) -> Path:
    """Write the recorded masses and foot shapes as a robot file."""
    with np.load(recorded / "g1_body.npz") as known:

        def words(values: Any) -> str:
            return " ".join(f"{value:.12g}" for value in np.atleast_1d(values))

        links = [
            (
                f'pos="{words(known["pos"][row])}" quat="{words(known["quat"][row])}"',
                f'pos="{words(known["centre"][row])}" quat="{words(known["inertia_quat"][row])}" '
                f'mass="{words(known["mass"][row])}" diaginertia="{words(known["inertia"][row])}"',
            )
            for row in range(len(known["body"]))
        ]
        feet = "".join(
            f'<geom type="capsule" pos="{words(at)}" quat="{words(turn)}" size="{words(size[:2])}"/>'
            for of, at, turn, size in zip(
                *(known[f"foot_{name}"] for name in ("body", "pos", "quat", "size")), strict=True
            )
            if of == known["foot_body"][0]
        )
    return write_robot(links, feet)


@pytest.fixture
def opened(tmp_path: Path, make_table: Callable[..., Path]) -> Callable[..., GrpoTrainer]:
    """Open `grpo` on a folder whose texts have a width, with one prompt of 5 s in a step."""

    def make(folder: Path, width: int, *sets: str) -> GrpoTrainer:
        texts = [f"A person walks {way}." for way in ("on", "back", "away")]
        (tmp_path / "walks.txt").write_text("".join(f"{text}\t5\n" for text in texts))
        always = (
            "policy=kimodo", f"policy.checkpoint={folder}", f"policy.embeddings={make_table(width, *texts)}",
            "dataset=kimodo-prompts", f"dataset.path={tmp_path / 'walks.txt'}", "rollout.prompts=1",
            "heldout.prompts=0", "device=cpu",
        )  # fmt: skip
        trainer = GrpoTrainer(resolve(GrpoSettings, sets=(*always, *sets)).settings)
        trainer.prepare()
        return trainer

    return make


@pytest.fixture
def bytes_of_a_step() -> Callable[[GrpoTrainer], tuple[float, float]]:
    """Return the bytes of the tensors that a step makes, forecast and counted."""

    def count(trainer: GrpoTrainer) -> tuple[float, float]:
        trainer.grpo.step(trainer.cursor.at(0))
        with Alive() as alive:
            trainer.grpo.step(trainer.cursor.at(1))
        parts = trainer.forecast.parts
        before = sum(parts[part] for part in ("weights", "reference", "average", "rewards"))
        return trainer.forecast.peak - before - 2 / 3 * parts["gradients and AdamW"], alive.most

    return count
