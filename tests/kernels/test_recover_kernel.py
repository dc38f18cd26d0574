"""recover.cu, run on the CPU through the launch code of the GPU, against float64 autograd of the definition."""

from __future__ import annotations

import pytest
import torch

from motionkit.kernels import features_to_joints
from motionkit.motion import HUMANML, KIT, Normalizer
from motionkit.motion import features_to_joints as recover

from .cases import FORWARD, GRADIENT, distance, fill_padding, recover_distance, rows
from .drivers import use_driver
from .emulation import EmuDriver


def agree(features, lengths=None, **options):
    forward, gradient = recover_distance(features, lengths, **options)
    return forward <= FORWARD and gradient <= GRADIENT


def statistics(width):
    draw = torch.Generator().manual_seed(3)
    return {"mean": torch.randn(width, generator=draw) * 0.02, "std": torch.rand(width, generator=draw) + 0.2}


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(
    ("shape", "joints", "sizes"),
    [
        ((4, 196, 263), 22, (196, 66, 32, 33)),
        ((3, 197, 251), 21, (197, 64, 4)),
        ((5, 33, 263), 22, (33, 32, 31, 1, 0)),
        ((2, 1, 263), 22, (1, 0)),
        ((2, 3, 263), 22, (3, 2)),
        ((2, 65, 40), 12, (65, 9)),
        ((2, 40, 10), 3, None),
        ((1, 40, 200), 60, (39,)),
    ],
)
def test_values_and_gradient(emulated, shape, joints, sizes, normalised):
    features, lengths = rows(*shape), None
    if sizes is not None:
        lengths = torch.tensor(sizes)
        features = fill_padding(features, lengths, torch.nan)
    options = statistics(shape[2]) if normalised else {}
    forward, gradient = recover_distance(features, lengths, joints=joints, unit=0.75, **options)
    assert forward <= FORWARD
    assert gradient <= GRADIENT
    assert {name for name, _, _ in emulated.launched} == {"mk_recover_fwd", "mk_recover_bwd"}


@pytest.mark.parametrize("skeleton", [HUMANML, KIT])
def test_bodies_and_normaliser(emulated, skeleton):
    """The function that motionkit calls, for both bodies and their units."""
    features, lengths = rows(2, 40, skeleton.width), torch.tensor([40, 22], dtype=torch.int32)
    stats = statistics(skeleton.width)
    plain = Normalizer(stats["mean"].double(), stats["std"].double()).denormalize(features.double())
    truth = recover(plain, skeleton, lengths, backend="torch")
    made = recover(features, skeleton, lengths, normalizer=Normalizer(**stats), backend="cuda")
    assert distance(made, truth) <= FORWARD
    assert emulated.launched[0][:2] == ("mk_recover_fwd", 2)


def test_many_turns_and_a_long_way(emulated):
    features = rows(1, 700, 16)
    features[..., 0] += 0.2  # some hundred turns
    assert agree(features, joints=5)


@pytest.mark.parametrize("frame", [0, 31, 32, 50])
@pytest.mark.parametrize("column", [0, 9])
def test_a_broken_frame_ends_its_motion(emulated, frame, column):
    features = rows(3, 60, 16)
    features[1, frame, column] = torch.inf
    assert agree(features, torch.tensor([60, 60, 40]), joints=5)
    made = features_to_joints(features, joints=5, backend="cuda")
    assert bool(made[1, frame:].isnan().all())
    assert bool(made[1, :frame].isfinite().all())
    assert bool(made[[0, 2]].isfinite().all())


def test_columns_behind_the_positions_are_not_looked_at(emulated):
    features = rows(1, 12, 30)
    features[..., 16:] = torch.nan
    assert bool(features_to_joints(features, joints=5, backend="cuda").isfinite().all())
    assert agree(features, joints=5)


