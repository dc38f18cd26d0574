"""Readers that do what none may, one each: the fuzzer must notice."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import os
import subprocess
import sys
import warnings
from pathlib import Path

from motionkit.errors import MotionkitError

from .reader import Reader


def _make(scratch: Path) -> None:
    (scratch / "a").mkdir()
    (scratch / "a" / "evil.py").write_text("x = 1\n")


def _fail(folder: Path) -> None:
    raise ValueError("damaged")


def _refuse(folder: Path) -> None:
    raise MotionkitError("it is damaged.", fix="copy it again.")


def _flood(folder: Path) -> None:
    error = MotionkitError("it holds much.")
    error.message += "x" * 100_000
    raise error


def _warn(folder: Path) -> None:
    warnings.warn("odd values", RuntimeWarning, stacklevel=1)


def _recurse(folder: Path) -> None:
    _recurse(folder)


def _exit(folder: Path) -> None:
    raise SystemExit(0)


def _leave(folder: Path) -> None:
    os._exit(0)


def _crash(folder: Path) -> None:
    faulthandler._sigsegv()


def _spin(folder: Path) -> None:
    while True:
        pass


def _wait(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "pipe").read_bytes()


def _take(folder: Path) -> None:
    b"x" * (300 << 20)


def _take_and_refuse(folder: Path) -> None:
    try:
        bytearray(1 << 40)
    except MemoryError as error:
        raise MotionkitError("it is damaged.") from error


def _evaluate(folder: Path) -> None:
    eval("1 + 1")


def _import(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("evil", folder / "evil.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _run(folder: Path) -> None:
    subprocess.run(["touch", str(folder.parent / "ran")], check=False)


def _shell(folder: Path) -> None:
    with contextlib.suppress(Exception):
        os.system(f"touch {folder.parent / 'ran'}")


def _write(folder: Path) -> None:
    with contextlib.suppress(Exception):
        (folder.parent / "outside").write_text("x")


def _rename(folder: Path) -> None:
    (folder / "evil.py").rename(folder.parent / "outside")


def _link(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "link").touch()


def _find_class(folder: Path) -> None:
    import pickle

    pickle.loads(b"cbuiltins\nprint\n.")


def _unraisable(folder: Path) -> None:
    class Late:
        def __del__(self) -> None:
            raise ValueError("too late")

    Late()


def _fine(folder: Path) -> None:
    """Do what a reader may: write beside its input, fail inside, parse, make a class, ask for the memory there is."""
    import ast
    from collections import namedtuple

    (folder / "made").mkdir()
    (folder / "made" / "a").write_text("x")
    (folder / "made" / "a").rename(folder / "b")
    with contextlib.suppress(SyntaxError, MemoryError):
        ast.literal_eval("(" * 3000)
    namedtuple("Pair", "a b")
    assert len(b"x" * (100 << 20))
    sys.stdout.write("talk")


CANARIES = {
    reader.name: reader
    for reader in (
        Reader(f"canary-{name}", _make, read, closed=True)
        for name, read in {
            "fine": _fine, "refuse": _refuse, "fail": _fail, "flood": _flood, "warn": _warn, "recurse": _recurse,
            "exit": _exit, "leave": _leave, "crash": _crash, "spin": _spin, "wait": _wait, "take": _take,
            "take-and-refuse": _take_and_refuse, "evaluate": _evaluate, "import": _import, "run": _run, "shell": _shell,
            "write": _write, "rename": _rename, "link": _link, "find-class": _find_class, "unraisable": _unraisable,
        }.items()
    )
}  # fmt: skip
