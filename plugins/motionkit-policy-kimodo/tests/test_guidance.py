"""Guidance and the whole DDIM chain, on motionkit's schedule and rollout, against the recorded ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from motionkit.rl import DDIM, Schedule, StepPlan, length_mask, rollout
from motionkit_policy_kimodo.files import read_checkpoint
from motionkit_policy_kimodo.network import Conditions, Guidance

Tensors = Callable[[str], dict[str, Tensor]]
GUIDANCES = {
    "out_text_constraint": (Guidance("nocfg"), True),
    "out_text": (Guidance("separated", 1.0), False),
    "out_regular_2p5": (Guidance("regular", 2.5), True),
    "out_separated_2_2": (Guidance(), True),
    "out_separated_3_1p5_free": (Guidance("separated", 3.0, 1.5), False),
}


@pytest.mark.parametrize("out", GUIDANCES)
@torch.no_grad()
def test_forms(out: str, recorded: Path, tensors: Tensors) -> None:
    guidance, constrained = GUIDANCES[out]
    network, known = read_checkpoint(str(recorded / "tiny_soma")).network, tensors("tiny_soma/io.npz")
    conditions = Conditions(
        known["text"],
        torch.ones(known["text"].shape[:2], dtype=torch.bool),
        known["first_heading_angle"],
        *((known["observed_motion"], known["motion_mask"].bool()) if constrained else ()),
    )
    made = guidance.predict(network, known["x"], known["timesteps"], known["lengths"], conditions)
    mask = length_mask(known["lengths"], made.shape[1])
    assert_close(made[mask], known[out][mask], atol=2.4e-5, rtol=0)
    again = guidance.predict(
        network, known["x"][[2, 0]], known["timesteps"][[2, 0]], known["lengths"][[2, 0]],
        conditions.select(torch.tensor([2, 0])),
    )  # fmt: skip
    assert_close(again[1], made[0], atol=1e-5, rtol=0)


def _conditions(known: dict[str, Tensor]) -> Conditions:
    text = known["text"][:, None] * torch.tensor([1.0, 0.0])[:, None, None]  # the second text is the empty one
    given = ()
    if "motion_mask" in known:
        given = (known["observed_motion"].expand(2, -1, -1), known["motion_mask"].bool().expand(2, -1, -1))
    return Conditions(text, torch.tensor([[True], [False]]), known["first_heading_angle"], *given)


@pytest.mark.parametrize(("name", "limit"), [("chain_10_free", 3e-5), ("chain_10_keyframes", 6e-5)])
@torch.no_grad()
def test_chain(name: str, limit: float, recorded: Path, tensors: Tensors) -> None:
    opened, known = read_checkpoint(str(recorded / "tiny_soma")), tensors(f"tiny_soma/{name}.npz")
    conditions, lengths = _conditions(known), known["lengths"]
    mask = length_mask(lengths, known["x_T"].shape[1])
    plan = StepPlan.build(Schedule.cosine(1000), DDIM(0.0), steps=10)
    assert plan.timesteps.tolist() == known["timesteps"].flip(0).tolist()
    states, clean = [], []

    def predict(x: Tensor, timestep: Tensor) -> Tensor:
        states.append(x)
        clean.append(Guidance().predict(opened.network, x, timestep, lengths, conditions))
        return clean[-1]

    final = rollout(predict, plan, known["x_T"], torch.zeros_like, record=False).x0
    assert_close(final[mask], known["final"][mask], atol=limit, rtol=0)
    if "states" not in known:
        return
    for step, state in zip((1, 2, 5, 9), known["states"], strict=True):
        assert_close(states[step][mask], state[mask], atol=1.2e-4, rtol=0)
    for step, x0 in zip((1, 5, 10), known["pred_clean"], strict=True):
        assert_close(clean[step - 1][mask], x0[mask], atol=limit, rtol=0)
    features, how = opened.normalizer.denormalize(final), opened.representation
    limits = {"atol": limit, "rtol": 0}
    assert_close(how.positions(features, lengths)[mask], known["decoded_posed_joints"][mask], **limits)
    assert_close(how.root(features, lengths)[mask], known["decoded_root_positions"][mask], **limits)
    local = how.body.local(how.rotations(features, lengths))
    assert_close(local[mask], known["decoded_local_rot_mats"][mask], **limits)
    assert_close(features[..., :3][mask], known["decoded_smooth_root_pos"][mask], **limits)
    assert (how.contacts(features) == known["decoded_foot_contacts"].bool())[mask].all()


def test_diffusion_tables(tensors: Tensors) -> None:
    known, schedule = tensors("diffusion.npz"), Schedule.cosine(1000)
    assert_close(schedule.betas, known["betas_base"].double(), atol=1e-6, rtol=1e-4)
    counts = [int(name.split("_")[1]) for name in known if name.startswith("timesteps")]
    for count in counts:
        visited = schedule.spaced(count)[::-1]
        if count > 1:  # of one step, theirs is the cleanest timestep
            assert visited == known[f"timesteps_{count}"].tolist()
            early = torch.tensor(visited) < 900
            made = schedule.alphas_cumprod[visited][early]
            assert_close(made, known[f"alphas_cumprod_{count}"][early].double(), atol=0, rtol=1e-4)
    assert max(counts) == 1000


def test_rows_of_a_pass() -> None:
    def rows(guidance: Guidance, *, constrained: bool) -> int:
        return len(guidance._passes(constrained=constrained))

    assert [rows(Guidance(), constrained=constrained) for constrained in (False, True)] == [2, 3]
    assert rows(Guidance("regular"), constrained=True) == 2
    assert rows(Guidance(text=1.0), constrained=False) == rows(Guidance("nocfg"), constrained=True) == 1
    assert rows(Guidance(text=1.0), constrained=True) == 3
