from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.player import player_assets, player_fragment, write_player
from motionkit.player._page import player_html

from ..made.bvh_files import write_bvh
from .figures import track

EVIL = (
    '</script><script>window.hit=1</script><img src=x onerror="window.hit=2">" \' ${1} {{player}} \\1 <!-- 走路 🚶 ]]>'
    "\u2028</title><motionkit-player>"
)
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects what a browser would: elements, their attributes, scripts; refuses what is not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.text.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text[self.open[-1]][-1] += data

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]


def source() -> str:
    """All files that make the script."""
    folder = files("motionkit.player")
    return "\n".join(
        entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith((".js", ".css", ".html"))
    )


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = player_html([track()], title="A walk")
    assert not re.search(r"https?:|//[a-z]|\bsrc=|\bhref=|@import|url\(", page.replace("'", '"'))
    assert not re.search(r"\beval\b|new Function|\bfetch\b|XMLHttp|WebSocket|import\(|sendBeacon", page)
    assert source().count("innerHTML") == 1  # of the player's own controls, never of a text


def test_the_page_is_balanced_html_with_one_script_that_it_vouches_for() -> None:
    page = Page(player_html([track()], title="A walk"))
    assert page.tags().count("script") == 2
    assert page.tags().count("motionkit-player") == 1
    script, data = page.text["script"]
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert json.loads(data)["tracks"][0]["title"] == "a walk"
    assert page.text["title"] == ["A walk"]


def test_the_controls_are_balanced_html_that_says_what_it_does() -> None:
    controls = Page((files("motionkit.player") / "player.html").read_text(encoding="utf-8"))
    for tag, attributes in controls.elements:
        if tag == "button" and "data-do" in attributes:
            assert attributes["type"] == "button"
            assert attributes["title"]
        if tag == "svg":
            assert attributes["aria-hidden"] == "true"
    roles = [attributes.get("role") for _, attributes in controls.elements]
    assert roles.count("slider") == 1


def test_texts_stay_texts() -> None:
    plain = Page(player_html([track("x", segments=[("y", 0.0, 1.0)])], title="z"))
    page = Page(player_html([track(EVIL, segments=[(EVIL, 0.0, 1.0)])], title=EVIL))
    assert page.tags() == plain.tags()
    assert page.text["title"] == [EVIL]
    document = json.loads(page.text["script"][1])
    assert document["title"] == document["tracks"][0]["title"] == document["tracks"][0]["segments"][0]["text"] == EVIL
    assert not set("<>&\u2028") & set(page.text["script"][1])


def test_half_a_surrogate_pair_does_not_stop_the_page(tmp_path: Path) -> None:
    write_player(tmp_path / "p.html", [track("broken \ud83d text")], title="\udc00")
    assert "broken ? text" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_fragments_share_a_page() -> None:
    first = player_fragment([track("one")], title="One")
    second = player_fragment([track("two")], title="Two", assets=False, attributes=['theme="dark"'])
    assert first.startswith(player_assets())
    assert "customElements.define" in first
    assert "customElements.define" not in second
    page = Page(f"<div>{first}{second}{first}</div>")
    assert page.tags().count("motionkit-player") == 3
    assert all("id" not in attributes for _, attributes in page.elements)
    assert ("motionkit-player", {"theme": "dark"}) in page.elements
    assert "if (!customElements.get('motionkit-player'))" in first


def test_the_script_cannot_end_early() -> None:
    script = player_assets().removeprefix("<script>").removesuffix("</script>\n")
    assert "</script" not in script.lower()
    assert "<!--" not in script


def test_writing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "走.html"
    write_player(path, [track()])
    assert path.read_text(encoding="utf-8") == player_html([track()])
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    (tmp_path / "file").write_text("")
    with pytest.raises(MotionkitError, match="cannot write"):
        write_player(tmp_path / "file" / "p.html", [track()])


