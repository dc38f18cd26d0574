"""The kernels compiled by NVRTC, the cache of what it makes, and the driver on a libcuda without a GPU."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from motionkit.errors import MotionkitError
from motionkit.kernels import _compile as _cubins
from motionkit.kernels import _compile as _nvrtc
from motionkit.kernels._compile import (
    build_cubin,
    choose_arch,
    compile_cubin,
    compiler_build,
    compiler_version,
    cubin_folder,
    cubin_for,
    launch_bounds,
    physics_spec,
    recover_spec,
)

from ..made.forks import Forks
from .cases import FORWARD, GRADIENT
from .emulation import HOST, build

ARCHS = (75, 80, 90, 120)
SPECS = {
    "HumanML3D": physics_spec(22, (7, 10, 8, 11)),
    "KIT": physics_spec(21, (14, 15, 19, 20)),
    "recovery": recover_spec(22),
    "SMPL": physics_spec(24, (7, 10, 8, 11)),
    "a small body": physics_spec(5, (1, 2)),
    "SMPL-H": physics_spec(52, (7, 10, 8, 11)),
    "recovery of a large body": recover_spec(60),
}


@pytest.mark.parametrize(
    ("name", "arch"), [(name, arch) for name in SPECS for arch in (ARCHS if name == "HumanML3D" else (75, 90))]
)
def test_compiles_without_spills_in_64_registers(name, arch):
    spec = SPECS[name]
    cubin, log = build_cubin(spec, arch)
    assert cubin.startswith(b"\x7fELF")
    assert all(kernel.encode() in cubin for kernel in spec.kernels)
    assert len(re.findall(r"\b0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", log)) == 2, log
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", log)]
    assert len(registers) == 2
    assert max(registers) <= 64, log
    assert max(int(number) for number in re.findall(r"(\d+) bytes smem", log)) <= 48 * 1024


def test_a_kernel_that_spills_gets_more_registers(monkeypatch):
    """Only that one, and only as long as it does."""
    seen = []

    def compiler(text, name, macros, arch):
        seen.append((macros["MK_FWD_BOUNDS"], macros["MK_BWD_BOUNDS"]))
        spills = 20 if macros["MK_BWD_BOUNDS"] != "256,4" else 0
        line = "ptxas info    : Function properties for mk_physics_{}\nptxas   .   0 bytes stack frame, "
        line += (
            "{} bytes spill stores, 8 bytes spill loads\n" if spills else "0 bytes spill stores, 0 bytes spill loads\n"
        )
        return b"", line.format("bwd", spills) + line.format("fwd", 0).replace("8 bytes", "0 bytes")

    monkeypatch.setattr(_cubins, "compile_cubin", compiler)
    build_cubin(physics_spec(24, (7, 10, 8, 11)), 90)
    assert seen == [("224,5", "224,5"), ("224,5", "256,4")]
    seen.clear()
    monkeypatch.setattr(_cubins, "spilling", lambda log: ["mk_physics_fwd", "mk_physics_bwd"])
    build_cubin(SPECS["HumanML3D"], 90)  # to the end of the choices and no further
    assert seen == [("192,6", "192,6"), ("256,4", "256,4")]


def test_a_source_that_does_not_compile_shows_the_log():
    with pytest.raises(MotionkitError) as caught:
        compile_cubin("int nonsense = undeclared;", "x.cu", {}, 90)
    assert "undeclared" in caught.value.why


def test_architecture_of_a_device():
    assert compiler_version() >= (12, 9)
    assert [choose_arch(pair) for pair in ((7, 5), (9, 0), (12, 0))] == [75, 90, 120]
    assert choose_arch((8, 9)) == 89
    assert choose_arch((9, 7)) == 90  # a later model of a generation runs the code of an earlier one
    with pytest.raises(MotionkitError, match="cannot compile for sm_30"):
        choose_arch((3, 0))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    return cubin_folder()


@pytest.fixture(scope="module")
def compile_once():
    """The compiler, which is asked once for the same source, macros and architecture."""
    made = {}

    def compile(*arguments):
        asked = repr(arguments)
        if asked not in made:
            made[asked] = compile_cubin(*arguments)
        return made[asked]

    return compile


@pytest.fixture
def compiled(monkeypatch, compile_once):
    """Count compilations."""
    calls = []

    def count(*arguments):
        calls.append(arguments)
        return compile_once(*arguments)

    monkeypatch.setattr(_cubins, "compile_cubin", count)
    return calls


def test_a_cubin_is_made_once(cache, compiled):
    spec = recover_spec(5)
    first = cubin_for(spec, 90)
    assert cubin_for(spec, 90) == first
    assert len(compiled) == 1
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]
    cubin_for(spec, 80)
    cubin_for(recover_spec(6), 90)
    assert len(compiled) == 3
    assert len(list(cache.iterdir())) == 3
    assert compile_cubin(*compiled[0])[0] == first, "NVRTC makes the same bytes again"


def test_another_compiler_version_is_another_cubin(cache, compiled, monkeypatch):
    cubin_for(recover_spec(5), 90)
    monkeypatch.setattr(_cubins, "compiler_build", lambda: "V99.1.1")
    cubin_for(recover_spec(5), 90)
    assert len(compiled) == 2


def test_the_build_of_the_compiler_is_known():
    """Two builds of release 13.0 must not share a cubin, and nvrtcVersion tells them not apart."""
    release = ".".join(str(part) for part in compiler_version())
    assert re.search(rf"\bV{re.escape(release)}\.\d+", compiler_build()), compiler_build()


DAMAGES = {"cut": lambda whole: whole[:-100], "empty": lambda whole: b"", "other": lambda whole: whole[:200] + b"0" * 9}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cubin_is_made_again(cache, compiled, damage):
    first = cubin_for(recover_spec(5), 90)
    (path,) = cache.iterdir()
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert cubin_for(recover_spec(5), 90) == first
    assert len(compiled) == 2
    assert cubin_for(recover_spec(5), 90) == first
    assert len(compiled) == 2


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, compiled, caplog):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.INFO, logger="motionkit.kernels"):
        assert cubin_for(recover_spec(5), 90).startswith(b"\x7fELF")
    assert "not kept" in caplog.text


def test_no_home_folder_is_no_error(monkeypatch, compiled, caplog):
    """What a container has whose user id nobody knows."""

    def unknown():
        raise RuntimeError("Could not determine home directory.")

    for name in ("MOTIONKIT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    with caplog.at_level(logging.INFO, logger="motionkit.kernels"):
        assert cubin_for(recover_spec(5), 90).startswith(b"\x7fELF")
    assert "not kept" in caplog.text
    assert cubin_folder() is None


FETCH = """
import hashlib, os
from motionkit.kernels._compile import cubin_for
from motionkit.kernels._compile import recover_spec
child = os.fork()  # after the imports: both begin at the same time
print(hashlib.sha256(cubin_for(recover_spec(4), 90)).hexdigest(), flush=True)
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_two_processes_at_once(cache, forks):
    done = forks.run("-c", FETCH, environment={"MOTIONKIT_CACHE": os.environ["MOTIONKIT_CACHE"]})
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert first == second
    assert len(first) == 64
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]


