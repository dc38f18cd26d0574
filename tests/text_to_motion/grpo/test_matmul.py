"""The library of float32 matrix products: the rule, the comparison before it is used, and what a resumed run keeps."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from motionkit import load_dataset, load_policy
from motionkit.errors import MotionkitError
from motionkit.runs import Run
from motionkit.text_to_motion import matmul as _matmul
from motionkit.text_to_motion.matmul import settle_matmul
from motionkit.training import device
from motionkit.training.device import (
    describe_device,
    matmul_in_use,
    prefers_onednn,
    set_up,
    set_up_matmul,
    use_matmul,
)
from motionkit.training.settings import RunSettings, TrainerSettings

from .toy import PROMPTS, make_policy

CPU = torch.device("cpu")
AMD = {"cpu_name": "AMD EPYC 7763", "avx512_f": True}


def pretend(monkeypatch: pytest.MonkeyPatch, cpu: dict[str, object], *, amx: bool = False) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: cpu)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)


@pytest.mark.parametrize(
    ("cpu", "amx", "width", "tokens", "expected"),
    [
        (AMD, False, 512, 8 * 197, True),
        (AMD, False, 383, 8 * 197, False),
        (AMD, False, 512, 255, False),
        (AMD, False, 128, 64 * 50, False),  # the starter's size
        (AMD, True, 512, 8 * 197, False),
        ({"cpu_name": "Intel Xeon", "avx512_f": True}, False, 512, 8 * 197, False),
        ({}, False, 512, 8 * 197, False),
    ],
)
def test_the_rule(
    cpu: dict[str, object], amx: bool, width: int, tokens: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, cpu, amx=amx)
    assert prefers_onednn(width, tokens) is expected


COMPARE = """
import torch
from motionkit.text_to_motion.mdm.settings import MDMSettings
from motionkit.text_to_motion.mdm.network import MDMNetwork
from motionkit.training.device import use_matmul
torch.set_num_threads(1)
torch.manual_seed(0)
network = MDMNetwork(MDMSettings(layers=2)).eval()
inputs = torch.randn(2, 196, 263), torch.tensor([3, 40]), torch.randn(2, 1, 512), torch.ones(2, 1, dtype=torch.bool)
found = []
for choice in ("default", "onednn", "default"):
    use_matmul(choice)
    network.zero_grad()
    out = network(*inputs)
    out.square().sum().backward()
    found.append((out.detach(), network.embed_text.weight.grad))
for (a, b, c) in zip(*found):
    assert torch.equal(a, c)
    print(float((a - b).norm() / a.norm()))
"""


def test_onednn_computes_what_the_default_does() -> None:
    """Without AMX, which this process may have used already; so in one that was told not to."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPARE], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    prediction, gradient = map(float, done.stdout.split())
    assert prediction < 1e-5
    assert gradient < 1e-5


