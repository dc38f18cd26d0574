"""What reading must never do, seen through Python's audit events: run code, start programs, open sockets, write."""
# ruff: noqa: PTH100, PTH115, PTH117, PTH118
# pathlib raises for a loop of links; what is asked here may not fail.

from __future__ import annotations

import os
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from motionkit.errors import MotionkitError

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MESSAGE = 25_000
"""Characters of an error; more is not a message but a flood."""
MEMORY = 600 << 20
"""Bytes that no input may take."""
SECONDS = 10
"""CPU time that no input may take."""

_NO_MEMORY = ("can't allocate memory", "cannot allocate memory", "bad allocation", "bad_alloc", "Unable to allocate")
_FORBIDDEN = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen", "pty.spawn",
    "pickle.find_class", "marshal.load", "code.__new__", "ctypes.dlopen", "urllib.Request", "webbrowser.open",
)  # fmt: skip
_CHANGES = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.link": (0, 1), "os.symlink": (1,),
    "os.chmod": (0,), "os.chown": (0,), "os.truncate": (0,), "os.utime": (0,), "shutil.rmtree": (0,),
    "shutil.move": (0, 1), "shutil.copyfile": (1,), "shutil.unpack_archive": (0, 1),
}  # fmt: skip
_FOLLOWS = ("os.chmod", "os.chown", "os.truncate", "os.utime", "shutil.copyfile")
"""What acts on what a link leads to."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_MAKERS = {str(_STDLIB / f"{name}.py") for name in ("ast", "dataclasses", "collections/__init__", "enum", "typing")}
"""Modules of the standard library that compile text of their own, or only parse it."""


class ForbiddenError(Exception):
    """What was about to happen does not happen."""


class Watch:
    """Notes forbidden events while it is on, and stops them: a hostile file must harm no machine that tests motionkit.

    Args:
        writable: The folders that may be written to.
    """

    def __init__(self, *writable: Path) -> None:
        self.on = False
        self.seen: list[str] = []
        self._writable = tuple(os.path.realpath(folder) + os.sep for folder in writable)
        places = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        places += [folder for folder in sys.path if folder.endswith("site-packages")]
        places += [str(ROOT / name) for name in ("motionkit", "plugins", "tests")]
        self._trusted = tuple(folder + os.sep for folder in places)
        sys.addaudithook(self._hook)  # it stays for as long as the process lives, and is off

    def read(self, read: Callable[[Path], object], folder: Path) -> bool:
        """Have an input read; return whether it was refused. What it may not do is an AssertionError."""
        unraisable: list[str] = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda found: unraisable.append(repr(found.exc_value))
        self.seen.clear()
        Path("/proc/self/clear_refs").write_text("5")
        refusal: MotionkitError | None = None
        before, started = _memory("VmRSS"), time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.on = True
                read(folder)
        except MotionkitError as error:
            refusal = error
        except SystemExit as error:
            raise AssertionError("it ends the process") from error
        finally:
            self.on, sys.unraisablehook = False, hook
        if refusal is not None:
            hidden = [cause for cause in _chain(refusal) if _is_want(cause)]
            assert not hidden, f"refused only after {hidden[0]!r}"[:500]
            size = len(f"{refusal.message} {refusal.why} {refusal.fix}")
            assert size <= LONGEST_MESSAGE, f"a message of {size} characters: {refusal.message[:200]}"
        assert not self.seen, self.seen  # also if the reader caught what stopped it
        assert not unraisable, unraisable
        assert time.process_time() - started < SECONDS, "it takes too long"
        assert (taken := _memory("VmHWM") - before) < MEMORY, f"{taken / 1e6:.0f} MB of memory"
        return refusal is not None

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        self.on = False  # nothing that is asked below is an event of the reader's
        try:
            if (what := self._judge(event, arguments)) is not None:
                self.seen.append(what)
                raise ForbiddenError(what)
        finally:
            self.on = True

    def _judge(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        match event:
            case "open":
                return self._opened(*arguments)
            case "import":
                name, file = arguments[:2]
                outside = file is not None and not os.fsdecode(file).startswith(self._trusted)
                return f"import of {name} from {file}" if outside else None
            case "exec":
                code = arguments[0]
                file = code.co_filename if isinstance(code, CodeType) else "<text>"
                return None if self._is_own(file) else f"exec of {file!r}"
            case "compile":
                file = os.fsdecode(arguments[1] or "<text>")
                return None if self._is_own(file) else f"compile of {file!r}"
        if event in _CHANGES:
            places = [arguments[index] for index in _CHANGES[event]]
            folder = next((item for item in arguments[-2:] if isinstance(item, int) and item > 2), None)
            outside = [place for place in places if not self._inside(place, folder, follow=event in _FOLLOWS)]
            return f"{event} {outside[0]!r}" if outside else None
        if event in _FORBIDDEN or (event.startswith("socket.") and event != "socket.gethostname"):
            return f"{event} {str(arguments)[:200]}"
        return None

    def _opened(self, path: Any, mode: Any, flags: Any) -> str | None:
        writes = any(letter in str(mode or "") for letter in "wax+") or (isinstance(flags, int) and flags & _WRITES)
        fine = not writes or isinstance(path, int) or self._inside(path, follow=True)
        return None if fine or os.fsdecode(path) == "/dev/null" else f"open {path!r} to write"

    def _inside(self, path: Any, folder: int | None = None, *, follow: bool) -> bool:
        """Whether a path, or what a link there leads to, is in a folder that may be written to."""
        text = os.fsdecode(path) if not isinstance(path, int) else os.readlink(f"/proc/self/fd/{path}")
        if folder is not None and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        if follow:
            return os.path.realpath(text).startswith(self._writable)
        parent, name = os.path.split(os.path.abspath(text))
        return os.path.join(os.path.realpath(parent), name).startswith(self._writable)

    def _is_own(self, file: str) -> bool:
        """Whether code comes from a trusted file, or is text that the standard library made or only parses."""
        if not file.startswith("<"):
            return file.startswith(self._trusted)
        return file.startswith("<frozen ") or sys._getframe(3).f_code.co_filename in _MAKERS


def _is_want(error: BaseException) -> bool:
    """Whether an error says that memory is short, and not that Python's parser gave up on a text that is too deep."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    parser = last is not None and Path(last.tb_frame.f_code.co_filename).name == "ast.py"
    return (isinstance(error, MemoryError) and not parser) or any(word in str(error)[:2000] for word in _NO_MEMORY)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [cause for cause in (found.__cause__, found.__context__) if cause is not None]


def _memory(name: str) -> int:
    """Return a size of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
