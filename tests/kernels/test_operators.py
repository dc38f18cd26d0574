"""The torch operators: registration, compilation, choice of backend, and what they refuse."""

from __future__ import annotations

import logging

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.kernels import backend_report, features_to_joints, physics_sums, physics_terms
from motionkit.kernels._backend import NotNowError
from motionkit.motion import HUMANML
from motionkit.text_to_motion.rewards.components import PhysicsOptions
from motionkit.text_to_motion.rewards.motion_terms import Physics

from .cases import FORWARD, GRADIENT, distance, rows, walkers
from .drivers import use_driver

FEET, HEIGHTS = [1, 2], [0.05, 0.08]
LENGTHS = torch.tensor([30, 17])


def physics_inputs():
    return walkers(2, 30, 5), LENGTHS, FEET, HEIGHTS


@pytest.mark.parametrize("op", ["physics_fwd", "physics_bwd", "recover_fwd", "recover_bwd"])
def test_opcheck(emulated, op):
    torch.use_deterministic_algorithms(False)  # opcheck compares memory
    ops = torch.ops.motionkit
    joints, lengths, feet, heights = physics_inputs()
    stats = ops.physics_fwd(joints, lengths, feet, heights)
    features = (rows(2, 30, 16), LENGTHS, torch.zeros(16), torch.ones(16), 5, 0.75)
    made, turns, ends = ops.recover_fwd(*features)
    inputs = {
        "physics_fwd": (joints, lengths, feet, heights),
        "physics_bwd": (joints, lengths, stats, torch.ones(2), None, torch.ones(2), feet, heights),
        "recover_fwd": features,
        "recover_bwd": (torch.ones_like(made), turns, ends, *features),
    }
    report = torch.library.opcheck(getattr(ops, op).default, inputs[op])
    assert set(report.values()) == {"SUCCESS"}


def physics_loss(joints):
    skate, jerk = physics_sums(joints, LENGTHS, fps=20.0, feet=FEET, backend="cuda")
    return (0.1 * skate + torch.log(jerk + 1e-3)).sum()


def recovery_loss(features):
    made = features_to_joints(features, joints=5, lengths=LENGTHS, backend="cuda")
    return physics_loss(made) + made.square().mean()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch.compile does it
@pytest.mark.parametrize(
    ("loss", "leaf"), [(physics_loss, walkers(2, 30, 5)), (recovery_loss, rows(2, 30, 16))], ids=["physics", "recovery"]
)
def test_full_graph_compilation_gives_the_same_bits(emulated, loss, leaf):
    torch._dynamo.reset()
    results = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        x = leaf.clone().requires_grad_()
        value = function(x)
        value.backward()
        results.append((value.detach(), x.grad))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert len(emulated.launched) == (4 if loss is physics_loss else 8)


@pytest.mark.parametrize("samples", [3, 130])
def test_the_definition_compiles_to_one_graph_too(samples):
    torch._dynamo.reset()
    lengths = torch.full((samples,), 9)

    def loss(joints):
        return sum(term.sum() for term in physics_sums(joints, lengths, fps=20.0, feet=FEET))

    results = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        x = walkers(samples, 9, 3).requires_grad_()
        function(x).backward()
        results.append(x.grad)
    torch.testing.assert_close(*results)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compilation_with_dynamic_sizes(emulated):
    """What is part of a kernel may be taken for dynamic too: the joint count, feet and heights of a list."""

    def loss(joints):
        return physics_terms(joints, LENGTHS, feet=FEET, heights=HEIGHTS, backend="cuda").skate.sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for frames, joints in ((30, 5), (41, 5), (30, 6)):
        grads = []
        for function in (loss, compiled):
            x = walkers(2, frames, joints).requires_grad_()
            function(x).backward()
            grads.append(x.grad)
        assert torch.equal(*grads)


def test_nothing_is_asked_that_torch_2_11_cannot_trace(emulated, monkeypatch):
    def untraceable(device_type):
        raise AssertionError("Attempted to call function marked as skipped")

    monkeypatch.setattr(torch.amp, "is_autocast_available", untraceable)
    monkeypatch.setattr(torch.amp.autocast_mode, "is_autocast_available", untraceable)
    physics_loss(walkers(2, 30, 5))
    physics_terms(walkers(2, 30, 5), LENGTHS, feet=FEET, backend="torch")