def test_views_leading_dimensions_and_single_motions(emulated):
    memory = torch.full((1 + 6 * 35 * 16,), torch.nan)
    features = memory[1:].view(2, 3, 35, 16)
    features.copy_(rows(6, 35, 16).view(2, 3, 35, 16))
    lengths = torch.tensor([[35, 3, 0], [34, 33, 1]])
    assert agree(features, lengths, joints=5)
    assert agree(features[:, 1].transpose(0, 1), torch.full((35,), 2), joints=5)
    assert agree(features[0, 0], joints=5)


def test_lengths_outside_the_frames_are_clamped(emulated):
    assert agree(rows(4, 20, 16)[:3], torch.tensor([23, -1, 20]), joints=5)


def test_nothing_and_no_frames(emulated):
    for shape in ((0, 7, 16), (2, 0, 16)):
        features = torch.zeros(shape, requires_grad=True)
        made = features_to_joints(features, joints=5, backend="cuda")
        assert made.shape == (*shape[:2], 5, 3)
        made.sum().backward()
        assert features.grad.shape == shape


def test_bits_repeat_and_depend_on_nothing_else(emulated):
    features, lengths = rows(3, 70, 16), torch.tensor([70, 40, 33])

    def run(features, lengths):
        features = features.clone().requires_grad_()
        made = features_to_joints(features, joints=5, lengths=lengths, backend="cuda")
        made.square().sum().backward()
        return made.detach(), features.grad

    first = run(features, lengths)
    emulated.reversed = True
    for again in (run(features, lengths), run(fill_padding(features, lengths, torch.nan), lengths)):
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    alone = run(features[1:2], lengths[1:2])
    assert all(torch.equal(a[1], b[0]) for a, b in zip(first, alone, strict=True))


def test_the_approximations_of_a_gpu_are_close_enough(host_folder, poison):
    with use_driver("cpu", EmuDriver(host_folder, flags=("-DMK_SLOPPY",))):
        assert agree(rows(3, 90, 16), torch.tensor([90, 44, 9]), joints=5)


MUTATIONS = {
    "turns the other way": ("angle * -0.6366197723675814", "angle * 0.6366197723675814"),
    "moves by its own speed": ("rows[thread - 1][1] : speed_x", "rows[thread][1] : speed_x"),
    "turns by its own rate": ("rows[thread - 1][0] : rate", "rows[thread][0] : rate"),
    "forgets the heading of the step before": ("half = __shfl_sync(MK_FULL, angle, 31);", ""),
    "forgets the path of the step before": ("at_x = __shfl_sync(MK_FULL, x, 31);", ""),
    "no unit": ("value * unit", "value"),
    "no unit in the gradient": ("unit * grad[", "grad["),
    "no std in the gradient": ("if (std) value *= std[column];", ""),
    "broken frames pass": ("if (bad < frames) atomicMin(&broken, bad);", ""),
    "padding is read": ("const bool inside = start + row < length;\n        const float* const from",
                        "const bool inside = start + row < frames;\n        const float* const from"),
    "the rate turns its own frame": ("(float)(-2.0 * later)", "(float)(-2.0 * all)"),
    "no gradient from the path to the heading": ("const double twist = (double)sums[2][thread] + gx *",
                                                 "const double twist = (double)sums[2][thread] + 0.0 * gx *"),
    "forgets later steps": ("on_turn = __shfl_sync(MK_FULL, all, 0);", ""),
    "the next turn is not kept": ("next = turn[0];", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ["nothing", *MUTATIONS])
def test_a_changed_kernel_is_found_out(name, host_folder, poison):
    old, new = MUTATIONS.get(name, ("return", "return"))
    assert old in EmuDriver.text("recover.cu")
    lengths = torch.tensor([70, 50, 90])
    features = fill_padding(rows(3, 70, 16), lengths, torch.nan)
    features[2, 60, 8] = torch.nan
    options = {"joints": 5, "unit": 0.75, **statistics(16)}
    with use_driver("cpu", EmuDriver(host_folder, lambda text: text.replace(old, new))):
        assert (name == "nothing") == agree(features, lengths, **options)
