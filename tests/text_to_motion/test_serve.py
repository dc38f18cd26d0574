"""The page of `motionkit generate --serve`, asked through HTTP: what it makes, and whom it refuses."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from motionkit import load_policy
from motionkit.clips.convert import Edits
from motionkit.contracts.console import Quiet
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.formats.glb import read_glb
from motionkit.text import Prompt
from motionkit.text_to_motion import serve as module
from motionkit.text_to_motion.generating import plan_steps
from motionkit.text_to_motion.serve import Site, Studio, read_seconds, serve


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def found(self) -> Any:
        return json.loads(self.content)

    @property
    def message(self) -> str:
        return self.found["error"]["message"]


class Client:
    """Asks a site as its page does, unless told otherwise."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def ask(self, method: str, path: str, body: str | bytes | None = None, **headers: str | None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.site.server_port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            content = body.encode() if isinstance(body, str) else body
            usual: dict[str, str | None] = {"Host": f"127.0.0.1:{self.site.server_port}"}
            if content is not None:
                usual |= {"Content-Length": str(len(content)), "Content-Type": "application/json"}
                usual |= {"X-Motionkit-Token": self.site.token}
            for name, value in {**usual, **{key.replace("_", "-"): value for key, value in headers.items()}}.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(content)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def make(self, text: str = "a person walks", **more: Any) -> Answer:
        return self.ask("POST", "/motions", json.dumps({"text": text, "seconds": "2", "guidance": 2.5, **more}))


@contextlib.contextmanager
def _running(studio: Studio) -> Iterator[Client]:
    site = Site(0)
    site.open(studio, title="mdm: starter <b>", guidance=2.5, seed=7)
    threads = [threading.Thread(target=target, daemon=True) for target in (site.serve_forever, studio.work)]
    for thread in threads:
        thread.start()
    try:
        yield Client(site)
    finally:
        site.shutdown()
        site.server_close()
        studio.stop()
        for thread in threads:
            thread.join(20)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    policy = load_policy()
    with _running(Studio(policy, plan_steps(policy, steps=3))) as running:
        yield running


def test_the_page_needs_nothing_from_elsewhere_and_runs_its_own_scripts_alone(client: Client) -> None:
    answer = client.ask("GET", "/")
    page, rules = answer.content.decode(), answer.headers["Content-Security-Policy"]
    assert answer.status == 200
    assert "mdm: starter &lt;b&gt;" in page
    assert not re.search(r"(src|href)=", page)
    assert "://" not in re.sub(r"http://www\.w3\.org/\d+/\w+", "", page)
    begin = json.loads(re.search(r'id="begin">(.*?)</script>', page)[1])
    assert begin == {"token": client.site.token, "guidance": 2.5, "seed": 7}
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        assert f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in rules
    assert "default-src 'none'" in rules
    assert "frame-ancestors 'none'" in rules
    assert (answer.headers["X-Content-Type-Options"], answer.headers["Cache-Control"]) == ("nosniff", "no-store")


def test_a_motion_is_made_listed_shown_and_given_as_files(client: Client) -> None:
    before = len(client.ask("GET", "/motions").found)
    made = client.make("a person walks | a person waves", seconds="2, 1.5", seed=4)
    assert made.status == 200, made.content
    about = made.found
    assert (about["text"], about["frames"], about["seconds"]) == ("a person walks | a person waves", 70, 3.5)
    assert (about["seed"], about["asked"], about["seams"]) == (4, "2, 1.5", "")
    assert about["name"] == f"a_person_walks_a_person_waves_{about['number']}"
    listed = client.ask("GET", "/motions").found
    assert (len(listed), listed[0]) == (before + 1, about)
    number = about["number"]
    (track,) = client.ask("GET", f"/motions/{number}").found["tracks"]
    assert (track["frames"], [part["text"] for part in track["segments"]]) == (70, ["a person walks", "a person waves"])
    glb, bvh = (client.ask("GET", f"/motions/{number}.{kind}") for kind in ("glb", "bvh"))
    assert glb.headers["Content-Disposition"] == f'attachment; filename="motion_{number}.glb"'
    assert glb.content[:4] == b"glTF"
    assert bvh.content.startswith(b"HIERARCHY")


def test_files_hold_the_motion_that_generate_makes(client: Client, tmp_path) -> None:
    about = client.make(seed=11).found
    (clip,) = client.site.studio.policy.generate("a person walks", durations=[2.0], inference_timesteps=3, seed=11)
    for kind, read in (("bvh", read_bvh), ("glb", read_glb)):
        path = tmp_path / f"one.{kind}"
        path.write_bytes(client.ask("GET", f"/motions/{about['number']}.{kind}").content)
        motion = read(path)[0].motion
        assert (motion.frames, motion.fps) == (40, 20.0)
        places = motion.positions()[:, [motion.names.index(name) for name in clip.motion.names]]
        scale = 0.01 if float(places.abs().max()) > 20 else 1.0
        assert float((places * scale - clip.positions()).norm(dim=-1).mean()) < 0.03


