"""physics.cu, run on the CPU through the launch code of the GPU, against float64 autograd of the definition."""

from __future__ import annotations

import pytest
import torch

from motionkit.kernels import physics_terms

from .cases import FORWARD, GRADIENT, fill_padding, physics_distance, walkers
from .drivers import use_driver
from .emulation import EmuDriver

FEET = (7, 10, 8, 11)
HEIGHTS = (0.05, 0.08, 0.03, 0.06)


def agree(joints, lengths, feet=FEET, heights=HEIGHTS, **options):
    forward, gradient = physics_distance(joints, lengths, feet, heights, **options)
    return forward <= FORWARD and gradient <= GRADIENT


@pytest.mark.parametrize("padding", [0.0, torch.nan, torch.inf])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((4, 196, 22), (196, 66, 11, 24)),
        ((3, 197, 22), (197, 157, 4)),
        ((6, 33, 22), (33, 21, 5, 3, 2, 0)),
        ((2, 1, 22), (1, 0)),
        ((2, 3, 22), (3, 1)),
        ((2, 4, 22), (4, 3)),
        ((3, 57, 21), (57, 53, 29)),
        ((2, 61, 12), (61, 9)),
        ((1, 105, 52), (105,)),
    ],
)
def test_values_and_gradient(emulated, shape, sizes, padding):
    lengths = torch.tensor(sizes)
    joints = fill_padding(walkers(*shape), lengths, padding)
    forward, gradient = physics_distance(joints, lengths, FEET, HEIGHTS)
    assert forward <= FORWARD
    assert gradient <= GRADIENT
    assert {name for name, _, _ in emulated.launched} == {"mk_physics_fwd", "mk_physics_bwd"}


@pytest.mark.parametrize("roughness", [0.0, 0.1])
def test_smooth_and_rough_motion_far_from_the_origin(emulated, roughness):
    joints = walkers(2, 90, 22, roughness=roughness) + torch.tensor([8.0, 0.0, -5.0])
    assert agree(joints, torch.tensor([90, 71]))


def test_every_length_up_to_two_steps(emulated):
    sizes = torch.arange(0, 62, dtype=torch.int32)
    joints = fill_padding(walkers(62, 61, 3), sizes, torch.nan)
    assert agree(joints, sizes, (0, 2), (0.05, 0.1))


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_views_that_start_anywhere(emulated, offset):
    memory = torch.full((offset + 3 * 35 * 21 * 3,), torch.nan)
    joints = memory[offset:].view(3, 35, 21, 3)
    joints.copy_(walkers(3, 35, 21))
    assert joints.data_ptr() % 16 == 4 * offset
    assert agree(joints, torch.tensor([35, 34, 20]))


def test_lengths_outside_the_frames_are_clamped(emulated):
    room = walkers(5, 20, 5)  # the fourth and fifth are there to be read by mistake
    joints = room[:3]
    assert agree(joints, torch.tensor([25, -3, 20]), (1, 2), (0.05, 0.06))
    terms = physics_terms(joints, torch.tensor([2**40, -(2**40), 20]), feet=(1, 2), backend="cuda")
    assert terms.length.tolist() == [20, 0, 20]


