"""``motionkit generate --serve``: a page on this machine that makes motions, shows them and gives them as files.

The `Studio` makes motions, one at a time, and keeps them. The `Site` is the server of the page: it checks who asks,
and passes requests to the studio. `serve` runs both until a signal ends it.
"""

from __future__ import annotations

import hmac
import json
import os
import queue
import re
import secrets
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.clips.convert import Edits, edit_rows, edited
from motionkit.clips.motion_clip import MotionClip, save_clips
from motionkit.contracts.console import Console
from motionkit.errors import MotionkitError
from motionkit.page.html import content_rules, html_page
from motionkit.player import document as player_document
from motionkit.player import inert, player_assets
from motionkit.player.files import SEAMS, shown_track
from motionkit.rl import StepPlan
from motionkit.text import SEPARATOR
from motionkit.text_to_motion.evaluation.export import name_of
from motionkit.text_to_motion.generating import generate_motions, read_texts
from motionkit.text_to_motion.mdm.settings import first_problem
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.typed import read_seconds

KEPT = 100
"""Motions that are kept; the oldest goes when there is one more."""

LONGEST = 300.0
"""Seconds of a motion that the page makes: a minute of work for each five, on one core, for the starter policy."""

_KINDS = ("glb", "bvh")

HOST = "127.0.0.1"

_MOST = 64 << 10
"""Bytes that a request may have."""

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class Asked(BaseModel):
    """What the page sends."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    text: str = Field(min_length=1, max_length=4000)
    seconds: str = Field("", max_length=400)
    seed: int = Field(0, ge=0, le=2**53)
    guidance: float = Field(ge=0, le=100)


@dataclass(frozen=True)
class _Kept:
    clip: MotionClip
    about: dict[str, Any]
    shown: dict[str, Any]


class Studio:
    """Makes motions of one policy and keeps them; what handlers ask for is done where `work` runs, in turn.

    Args:
        policy: What is sampled.
        plan: Its steps.
        fps: Frames per second of files and page; 0 keeps the policy's.
        edits: What is done to motions in files and page.
        as_typed: As of `motionkit.text_to_motion.generating.read_texts`.
    """

    def __init__(
        self,
        policy: DiffusionPolicy,
        plan: StepPlan,
        *,
        fps: float = 0.0,
        edits: Edits | None = None,
        as_typed: bool = False,
    ) -> None:
        self.policy, self.plan, self.as_typed = policy, plan, as_typed
        self.fps, self.edits = fps or policy.fps, edits or Edits()
        self._kept: dict[int, _Kept] = {}
        self._next = 1
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def work(self) -> None:
        """Do jobs until `stop` is called, or a signal ends it."""
        while (job := self._jobs.get()) is not None:
            result, function = job
            try:
                result.set_result(function())
            except Exception as error:
                result.set_exception(error)

    def stop(self) -> None:
        """Let `work` end."""
        self._jobs.put(None)

    def do(self, function: Callable[[], Any]) -> Any:
        """Have a job done, and return its result."""
        result: Future[Any] = Future()
        self._jobs.put((result, function))
        return result.result()

    def make(self, asked: Asked) -> dict[str, Any]:
        """Make a motion, and return what the page shows of it."""
        started = time.monotonic()
        count = len(asked.text.split(SEPARATOR))
        seconds = read_seconds(asked.seconds, count)
        prompts, readings = read_texts(self.policy, [(asked.text, None)], seconds, as_typed=self.as_typed)
        if (total := prompts[0].length / self.policy.fps) > LONGEST:
            raise MotionkitError(
                f"the motion would last {total:.0f} s; this page makes at most {LONGEST:.0f} s.",
                fix="give fewer seconds; motionkit generate TEXT OUT --durations S makes longer ones.",
            )
        (clip,) = generate_motions(self.policy, prompts, self.plan, guidance=asked.guidance, seed=asked.seed)
        changed, figures = edited(clip.resample(self.fps), self.edits)
        about = {
            "number": self._next,
            "name": f"{name_of(asked.text)}_{self._next}",
            "text": asked.text.strip(),
            "asked": asked.seconds,
            "seconds": changed.motion.frames / changed.motion.fps,
            "frames": changed.motion.frames,
            "seed": asked.seed,
            "guidance": asked.guidance,
            "rows": [[str(cell) for cell in row] for row in edit_rows(figures)],
            "seams": clip.notes.get(SEAMS, ""),
            "read": [reading.sentence for reading in readings.values() if reading.changed],
            "warnings": [reading.sentence for reading in readings.values() if not reading.caption],
            "took": time.monotonic() - started,
        }
        shown = player_document([shown_track(changed, asked.text)], title="")
        self._kept[self._next] = _Kept(clip, about, shown)
        self._next += 1
        if len(self._kept) > KEPT:
            del self._kept[min(self._kept)]
        return about

    def listed(self) -> list[dict[str, Any]]:
        """Return what the page shows of every motion, the newest first."""
        return [kept.about for kept in reversed(list(self._kept.values()))]

    def shown(self, number: int) -> dict[str, Any]:
        """Return the document of a motion for the player."""
        return self._found(number).shown

    def file(self, number: int, kind: str) -> bytes:
        """Return the content of a motion's file, ``glb`` or ``bvh``."""
        kept = self._found(number)
        with tempfile.TemporaryDirectory(prefix="motionkit-") as folder:
            path = Path(folder) / f"motion.{kind}"
            save_clips([kept.clip], path, fps=self.fps, edits=self.edits)
            return path.read_bytes()

    def _found(self, number: int) -> _Kept:
        if (kept := self._kept.get(number)) is None:
            raise MotionkitError(
                f"there is no motion {number}.",
                why=f"the last {KEPT} are kept until the command ends.",
                fix="make it again.",
            )
        return kept


