"""Hostile files of every kind: what reads them reads them or refuses them, and does nothing else.

Inputs are made from sound ones by mutation; input number N of a reader is the same everywhere. One that escapes is read
again by ``python tests/fuzz READER --seed N``. ``MOTIONKIT_FUZZ_MINUTES`` sets the time of the long test (15).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count

import pytest

from .hunt import Row, Worker, hunt, table
from .readers import READERS

SECONDS = 10.0
"""Time for all readers together, imports not counted; a slow machine tries fewer of the same inputs."""
SOUND = 8
"""Sound inputs that are read first; no reader has more of them."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(tmp_path_factory.mktemp("fuzz"))
    worker.ask("texts", -1)  # starts it and imports what is read with
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def shares(worker: Worker) -> Iterator[float]:
    """What is left of the time, dealt to the readers that are left."""
    start = time.monotonic()
    return ((start + SECONDS - time.monotonic()) / left for left in range(len(READERS), 0, -1))


@pytest.mark.parametrize("name", READERS)
def test_hostile_files_are_read_or_refused(worker: Worker, shares: Iterator[float], name: str) -> None:
    reader, until = READERS[name], time.monotonic() + next(shares)
    sound = hunt(worker, Row(name), range(-1, -1 - SOUND, -1))
    assert not sound.escapes, sound.escapes[0]
    assert (sound.refused if reader.closed else sound.read) == sound.inputs, "these are sound"
    row = hunt(worker, Row(name), range(reader.rounds), until)
    assert not row.escapes, f"{len(row.escapes)} of {row.inputs} inputs, the first:\n{row.escapes[0]}"
    assert reader.closed or row.inputs < reader.rounds or 0 < row.refused < row.inputs, "some of it matters, not all"


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_hostile_files_are_read_or_refused_for_long(worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    until = time.monotonic() + 60 * float(os.environ.get("MOTIONKIT_FUZZ_MINUTES", "15"))
    rows = [Row(name) for name in READERS]
    for start in count(0, 50):
        for row in rows:
            hunt(worker, row, range(start, start + 50), until)
        if time.monotonic() > until:
            break
    with capsys.disabled():
        print(f"\n{table(rows)}")
    escapes = [escape for row in rows for escape in row.escapes]
    assert not escapes, "\n\n".join(map(str, escapes[:20]))
