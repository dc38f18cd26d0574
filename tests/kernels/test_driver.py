"""CudaDriver's own lines, through cuda-bindings and a libcuda that runs kernels on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from motionkit.kernels._compile import compiler_build, cubin_for, launch_bounds, physics_spec, recover_spec

from .cases import FORWARD, GRADIENT
from .emulation import HOST, build

SPECS = (physics_spec(5, (1, 2)), recover_spec(5))


@pytest.fixture(scope="module")
def run(host_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so.1"
    flags = ["-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["g++", *flags, str(HOST / "fake_driver.cpp"), "-o", str(library), "-ldl"], check=True)
    with pytest.MonkeyPatch.context() as patch:  # NVRTC must not meet this libcuda: compile beforehand
        patch.setenv("MOTIONKIT_CACHE", str(folder))
        for spec in SPECS:
            cubin_for(spec, 90)
    libraries = ":".join(str(build(spec, host_folder)) for spec in SPECS)
    known = {
        "LD_LIBRARY_PATH": ":".join([str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]),
        "MOTIONKIT_CACHE": str(folder),
        "MK_HOST_LIBRARIES": libraries,
        "MK_COMPILER": compiler_build(),
    }

    def start(*options, **variables):
        script = Path(__file__).parent / "fake_device.py"
        environment = {**os.environ, **known, "OMP_NUM_THREADS": "1", **variables}
        return subprocess.run(
            [sys.executable, script, *options], capture_output=True, text=True, env=environment, check=False
        )

    return start


@pytest.mark.parametrize("driver", [{}, {"MK_OLD_DRIVER": "1"}], ids=["new", "without cuFuncLoad"])
def test_the_driver_calls(run, driver):
    done = run(**driver)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["physics"] <= GRADIENT
    assert report["recovery"] <= FORWARD
    assert report["loaded before capture"] <= GRADIENT
    assert report["a new thread, in capture"] <= GRADIENT
    assert report["legacy stream"] <= GRADIENT
    assert report["functions"] == [4, 0]
    assert report["functions after a second device"] == [4, 2]  # one architecture, but every device loads
    assert report["old, auto"] == 0.0
    assert "is being captured" in report["capturing"]
    assert "compute capability 7.0; the kernels need 7.5" in report["old"]
    assert "cannot compile for sm_770" in report["unknown"]


def test_a_launch_that_is_refused_is_an_error(run):
    done = run(MK_NO_CONTEXT="launch")
    assert done.returncode == 1
    assert "the CUDA driver refuses mk_physics_fwd: CUDA_ERROR_INVALID_CONTEXT" in done.stderr


@pytest.mark.parametrize("call", ["function", "load"])
def test_code_that_a_device_cannot_run_is_found_out_before_a_launch(run, call):
    """A driver may load a kernel at its first launch only: then it would be too late for plain torch."""
    done = run("--auto", MK_NO_BINARY=call)
    assert (done.returncode, done.stdout) == (0, "0.0"), done.stderr
    assert "plain torch instead of the physics kernel" in done.stderr
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in done.stderr


def test_launch_bounds_ask_for_64_registers():
    for threads in range(32, 1025, 32):
        for arch in (75, 80, 120):
            choices = launch_bounds(threads, arch)
            for bounds in choices:
                size, blocks = (int(part) for part in bounds.split(","))
                assert size >= threads
                assert 1024 <= size * blocks <= (1024 if arch == 75 else 1536)
            assert 1024 % int(choices[-1].split(",")[0]) == 0
    assert launch_bounds(192, 90) == ["192,6", "256,4"]
    assert launch_bounds(192, 75) == launch_bounds(256, 90) == ["256,4"]
