"""Files that are either the old or the new version."""

from __future__ import annotations

import pytest

from motionkit.runs import write_bytes_atomic


def test_names_may_be_as_long_as_the_system_takes_them(tmp_path):
    path = tmp_path / ("n" * 251 + ".npy")
    for content in (b"one", b"two"):
        write_bytes_atomic(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_bytes_atomic(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]
