"""The memory of files that are mapped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motionkit_success.episodes.read import MappedPages

MB = 2**20


def resident() -> float:
    """Megabytes of mapped files that this process holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile")) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory is read from /proc")
def test_a_file_that_is_read_whole_is_not_held(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (64, MB), np.uint8)
    values.tofile(tmp_path / "file")
    file = np.memmap(tmp_path / "file", np.uint8, "r", shape=values.shape)
    before = resident()
    assert int(file.sum(dtype=np.int64)) == int(values.sum(dtype=np.int64))
    assert resident() - before > 60  # the control: it is held without
    pages = MappedPages(8 * MB)
    for row in range(64):
        np.testing.assert_array_equal(file[row], values[row])
        pages.touched(file, 1)
    assert resident() - before < 10
    np.testing.assert_array_equal(file[5], values[5])


def test_what_was_written_is_kept(tmp_path: Path) -> None:
    file = np.memmap(tmp_path / "file", np.uint8, "w+", shape=(16, MB))
    pages = MappedPages(2 * MB)
    for row in range(16):
        file[row] = row
        pages.touched(file, 1)
    pages.let_go()
    assert [int(part[0]) for part in file] == list(range(16))
    file.flush()
    assert (tmp_path / "file").read_bytes()[9 * MB] == 9
