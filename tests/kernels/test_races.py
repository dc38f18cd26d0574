"""The kernels have no race, seen by ThreadSanitizer, and their self test can pass and fail."""

from __future__ import annotations

import re
import subprocess
import threading
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.kernels import selftest
from motionkit.kernels import selftest as _device_checks
from motionkit.kernels._compile import physics_spec, recover_spec

from .drivers import use_driver
from .emulation import EmuDriver, compile_host

SPECS = {"physics": physics_spec(14, (1, 3), (16, 16)), "recover": recover_spec(4, threads=64)}


def numbered(text):
    """Give every barrier of the block a number, so that one can be left out when the program runs."""
    count = -1

    def name(_):
        nonlocal count
        count += 1
        return f"MK_BARRIER({count})"

    return re.sub(r"__syncthreads\(\)", name, text), count + 1


BARRIERS = {name: numbered(spec.text())[1] for name, spec in SPECS.items()}


@pytest.fixture(scope="module")
def program(host_folder):
    @lru_cache
    def build(name) -> Path:
        spec = SPECS[name]
        source, out = host_folder / f"race-{name}.cu", host_folder / f"race-{name}"
        source.write_text(numbered(spec.text())[0])
        macros = [f"-D{key}={value}" for key, value in spec.macros(90).items()]
        extra = ["-DMK_HOST_THREADS", "-fsanitize=thread", "-g", "-O1", "-pthread", f"-DMK_RACE_{name.upper()}"]
        compile_host(spec, source, out, *macros, *extra, main="race.cpp")
        return out

    return build


@lru_cache
def prefix():
    """ThreadSanitizer wants addresses that stay put; some containers do not allow that, and most kernels do without."""
    command = ["setarch", "-R"]
    return command if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0 else []


def run(program, left_out=-1):
    command = [*prefix(), str(program), str(left_out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("name", SPECS)
def test_no_race(program, name):
    done = run(program(name))
    assert (done.returncode, done.stderr) == (0, "")
    assert "ran" in done.stdout


@pytest.mark.parametrize(("name", "barrier"), [(name, i) for name in SPECS for i in range(BARRIERS[name])])
def test_every_barrier_is_needed(program, name, barrier):
    for _ in range(5):  # a race is only seen when the two accesses come close to each other
        done = run(program(name), barrier)
        if done.returncode:
            break
    assert done.returncode == 66, f"without barrier {barrier} nothing is reported"
    assert "data race" in done.stderr


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


def test_its_threads_and_processes_can_pass_and_fail(emulated, forks, monkeypatch):
    device = torch.device("cpu")
    (outcome,) = _device_checks.threads(device)
    assert outcome.passed
    monkeypatch.setattr(selftest, "subprocess", SimpleNamespace(run=lambda command, **_: forks.run(*command[1:])))
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
        "ok    one: fine", "FAIL  two: not fine", "FAIL  crash: illegal memory access", "2 checks failed",
    ]  # fmt: skip
    monkeypatch.setattr(selftest, "CHECKS", ())
    assert selftest.main() == 0
