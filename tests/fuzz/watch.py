"""What reading must never do, seen through Python's audit events: run code, start programs, open sockets, write."""
# ruff: noqa: PTH100, PTH115, PTH117, PTH118
# pathlib raises for a loop of links; what is asked here may not fail.

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from types import CodeType
from typing import Any

_PROGRAMS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "subprocess.Popen",
    "pty.spawn",
)
_OTHERS = ("pickle.find_class", "marshal.load", "code.__new__", "ctypes.dlopen", "urllib.Request", "webbrowser.open")
_CHANGES = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.link": (0, 1), "os.symlink": (1,),
    "os.chmod": (0,), "os.chown": (0,), "os.truncate": (0,), "os.utime": (0,), "shutil.rmtree": (0,),
    "shutil.move": (0, 1),
    "shutil.copyfile": (1,), "shutil.unpack_archive": (0, 1),
}  # fmt: skip
_FOLLOWS = ("os.chmod", "os.chown", "os.truncate", "os.utime", "shutil.copyfile")
"""What acts on what a link leads to."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MAKERS = {
    str(Path(sysconfig.get_paths()["stdlib"]) / name)
    for name in ("ast.py", "dataclasses.py", "collections/__init__.py", "enum.py", "typing.py")
}
"""Modules of the standard library that compile text of their own, or only parse it."""


class ForbiddenError(Exception):
    """What was about to happen does not happen."""


class Watch:
    """Notes forbidden events while it is on, and stops them: a hostile file must harm no machine that tests motionkit.

    Args:
        writable: The folders that may be written to.
        trusted: Folders whose modules may be imported.
    """

    def __init__(self, writable: tuple[Path, ...], trusted: tuple[Path, ...]) -> None:
        self.on = False
        self.seen: list[str] = []
        self._writable = tuple(os.path.realpath(folder) + os.sep for folder in writable)
        self._trusted = tuple(str(folder) + os.sep for folder in trusted)
        sys.addaudithook(self._hook)

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
        if event == "open":
            return self._opened(*arguments)
        if event == "import":
            return self._imported(arguments[0], arguments[1])
        if event == "exec":
            return self._executed(arguments[0])
        if event == "compile":
            return self._compiled(arguments[1])
        if event in _CHANGES:
            places = [arguments[index] for index in _CHANGES[event]]
            folder = next((item for item in arguments[-2:] if isinstance(item, int) and item > 2), None)
            outside = [place for place in places if not self._inside(place, folder, follow=event in _FOLLOWS)]
            return f"{event} {outside[0]!r}" if outside else None
        if event in _PROGRAMS or event in _OTHERS or (event.startswith("socket.") and event != "socket.gethostname"):
            return f"{event} {str(arguments)[:200]}"
        return None

    def _opened(self, path: Any, mode: Any, flags: Any) -> str | None:
        writes = any(letter in str(mode or "") for letter in "wax+") or (isinstance(flags, int) and flags & _WRITES)
        if (
            not writes
            or isinstance(path, int)
            or self._inside(path, follow=True)
            or os.fspath(path) in ("/dev/null", b"/dev/null")
        ):
            return None
        return f"open {path!r} to write"

    def _inside(self, path: Any, folder: int | None = None, *, follow: bool) -> bool:
        """Whether a path, or what a link there leads to, is in a folder that may be written to."""
        text = os.fsdecode(path) if not isinstance(path, int) else os.readlink(f"/proc/self/fd/{path}")
        if folder is not None and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        if follow:
            return os.path.realpath(text).startswith(self._writable)
        parent, name = os.path.split(os.path.abspath(text))
        return os.path.join(os.path.realpath(parent), name).startswith(self._writable)

    def _imported(self, name: str, file: Any) -> str | None:
        outside = file is not None and not os.fsdecode(file).startswith(self._trusted)
        return f"import of {name} from {file}" if outside else None

    def _executed(self, code: Any) -> str | None:
        file = code.co_filename if isinstance(code, CodeType) else "<text>"
        return None if self._is_own(file) else f"exec of {file!r}"

    def _compiled(self, file: Any) -> str | None:
        return None if self._is_own(os.fsdecode(file or "<text>")) else f"compile of {file!r}"

    def _is_own(self, file: str) -> bool:
        """Whether code comes from a trusted file, or is text that the standard library made or only parses."""
        if not file.startswith("<"):
            return file.startswith(self._trusted)
        return file.startswith("<frozen ") or sys._getframe(4).f_code.co_filename in _MAKERS


def trusted_folders(root: Path) -> tuple[Path, ...]:
    """Return where modules may come from: Python, what is installed, and this repository."""
    paths = sysconfig.get_paths()
    named = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    named += [folder for folder in sys.path if folder.endswith("site-packages")]
    return tuple(
        dict.fromkeys(Path(folder) for folder in (*named, root / "motionkit", root / "plugins", root / "tests"))
    )
