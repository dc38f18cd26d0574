"""What can be known of the self test without a GPU: it says so, and its checks can pass and fail."""

from __future__ import annotations

import threading

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.kernels import selftest
from motionkit.kernels import selftest as _device_checks

from .drivers import use_driver
from .emulation import EmuDriver


def test_a_machine_without_cuda_is_told_so(forks):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    done = forks.run("motionkit.kernels.selftest")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nothing to test: torch: there is no CUDA device\n"


@pytest.fixture
def small(monkeypatch):
    """The same checks on few and short motions: an emulated GPU is slow."""
    real = selftest.inputs
    monkeypatch.setattr(
        selftest, "inputs", lambda batch, frames, joints, seed=0: real(min(batch, 18), min(frames, 36), 12, seed)
    )


def test_its_checks_pass_on_the_kernels(emulated, small):
    device = torch.device("cpu")
    outcomes = [*selftest.repeats(device), *list(selftest.accuracy(device))[:2]]
    assert len(outcomes) == 4
    assert all(outcome.passed for outcome in outcomes), outcomes


def test_its_threads_and_processes_can_pass_and_fail(emulated):
    device = torch.device("cpu")
    (outcome,) = _device_checks.threads(device)
    assert outcome.passed
    (outcome,) = _device_checks.fresh_process(device)  # where the emulated GPU is not known
    assert not outcome.passed
    assert "got a tensor on cpu" in outcome.text


def test_a_thread_that_fails_says_why(emulated, monkeypatch):
    def refuse(*arguments):
        if threading.current_thread() is not threading.main_thread():
            raise MotionkitError("the CUDA driver refuses mk_physics_fwd.")
        return EmuDriver.launch(emulated, *arguments)

    monkeypatch.setattr(emulated, "launch", refuse)
    (outcome,) = _device_checks.threads(torch.device("cpu"))
    assert (outcome.passed, outcome.text) == (False, "the CUDA driver refuses mk_physics_fwd.")


def test_its_accuracy_check_fails_on_a_wrong_kernel(host_folder, poison, small):
    wrong = EmuDriver(host_folder, lambda text: text.replace("fmaf(-3.0f, x2 - x1", "fmaf(-2.9f, x2 - x1"))
    with use_driver("cpu", wrong):
        assert not next(selftest.accuracy(torch.device("cpu"))).passed


def test_exit_code_counts_failures(monkeypatch, capsys):
    monkeypatch.setattr(selftest, "backend_report", lambda: ("ok", "cuda: sm_90"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H200")

    def check(device):
        yield selftest.CheckResult("one", True, "fine")
        yield selftest.CheckResult("two", False, "not fine")

    def crash(device):
        raise RuntimeError("illegal memory access")
        yield

    monkeypatch.setattr(selftest, "CHECKS", (check, crash))
    assert selftest.main() == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "ok    one: fine", "FAIL  two: not fine", "FAIL  crash: illegal memory access", "2 check(s) failed",
    ]  # fmt: skip
    monkeypatch.setattr(selftest, "CHECKS", ())
    assert selftest.main() == 0
