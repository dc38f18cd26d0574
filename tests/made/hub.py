"""A stand-in of the Hugging Face hub on this machine: the parts of its HTTP interface that get and send a model."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Hub:
    """What it holds and what it was asked."""

    address: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def commit_of(self, name: str) -> str:
        """Return the commit of what a repository holds now."""
        content = sorted((file, hashlib.sha1(data).hexdigest()) for file, data in self.repositories[name].items())
        return hashlib.sha1(repr(content).encode()).hexdigest()


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve an empty hub on a free port of this machine."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self, content: bytes, status: int = 200, kind: str = "application/json", **more: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            for name, value in more.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _json(self, content: Any, status: int = 200, **more: str) -> None:
            self._answer(json.dumps(content).encode(), status, **more)

        def _missing(self) -> None:
            self._json({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")

        def do_HEAD(self) -> None:
            self._get()

        def do_GET(self) -> None:
            self._get()

        def _get(self) -> None:
            path = urlsplit(self.path).path
            hub.asked.append(f"{self.command} {path}")
            words = path.strip("/").split("/")
            if words[:2] == ["api", "models"] and len(words) >= 4:
                name = "/".join(words[2:4])
                if name not in hub.repositories:
                    return self._missing()
                files = [{"rfilename": file, "type": "file", "path": file, "size": len(data), "oid": "0" * 40}
                         for file, data in sorted(hub.repositories[name].items())]  # fmt: skip
                if len(words) > 4 and words[4] == "tree":
                    return self._json(files)
                return self._json({"id": name, "modelId": name, "sha": hub.commit_of(name), "siblings": files,
                                   "private": False, "tags": [], "downloads": 0, "likes": 0})  # fmt: skip
            if len(words) >= 5 and words[2] == "resolve":
                name, file = "/".join(words[:2]), "/".join(words[4:])
                data = hub.repositories.get(name, {}).get(file)
                if data is None:
                    return self._missing()
                return self._answer(data, kind="application/octet-stream", ETag=f'"{hashlib.sha1(data).hexdigest()}"',
                                    X_Repo_Commit=hub.commit_of(name))  # fmt: skip
            return self._missing()

        def do_POST(self) -> None:
            path = urlsplit(self.path).path
            hub.asked.append(f"POST {path}")
            hub.tokens.add(self.headers.get("Authorization", ""))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            words = path.strip("/").split("/")
            if path == "/api/repos/create":
                wanted = json.loads(body)
                name = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
                if name in hub.repositories:
                    return self._json({"url": f"{hub.address}/{name}"}, 409)
                hub.repositories[name] = {}
                hub.private[name] = bool(wanted.get("private")) or wanted.get("visibility") == "private"
                return self._json({"url": f"{hub.address}/{name}", "name": name})
            if path == "/api/validate-yaml":  # the metadata of the card
                return self._json({"errors": [], "warnings": []})
            name = "/".join(words[2:4])
            if words[4] == "preupload":
                files = json.loads(body)["files"]
                return self._json(
                    {"files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in files]}
                )
            if words[4] == "commit":
                for line in body.decode().splitlines():
                    one = json.loads(line)
                    if one["key"] == "file":
                        hub.repositories[name][one["value"]["path"]] = base64.b64decode(one["value"]["content"])
                commit = hub.commit_of(name)
                return self._json({"commitOid": commit, "commitUrl": f"{hub.address}/{name}/commit/{commit}",
                                   "hookOutput": "", "success": True})  # fmt: skip
            return self._json({}, 200)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