@pytest.fixture
def predictions(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Make the rule say yes, and what oneDNN computes differ by what the test puts under ``off``."""
    found = {"off": 0.0}

    def predict(*_: object) -> torch.Tensor:
        return torch.ones(4) * (1 + (found["off"] if matmul_in_use() == "onednn" else 0.0))

    monkeypatch.setattr(_matmul, "_predict", predict)
    monkeypatch.setattr(device, "rounding", lambda: found["off"])
    monkeypatch.setattr(_matmul, "rounding", lambda: found["off"])
    monkeypatch.setattr(_matmul, "prefers_onednn", lambda width, tokens: True)
    return found


@pytest.mark.parametrize(
    ("asked", "off", "used", "said"),
    [
        ("auto", 1e-6, "onednn", "through oneDNN"),
        ("auto", 1e-3, "default", "cpu_matmul is default here, since a prediction by oneDNN differs by 1e-03"),
        ("onednn", 1e-6, "onednn", ""),
        ("default", 1e-6, "default", ""),
    ],
)
def test_it_is_used_when_a_prediction_is_the_same(
    asked: str, off: float, used: str, said: str, predictions: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    predictions["off"] = off
    settings = TrainerSettings(device="cpu", cpu_matmul=asked)
    set_up_matmul(settings, CPU)
    with caplog.at_level(logging.INFO, "motionkit"):
        settle_matmul(settings, make_policy(), PROMPTS, samples=64)
    assert matmul_in_use() == used
    assert (", oneDNN" in describe_device(CPU)) is (used == "onednn")
    assert said in caplog.text
    assert bool(caplog.text) is bool(said)


def test_rounding_is_refused_when_it_was_asked_for(predictions: dict[str, float]) -> None:
    predictions["off"] = 2e-3
    with pytest.raises(MotionkitError, match="2e-03") as caught:
        set_up_matmul(TrainerSettings(device="cpu", cpu_matmul="onednn"), CPU)
    assert caught.value.code == 2


def test_rounding_is_seen() -> None:
    assert (device.rounding() > 1e-5) is torch.cpu._is_amx_tile_supported()


def test_bf16_runs_keep_the_default(predictions: dict[str, float]) -> None:
    settings = TrainerSettings(device="cpu", precision="bf16")
    settle_matmul(settings, make_policy(), PROMPTS, samples=64)
    assert matmul_in_use() == "default"


def test_the_rule_is_asked_with_the_networks_width_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def rule(width: int, tokens: int) -> bool:
        asked.append((width, tokens))
        return len(asked) == 1

    monkeypatch.setattr(_matmul, "prefers_onednn", rule)
    settle_matmul(TrainerSettings(device="cpu"), make_policy(latent_dim=24), PROMPTS, samples=64)
    # 20 frames in patches of 4 are 5 tokens a sample.
    assert asked[-1] == (24, 64 * 5)
    assert matmul_in_use() == "default"


def test_the_starter_policy_keeps_the_default_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, AMD)
    policy, prompts = load_policy("starter"), load_dataset("starter").prompts("train")[:8]
    before = _matmul._predict(policy, prompts)
    settings = TrainerSettings(device="cpu")
    set_up_matmul(settings, CPU)
    settle_matmul(settings, policy, prompts, samples=64)
    assert matmul_in_use() == "default"
    assert torch.equal(_matmul._predict(policy, prompts), before)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A run that was made with oneDNN by ``auto``."""
    with Run.create("grpo", {"cpu_matmul": "auto"}, out=tmp_path / "run") as run:
        run.annotate(cpu_matmul="onednn")
    return tmp_path / "run"


def test_a_resumed_run_keeps_its_library(
    made: Path, predictions: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TrainerSettings(device="cpu", run=RunSettings(resume=made))
    monkeypatch.setattr(_matmul, "prefers_onednn", lambda width, tokens: False)
    set_up(settings)
    settle_matmul(settings, make_policy(), PROMPTS, samples=64)
    assert matmul_in_use() == "onednn"
    with pytest.raises(MotionkitError, match="cpu_matmul") as caught:
        set_up(settings.model_copy(update={"cpu_matmul": "default"}))
    assert caught.value.code == 2


def test_a_resumed_run_says_when_this_cpu_cannot_keep_it(
    made: Path, predictions: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    predictions["off"] = 2e-3
    settings = TrainerSettings(device="cpu", run=RunSettings(resume=made))
    set_up(settings)
    settle_matmul(settings, make_policy(), PROMPTS, samples=64)
    assert matmul_in_use() == "default"
    assert "the run continues with other bits" in caplog.text


def test_a_resumed_run_that_had_the_default_is_not_asked_again(tmp_path: Path, predictions: dict[str, float]) -> None:
    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        run.annotate(cpu_matmul="default")
    settings = TrainerSettings(device="cpu", run=RunSettings(resume=tmp_path / "run"))
    use_matmul("onednn")  # left behind by an earlier run of this process
    set_up(settings)
    settle_matmul(settings, make_policy(), PROMPTS, samples=64)
    assert matmul_in_use() == "default"


def test_another_device_and_a_torch_without_it_have_no_use_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    onednn = TrainerSettings(cpu_matmul="onednn")
    with pytest.raises(MotionkitError, match="mps"):
        set_up_matmul(onednn, torch.device("mps"))
    use_matmul("onednn")
    set_up_matmul(TrainerSettings(), torch.device("mps"))
    assert matmul_in_use() == "default"
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    set_up_matmul(TrainerSettings(), CPU)
    with pytest.raises(MotionkitError, match="no oneDNN"):
        set_up_matmul(onednn, CPU)