def test_a_second_derivative_is_refused(emulated):
    """The kernels have a first one only; a wrong second one would go unnoticed."""
    joints = walkers(2, 30, 5).requires_grad_()
    features = rows(2, 30, 16).requires_grad_()
    for leaf, loss in ((joints, physics_loss), (features, recovery_loss)):
        (plain,) = torch.autograd.grad(loss(leaf), leaf)
        (slope,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        assert torch.equal(plain, slope)
        for root in (slope.square().sum(), slope.sum() + leaf.sum()):
            with pytest.raises(MotionkitError, match="differentiated once") as caught:
                torch.autograd.grad(root, leaf, retain_graph=True)
            assert "torch" in caught.value.fix


def test_finite_differences(emulated):
    """A check that does not go through any autograd of the definition."""
    joints = walkers(1, 12, 5)
    leaf = joints.clone().requires_grad_()
    physics_loss_of = lambda x: physics_terms(x, torch.tensor([12]), feet=FEET, backend="cuda")  # noqa: E731
    terms = physics_loss_of(leaf)
    (terms.skate + 5 * terms.jerk).backward()
    for place in ((0, 4, 1, 0), (0, 5, 2, 1), (0, 11, 0, 2), (0, 0, 4, 1)):
        values = []
        for step in (1e-3, -1e-3):
            moved = joints.clone()
            moved[place] += step
            terms = physics_loss_of(moved)
            values.append(float(terms.skate + 5 * terms.jerk))
        assert float(leaf.grad[place]) == pytest.approx((values[0] - values[1]) / 2e-3, rel=0.05, abs=2e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", ["cuda", "torch"])
def test_half_precision_is_widened_before_differences(emulated, dtype, backend):
    joints = walkers(2, 30, 5).to(dtype)
    features = rows(2, 30, 16).to(dtype)
    half = physics_terms(joints.requires_grad_(), LENGTHS, feet=FEET, backend=backend)
    full = physics_terms(joints.detach().float(), LENGTHS, feet=FEET, backend=backend)
    assert all(a.dtype == torch.float32 and torch.equal(a, b) for a, b in zip(half, full, strict=True))
    half.jerk.sum().backward()
    assert joints.grad.dtype == dtype
    made = features_to_joints(features, joints=5, backend=backend)
    assert torch.equal(made, features_to_joints(features.float(), joints=5, backend=backend))


@pytest.mark.parametrize("backend", ["cuda", "torch"])
def test_autocast_has_no_effect(emulated, backend):
    features = rows(2, 30, 16)

    def run():
        made = features_to_joints(features, joints=5, lengths=LENGTHS, backend=backend)
        return made, *physics_terms(made, LENGTHS, feet=FEET, backend=backend)

    plain = run()
    with torch.autocast("cpu", torch.bfloat16):
        inside = run()
    assert all(torch.equal(a, b) for a, b in zip(plain, inside, strict=True))


class Broken:
    """A driver that cannot be made ready."""

    def __init__(self):
        self.asked = 0

    def load(self, spec, device):
        self.asked += 1
        raise MotionkitError("the NVRTC library cannot be loaded.", why="libnvrtc.so.13 was not found")

    def launch(self, *arguments):
        raise AssertionError("nothing may be launched")


def test_auto_falls_back_with_one_line(caplog):
    joints, broken = walkers(2, 30, 5), Broken()
    truth = physics_terms(joints, LENGTHS, feet=FEET, backend="torch")
    with use_driver("cpu", broken), caplog.at_level(logging.INFO, logger="motionkit.kernels"):
        for _ in range(3):
            terms = physics_terms(joints, LENGTHS, feet=FEET)
            assert all(torch.equal(a, b) for a, b in zip(terms, truth, strict=True))
        with pytest.raises(MotionkitError, match="NVRTC"):
            physics_terms(joints, LENGTHS, feet=FEET, backend="cuda")
    (record,) = caplog.records
    assert "plain torch instead of the physics kernel on cpu" in record.getMessage()
    assert "libnvrtc.so.13 was not found" in record.getMessage()
    assert broken.asked == 2


def test_a_body_without_a_kernel_takes_it_from_no_other(emulated, caplog):
    joints = walkers(2, 30, 5)
    with caplog.at_level(logging.INFO, logger="motionkit.kernels"):
        for _ in range(2):
            physics_terms(joints, LENGTHS, feet=[])
            features_to_joints(rows(1, 9, 400), joints=100)
    assert emulated.launched == []
    assert len(caplog.records) == 2  # one for each kernel
    physics_terms(joints, LENGTHS, feet=FEET)
    features_to_joints(rows(1, 9, 16), joints=5)
    assert [name for name, _, _ in emulated.launched] == ["mk_physics_fwd", "mk_recover_fwd"]


def test_what_is_missing_for_all_bodies_is_said_once(caplog):
    with use_driver("cpu", Broken()), caplog.at_level(logging.INFO, logger="motionkit.kernels"):
        for joints in (5, 6, 7):
            physics_terms(walkers(2, 30, joints), LENGTHS, feet=FEET)
    assert len(caplog.records) == 1


def test_what_cannot_be_now_is_asked_again(emulated, monkeypatch):
    """A first call during graph capture takes plain torch; the next one does not."""

    def capturing(spec, device):
        raise NotNowError("a CUDA graph is being captured")

    joints = walkers(2, 30, 5)
    with monkeypatch.context() as patch:
        patch.setattr(emulated, "load", capturing)
        physics_terms(joints, LENGTHS, feet=FEET)
    assert emulated.launched == []
    physics_terms(joints, LENGTHS, feet=FEET)
    assert len(emulated.launched) == 1


def test_the_variable_chooses_and_an_argument_has_the_last_word(emulated, monkeypatch):
    def launches(**options):
        emulated.launched.clear()
        physics_terms(walkers(1, 9, 3), torch.tensor([9]), feet=FEET, **options)
        return len(emulated.launched)

    assert launches() == 1
    monkeypatch.setenv("MOTIONKIT_KERNELS", "torch")
    assert launches() == 0
    assert launches(backend="cuda") == 1
    monkeypatch.setenv("MOTIONKIT_KERNELS", "cuda")
    assert launches() == 1
    assert launches(backend="torch") == 0
    monkeypatch.setenv("MOTIONKIT_KERNELS", "gpu")
    with pytest.raises(MotionkitError, match="MOTIONKIT_KERNELS"):
        launches()


def test_what_a_kernel_cannot_do_takes_plain_torch(emulated):
    """float64, a body without feet, a body too large for shared memory: never a wrong number, never a crash."""
    large = walkers(1, 9, 400)
    for joints, feet in ((walkers(1, 9, 5).double(), FEET), (walkers(1, 9, 5), []), (large, FEET)):
        terms = physics_terms(joints, torch.tensor([9]), feet=feet)
        truth = physics_terms(joints, torch.tensor([9]), feet=feet, backend="torch")
        assert all(torch.equal(a, b) for a, b in zip(terms, truth, strict=True))
        with pytest.raises(MotionkitError):
            physics_terms(joints, torch.tensor([9]), feet=feet, backend="cuda")
    features_to_joints(rows(1, 9, 400), joints=100)
    with pytest.raises(MotionkitError, match="2 to 60 joints"):
        features_to_joints(rows(1, 9, 400), joints=100, backend="cuda")
    assert emulated.launched == []


def test_cpu_tensors_and_the_cuda_backend():
    for call in (
        lambda: physics_terms(walkers(1, 9, 3), torch.tensor([9]), feet=FEET, backend="cuda"),
        lambda: features_to_joints(rows(1, 9, 16), joints=5, backend="cuda"),
    ):
        with pytest.raises(MotionkitError, match="cpu") as caught:
            call()
        assert "auto or torch" in caught.value.fix


PHYSICS_REFUSALS = {
    "float64": lambda j, n: (j.double(), n, FEET, HEIGHTS),
    "half": lambda j, n: (j.half(), n, FEET, HEIGHTS),
    "another layout": lambda j, n: (j.transpose(1, 2), n, FEET, HEIGHTS),
    "two coordinates": lambda j, n: (j[..., :2].contiguous(), n, FEET, HEIGHTS),
    "flat": lambda j, n: (j.flatten(2), n, FEET, HEIGHTS),
    "float lengths": lambda j, n: (j, n.float(), FEET, HEIGHTS),
    "too few lengths": lambda j, n: (j, n[:1], FEET, HEIGHTS),
    "every second length": lambda j, n: (j, n.repeat_interleave(2)[::2], FEET, HEIGHTS),
    "no such foot": lambda j, n: (j, n, [1, 5], HEIGHTS),
    "a foot twice": lambda j, n: (j, n, [1, 1], HEIGHTS),
    "one height": lambda j, n: (j, n, FEET, [0.05]),
}


@pytest.mark.parametrize("case", PHYSICS_REFUSALS)
def test_the_operator_refuses(emulated, case):
    joints, lengths, _, _ = physics_inputs()
    with pytest.raises(MotionkitError):
        torch.ops.motionkit.physics_fwd(*PHYSICS_REFUSALS[case](joints, lengths))
    assert emulated.launched == []


RECOVER_REFUSALS = {
    "float64": {"features": rows(2, 30, 16).double()},
    "another layout": {"features": rows(2, 16, 30).transpose(1, 2)},
    "too narrow": {"features": rows(2, 30, 15)},
    "float lengths": {"lengths": LENGTHS.float()},
    "mean alone": {"std": None},
    "a wrong width": {"mean": torch.zeros(15), "std": torch.ones(15)},
    "float64 statistics": {"mean": torch.zeros(16).double()},
}


@pytest.mark.parametrize("case", RECOVER_REFUSALS)
def test_the_recovery_operator_refuses(emulated, case):
    given = {"features": rows(2, 30, 16), "lengths": LENGTHS, "mean": torch.zeros(16), "std": torch.ones(16)}
    with pytest.raises(MotionkitError):
        torch.ops.motionkit.recover_fwd(*(given | RECOVER_REFUSALS[case]).values(), 5, 1.0)
    assert emulated.launched == []


def test_the_functions_take_any_layout(emulated):
    """What the operator refuses, the function puts right."""
    joints = walkers(2, 30, 5).transpose(1, 2).contiguous().transpose(1, 2)
    assert not joints.is_contiguous()
    lengths = LENGTHS.repeat_interleave(2)[::2]
    for made, truth in zip(
        physics_terms(joints, lengths, feet=FEET, backend="cuda"),
        physics_terms(joints.double(), lengths, feet=FEET),
        strict=True,
    ):
        torch.testing.assert_close(made.double(), truth, rtol=1e-5, atol=1e-8)


FUNCTION_REFUSALS = [
    (lambda: physics_terms(torch.zeros(2, 9, 9), LENGTHS, feet=FEET), r"\[N, T, J, 3\]"),
    (lambda: physics_terms(torch.zeros(2, 9, 3, 3, dtype=torch.int64), LENGTHS, feet=FEET), "floating point"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS.float(), feet=FEET), "int64"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS[:1], feet=FEET), r"int64 \[2\]"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS, feet=[1, 3]), "different joints of 0 to 2"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS, feet=[1, 1]), "different joints"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS, feet=FEET, heights=[0.1]), "one contact height or 2, got 1"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS, feet=FEET, heights=torch.inf), "finite numbers of metres"),
    (lambda: features_to_joints(rows(2, 9, 16), joints=5, unit=torch.nan), "unit must be a finite"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS, feet=FEET, backend="gpu"), "backend must be one of"),
    (lambda: physics_terms(walkers(2, 9, 3), LENGTHS, feet=FEET, check=True), "length 30 of sample 0"),
    (lambda: features_to_joints(rows(2, 9, 16), joints=5, lengths=-LENGTHS, check=True), "length -30 of sample 0"),
    (lambda: features_to_joints(rows(2, 9, 16), joints=6), "19 or more"),
    (lambda: features_to_joints(rows(2, 9, 16), joints=5, lengths=LENGTHS[:1]), r"lengths must be \[2\]"),
    (lambda: features_to_joints(rows(2, 9, 16), joints=5, mean=torch.zeros(16)), "together"),
    (
        lambda: features_to_joints(rows(2, 9, 16), joints=5, mean=torch.zeros(9), std=torch.ones(9)),
        r"mean must be \[16\]",
    ),
]


