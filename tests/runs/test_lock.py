"""A folder belongs to one process at a time, for as long as that process lives."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from motionkit.errors import MotionkitError
from motionkit.runs._record import LOCK, hold, is_held, still_holds

HOLD = """
import sys
from pathlib import Path
from motionkit.runs import hold
lock = hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert is_held(tmp_path)
        (tmp_path / LOCK).chmod(0o444)
        assert is_held(tmp_path)
        (tmp_path / LOCK).chmod(0o644)
        with pytest.raises(MotionkitError, match="in use by another process"):
            hold(tmp_path)
        process.kill()
    assert (tmp_path / LOCK).exists()
    assert not is_held(tmp_path)
    with hold(tmp_path):
        assert is_held(tmp_path)


def test_an_emptied_folder_is_noticed(tmp_path: Path) -> None:
    with hold(tmp_path) as lock:
        assert still_holds(lock, tmp_path)
        (tmp_path / LOCK).unlink()
        assert not still_holds(lock, tmp_path)
        with hold(tmp_path):
            assert not still_holds(lock, tmp_path)


def test_a_disk_without_locks_is_worked_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, *, blocking: bool) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.lock_descriptor", refuse)
    with hold(tmp_path), hold(tmp_path):
        assert not is_held(tmp_path)
