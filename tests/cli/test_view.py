"""``motionkit view``: which page is made of what, what it holds, and what it refuses."""

from __future__ import annotations

import html
import json
import re
import webbrowser
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from motionkit.clips.browse import run
from motionkit.starter import generate

from ..made.bvh_files import write_bvh
from ..player.test_page import EVIL, Page, dumped

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three walks, one of them with a rest pose first, and a file that is damaged."""
    clips = tmp_path / "clips"
    clips.mkdir()
    for number in range(3):
        write_bvh(clips / f"walk{number}.bvh", 90 + 30 * number, rest=number == 2)
    (clips / "broken.bvh").write_text("HIERARCHY\n")
    return clips


def clips_of(page: Path) -> dict[str, Any]:
    """What the page knows of its clips."""
    text = (
        page.read_text(encoding="utf-8").split('<script type="application/json" id="clips">')[1].split("</script>")[0]
    )
    found: dict[str, Any] = json.loads(text)
    return found


def test_files_open_in_the_player_side_by_side(cli: Run, folder: Path) -> None:
    result = cli("view", folder / "walk0.bvh", folder / "walk1.bvh", "--out", "page.html")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "2 clips in page.html\n"
    page = Page(Path("page.html").read_text(encoding="utf-8"))
    document = json.loads(page.text["script"][1])
    assert [track["title"] for track in document["tracks"]] == ["walk0", "walk1"]
    assert [track["frames"] for track in document["tracks"]] == [90, 120]
    alone = folder.parent / "alone"
    alone.mkdir()
    (folder / "walk0.bvh").rename(alone / "walk0.bvh")
    assert cli("view", alone, "--out", "page.html").exit_code == 0
    page = Page(Path("page.html").read_text(encoding="utf-8"))
    assert "motionkit-player" in page.tags(), "a folder with one motion is that motion"


def test_a_folder_becomes_a_page_that_browses_its_clips(cli: Run, folder: Path) -> None:
    (folder.parent / "table.csv").write_text(
        'clip,caption,split\nwalk0,"a person walks",train\nwalk1,"a person strolls",test\n'
    )
    result = cli("view", folder, "--captions", folder.parent / "table.csv", "--out", "page.html", "--json")
    assert result.exit_code == 1, "one file is broken"
    document = json.loads(result.stdout)
    assert (document["clips"], document["page"], document["folder"]) == (3, "page.html", None)
    assert [Path(name).name for name in document["failed"]] == ["broken.bvh"]
    found = {clip["key"]: clip for clip in clips_of(Path("page.html"))["clips"]}
    assert list(found) == ["broken", "walk0", "walk1", "walk2"]
    assert "ends before its MOTION" in found["broken"]["why"]
    walk = found["walk0"]
    assert (walk["title"], walk["split"], walk["frames"], walk["fps"]) == ("a person walks", "train", 90, 60.0)
    assert walk["seconds"] == pytest.approx(1.5)
    assert walk["speed"] == pytest.approx(1.0, abs=0.1)
    assert walk["picture"]["frames"] == 4
    assert walk["motion"]["tracks"][0]["fps"] == 30.0
    assert walk["motion"]["notes"] == [], "that it is thinned out is no fault"
    assert [one["kind"] for one in found["walk2"]["findings"] if one["severity"] == "error"] == ["rest-pose"]
    assert found["walk2"]["findings"][0]["start"] == 0.0
    assert found["walk2"]["title"] == "walk2"


def test_many_clips_are_a_folder_of_files_beside_the_page(
    cli: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "broken.bvh").unlink()
    cli("view", folder, "--out", "page.html")
    whole = {clip["key"]: clip["motion"] for clip in clips_of(Path("page.html"))["clips"]}
    for name, limit in (("ONE_FILE", 2), ("ONE_FILE_BYTES", 10_000)):
        with monkeypatch.context() as patch:
            patch.setattr(run, name, limit)
            result = cli("view", folder, "--out", "page.html")
        assert result.exit_code == 0, result.stderr
        assert result.stdout == "3 clips in page.html and page.motions/\n"
        page = clips_of(Path("page.html"))
        assert page["folder"] == "page.motions"
        for clip in page["clips"]:
            assert "motion" not in clip
            script = Path("page.motions", clip["file"]).read_text(encoding="utf-8")
            inside = script.strip().removeprefix("motionkitMotion(").removesuffix(");")
            number, motion = json.loads(f"[{inside}]")
            assert number == clip["number"]
            assert motion == whole[clip["key"]]
    Path("page.motions/mine.txt").write_text("mine")
    cli("view", folder, "--out", "page.html")
    assert [path.name for path in Path("page.motions").iterdir()] == ["mine.txt"], "what was there before is removed"


def rules_of(page: Path) -> str:
    """Return the content security policy of a page, once each of its scripts was found in it."""
    text = page.read_text(encoding="utf-8")
    rules = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert rules is not None
    for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL):
        assert f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in rules[1]
    return rules[1]


def test_pages_run_their_own_scripts_alone(cli: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("view", folder, "--out", "page.html")
    assert "default-src 'none'" in (rules := rules_of(Path("page.html")))
    assert "strict-dynamic" not in rules
    monkeypatch.setattr(run, "ONE_FILE", 2)
    cli("view", folder, "--out", "large.html")
    assert "'strict-dynamic'" in rules_of(Path("large.html")), "its scripts load those of the folder"
    cli("profile", folder, "--html", "profile.html")
    assert "default-src 'none'" in (rules := rules_of(Path("profile.html")))
    assert "script-src" not in rules


def test_without_a_path_it_shows_the_starter(cli: Run) -> None:
    result = cli("view", "--clips", 6, "--out", "page.html")
    assert result.exit_code == 0, result.stderr
    clips = clips_of(Path("page.html"))["clips"]
    assert {clip["split"] for clip in clips} == {"train", "val", "test"}
    assert all(clip["captions"] and clip["title"] == clip["captions"][0] for clip in clips)


def test_the_page_is_opened_where_there_is_a_browser(
    cli: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    for key in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(key, raising=False)
    page = json.loads(cli("view", folder / "walk0.bvh", "--json").stdout)["page"]
    assert opened == [], "a browser in a terminal shows nothing"
    assert Path(page).parent == tmp_path / "cache" / "view"
    monkeypatch.setenv("DISPLAY", ":0")
    assert json.loads(cli("view", folder / "walk0.bvh", "--json").stdout)["page"] == page, "the same page again"
    assert opened == [Path(page).as_uri()]
    cli("view", folder / "walk0.bvh", "--no-open")
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.bvh"], "there is no nothing.bvh"),
        (["{folder}/broken.bvh", "--out", "a.html"], "none of 1 motion can be shown"),
        (["{folder}", "--out", "page"], "--out page.html"),
        (["{folder}", "--out", "notes.html"], "not a page of motions"),
        (["{folder}", "--out", "notes.html/page.html"], "there is no folder notes.html"),
    ],
)
def test_what_is_refused(cli: Run, folder: Path, words: list[str], said: str) -> None:
    Path("notes.html").write_text("<html>mine</html>")
    result = cli("view", *(word.format(folder=folder) for word in words))
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert Path("notes.html").read_text() == "<html>mine</html>"


def test_texts_stay_texts(cli: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", generate("walk", frames=40).joints)
    np.save(tmp_path / "b.npy", generate("walk", frames=40).joints)
    said = EVIL.replace('"', '""').replace("\u2028", " ")
    (tmp_path / "table.csv").write_text(f'clip,caption\na,"{said}"\n')
    clips = tmp_path / "<img src=x onerror=1>"
    clips.mkdir()
    for name in ("a.npy", "b.npy"):
        (tmp_path / name).rename(clips / name)
    assert cli("view", clips, "--captions", tmp_path / "table.csv", "--out", "page.html").exit_code == 0
    page = Page(Path("page.html").read_text(encoding="utf-8"))
    assert "img" not in page.tags()
    assert page.tags().count("script") == 3
    assert page.text["title"] == ["<img src=x onerror=1>"]
    assert clips_of(Path("page.html"))["clips"][0]["title"].startswith("</script><script>")
    source = (Path(run.__file__).parent / "browse.js").read_text()
    assert "innerHTML" not in source
    assert not re.search(r"https?:|\bfetch\b|XMLHttp", source)


def driven(page: Path, steps: str) -> str:
    """Return a page with a further script at its end, which its content security policy lets run."""
    code = steps.removeprefix("<script>").removesuffix("</script></body>")
    allowed = f"script-src 'sha256-{b64encode(sha256(code.encode()).digest()).decode()}' "
    text = page.read_text(encoding="utf-8")
    assert "script-src " in text
    return text.replace("script-src ", allowed, 1).replace("</body>", steps)


@pytest.mark.slow
def test_a_browser_loads_motions_of_the_folder_beside(cli: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ONE_FILE", 2)
    cli("view", folder, "--out", "page.html")
    steps = """<script>setTimeout(async () => {
      [...document.querySelectorAll('.card')].at(-1).click();
      await new Promise((done) => setTimeout(done, 800));
      const { title } = document.querySelector('.stage motionkit-player').tracks[0];
      document.documentElement.dataset.found = title;
    }, 500);</script></body>"""
    Path("driven.html").write_text(driven(Path("page.html"), steps), encoding="utf-8")
    assert 'data-found="walk2"' in dumped(Path("driven.html").absolute())


@pytest.mark.slow
def test_a_browser_filters_sorts_and_plays(cli: Run, folder: Path, tmp_path: Path) -> None:
    """Run inside the page: words and findings filter, the order changes, a click plays, a dropped file comes first."""
    cli("view", folder, "--out", "page.html")
    bvh = json.dumps((folder / "walk1.bvh").read_text())
    steps = f"""<script>setTimeout(async () => {{
      const found = {{}};
      const titles = () => [...document.querySelectorAll('.card b')].map((one) => one.textContent);
      const bar = document.querySelector('.bar');
      const set = (element, value) => {{
        element.value = value;
        element.dispatchEvent(new Event('input', {{ bubbles: true }}));
      }};
      found.first = titles();
      found.playing = document.querySelector('.stage').textContent;
      set(bar.elements.findings, 'with errors'); found.errors = titles();
      set(bar.elements.findings, 'all clips'); set(bar.elements.sort, 'longest first'); found.longest = titles();
      set(bar.querySelector('[type=search]'), 'WALK1 BVH'); found.words = titles();
      found.count = document.querySelector('.count').textContent;
      set(bar.querySelector('[type=search]'), '');
      document.querySelectorAll('.card')[0].click();
      await new Promise((done) => setTimeout(done, 50));
      found.clicked = document.querySelector('.stage motionkit-player').tracks[0].title;
      const data = new DataTransfer();
      data.items.add(new File([{bvh}], 'mine.bvh'));
      data.items.add(new File(['x'], 'bad.glb'));
      window.dispatchEvent(new DragEvent('drop', {{ dataTransfer: data, bubbles: true, cancelable: true }}));
      await new Promise((done) => setTimeout(done, 300));
      set(bar.elements.sort, 'in order'); found.dropped = titles();
      found.shown = document.querySelector('.stage motionkit-player').tracks[0].frames;
      found.pictures = document.querySelectorAll('.card canvas').length;
      document.documentElement.dataset.found = JSON.stringify(found);
    }}, 500);</script></body>"""
    page = driven(Path("page.html"), steps)
    (tmp_path / "driven.html").write_text(page, encoding="utf-8")
    found = json.loads(html.unescape(dumped(tmp_path / "driven.html").split('data-found="')[1].split('"')[0]))
    assert found["first"] == ["broken", "walk0", "walk1", "walk2"]
    assert "ends before its MOTION" in found["playing"]
    assert found["errors"] == ["broken", "walk2"]
    assert found["longest"] == ["walk2", "walk1", "walk0", "broken"]
    assert (found["words"], found["count"]) == (["walk1"], "1 of 4 clips")
    assert found["clicked"] == "walk2"
    assert found["dropped"] == ["mine", "bad", "broken", "walk0", "walk1", "walk2"]
    assert found["shown"] == 120
    assert found["pictures"] == 4


@pytest.mark.parametrize("browse", [False, True], ids=["player", "folder"])
def test_what_convert_warns_of_is_said_and_is_on_the_page(cli: Run, browse: bool) -> None:
    Path("in").mkdir()
    text = write_bvh(Path("y.bvh"), 40).read_text()
    rows = text.splitlines()
    first = next(place for place, row in enumerate(rows) if row.startswith("Frame Time")) + 1
    # The root is turned by a quarter about X, and nothing else: a Z-up world around a rig that stands along Y.
    channels = next(row for row in rows if "CHANNELS 6" in row).split()[2:]
    for place in range(first, len(rows)):
        values = [float(word) for word in rows[first].split()]
        turned = dict(zip(channels, values, strict=False)) | {"Xrotation": 90.0, "Yrotation": 0.0, "Zrotation": 0.0}
        rows[place] = " ".join(map(str, [*(turned[name] for name in channels), *values[6:]]))
    for name in "ab" if browse else "a":
        Path(f"in/{name}.bvh").write_text("\n".join(rows) + "\n")
    result = cli("view", "in" if browse else "in/a.bvh", "--out", "new/page.html", "--no-open")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    warning = "lies along Z for most of the clip: if Z up is meant, pass --up z."
    assert (f"2 clips (a, b): {warning}" if browse else f"a: {warning}") in said
    page = Path("new/page.html").read_text()
    assert warning[5:] in page
    assert json.loads(cli("view", "in", "--out", "other.html", "--no-open", "--json").stdout)["warnings"]
