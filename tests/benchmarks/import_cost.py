"""What commands cost beside their work: CPU-seconds above ``import torch``, peak memory, and the packages they import.

Run as ``OMP_NUM_THREADS=1 python tests/benchmarks/import_cost.py``, about one CPU-minute. Each command is a process of
its own with an empty cache; the commands take turns. `tests/cli/test_help.py` holds the modules' names fast.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COMMANDS = (
    "", "generate walk walk.html", "generate walk walk.bvh", "convert walk.bvh walk.glb",
    "view walk.bvh --out page.html", "grpo --dry-run", "grpo --algorithm grpo --dry-run",
)  # fmt: skip
"""In an order in which each finds its input; the first is ``import torch`` alone."""

SHOWN = 5  # packages of a row
RESULT = "measured.json"


def measure(words: list[str]) -> dict[str, Any]:
    """Run a command in this process; return CPU-seconds, peak bytes, and seconds of each package's own modules."""
    import resource
    import time
    from importlib.machinery import ExtensionFileLoader, SourceFileLoader

    own: dict[str, float] = {}
    inner: list[float] = []

    def timed(loader: Any) -> None:
        run = loader.exec_module

        def exec_module(self: Any, module: Any) -> None:
            inner.append(0.0)
            begun = time.process_time()
            try:
                run(self, module)
            finally:
                whole, below = time.process_time() - begun, inner.pop()
                package = module.__name__.partition(".")[0]
                own[package] = own.get(package, 0.0) + whole - below
                if inner:
                    inner[-1] += whole

        loader.exec_module = exec_module

    for loader in (SourceFileLoader, ExtensionFileLoader):
        timed(loader)
    import torch  # noqa: F401  # the base of every row

    if words:
        from motionkit.cli import main as command

        sys.argv = ["motionkit", *words]
        try:
            command()
        except SystemExit as end:
            if end.code:
                raise
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024
    return {"cpu": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss * unit, "own": own}


def main() -> None:
    """Print a row per command: medians over the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        Path(RESULT).write_text(json.dumps(measure(given.one.split())))  # the command owns stdout
        return
    rows: dict[str, list[dict[str, Any]]] = {command: [] for command in COMMANDS}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "MOTIONKIT_CACHE": str(Path(folder) / "cache")}
            for command, results in rows.items():
                line = [sys.executable, str(Path(__file__).resolve()), "--one", command]
                done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(f"{command}: {done.stderr}")
                results.append(json.loads((Path(folder) / RESULT).read_text()))
    torch_alone = statistics.median(result["cpu"] for result in rows[""])
    print(f"{'command':<34} CPU-s above torch  x import torch  peak MB  CPU-s of the heaviest packages")
    for command, results in rows.items():
        cpu, peak = (statistics.median(result[key] for result in results) for key in ("cpu", "peak"))
        own = results[-1]["own"]
        most = sorted(own, key=lambda name: -own[name])[:SHOWN]
        packages = ", ".join(f"{name} {own[name]:.2f}" for name in most)
        above = cpu - torch_alone
        print(
            f"{command or 'import torch':<34} {above:17.2f}  {cpu / torch_alone:14.2f}  {peak / 1e6:7.0f}  {packages}"
        )


if __name__ == "__main__":
    main()
