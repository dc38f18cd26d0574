"""The memory of a step, forecast from one and two rows, against the tensors that steps make.

`pytest -m benchmark -s` makes the released size, with random weights, in about six minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from motionkit.config import resolve
from motionkit.text_to_motion.grpo.forecast import Alive, forecast
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.text_to_motion.grpo.train import GrpoTrainer

MIDDLE = {"text_width": 64, "text_slots": 50, "latent": 128, "feedforward": 256, "layers": 4, "heads": 8}
RELEASED = {"text_width": 4096, "text_slots": 50, "latent": 1024, "feedforward": 2048, "layers": 16, "heads": 8}
CASES = {
    "LoRA": ("algorithm=grpo", "rollout.group_size=2"),
    "whole": ("algorithm=grpo", "rollout.group_size=2", "lora.enabled=false"),
    "reward-gradient": ("algorithm=reward-gradient", "rollout.samples=2", "objective.save_memory=on"),
}
Opened = Callable[..., GrpoTrainer]


@pytest.fixture
def opened(tmp_path: Path, make_table: Callable[..., Path]) -> Opened:
    """Open `grpo` with one prompt of 5 s in a step."""

    def make(folder: Path, width: int, *sets: str) -> GrpoTrainer:
        (tmp_path / "texts.txt").write_text("".join(f"A person walks {way}.\t5\n" for way in ("on", "back", "away")))
        table = make_table(width, *(f"A person walks {way}." for way in ("on", "back", "away")))
        always = (
            "policy=kimodo", f"policy.checkpoint={folder}", f"policy.embeddings={table}", "dataset=kimodo-prompts",
            f"dataset.path={tmp_path / 'texts.txt'}", "rollout.prompts=1", "heldout.prompts=0", "device=cpu",
        )  # fmt: skip
        trainer = GrpoTrainer(resolve(GrpoSettings, sets=(*always, *sets)).settings)
        trainer.prepare()
        return trainer

    return make


def _made(trainer: GrpoTrainer) -> tuple[float, float]:
    """Return the bytes that a step makes, forecast and counted."""
    trainer.grpo.step(trainer.cursor.at(0))
    with Alive() as alive:
        trainer.grpo.step(trainer.cursor.at(1))
    parts = trainer.forecast.parts
    before = sum(parts[part] for part in ("weights", "reference", "average", "rewards"))
    return trainer.forecast.peak - before - 2 / 3 * parts["gradients and AdamW"], alive.most


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_makes_the_tensors_that_were_forecast(
    case: str, precision: str, opened: Opened, make_checkpoint: Callable[..., Path]
) -> None:
    folder = make_checkpoint("SOMASkeleton30", 30, **MIDDLE)
    smaller = () if case == "reward-gradient" else ("rollout.micro_batch=2",)
    sets = (*CASES[case], *smaller, f"precision={precision}", "reward=tmr-dense")
    expected, found = _made(opened(folder, MIDDLE["text_width"], *sets))
    assert expected == pytest.approx(found, rel=0.1)


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES)
def test_released_size(
    case: str,
    opened: Opened,
    make_checkpoint: Callable[..., Path],
    released_tmr: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Forecast 8 prompts x 8 motions of 5 s in bfloat16, and count a step of two motions."""
    folder = make_checkpoint("SOMASkeleton30", 30, **RELEASED)
    smaller = () if case == "reward-gradient" else ("rollout.micro_batch=16",)
    sets = (*CASES[case], *smaller, "precision=bf16", "reward=kimodo-tmr", f"reward.weights={released_tmr}")
    trainer = opened(folder, RELEASED["text_width"], *sets)
    expected, found = _made(trainer)
    with capsys.disabled():
        print(f"\n{case}: {forecast(trainer.grpo, trainer.cursor.prompts, 64)}")  # noqa: T201
        print(f"{case}: a step of 2 motions made {found / 1e9:.2f} GB, forecast {expected / 1e9:.2f} GB")  # noqa: T201
    assert expected == pytest.approx(found, rel=0.1)