def test_a_seed_makes_the_same_motion_again(client: Client) -> None:
    one, same, other = (client.ask("GET", f"/motions/{client.make(seed=s).found['number']}").found for s in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_long_motion_tells_how_its_blocks_meet(client: Client) -> None:
    about = client.make("a person walks forward", seconds="12").found
    assert about["frames"] == 240
    assert "Joined of 2 blocks" in about["seams"]
    assert client.ask("GET", f"/motions/{about['number']}").found["notes"] == [about["seams"]]


def test_files_and_page_have_the_edits_of_the_command() -> None:
    policy = load_policy()
    studio = Studio(policy, plan_steps(policy, steps=3), fps=30.0, edits=Edits(in_place=True, loop=True))
    with _running(studio) as client:
        about = client.make().found
        assert about["rows"][0][0] == "joints at the seam, mm"
        assert client.ask("GET", "/motions/1").found["tracks"][0]["fileFps"] == 30.0
        assert client.ask("GET", "/motions/1.glb").status == 200


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("{}", 400, "text: Field required"),
        ("[[[", 400, "is not JSON"),
        ("[" * 2_000, 400, "is not JSON"),
        (b"\xff\xfe", 400, "is not JSON"),
        ("[1]", 400, "cannot be read"),
        ('{"text": "walk", "guidance": NaN}', 400, "guidance"),
        ('{"text": "walk", "guidance": 2, "out": "/etc"}', 400, "out: Extra inputs"),
        ('{"text": "walk", "guidance": 2, "seed": -1}', 400, "seed"),
        ('{"text": "walk", "guidance": 2, "seed": "1"}', 400, "seed"),
        ('{"text": "walk", "guidance": 2, "seconds": "0"}', 400, "more than 0 s"),
        ('{"text": "walk", "guidance": 2, "seconds": "1..2"}', 400, "are not seconds"),
        ('{"text": "walk", "guidance": 2, "seconds": "two"}', 400, "'two' are not seconds"),
        ('{"text": "walk", "guidance": 2, "seconds": "1, 2"}', 400, "1 actions and 2 durations"),
        ('{"text": "walk", "guidance": 2, "seconds": "301"}', 400, "at most 300 s"),
        ('{"text": "walk", "guidance": 2, "seconds": "999999"}', 400, "at most 300 s"),
        ('{"text": "walk |  | wave", "guidance": 2}', 400, "empty segment"),
        ('{"text": "  ", "guidance": 2}', 400, "there is no text"),
    ],
)
def test_what_cannot_be_made_is_told_in_words(client: Client, body: str | bytes, status: int, said: str) -> None:
    answer = client.ask("POST", "/motions", body)
    assert answer.status == status
    assert said in answer.message
    assert b"Traceback" not in answer.content
    assert client.ask("GET", "/motions").status == 200, "it goes on"


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"Host": "evil.example"}, 403, "not the name of this server"),
        ({"Host": "127.0.0.1"}, 403, "not the name of this server"),
        ({"Host": None}, 403, "not the name of this server"),
        ({"Origin": "http://evil.example"}, 403, "only the page of this server"),
        ({"Origin": "null"}, 403, "only the page of this server"),
        ({"X-Motionkit-Token": None}, 403, "only the page of this server"),
        ({"X-Motionkit-Token": "x" * 32}, 403, "only the page of this server"),
        ({"Content-Type": "text/plain"}, 415, "is JSON"),
        ({"Content-Length": None}, 411, "how long it is"),
        ({"Content-Length": "-1"}, 411, "how long it is"),
        ({"Content-Length": "65537"}, 413, "at most 65536 bytes"),
    ],
)
def test_another_page_cannot_make_motions(client: Client, headers: dict, status: int, said: str) -> None:
    before = client.ask("GET", "/motions").found
    body = json.dumps({"text": "a person walks", "seconds": "2", "guidance": 2.5})
    answer = client.ask("POST", "/motions", body, **headers)
    assert (answer.status, said in answer.message) == (status, True)
    assert client.ask("GET", "/motions").found == before, "nothing was made"


def test_its_own_page_may_by_either_name(client: Client) -> None:
    for host in client.site.hosts:
        body = json.dumps({"text": "a person walks", "seconds": "2", "guidance": 2.5})
        assert client.ask("POST", "/motions", body, Host=host, Origin=f"http://{host}").status == 200


@pytest.mark.parametrize("path", ["/", "/motions", "/motions/1", "/motions/1.glb"])
def test_a_name_that_leads_here_reads_nothing(client: Client, path: str) -> None:
    answer = client.ask("GET", path, Host=f"evil.example:{client.site.server_port}")
    assert answer.status == 403
    assert client.site.token.encode() not in answer.content
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_other_methods_and_places_are_refused(client: Client) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        answer = client.ask(method, "/motions")
        assert (answer.status, answer.headers["Allow"], answer.message) == (
            405, "GET, POST", f"{method} is not answered."
        )  # fmt: skip
    for path in ("/etc/passwd", "/../../etc/passwd", "/motions/1.exe", "/motions/../serve.py", "/motions/", "/x"):
        assert client.ask("GET", path).status == 404
    assert client.ask("POST", "/", "{}").status == 404
    gone = client.ask("GET", "/motions/99999")
    assert (gone.status, gone.message) == (400, "there is no motion 99999.")


