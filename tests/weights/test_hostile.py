"""Hostile files: each is refused in a sentence, at once, in little memory, and nothing of it runs."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit.weights import _arrays, _gate, read_array
from motionkit.weights import _pickles as _walk
from motionkit.weights._pickles import read_pickle

from .hostile import corpus, npy
from .hostile_pickles import EXECUTED, PICKLES, pickled

SECONDS, MEGABYTES = 10, 150
"""What one file may take; most take a millisecond. A loaded machine is ten times slower than an idle one."""

CHILD = """
import json, os, resource, sys, time
from pathlib import Path
from motionkit.errors import MotionkitError
from motionkit.weights import read, read_array

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) // 1024

resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
before = peak()
for path in sorted(Path(sys.argv[1]).iterdir()):
    for reader in (read, read_array)[: 1 + (path.suffix in (".npy", ".npz"))]:
        print(path.name, end="\\t", flush=True)
        start = time.process_time()
        try:
            said = f"read: {reader(path)!r}"[:80]
        except MotionkitError as error:
            said = "" if error.code == 2 else f"code {error.code}"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"[:80]
        said += " executed" * os.path.exists("executed")
        print(json.dumps([said, time.process_time() - start, peak() - before]), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_hostile_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "work").mkdir()
    files = corpus()
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "files")]
    result = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == 0, f"it ended at {result.stdout.splitlines()[-1:]}: {result.stderr[-500:]}"
    rows = [(name, *json.loads(rest)) for name, rest in (line.split("\t") for line in result.stdout.splitlines())]
    assert {name for name, *_ in rows} == set(files)
    assert not [row for row in rows if row[1]]
    assert not [row for row in rows if row[2] > SECONDS]
    assert rows[-1][3] < MEGABYTES, next(row for row in rows if row[3] >= MEGABYTES)
    assert not list((tmp_path / "work").iterdir())


def test_the_files_do_run_when_they_are_opened_carelessly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickled(PICKLES["reduce"]))
    assert (tmp_path / EXECUTED).exists()


def test_a_dtype_that_is_no_copy_changes_nothing() -> None:
    with pytest.raises(MotionkitError):
        read_pickle(pickled(PICKLES["not a copy"]), "x")
    assert np.frombuffer(b"\0\0\0\0\0\0\xf0\x3f", np.dtype("f8"))[0] == 1


@pytest.mark.parametrize("body", [b"]", b"(", b")", b"}", b"N\x94", b"K\x01", b"U\x00"])
def test_opcodes_are_counted(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    for module in (_gate, _walk):
        monkeypatch.setattr(module, "OBJECTS", 1000)
    with pytest.raises(MotionkitError, match="more than 1000 opcodes"):
        read_pickle(pickled(body * 1000), "x")


def test_keys_that_are_no_texts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gate, "_HASHED", 1000)
    for value in (dict.fromkeys(range(1000)), {float(n) for n in range(1000)}, {(n, "x"): 0 for n in range(90)}):
        assert read_pickle(pickle.dumps(value), "x") == value
    for value in (dict.fromkeys(range(1001)), frozenset(map(float, range(1001))), {(n, 1): 0 for n in range(91)}):
        with pytest.raises(MotionkitError, match="keys that are not texts"):
            read_pickle(pickle.dumps(value), "x")


def test_shared_parts_are_allowed_as_long_as_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    part = list(range(50))
    assert read_pickle(pickle.dumps([part] * 100), "x") == [part] * 100
    for module in (_gate, _walk):
        monkeypatch.setattr(module, "OBJECTS", 1000)
    with pytest.raises(MotionkitError, match="more than 1000 objects"):
        read_pickle(pickle.dumps([part] * 100), "x")


def test_members_of_npz_share_one_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _arrays._LARGE == 64 << 20
    monkeypatch.setattr(_arrays, "_LARGE", 8 << 20)
    zeros = npy(bytes(1 << 20), "{'descr': '|i1', 'fortran_order': False, 'shape': (1048576,), }")
    for count in (7, 9):
        with zipfile.ZipFile(tmp_path / f"{count}.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(count):
                archive.writestr(f"{number}.npy", zeros)
    assert len(read_array(tmp_path / "7.npz")) == 7
    with pytest.raises(MotionkitError, match=r"9\.npz unpacks 0\.0 MB to 9 MB"):
        read_array(tmp_path / "9.npz")
    assert len(read_array(tmp_path / "9.npz", wanted=lambda name: name < "7")) == 7, "only what is read counts"