@pytest.mark.parametrize("case", range(len(FUNCTION_REFUSALS)))
def test_the_functions_refuse(case):
    call, message = FUNCTION_REFUSALS[case]
    with pytest.raises(MotionkitError, match=message):
        call()


def test_report_without_a_gpu(monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert backend_report() == ("ok", "torch: there is no CUDA device")
    monkeypatch.setenv("MOTIONKIT_KERNELS", "torch")
    assert backend_report() == ("ok", "torch, as MOTIONKIT_KERNELS says")
    monkeypatch.setenv("MOTIONKIT_KERNELS", "cuda")
    assert backend_report() == ("fail", "torch: there is no CUDA device")
    monkeypatch.setenv("MOTIONKIT_KERNELS", "gpu")
    assert backend_report()[0] == "fail"


def test_report_with_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    broken = Broken()
    with use_driver("cuda", broken):
        assert backend_report() == ("warn", "torch: the NVRTC library cannot be loaded. libnvrtc.so.13 was not found")
        monkeypatch.setenv("MOTIONKIT_KERNELS", "cuda")
        assert backend_report()[0] == "fail"
    broken.load = lambda spec, device: None
    with use_driver("cuda", broken):
        state, text = backend_report()
    assert (state, text[:19]) == ("ok", "cuda: sm_90 by NVRT")


def test_the_physics_loss_takes_both_kernels(emulated):
    reward = Physics(PhysicsOptions(r_s=0.5, r_j=400.0))
    results = []
    for dtype in (torch.float64, torch.float32):  # float64 is plain torch
        features = rows(2, 30, HUMANML.width).to(dtype).requires_grad_()
        loss = reward.loss(features, LENGTHS, skeleton=HUMANML, fps=20.0)
        loss.sum().backward()
        results.append((loss, features.grad))
    (truth, slope), (made, grad) = results
    assert distance(made, truth) <= FORWARD
    assert distance(grad, slope) <= GRADIENT
    order = ["mk_recover_fwd", "mk_physics_fwd", "mk_physics_bwd", "mk_recover_bwd"]
    assert [name for name, _, _ in emulated.launched] == order