def dumped(path: Path) -> str:
    """What a page has become once its scripts ran."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={path.parent / 'profile'}"]
    command = [browser, *options, "--window-size=1280,800", "--virtual-time-budget=3000", "--dump-dom", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def measured(path: Path, page: str, statements: str, width: int = 1280) -> dict[str, Any]:
    """What `statements` put into `found` once the page runs in a frame so wide, with `root` and `box` at hand.

    Measured from inside: the page's own policy would not let another script in.
    """
    body = f"""<script>setTimeout(() => {{
      const root = document.querySelector('motionkit-player').shadowRoot;
      const box = (name) => root.querySelector(name).getBoundingClientRect();
      const found = {{}};
      {statements}
      parent.document.documentElement.dataset.found = JSON.stringify(found);
    }}, 500);</script></body>"""
    inner = re.sub(r"<meta http-equiv[^>]*>", "", page).replace("</body>", body)
    # A frame, since a browser's own window cannot be as narrow as a phone's.
    frame = f'<iframe style="width: {width}px; height: 780px" srcdoc="{html.escape(inner)}"></iframe>'
    path.write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
    found: dict[str, Any] = json.loads(html.unescape(dumped(path).split('data-found="')[1].split('"')[0]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 12])
def test_nothing_lies_on_the_figures(tmp_path: Path, count: int) -> None:
    page = player_html([track(f"a person walks {i}") for i in range(count)])
    measure = """
      const chips = [...root.querySelectorAll('.chip')].map((chip) => chip.getBoundingClientRect().bottom);
      found.tools = box('.tools').top - box('.stage canvas').bottom;
      found.legend = box('.legend').top - box('.labels').bottom;
      found.chips = box('.chips').bottom - Math.max(0, ...chips);"""
    found = measured(tmp_path / "page.html", page, measure)
    assert min(found.values()) >= 0, found


@pytest.mark.slow
def test_a_browser_shows_it_and_runs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_player(path, [track(EVIL, segments=[(EVIL, 0.0, 1.0)]), track("another")], title=EVIL)
    shown = Page(dumped(path))
    assert ("motionkit-player", {"page": "", "autoplay": "", "ready": ""}) in shown.elements
    assert shown.tags().count("script") == 2
    assert "img" not in shown.tags()


@pytest.mark.slow
def test_a_dropped_file_is_shown_beside_the_others_and_what_is_shown_can_be_saved(tmp_path: Path) -> None:
    """In a browser: drop a BVH file and one that is none, see ghosts and bones, save, and read what was saved."""
    bvh = json.dumps(write_bvh(tmp_path / "mine.bvh", 30, fps=30.0).read_text())
    measure = f"""
      const player = document.querySelector('motionkit-player');
      const saved = [];
      URL.createObjectURL = (blob) => (saved.push(blob), 'blob:none');
      HTMLAnchorElement.prototype.click = function () {{ found.name = this.download; }};
      const data = new DataTransfer();
      data.items.add(new File([{bvh}], 'mine.bvh'));
      data.items.add(new File(['glTF'], 'bad.glb'));
      window.dispatchEvent(new DragEvent('drop', {{ dataTransfer: data, bubbles: true, cancelable: true }}));
      const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
      (async () => {{
        await wait(300);
        found.titles = player.tracks.map((track) => track.title);
        found.chips = [...root.querySelectorAll('.chip')].map((chip) => chip.ariaPressed);
        found.notes = [...root.querySelectorAll('.notes li')].map((note) => note.textContent);
        const picture = () => root.querySelector('.stage canvas').toDataURL();
        player.play(false);
        player.seek(0.9);
        await wait(100);
        const pictures = [picture()];
        for (const name of ['ghosts', 'thick']) {{
          root.querySelector(`[data-do=${{name}}]`).click();
          await wait(100);
          pictures.push(picture());
        }}
        found.pictures = new Set(pictures).size;
        root.querySelector('[data-do=save]').click();
        found.saved = await saved[1].text();
        parent.document.documentElement.dataset.found = JSON.stringify(found);
      }})();"""
    found = measured(tmp_path / "page.html", player_html([track("a walk")]), measure)
    assert found["titles"] == ["a walk", "mine"]
    assert found["chips"] == ["true", "true"]
    assert found["notes"] == ["bad.glb is not shown: it is not a GLB file."]
    assert found["pictures"] == 3, "ghosts and bones change the picture"
    assert found["name"] == "mine.bvh"
    (tmp_path / "saved.bvh").write_text(found["saved"])
    saved, mine = (read_bvh(tmp_path / name)[0].motion for name in ("saved.bvh", "mine.bvh"))
    place = [saved.names.index(name) for name in mine.names]
    assert float((saved.positions()[:, place] - mine.positions()).norm(dim=-1).max()) < 2e-3
