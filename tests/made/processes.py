"""Two processes of a command, as torchrun starts them, and the runs that they leave."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner

from motionkit.cli import get_app

JOINED = Path(__file__).with_name("joined.py")


_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(
    ["torch._dynamo", "peft", "motionkit.cli._app", "motionkit.text_to_motion.grpo.train", "motionkit_regions.pretrain"]
)
"""Each process is forked from one that has imported torch: twelve tests would import it twice each."""


@dataclass(frozen=True)
class Started:
    """A process, and the files that hold what it prints."""

    process: BaseProcess
    out: Path
    err: Path


def start(words: Sequence[str], folder: Path, *, program: str = "") -> list[Started]:
    """Start two processes with torchrun's variables; what they print goes into files beside `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    found = []
    for rank in range(2):
        place = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        out, err = (folder.with_name(f"{folder.name}-{rank}.{name}") for name in ("out", "err"))
        job = {
            "words": [*words], "program": program, "environment": {**os.environ, **place}, "out": str(out),
            "err": str(err),
        }  # fmt: skip
        options = {"init_globals": {"JOB": job}, "run_name": "__main__"}
        process = _server.Process(target=runpy.run_path, args=(str(JOINED),), kwargs=options)
        process.start()
        found.append(Started(process, out, err))
    return found


def ends(started: Sequence[Started]) -> list[tuple[int | None, str, str]]:
    """Return exit code, stdout and stderr of each; a process that hangs is killed, and fails the test."""
    try:
        for one in started:
            one.process.join(timeout=120)
        return [(one.process.exitcode, one.out.read_text(), one.err.read_text()) for one in started]
    finally:
        for one in started:
            one.process.kill()


def together(words: Sequence[str], folder: Path) -> list[tuple[int | None, str, str]]:
    found = ends(start(words, folder))
    assert [code for code, _, _ in found] == [0, 0], found
    return found


def alone(words: Sequence[str]) -> None:
    result = CliRunner().invoke(get_app(), list(words))
    assert result.exit_code == 0, result.stderr


def weights(run: Path, step: int) -> dict[str, Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """Return the largest difference of two networks' numbers, nine in ten of each tensor.

    Adam turns a gradient that is rounding into steps as large as any: of a bias of keys, which changes no attention,
    and of a head whose attention is settled. Such numbers are few; a share that is wrong moves nearly all of a tensor.
    """
    assert one.keys() == other.keys()
    found = 0.0
    for name, values in one.items():
        if values.is_floating_point() and values.numel():
            difference = (values.double() - other[name].double()).abs()
            if name.endswith(("qkv_proj.bias", "in_proj.bias")):
                difference = difference.view(3, -1)[[0, 2]]
            found = max(found, float(difference.flatten().quantile(0.9)))
    return found