@pytest.mark.parametrize("weights", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_each_gradient_alone(emulated, weights):
    assert agree(walkers(2, 40, 5), torch.tensor([40, 31]), (1, 2), (0.05, 0.06), weights=weights)


def test_a_summed_loss_has_an_expanded_gradient(emulated):
    lengths = torch.tensor([40, 31])
    grads = []
    for joints, backend in ((walkers(2, 40, 5).double(), "torch"), (walkers(2, 40, 5), "cuda")):
        joints.requires_grad_()
        terms = physics_terms(joints, lengths, feet=(1, 2), backend=backend)
        (terms.skate.sum() + 2 * terms.jerk.sum()).backward()
        grads.append(joints.grad)
    torch.testing.assert_close(grads[1].double(), grads[0], rtol=1e-4, atol=1e-7)


def test_nothing_and_no_frames(emulated):
    for shape in ((0, 7, 5, 3), (2, 0, 5, 3)):
        joints = torch.zeros(shape, requires_grad=True)
        terms = physics_terms(joints, torch.zeros(shape[0], dtype=torch.int64), feet=(1, 2), backend="cuda")
        assert [term.tolist() for term in terms] == [[0.0] * shape[0]] * 4
        (terms.skate.sum() + terms.jerk.sum()).backward()
        assert joints.grad.shape == shape


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("length", [1, 2, 3, 30, 90])
def test_a_bad_value_spoils_its_own_motion_only(emulated, value, length):
    """Every term is NaN and the gradient zero, wherever the value is."""
    lengths = torch.tensor([90, length, 20])
    for frame, joint, axis in ((0, 0, 0), (length - 1, 1, 1), (length // 2, 4, 2)):
        joints = walkers(3, 90, 5)
        joints[1, frame, joint, axis] = value
        assert agree(joints, lengths, (1, 2), (0.05, 0.06))
        joints.requires_grad_()
        terms = physics_terms(joints, lengths, feet=(1, 2), backend="cuda")
        assert terms.skate.isnan().tolist() == terms.jerk.isnan().tolist() == [False, True, False]
        (terms.skate.nansum() + terms.jerk.nansum()).backward()
        assert joints.grad.isfinite().all()
        assert joints.grad[1].abs().max() == 0 < joints.grad[0].abs().max()


def test_a_static_pose_has_a_finite_gradient(emulated):
    assert agree(torch.zeros(1, 9, 5, 3), torch.tensor([9]), (1, 2), (0.05, 0.05))


def test_bits_repeat_and_depend_on_nothing_else(emulated):
    """Not on the order in which threads run, nor on the other samples, nor on the padding."""
    lengths = torch.tensor([60, 33, 12])
    joints = walkers(3, 60, 22)

    def run(joints, lengths):
        joints = joints.clone().requires_grad_()
        terms = physics_terms(joints, lengths, feet=FEET, heights=HEIGHTS, backend="cuda")
        (terms.skate.sum() + terms.jerk.sum()).backward()
        return [*(term.detach() for term in terms), joints.grad]

    first = run(joints, lengths)
    emulated.reversed = True
    for again in (run(joints, lengths), run(fill_padding(joints, lengths, torch.nan), lengths)):
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    alone = run(joints[1:2, :50], lengths[1:2])
    assert all(torch.equal(a[1], b[0]) for a, b in zip(first[:4], alone[:4], strict=True))
    assert torch.equal(first[4][1, :50], alone[4][0])


def test_the_approximations_of_a_gpu_are_close_enough(host_folder, poison):
    with use_driver("cpu", EmuDriver(host_folder, flags=("-DMK_SLOPPY",))):
        assert agree(walkers(3, 90, 5), torch.tensor([90, 44, 9]), (1, 2), (0.05, 0.06))


MUTATIONS = {
    "the jerk reaches one frame too far": ("if (t + 3 < length)", "if (t + 2 < length)"),
    "so does its gradient": ("s >= 0 && s + 3 < length", "s >= 0 && s + 2 < length"),
    "no clamp from above": ("(length > frames ? frames : length)", "length"),
    "gs and gj swapped": (
        "const float* gs, long long gs_step, const float* gj, long long gj_step",
        "const float* gj, long long gj_step, const float* gs, long long gs_step",
    ),
    "no factor 3 in the gradient": ("fmaf(3.0f, u[2][c]", "fmaf(1.0f, u[2][c]"),
    "y and z swapped in the gradient": ("const MkGate gate1 = mk_gate(x[(k + 1) * MK_SPAN + 1]",
                                        "const MkGate gate1 = mk_gate(x[(k + 1) * MK_SPAN + 2]"),
    "the foot beside in the gradient": ("foot_at = first * MK_SPAN + 3 * mk_foot(foot)",
                                        "foot_at = first * MK_SPAN + 3 * (mk_foot(foot) + 1)"),
    "the height of another foot": ("heights.of[foot]", "heights.of[0]"),
    "a tile without its first rows": ("const int before = min(3, start);", "const int before = 0;"),
    "the mean of one joint too many": ("MK_JOINTS * max(length - 3, 1)", "(MK_JOINTS + 1) * max(length - 3, 1)"),
    "int64 read as int32": ("wide ? ((const long long*)lengths)[sample]", "wide ? ((const int*)lengths)[sample]"),
    "the gradient stops at the length": ("mk_zero<MK_BWD_THREADS>(grad + origin, written);", ""),
    "a copy without its last round": ("(most / 4 + threads - 1) / threads", "most / 4 / threads"),
    "a copy without its first floats": ("if (first) to[thread] = before;", ""),
    "the last frame of a walk": ("for (int k = 0; k < MK_WALK; ++k) {\n                    const int t",
                                 "for (int k = 0; k < MK_WALK - 1; ++k) {\n                    const int t"),
    "the last pair of a walk in the gradient": ("for (int k = 0; k <= MK_WALK; ++k)",
                                               "for (int k = 0; k < MK_WALK; ++k)"),
    "the last frames of a walk in the gradient": ("k < MK_WALK + 3", "k < MK_WALK + 2"),
    "feet that no thread walks in the gradient": ("#define MK_BWD_FEET ((MK_BWD_GROUPS * MK_JOINTS + 31) / 32 * 32)",
                                              "#define MK_BWD_FEET (MK_BWD_GROUPS * MK_JOINTS + 64)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["nothing", *MUTATIONS])
def test_a_changed_kernel_is_found_out(name, host_folder, poison):
    old, new = MUTATIONS.get(name, ("return", "return"))
    assert old in EmuDriver.text("physics.cu")
    room = walkers(8, 90, 5)
    lengths = torch.tensor([90, 70, 100, -2])
    joints = fill_padding(room, torch.tensor([90, 70, 90, 90, 90, 90, 90, 90]), torch.nan)[:4]
    with use_driver("cpu", EmuDriver(host_folder, lambda text: text.replace(old, new))):
        assert (name == "nothing") == agree(joints, lengths, (1, 2), (0.05, 0.08))