def test_no_cuda_bindings(monkeypatch):
    import builtins

    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("cuda"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    _nvrtc._nvrtc.cache_clear()
    with pytest.raises(MotionkitError, match="cuda-bindings") as caught:
        compiler_version()
    assert "motionkit[cuda]" in caught.value.fix


def test_what_the_messages_advise_brings_what_is_missing():
    """The extra installs both packages, and constraints.txt pins the NVRTC that torch's own CUDA wheels require."""
    root = Path(__file__).parents[2]
    extra = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["cuda"]
    assert {re.split(r"[^\w-]", need)[0] for need in extra} == {"cuda-bindings", "nvidia-cuda-nvrtc"}
    pins = dict(re.findall(r"^([\w.-]+)==([\d.]+)", (root / "constraints.txt").read_text(), re.M))
    assert (pins["torch"], pins["nvidia-cuda-nvrtc"]) == ("2.13.0", "13.0.88"), "pin the two together"


def test_no_nvrtc_library(monkeypatch):
    def missing():
        raise RuntimeError("libnvrtc.so.13 was not found")

    monkeypatch.setattr(_nvrtc._nvrtc(), "nvrtcVersion", missing)
    with pytest.raises(MotionkitError) as caught:
        compiler_version()
    assert "libnvrtc" in caught.value.why


DRIVEN = (physics_spec(5, (1, 2)), recover_spec(5))


@pytest.fixture(scope="module")
def run(host_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so.1"
    flags = ["-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["g++", *flags, str(HOST / "fake_driver.cpp"), "-o", str(library), "-ldl"], check=True)
    with pytest.MonkeyPatch.context() as patch:  # NVRTC must not meet this libcuda: compile beforehand
        patch.setenv("MOTIONKIT_CACHE", str(folder))
        for spec in DRIVEN:
            cubin_for(spec, 90)
    libraries = ":".join(str(build(spec, host_folder)) for spec in DRIVEN)
    known = {
        "LD_LIBRARY_PATH": ":".join([str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]),
        "MOTIONKIT_CACHE": str(folder),
        "MK_HOST_LIBRARIES": libraries,
        "MK_COMPILER": compiler_build(),
    }

    with pytest.MonkeyPatch.context() as patch:  # the loader reads its path when a process starts, not after a fork
        for name, value in {**known, "OMP_NUM_THREADS": "1"}.items():
            patch.setenv(name, value)
        forks = Forks(folder)

    def start(*options, **variables):
        return forks.run("fake_device", *options, environment=variables, path=[str(Path(__file__).parent)])

    with forks:
        yield start


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
