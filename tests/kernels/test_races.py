"""Real threads and ThreadSanitizer: the kernels have no race, and would be caught if they had one."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from motionkit.kernels._compile import physics_spec, recover_spec

from .emulation import compile_host

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
