"""The fuzzer notices what it is there for, and an input is the same each time it is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .hunt import Row, Worker, hunt, table
from .reader import hostile_input, lay_out, sound_inputs
from .readers import READERS


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(tmp_path_factory.mktemp("canaries"), seconds=1.0, idle=2.0, memory=256 << 20)
    yield worker
    worker.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fail", "ValueError: damaged"),
        ("flood", "a message of"),
        ("warn", "RuntimeWarning: odd values"),
        ("recurse", "RecursionError"),
        ("exit", "SystemExit: 0"),
        ("leave", "ended with code 0"),
        ("crash", "ended with code -11"),
        ("spin", "takes more than 1.0 s"),
        ("wait", "it waits"),
        ("take", "MB of memory"),
        ("take-and-refuse", "refused only after MemoryError"),
        ("evaluate", "compile of '<string>'"),
        ("import", "evil.py"),
        ("run", "subprocess.Popen"),
        ("shell", "os.system"),
        ("write", "to write"),
        ("rename", "os.rename"),
        ("link", "input/link"),
        ("find-class", "pickle.find_class"),
        ("unraisable", "too late"),
    ],
)
def test_what_no_reader_may_do_is_noticed(worker: Worker, name: str, words: str) -> None:
    row = hunt(worker, Row(f"canary-{name}"), [-1])
    assert (row.inputs, row.read, row.refused, len(row.escapes)) == (1, 0, 0, 1)
    (escape,) = row.escapes
    assert words in escape.what
    assert escape.hang == (name in ("spin", "wait"))
    assert not [name for name in ("outside", "ran") if (worker.scratch / name).exists()], "and it did not happen"


def test_reading_and_refusing_are_fine(worker: Worker) -> None:
    rows = [hunt(worker, Row(f"canary-{name}"), [-1, -1]) for name in ("fine", "refuse")]
    assert [(row.inputs, row.read, row.refused, row.escapes) for row in rows] == [(2, 2, 0, []), (2, 0, 2, [])]
    assert table(rows).splitlines()[-1].split()[:5] == ["all", "4", "2", "2", "0"]


@pytest.mark.parametrize("name", ["bvh", "npz", "torch-zip", "runs-resume"])
def test_an_input_is_a_function_of_its_number(tmp_path: Path, name: str) -> None:
    first, again = (sound_inputs(READERS[name], tmp_path / part) for part in ("a", "b"))
    assert first == again
    inputs = [hostile_input(READERS[name], first, seed) for seed in range(20)]
    assert inputs == [hostile_input(READERS[name], again, seed) for seed in range(20)]
    assert len({repr(files) for files in inputs}) > 15
    lay_out(inputs[0], tmp_path / "c")
