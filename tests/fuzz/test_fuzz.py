"""Hostile files of every kind: what reads them reads them or refuses them, and does nothing else.

Inputs are made from sound ones by mutation, the same each time. For a long search:
``HYPOTHESIS_PROFILE=search MOTIONKIT_FUZZ_INPUTS=5000 pytest tests/fuzz``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from motionkit.errors import MotionkitError

from . import of_data, of_models, of_motions, of_regions, of_runs, of_weights
from .reader import lay_out
from .watch import Watch

INPUTS = int(os.environ.get("MOTIONKIT_FUZZ_INPUTS", "20"))
"""Hostile inputs per reader."""
ROOM = 3 << 30
"""Bytes of address space beyond those of a process that has read nothing; more is a MemoryError."""
ROOMS = (of_motions, of_weights, of_models, of_data, of_regions, of_runs)
READERS = {reader.name: reader for room in ROOMS for reader in room.READERS}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Watch, Path]]:
    """What watches, and a folder; the process is in the folder, and its memory is limited."""
    scratch = tmp_path_factory.mktemp("fuzz")
    torch.set_num_threads(1)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(scratch)
        patch.setenv("HF_HUB_OFFLINE", "1")
        places = [scratch / name for name in ("HOME", "TMPDIR", "MOTIONKIT_CACHE")]
        for place in places:
            place.mkdir()
            patch.setenv(place.name, str(place))
        resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, limits[1]))
        yield Watch(scratch / "input", *places), scratch
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("name", READERS)
def test_hostile_files_are_read_or_refused(bench: tuple[Watch, Path], name: str) -> None:
    (watch, scratch), reader = bench, READERS[name]
    sound = reader.sound_inputs(scratch / f"sound-{name}")
    for again in range(2):  # the first time imports what is imported late
        for files in sound:
            lay_out(files, scratch / "input")
            with contextlib.suppress(MotionkitError):
                refused = watch.read(reader.read, scratch / "input") if again else reader.read(scratch / "input")
                assert not again or refused == reader.closed, "these are sound"
    refusals = []

    @settings(max_examples=INPUTS, database=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=True))
    def hunt(chance: Any) -> None:
        lay_out(reader.hostile_input(sound, chance), scratch / "input")
        refusals.append(watch.read(reader.read, scratch / "input"))

    hunt()
    assert reader.closed or 0 < sum(refusals) < len(refusals), "some of it matters, not all"


def _import(folder: Path) -> None:
    (folder / "evil.py").write_text("x = 1\n")
    spec = importlib.util.spec_from_file_location("evil", folder / "evil.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _write(folder: Path) -> None:
    with contextlib.suppress(Exception):
        (folder.parent / "outside").write_text("x")


def _link(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "link").touch()


def _find_class(folder: Path) -> None:
    import pickle

    pickle.loads(b"cbuiltins\nprint\n.")


def _late(folder: Path) -> None:
    class Late:
        def __del__(self) -> None:
            raise ValueError("too late")

    Late()


def _flood(folder: Path) -> None:
    error = MotionkitError("it holds much.")
    error.message += "x" * 100_000
    raise error


def _take_and_refuse(folder: Path) -> None:
    try:
        bytearray(1 << 44)
    except MemoryError as error:
        raise MotionkitError("it is damaged.") from error


FAULTS: dict[str, Callable[[Path], object]] = {
    "ValueError": lambda folder: int("damaged"),
    "RuntimeWarning": lambda folder: warnings.warn("odd", RuntimeWarning, stacklevel=1),
    "ends the process": lambda folder: sys.exit(0),
    "a message of": _flood,
    "MB of memory": lambda folder: b"x" * (700 << 20),
    "refused only after MemoryError": _take_and_refuse,
    "compile of '<string>'": lambda folder: eval("1 + 1"),
    "evil.py": _import,
    "subprocess.Popen": lambda folder: subprocess.run(["touch", str(folder.parent / "outside")], check=False),
    "os.system": lambda folder: os.system(f"touch {folder.parent / 'outside'}"),
    "to write": _write,
    "os.rename": lambda folder: folder.rename(folder.parent / "outside"),
    "input/link": _link,
    "pickle.find_class": _find_class,
    "too late": _late,
}


@pytest.mark.parametrize("words", FAULTS)
def test_what_no_reader_may_do_is_noticed(bench: tuple[Watch, Path], words: str) -> None:
    watch, scratch = bench
    lay_out({}, scratch / "input")
    with pytest.raises(BaseException) as caught:
        watch.read(FAULTS[words], scratch / "input")
    assert words in f"{type(caught.value).__name__}: {caught.value}"
    assert not (scratch / "outside").exists(), "and it did not happen"


def test_reading_and_writing_beside_the_input_are_fine(bench: tuple[Watch, Path]) -> None:
    def fine(folder: Path) -> None:
        import ast
        from collections import namedtuple

        (folder / "made").mkdir()
        (folder / "made" / "a").write_text("x")
        (folder / "made" / "a").rename(folder / "b")
        with contextlib.suppress(SyntaxError, MemoryError):
            ast.literal_eval("(" * 3000)
        namedtuple("Pair", "a b")

    def refuse(folder: Path) -> None:
        raise MotionkitError("it is damaged.", fix="copy it again.")

    watch, scratch = bench
    lay_out({}, scratch / "input")
    assert [watch.read(read, scratch / "input") for read in (fine, refuse)] == [False, True]