def page_of(token: str, *, title: str, guidance: float, seed: int) -> tuple[str, str]:
    """Return the page and its content security policy, by which it runs its own scripts and asks its server alone.

    Args:
        token: What its requests carry, which no other page knows.
        title: Name of the policy.
        guidance: Guidance scale to begin with.
        seed: Seed to begin with.
    """
    data = inert(json.dumps({"token": token, "guidance": guidance, "seed": seed}))
    body = (
        f"<style>{_file('serve.css')}</style>{_file('serve.html').replace('{{title}}', escape(title))}"
        f'<script type="application/json" id="begin">{data}</script>'
        "<noscript>This page needs JavaScript.</noscript>"
    )
    scripts = f"{player_assets()}<script>{_file('serve.js')}</script>"
    rules = f"{content_rules(scripts)}; connect-src 'self'; frame-ancestors 'none'"
    return html_page("motionkit generate", body, made_by="generate", scripts=scripts), rules


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


class _RefusedError(Exception):
    """A request that is not answered; carries the HTTP status and the reason."""

    def __init__(self, status: int, message: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error = MotionkitError(message, why=why, fix=fix)


class Site(ThreadingHTTPServer):
    """The server: on 127.0.0.1 alone, for its own page alone.

    A page of another site cannot read from it or make it work: requests must name this host (else a name that resolves
    to it would do), and one that makes something must carry the page's token and come from the page's own origin.

    Args:
        port: Where it listens; 0 takes one that is free.

    Raises:
        MotionkitError: The port cannot be used.
    """

    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # there it would share a port that is in use

    def __init__(self, port: int) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise MotionkitError(
                f"port {port} cannot be used: {error.strerror or error}.",
                why="another program may listen there, perhaps another generate --serve.",
                fix="end it, or choose another one: --port N; 0 takes any that is free.",
            ) from error
        self.studio: Studio | None = None
        self.token = secrets.token_urlsafe(24)
        self.making = threading.Lock()
        self.page, self.rules = "", ""

    def server_bind(self) -> None:
        """Bind, without asking for the name of this machine in the network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the header Host may be."""
        return tuple(f"{name}:{self.server_port}" for name in (HOST, "localhost"))

    def open(self, studio: Studio, *, title: str, guidance: float, seed: int) -> None:
        """Have requests answered from now on."""
        self.studio = studio
        self.page, self.rules = page_of(self.token, title=title, guidance=guidance, seed=seed)


class _Handler(BaseHTTPRequestHandler):
    server: Site
    server_version, sys_version = "motionkit", ""
    timeout = 30  # seconds that a client may be silent

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what `http.server` refuses by itself: another method, or what is no request."""
        if code == 501:
            self._send_error(405, MotionkitError(f"{self.command} is not answered.", fix="GET or POST."))
        else:
            self._send_error(int(code), MotionkitError(f"the request cannot be read: {message or code}."))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on the terminal."""

    def _answer(self, action: Callable[[], None]) -> None:
        try:
            try:
                self._check_host()
                action()
            except _RefusedError as refused:
                self._send_error(refused.status, refused.error)
            except MotionkitError as error:
                self._send_error(400, error)
            except (ConnectionError, TimeoutError):
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                fix = "try it as motionkit generate TEXT OUT --traceback, and report what it prints."
                self._send_error(500, MotionkitError(what, why="that is a fault of motionkit.", fix=fix))
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the client has closed the connection

    def _check_host(self) -> None:
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            raise _RefusedError(
                403,
                "this is not the name of this server.",
                why="a foreign name may lead here.",
                fix=self.server.address,
            )

    def _get(self) -> None:
        studio, path = self._studio(), self.path
        # A page of another site can name these addresses, and each of them is work in the queue.
        if path.startswith("/motions") and self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise _RefusedError(403, "only the page of this server may ask for motions.", fix=self.server.address)
        if path in ("/", "/index.html"):
            self._send(200, self.server.page.encode(), "text/html; charset=utf-8", self.server.rules)
        elif path == "/motions":
            self._send_json(200, studio.listed())
        elif match := re.fullmatch(r"/motions/(\d{1,9})", path):
            self._send_json(200, studio.shown(int(match[1])))
        elif match := re.fullmatch(rf"/motions/(\d{{1,9}})\.({'|'.join(_KINDS)})", path):
            number, kind = int(match[1]), match[2]
            content = studio.do(lambda: studio.file(number, kind))
            self._send(200, content, "application/octet-stream", name=f"motion_{number}.{kind}")
        else:
            raise _RefusedError(404, "there is nothing here.", fix=self.server.address)

    def _post(self) -> None:
        if self.path != "/motions":
            raise _RefusedError(404, "nothing is made here.", fix=self.server.address)
        origin = self.headers.get("Origin")
        origins = [f"http://{host}" for host in self.server.hosts]
        token = self.headers.get("X-Motionkit-Token", "")
        if (origin is not None and origin not in origins) or not hmac.compare_digest(
            token.encode(errors="replace"), self.server.token.encode()
        ):
            raise _RefusedError(
                403, "only the page of this server may make motions.", fix=f"reload {self.server.address}"
            )
        asked = self._read()
        studio = self._studio()
        if not self.server.making.acquire(blocking=False):
            raise _RefusedError(409, "a motion is being made.", why="one is made at a time.", fix="wait for it.")
        try:
            made = studio.do(lambda: studio.make(asked))
        finally:
            self.server.making.release()  # before the answer, after which the client may send the next request
        self._send_json(200, made)

    def _studio(self) -> Studio:
        if self.server.studio is None:
            raise _RefusedError(503, "the policy is being loaded.", fix="try again in a moment.")
        return self.server.studio

    def _read(self) -> Asked:
        """Return what the page asks for."""
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(415, "a request is JSON.", fix="Content-Type: application/json")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,12}", length):
            raise _RefusedError(411, "a request says how long it is.", fix="Content-Length: N")
        if int(length) > _MOST:
            raise _RefusedError(413, f"a request has at most {_MOST} bytes.", fix="shorten the text.")
        content = self.rfile.read(int(length))
        try:
            document = json.loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise _RefusedError(
                400, "the request is not JSON.", fix='{"text": "a person walks", "guidance": 2.5}'
            ) from error
        try:
            asked = Asked.model_validate(document)
        except ValidationError as error:
            raise _RefusedError(400, f"the request cannot be read: {first_problem(error)}.", fix="mend it.") from error
        if not asked.text.strip():
            raise _RefusedError(400, "there is no text.", fix="say what to do, such as: a person walks")
        return asked

    def _send_error(self, status: int, error: MotionkitError) -> None:
        self._send_json(status, {"error": error.document()})

    def _send_json(self, status: int, document: object) -> None:
        content = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self._send(status, content.encode("utf-8", "replace"), "application/json")

    def _send(
        self, status: int, content: bytes, kind: str, rules: str = "default-src 'none'", *, name: str = ""
    ) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": rules,
            **_HEADERS,
        }
        if name:
            headers["Content-Disposition"] = f'attachment; filename="{name}"'
        if status == 405:
            headers["Allow"] = "GET, POST"
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def serve(open_studio: Callable[[], tuple[Studio, Mapping[str, Any]]], port: int, console: Console) -> None:
    """Serve the page until a signal ends it.

    Args:
        open_studio: Loads the policy; returns the studio and what `Site.open` takes besides.
        port: Where to listen.
        console: Prints the address and opens it in a browser.

    Raises:
        MotionkitError: The port cannot be used, which is seen before the policy is loaded; what `open_studio` raises.
    """
    site = Site(port)
    try:
        studio, begin = open_studio()
        site.open(studio, **begin)
        threading.Thread(target=site.serve_forever, name="motionkit-serve", daemon=True).start()
        console.say(f"make motions at {site.address}; Ctrl-C ends it")
        console.show(site.address)
        try:
            studio.work()
        finally:
            site.shutdown()
    finally:
        with suppress(OSError):
            site.server_close()
