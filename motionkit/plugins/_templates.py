"""Templates of ``motionkit plugins new``: a small plugin of each kind that works, to be replaced piece by piece."""

from __future__ import annotations

from collections.abc import Mapping

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$package"
version = "0.1.0"
description = "$Kind '$name' for motionkit."
requires-python = ">=3.11"
dependencies = ["motionkit"]

[project.entry-points."motionkit.$kinds"]
$name = "$module:component"

[tool.setuptools.packages.find]
where = ["src"]
"""

_README = """\
# $package

$Kind `$name` for motionkit.

    pip install -e .
    pytest
    motionkit plugins show $kinds $name
    USAGE
"""


def _package(heavy: str, *, usage: str, light: str, code: str, test: str) -> Mapping[str, str]:
    return {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README.replace("USAGE", usage),
        "src/$module/__init__.py": light,
        f"src/$module/{heavy}.py": code,
        "tests/test_$module.py": test,
    }


REWARD = _package(
    "reward",
    usage="motionkit grpo --reward tmr-dense --reward $name=0.1 --reward.$name.scale 2",
    light='''\
"""Reward '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of reward '$name'; each becomes a flag, such as --reward.scale."""

    scale: float = Field(1.0, gt=0, description="Speed in m/s at which the score is 1/e.")


component = Component(
    summary="What reward '$name' scores, in one line",
    options=Options,
    factory="$module.reward:$cls",
)
''',
    code='''\
"""Reward '$name': the heavy half."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from motionkit.motion import MotionBatch
from motionkit.rewards.base import RewardScores
from motionkit.text import Prompt

from $module import Options


class $cls:
    """An example to replace: exp(-v / scale), v the mean speed of the root over ground in m/s."""

    name = "$name"

    def __init__(self, options: Options, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; frames past the end of a motion never count."""
        root = motions.joints[..., 0, :]  # [N, T, 3] in metres, Y up
        speed = root.diff(dim=1)[..., [0, 2]].norm(dim=-1) * motions.fps  # [N, T - 1]
        valid = motions.mask[:, 1:]
        mean = torch.where(valid, speed, 0.0).sum(dim=1) / valid.sum(dim=1).clamp(min=1)
        return RewardScores(total=torch.exp(-mean / self.options.scale))
''',
    test='''\
"""The contract that every reward keeps."""

from motionkit.testing import check_reward


def test_contract() -> None:
    check_reward("$name")
''',
)

DATASET = _package(
    "dataset",
    usage="motionkit grpo --dataset $name --dataset.root FOLDER",
    light='''\
"""Dataset '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of dataset '$name'; each becomes a flag, such as --dataset.root."""

    root: Path | None = Field(None, description="Folder with NAME.npy (features) and NAME.txt (captions) (required).")
    fps: float = Field(20.0, gt=0, description="Frames per second.")
    max_length: int = Field(196, ge=40, description="Longest motion in frames.")


component = Component(
    summary="What dataset '$name' holds, in one line",
    options=Options,
    factory="$module.dataset:$cls",
)
''',
    code='''\
"""Dataset '$name': the heavy half."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from motionkit.datasets.base import Split, TextClip
from motionkit.datasets.joining import join_prompts
from motionkit.datasets.reference import physics_medians
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Normalizer, feature_stats
from motionkit.text import Prompt

from $module import Options


class $cls:
    """An example to replace: a folder of HumanML3D features; of ten clips one is for val and one for test."""

    def __init__(self, options: Options) -> None:
        if options.root is None or not options.root.is_dir():
            raise MotionkitError(f"there is no folder {options.root}.", fix="--dataset.root FOLDER")
        self.name = "$name"
        self.skeleton = HUMANML
        self.fps = options.fps
        self.max_length = options.max_length
        self.random_crop = False
        files = sorted(options.root.glob("*.npy"))
        if len(files) < 10:
            raise MotionkitError(f"{options.root} has {len(files)} clips.", why="at least 10 are needed.")
        self._splits: dict[str, list[Path]] = {"val": files[::10], "test": files[1::10]}
        self._splits["train"] = [file for number, file in enumerate(files) if number % 10 > 1]
        self.normalizer = Normalizer(*feature_stats((clip.features for clip in self.clips("train")), self.skeleton))

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the clips of a split, always in the same order."""
        return [self._read(file) for file in self._splits[split]]

    def _read(self, file: Path) -> TextClip:
        captions = file.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
        return TextClip(file.stem, torch.from_numpy(np.load(file, allow_pickle=False)).float(), tuple(captions))

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return a prompt per caption; from two segments on, captions are joined."""
        singles = [
            Prompt((text,), (min(len(clip.features), self.max_length) // 4 * 4,), f"{clip.key}#{number}", (clip.key,))
            for clip in self.clips(split)
            for number, text in enumerate(clip.captions)
        ]
        if k_segments < 2:
            return singles
        return join_prompts(singles, k_segments, seed=seed, max_length=self.max_length)

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and jerk (m/s^3) of the train split."""
        return physics_medians(self.clips("train"), self.skeleton, self.fps)
