"""Sampling with a graph, so that a loss on the finished motion has a gradient in the network's parameters.

Clark et al. 2023 (DRaFT, arXiv:2309.17400) and Prabhudesai et al. 2023 (AlignProp, arXiv:2310.03739): the sampler is a
function of the parameters like any other, and the gradient of a reward flows back through all of its steps.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from motionkit.rl._plan import StepPlan
from motionkit.rl._rollout import Predict, Rollout, StepNoise, stacked

Chain = Literal["all", "first", "last"]


def graph_rollout(
    predict: Predict,
    plan: StepPlan,
    x_start: Tensor,
    noise: StepNoise,
    *,
    network: nn.Module,
    chain: Chain = "all",
    length: int = 0,
    record: bool = False,
    save_memory: bool = False,
) -> Rollout:
    """Sample from noise to motion and leave the graph on.

    Args:
        predict: The policy's x0 prediction, guidance included.
        plan: What each step does.
        x_start: ``[N, T, D]`` standard normal start.
        noise: Step noise by timestep; asked only where the plan adds noise.
        network: Whose parameters the gradient is for.
        chain: Steps whose calls of the network have a gradient in the parameters: ``all``; the ``first`` `length`, with
            the later ones passing the gradient on to their inputs; or the ``last`` `length` (DRaFT-K, and ReFL with 1),
            before which nothing is kept.
        length: K of ``first`` and ``last``.
        record: Keep the steps that add noise, without a graph, for their log-probability.
        save_memory: Keep only the states between the steps, and run each step a second time on the way back: memory is
            that of one step, whatever their number, for one more forward pass.

    Returns:
        ``x0`` with a graph, and with `record` the noisy steps in ``trajectory``, detached.
    """
    # theta acts on x_0 through every step: x_{k+1} = a_k f(x_k, t_k; theta) + b_k x_k. `frozen` calls pass the
    # gradient on to x_k but not to theta; states before `cut` carry no graph at all.
    last = len(plan) - 1
    frozen = range(length, len(plan)) if chain == "first" else range(0)
    cut = len(plan) - length if chain == "last" else 0
    x = x_start.detach().to(torch.float32)
    scored: list[tuple[Tensor, Tensor, Tensor]] = []
    rows = zip(plan.timesteps.tolist(), plan.c_x0.tolist(), plan.c_xt.tolist(), plan.sigma.tolist(), strict=True)
    for position, (timestep, c_x0, c_xt, sigma) in enumerate(rows):
        asked = torch.full((x.shape[0],), timestep, dtype=torch.int64, device=x.device)
        call = _without_parameters(predict, network) if position in frozen else predict
        with torch.set_grad_enabled(position >= cut):
            again = save_memory and position >= cut
            x0 = checkpoint(call, x, asked, use_reentrant=False) if again else call(x, asked)
            x0 = x0.to(torch.float32)
            # The last step returns the prediction itself (c_x0 = 1, c_xt = 0); 0 * x would keep its graph alive.
            before, x = x, c_x0 * x0 + c_xt * x if position < last else x0
        if sigma:
            eps = noise(timestep)
            x = x + sigma * eps
            if record:
                scored.append((before.detach(), eps, x0.detach()))
    return Rollout(x, stacked(scored, plan, x.device) if scored else None)


def _without_parameters(predict: Predict, network: nn.Module) -> Predict:
    """Return `predict` with a gradient in its input alone."""

    def call(x: Tensor, timestep: Tensor) -> Tensor:
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.requires_grad_(False)
        try:
            return predict(x, timestep)
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)

    return call
