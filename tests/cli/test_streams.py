"""Standard streams that are closed, full or left by their reader: one error, no traceback, never a wrong code 0."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LINES = f"{sys.executable} -m motionkit config show pretrain mdm"
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@FULL
@pytest.mark.parametrize(
    ("where", "said"), [("--json >/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_result_that_cannot_be_written_is_one_error(tmp_path: Path, where: str, said: str) -> None:
    done = shell(f"{LINES} {where}", tmp_path)
    assert done.returncode == 1
    first, second, *rest = done.stderr.splitlines()
    assert first == f"error: the result cannot be written to standard output: {said}."
    assert (second.split()[0], rest) == ("fix", [])


@FULL
def test_talk_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    for where in ("2>/dev/full", "<&- 2>&-"):
        line = f"{sys.executable} -m motionkit plugins new motionkit-reward-a{len(where)}"
        done = shell(f"{line} --json {where}", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(json.loads(done.stdout)["files"]) == 5
    done = shell(f"{sys.executable} -m motionkit nonsense <&- >&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    done = shell(f"{LINES} --json | true", tmp_path)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")


EARLY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stop())
sys.argv = ["motionkit", "{command}", "list"]
from motionkit.cli import main
import atexit
atexit.register(lambda: __import__("{module}") if "{module}" == "nonesuch" else None)
main()
"""


@pytest.mark.parametrize("module", ["typer", "nonesuch"])
def test_ctrl_c_before_and_after_a_command_is_quiet(tmp_path: Path, module: str) -> None:
    source = EARLY.format(module=module, command="plugins")
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert ("physics" in done.stdout) == (module == "nonesuch")