''',
    test='''\
"""The contract that every dataset keeps, on a folder of made-up clips."""

from pathlib import Path

import numpy as np
from motionkit.testing import check_dataset, sample_motions


def test_contract(tmp_path: Path) -> None:
    motions = sample_motions(count=40, frames=60)
    for number, (features, length) in enumerate(zip(motions.features, motions.lengths.tolist(), strict=True)):
        np.save(tmp_path / f"{number:03d}.npy", features[:length].numpy())
        (tmp_path / f"{number:03d}.txt").write_text(f"a person does thing {number}.\\n")
    check_dataset("$name", options={"root": tmp_path})
''',
)

POLICY = _package(
    "policy",
    usage="motionkit grpo --policy $name --reward physics",
    light='''\
"""Policy '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of policy '$name'; each becomes a flag, such as --policy.checkpoint."""

    checkpoint: Path | None = Field(None, description="File of weights (.safetensors); default: random weights.")
    hidden: int = Field(64, ge=1, description="Width of the network.")


component = Component(
    summary="What policy '$name' is, in one line",
    options=Options,
    factory="$module.policy:$cls",
)
''',
    code='''\
"""Policy '$name': the heavy half."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from motionkit.motion import HUMANML, Normalizer
from motionkit.nn import add_adapters
from motionkit.rl import Schedule
from motionkit.text import Prompt
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from $module import Options

TEXT, STEPS = 32, 50


class Network(nn.Module):
    """An example to replace: each frame for itself, through one hidden layer."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.embed_text = nn.Linear(TEXT + 1, hidden)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor, timestep: Tensor, text: Tensor) -> Tensor:
        """Predict x0 ``[N, T, D]``."""
        time = timestep[:, None] / STEPS
        return self.linear2(torch.tanh(self.linear1(x) + self.embed_text(torch.cat([text, time], 1))[:, None]))


@dataclass(frozen=True)
class Condition:
    """Encoded prompts: ``[N, TEXT]``."""

    text: Tensor

    def __len__(self) -> int:
        return len(self.text)

    def select(self, index: Tensor) -> Self:
        """Return some rows, repeats allowed."""
        return type(self)(self.text[index])


