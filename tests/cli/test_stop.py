"""Stopping a command: one line, one document, the exit code of the signal, and nobody left at work."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from motionkit.clips.walk import in_processes

from ..made.bvh_files import write_bvh
from ..made.forks import Forked, Forks

SLOW = """
import multiprocessing, os, signal, sys, time
from pathlib import Path
from motionkit.clips import walk
walk._TRYING = walk._STARTING = 0.0
work = walk.work
def slow(job):
    mark = Path(f"at-{os.getpid()}")
    if multiprocessing.parent_process() is not None and (mark.exists() or Path("hold").exists()):
        time.sleep(250)
    time.sleep(0.3)
    mark.write_text("")
    return work(job)
walk.work = slow
if __name__ == "__main__":
    from motionkit.cli import get_app
    # A shell starts what it puts in the background without Ctrl-C; the tests may be there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    get_app()(sys.argv[1:])
"""
"""The command line, with workers from the second clip on, each of which does one clip and none where `hold` exists.

What is left when a test looks does not depend on how fast the machine is: a worker that starts late finds clips to do.
Workers import this file too, so it imports nothing of the tests.
"""

LONG = 60
"""Seconds that a loaded machine may need to end a command; waiting for the other clips would take longer."""


@pytest.fixture
def command(tmp_path: Path, forks: Forks) -> Iterator[Callable[..., Forked]]:
    """Start a command on 40 clips, in a process group of its own, as a terminal does."""
    (tmp_path / "in").mkdir()
    for number in range(40):
        write_bvh(tmp_path / f"in/{number:02d}.bvh", 12)
    (tmp_path / "slow.py").write_text(SLOW)
    started: list[Forked] = []

    def start(*words: str) -> Forked:
        process = forks.start(str(tmp_path / "slow.py"), *words, folder=tmp_path, session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def workers(folder: Path, process: Forked, count: int) -> list[int]:
    """Wait until `count` workers have done something; return their process ids."""
    end = time.monotonic() + 2 * LONG
    while time.monotonic() < end and process.poll() is None:
        found = [int(path.name[3:]) for path in folder.glob("at-*")]
        if len(others := [number for number in found if number != process.pid]) >= count:
            return others
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def are_gone(numbers: list[int]) -> bool:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if not any(map(is_at_work, numbers)):
            return True
        time.sleep(0.05)
    return False


def is_at_work(number: int) -> bool:
    """Whether a process lives; one that has ended stays in /proc until the parent that it was left to asks for it."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, command, number):
    process = command("convert", "in", "out", "--to", "npz", "--jobs", "2", "--json")
    found = workers(tmp_path, process, 2)
    # A terminal sends Ctrl-C to the whole group; others signal one process.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=LONG)  # it does not wait for all the others
    assert are_gone(found)
    if number == signal.SIGKILL:
        return
    assert process.returncode == 128 + number
    lines = err.strip().splitlines()
    assert lines[-1].startswith("stopped after "), err
    assert lines[-1].endswith(" of 40; the same command goes on from there.")
    assert "Traceback" not in err
    document = json.loads(out)
    assert {name: document[name] for name in ("schema", "command", "status", "total")} == {
        "schema": 1, "command": "convert", "status": "interrupted", "total": 40,
    }  # fmt: skip
    assert 0 < document["done"] <= 3, "one clip in each process, whose results may be on their way"
    journal = (tmp_path / ".out.part/.journal.jsonl").read_text().splitlines()
    assert len(journal) >= document["done"], "what was done is kept"


def test_ctrl_c_while_workers_start_waits_for_none_and_shows_no_traceback(tmp_path, command):
    (tmp_path / "hold").touch()
    process = command("convert", "--check", "in", "--jobs", "2")
    end = time.monotonic() + 2 * LONG
    while not list(tmp_path.glob("at-*")) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.5)  # the workers exist now, and import: some 3 s of work each
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1:] == ["stopped after 1 of 40; nothing was written."]
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["profile", "x.bvh"], ["convert", "--check", "x.bvh"]])
def test_every_command_says_that_it_was_stopped(cli, monkeypatch, words):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    write_bvh(Path("x.bvh"), 60)
    monkeypatch.setattr("motionkit.formats.bvh.read.parse_frames", stop)
    result = cli(*words, "--json")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1:] == ["stopped after 0 of 1; nothing was written."]
    name = "check" if "--check" in words else words[0]
    assert json.loads(result.stdout) == {
        "schema": 1, "command": name, "status": "interrupted", "done": 0, "total": 1,
    }  # fmt: skip
    monkeypatch.setattr(f"motionkit.cli.commands.{words[0]}.open_inputs", stop)
    result = cli(*words)
    assert (result.exit_code, result.stderr) == (130, "stopped.\n")


def test_clips_are_worked_on_by_one_thread_here_too_and_the_caller_keeps_his():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        results = in_processes(lambda _: torch.get_num_threads(), range(2), 1)
        assert (next(results), torch.get_num_threads()) == (1, 2)
        assert (list(results), torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_results_that_nobody_waits_for_are_given_up():
    results = in_processes(str, range(5), 1)
    assert next(results) == "0"
    results.close()
    assert list(results) == []