def test_it_listens_on_this_machine_alone(client: Client) -> None:
    assert client.site.server_address[0] == "127.0.0.1"
    assert client.site.address == f"http://127.0.0.1:{client.site.server_port}/"


def test_what_is_no_request_is_answered_in_words(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.site.server_port), timeout=20) as plain:
        plain.sendall(b"hello there, what is this\r\n\r\n")
        answer = b""
        while part := plain.recv(4096):
            answer += part
    assert b"the request cannot be read" in answer
    assert client.ask("GET", "/motions").status == 200


class Slow(Studio):
    """Makes a motion when it is let go, or fails."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(fps=20.0), None)
        self.started, self.go = threading.Event(), threading.Event()

    def make(self, asked: Any) -> dict[str, Any]:
        self.started.set()
        assert self.go.wait(20)
        if asked.text == "fail":
            raise ZeroDivisionError("a fault")
        return {"number": 1}


def test_one_motion_is_made_at_a_time_and_a_fault_ends_nothing() -> None:
    studio = Slow()
    with _running(studio) as client:
        first: list[Answer] = []
        asker = threading.Thread(target=lambda: first.append(client.make("fail")))
        asker.start()
        assert studio.started.wait(20)
        busy = client.make()
        assert (busy.status, busy.message) == (409, "a motion is being made.")
        assert client.ask("GET", "/").status == 200, "the page is there meanwhile"
        studio.go.set()
        asker.join(20)
        assert (first[0].status, first[0].message) == (500, "ZeroDivisionError: a fault")
        assert "a fault of motionkit" in first[0].found["error"]["why"]
        assert client.make().status == 200


def test_the_oldest_motion_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    policy = load_policy()
    with _running(Studio(policy, plan_steps(policy, steps=2))) as client:
        for _ in range(3):
            client.make()
        assert [one["number"] for one in client.ask("GET", "/motions").found] == [3, 2]
        assert "there is no motion 1" in client.ask("GET", "/motions/1").message


def test_what_a_text_is_read_as_and_what_is_not_known_is_on_the_page(client: Client) -> None:
    made = client.make("he walks backwards slowly | a person catches a ball").found
    assert made["read"] == ["'he walks backwards slowly' is read as 'a person walks backward'; not followed: slowly"]
    (warning,) = made["warnings"]
    assert warning.startswith("'a person catches a ball' is not known")
    policy = client.site.studio.policy
    assert policy.condition([Prompt(("he walks backwards slowly",), (40,))]).text.equal(
        policy.condition([Prompt(("a person walks backward.",), (40,))]).text
    )


def test_seconds_are_for_each_action_or_for_all() -> None:
    assert read_seconds("", 3) is None
    assert read_seconds("2", 3) == [2.0, 2.0, 2.0]
    assert read_seconds("1, 2.5 3", 3) == [1.0, 2.5, 3.0]
    assert read_seconds("") is None
    assert read_seconds("3, 2") == [3.0, 2.0]
    for text, actions, word in (
        ("1,2,3", 2, "2 actions and 3 durations"),
        ("a", None, "--durations 'a'"),
        ("3,0", None, "more than 0 s"),
        ("1e9", None, "less than 1,000,000 s"),
    ):
        with pytest.raises(MotionkitError, match=word):
            read_seconds(text, actions, name="--durations")


def test_a_port_in_use_is_told_before_the_policy_is_loaded(client: Client) -> None:
    with pytest.raises(MotionkitError) as raised:
        serve(lambda: pytest.fail("it loaded the policy"), client.site.server_port, Quiet())
    assert raised.value.code == 2
    assert "--port" in raised.value.fix


def test_a_signal_ends_it_and_frees_the_port() -> None:
    told: list[str] = []

    class Console(Quiet):
        def say(self, message: str) -> None:
            told.append(message)

        def show(self, address: str) -> None:
            told.append(address)

    class Stopped(Studio):
        def work(self) -> None:
            raise KeyboardInterrupt

    studio = Stopped(SimpleNamespace(fps=20.0), None)
    with pytest.raises(KeyboardInterrupt):
        serve(lambda: (studio, {"title": "x", "guidance": 1.0, "seed": 0}), 0, Console())
    said, address = told
    assert said == f"make motions at {address}; Ctrl-C ends it"
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(address[17:-1])), 2):
        pytest.fail("it still listens")


@pytest.mark.parametrize("path", ["/motions", "/motions/1", "/motions/1.glb"])
def test_a_page_of_another_site_makes_no_work(client: Client, path: str) -> None:
    client.make()
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200), (None, 200)):
        number = client.ask("GET", "/motions").found[0]["number"]
        answer = client.ask("GET", path.replace("1", str(number)), **{"Sec-Fetch-Site": site})
        assert answer.status == status, site
    assert client.ask("GET", "/", **{"Sec-Fetch-Site": "cross-site"}).status == 200, "a link may lead to the page"