class $cls:
    """A diffusion policy; see motionkit.policies.base.DiffusionPolicy."""

    def __init__(self, options: Options, *, device: torch.device | str = "cpu", dataset: object = None) -> None:
        self.skeleton, self.fps, self.max_length, self.autocast = HUMANML, 20.0, 196, None
        self.schedule = Schedule.cosine(STEPS)
        width = self.skeleton.width
        self.normalizer = Normalizer(torch.zeros(width), torch.ones(width))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.network = Network(width, options.hidden).eval()
        if options.checkpoint is not None:
            self.load_tensors(load_file(options.checkpoint))
        self.to(device)

    def frames(self, lengths: Tensor) -> int:
        """Return the padded number of frames."""
        return int(lengths.max())

    def condition(self, prompts: Sequence[Prompt]) -> Condition:
        """Encode prompts: one number for each word, by its checksum. Put your text encoder here."""
        text = torch.zeros(len(prompts), TEXT)
        for row, prompt in zip(text, prompts, strict=True):
            for word in " ".join(prompt.segments).lower().split():
                row[zlib.crc32(word.encode()) % TEXT] += 1.0
        return Condition(text.to(self.device))

    def predict(
        self, x: Tensor, timestep: Tensor, condition: Condition, lengths: Tensor, *, guidance: float = 1.0
    ) -> Tensor:
        """Predict x0; guidance moves away from the prediction without a text."""
        known = self.network(x, timestep, condition.text)
        if guidance == 1.0:
            return known
        blind = self.network(x, timestep, torch.zeros_like(condition.text))
        return blind + guidance * (known - blind)

    def adapt(self, *, r: int, alpha: float, dropout: float, targets: Sequence[str], seed: int) -> None:
        """Add low-rank adapters; ``text`` is embed_text, ``ffn`` linear1 and linear2."""
        add_adapters(self.network, r=r, alpha=alpha, dropout=dropout, targets=targets, seed=seed)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that a checkpoint needs."""
        return dict(self.network.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned."""
        self.network.load_state_dict(dict(tensors))

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the weights, from which Options.checkpoint opens the policy again."""
        folder.mkdir(parents=True, exist_ok=True)
        if tensors:
            save_file(self.tensors(), folder / "policy.safetensors")
        return folder

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.network.parameters()).device

    def to(self, device: torch.device | str) -> Self:
        """Move network and statistics."""
        self.network.to(device)
        self.normalizer = self.normalizer.to(device)
        return self
''',
    test='''\
"""The contract that every policy keeps, and a checkpoint that comes back."""

from pathlib import Path

import torch
from motionkit import load_policy
from motionkit.testing import check_policy


def test_contract() -> None:
    check_policy("$name")


def test_saved_weights_come_back(tmp_path: Path) -> None:
    from $module import Options
    from $module.policy import $cls

    policy = $cls(Options())
    with torch.no_grad():
        policy.network.linear1.weight.fill_(0.5)
    policy.save(tmp_path)
    again = $cls(Options(checkpoint=tmp_path / "policy.safetensors"))
    assert torch.equal(again.network.linear1.weight, policy.network.linear1.weight)
''',
)

TRAINER = _package(
    "trainer",
    usage="motionkit $name --num-steps 100",
    light='''\
"""Trainer '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from typing import Annotated

from motionkit.config import Cli, RunSettings, TrainerSettings
from motionkit.plugins import Component
from pydantic import Field


class Settings(TrainerSettings):
    """Settings of ``motionkit $name``; a field marked with Cli is a flag, all are reached by --set."""

    run: RunSettings = RunSettings(num_steps=100)
    rate: Annotated[float, Cli("--rate")] = Field(0.1, gt=0, description="Learning rate.")


component = Component(
    summary="What '$name' trains, in one line",
    options=Settings,
    factory="$module.trainer:$cls",
)
''',
    code='''\
"""Trainer '$name': the heavy half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from motionkit.runs import Run
from torch import Tensor

from $module import Settings


class $cls:
    """An example to replace: fits y = a x to y = 2 x."""

    shape_keys: ClassVar[tuple[str, ...]] = ("rate", "seed")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open every input here: what is wrong with one is said before there is a run folder."""

    def describe(self) -> Mapping[str, object]:
        """Return the plan that --dry-run prints."""
        return {"parameters": 1}

    def train(self, run: Run) -> Mapping[str, object]:
        """Train from the step the run is at; the same seed gives the same run, also after a resume."""
        checkpoint = run.checkpoint()
        factor = checkpoint.tensors["model"]["factor"] if checkpoint else torch.zeros(1)
        step = run.start_step
        while step < self.settings.run.num_steps and not run.stop_requested:
            step += 1
            loss, factor = self._update(factor, step)
            run.log(step, {"loss/total": loss})
        run.save(step, {"model": {"factor": factor}}, {})
        return {"metrics": {"factor": float(factor)}}

    def _update(self, factor: Tensor, step: int) -> tuple[float, Tensor]:
        x = torch.randn(32, generator=torch.Generator().manual_seed(self.settings.seed * 1_000_003 + step))
        wrong = factor * x - 2.0 * x
        return float(wrong.square().mean()), factor - self.settings.rate * 2.0 * (wrong * x).mean()
''',
    test='''\
"""The contract that every trainer keeps, and that it learns."""

from pathlib import Path

from motionkit.testing import check_trainer


def test_contract_and_that_it_learns(tmp_path: Path) -> None:
    document = check_trainer("$name", tmp_path, settings={"run": {"num_steps": 40}})
    assert abs(document["metrics"]["factor"] - 2.0) < 0.01
''',
)
