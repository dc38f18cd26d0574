"""The choice of the library of float32 matrix products for a run of a diffusion policy; see `training.device`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from motionkit.text import Prompt
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.training.device import (
    CLOSE,
    TOKENS,
    matmul_in_use,
    matmul_of_resumed,
    prefers_onednn,
    rounding,
    use_matmul,
)
from motionkit.training.settings import TrainerSettings

_PROBE = 8  # samples of the comparison

_logger = logging.getLogger("motionkit.trainers")


def settle_matmul(
    settings: TrainerSettings, policy: DiffusionPolicy, prompts: Sequence[Prompt], *, samples: int
) -> None:
    """Choose for ``auto``; after `training.device.set_up`. A resumed run keeps its choice.

    Args:
        settings: The run's settings.
        policy: The policy of the run.
        prompts: Some of the run's prompts.
        samples: Samples in a batch.
    """
    if settings.cpu_matmul != "auto" or settings.precision != "fp32" or policy.normalizer.mean.device.type != "cpu":
        return
    # Also for a resumed run: texts that are encoded and cached here then have the same bits as in the first run.
    choice, recorded = _choose(policy, prompts, samples), matmul_of_resumed(settings)
    if recorded == "onednn" != choice and rounding() > CLOSE:
        _logger.warning("oneDNN rounds on this CPU, so cpu_matmul is default: the run continues with other bits")
        recorded = "default"
    use_matmul(recorded or choice)
    if matmul_in_use() == "onednn":
        _logger.info("float32 matrix products through oneDNN; --cpu-matmul default for torch's own choice")


def _choose(policy: DiffusionPolicy, prompts: Sequence[Prompt], samples: int) -> str:
    """Return ``onednn`` if the rule prefers it and one prediction equals the default's."""
    width, layer = _widest(policy.network)
    if not prompts or not prefers_onednn(width, TOKENS):
        return "default"
    prompts = sorted(prompts, key=lambda prompt: prompt.length)[-_PROBE:]
    rows = 0

    def count(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal rows
        rows += inputs[0].numel() // inputs[0].shape[-1]

    with layer.register_forward_pre_hook(count):
        expected = _predict(policy, prompts)
    if not prefers_onednn(width, rows * samples // len(prompts)):
        return "default"
    use_matmul("onednn")
    difference = float((_predict(policy, prompts) - expected).norm() / expected.norm())
    use_matmul("default")
    if difference > CLOSE:
        _logger.warning("cpu_matmul is default here, since a prediction by oneDNN differs by %.0e", difference)
    return "onednn" if difference <= CLOSE else "default"


def _widest(network: nn.Module) -> tuple[int, nn.Module]:
    """Return the smaller side of the largest matrix, which is the features per token, and its layer."""
    matrices = [
        (parameter, module)
        for module in network.modules()
        for parameter in module.parameters(recurse=False)
        if parameter.ndim == 2
    ]
    if not matrices:
        return 0, network
    matrix, layer = max(matrices, key=lambda pair: pair[0].numel())
    return min(matrix.shape), layer


@torch.no_grad()
def _predict(policy: DiffusionPolicy, prompts: Sequence[Prompt]) -> Tensor:
    """Return predictions ``[N, T, D]`` for noise halfway through the schedule."""
    lengths = torch.tensor([prompt.length for prompt in prompts])
    shape = (len(prompts), policy.frames(lengths), len(policy.normalizer.mean))
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    halfway = torch.full_like(lengths, len(policy.schedule) // 2)
    return policy.predict(noise, halfway, policy.condition(prompts), lengths)
