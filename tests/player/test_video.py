from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from PIL import Image

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML
from motionkit.player import PlayerTrack
from motionkit.player.video import _film as _encode
from motionkit.player.video import _letters as letters_module
from motionkit.player.video import write_video
from motionkit.player.video._film import Film, delays
from motionkit.player.video._letters import Letters

from .figures import track

SMALL = (160, 120)


def film(*tracks: PlayerTrack, size: tuple[int, int] = (320, 240), **further: object) -> Film:
    options = {"fps": 20.0, "title": "", "theme": "light"} | further
    return Film(tracks or (track(),), size=size, **options)  # type: ignore[arg-type]


def decode(path: Path, size: tuple[int, int]) -> np.ndarray:
    """All frames of a video, ``[T, H, W, 3]``."""
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-i",
        str(path),
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, size[1], size[0], 3)


def gif_delays(path: Path) -> list[int]:
    with Image.open(path) as image:
        found = []
        for frame in range(image.n_frames):
            image.seek(frame)
            found.append(image.info["duration"])
        return found


def test_mp4_has_every_frame_of_the_motion(tmp_path: Path) -> None:
    path = tmp_path / "walk.mp4"
    done = []
    write_video(path, [track(frames=13)], size=(161, 121), progress=lambda made, whole: done.append((made, whole)))
    frames = decode(path, (162, 122))  # even numbers
    assert len(frames) == 13
    assert done == [(k, 13) for k in range(1, 14)]
    drawn = np.asarray(film(track(frames=13), size=(162, 122)).picture(5 / 20.0), dtype=np.int64)
    assert np.abs(frames[5].astype(np.int64) - drawn).mean() < 3
    assert np.abs(np.median(frames[5], axis=(0, 1)) - np.median(drawn, axis=(0, 1))).max() <= 2
    assert [file.name for file in tmp_path.iterdir()] == ["walk.mp4"]


def test_mp4_plays_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "walk.mp4"
    write_video(path, [track(frames=30, fps=30000 / 1001)], size=SMALL)
    said = subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)], capture_output=True, check=False).stderr
    for word in (b"h264", b"yuv420p", b"29.97 fps", b"Duration: 00:00:01.00"):
        assert word in said
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # it starts before it is loaded


def test_gif_lasts_as_long_as_the_motion(tmp_path: Path) -> None:
    for frames, fps, expected in ((20, 20.0, {50}), (30, 30.0, {30, 40}), (25, 12.5, {80})):
        path = tmp_path / f"{fps}.gif"
        write_video(path, [track(frames=frames, fps=fps)], size=SMALL)
        found = gif_delays(path)
        assert len(found) == frames
        assert set(found) == expected
        assert sum(found) == pytest.approx(1000 * frames / fps, abs=5)


def test_delays_never_drift() -> None:
    for fps in (30.0, 24.0, 29.97, 12.5, 50.0):
        ends = np.cumsum(delays(1000, fps))
        assert np.abs(ends - 1000 * np.arange(1, 1001) / fps).max() <= 5.0001
        assert min(delays(1000, fps)) >= 20


def test_gif_has_one_palette_and_repeats(tmp_path: Path) -> None:
    path = tmp_path / "walk.gif"
    write_video(path, [track(frames=8)], size=SMALL)
    data = path.read_bytes()
    assert data[10] & 0x80  # a palette for all ...
    assert b"NETSCAPE2.0\x03\x01\x00\x00" in data
    at = 13 + 3 * 2 ** ((data[10] & 7) + 1)
    local = []
    while data[at] != 0x3B:  # ... and, block by block, none of a frame's own
        if data[at] == 0x21:
            at += 2
        else:
            local.append(bool(data[at + 9] & 0x80))
            at += 11
        while data[at]:
            at += 1 + data[at]
        at += 1
    assert local == [False] * 8
    with Image.open(path) as image:
        for frame in (0, 7):
            image.seek(frame)
            drawn = np.asarray(film(track(frames=8), size=SMALL).picture(frame / 20.0), dtype=np.int64)
            assert np.abs(np.asarray(image.convert("RGB"), dtype=np.int64) - drawn).mean() < 4


def test_rates_that_a_format_does_not_take_are_divided(tmp_path: Path) -> None:
    write_video(tmp_path / "a.gif", [track(frames=60, fps=120.0)], size=SMALL)
    assert len(gif_delays(tmp_path / "a.gif")) == 15  # every fourth frame
    write_video(tmp_path / "a.mp4", [track(frames=60, fps=120.0)], size=SMALL)
    assert len(decode(tmp_path / "a.mp4", SMALL)) == 30
    write_video(tmp_path / "b.mp4", [track(frames=60, fps=120.0)], size=SMALL, fps=10.0)
    assert len(decode(tmp_path / "b.mp4", SMALL)) == 5


def colour_at(picture: Image.Image, place: np.ndarray) -> np.ndarray:
    return np.array(picture.getpixel((int(place[0]), int(place[1]))), dtype=np.float64)


def test_joints_are_where_the_camera_says_and_in_their_colours() -> None:
    drawn = film(track(frames=40))
    picture = drawn.picture(1.0)
    camera = drawn.camera(drawn.actors[0], 1.0)
    joints = drawn.actors[0].positions[20]
    places = camera.place(camera.see(joints)) / drawn.smooth
    shins = [(HUMANML.index(f"{side}_knee"), HUMANML.index(f"{side}_ankle")) for side in ("left", "right")]
    left, right = ((joints[knee] + joints[ankle]) / 2 for knee, ankle in shins)
    blue = colour_at(picture, camera.place(camera.see(left)) / drawn.smooth)
    orange = colour_at(picture, camera.place(camera.see(right)) / drawn.smooth)
    assert blue[2] > blue[0] + 60
    assert orange[0] > orange[2] + 60
    assert places[:, 1].min() > 20
    assert places[:, 1].max() < 235
    # The camera follows: the root stays in the middle although it walks.
    for time in (0.5, 1.0, 1.5):
        view = drawn.camera(drawn.actors[0], time)
        root = view.place(view.see(drawn.actors[0].pose(time)[0])) / drawn.smooth
        assert abs(root[0] - 160) < 12


def test_a_gap_shows_the_floor_only() -> None:
    positions = track().positions.clone()
    positions[10:20] = float("nan")
    drawn = film(PlayerTrack("gap", positions, HUMANML.parents, 20.0))
    full, empty = (np.asarray(drawn.picture(time), dtype=np.int64) for time in (0.2, 0.6))
    strong = lambda picture: int(((picture.max(-1) - picture.min(-1)) > 90)[30:235].sum())  # noqa: E731
    assert strong(full) > 300
    assert strong(empty) < 60


def test_tracks_stand_side_by_side() -> None:
    one, two = track("one"), track("two", frames=20, fps=10.0)
    beside = film(one, two, size=(480, 240), title="Both")
    assert (beside.columns, beside.rows) == (2, 1)
    assert beside.duration == 2.0
    picture = np.asarray(beside.picture(0.5), dtype=np.int64)
    vivid = ((picture.max(-1) - picture.min(-1)) > 90).sum(0)
    assert vivid[:240].sum() > 200
    assert vivid[240:].sum() > 200


def test_themes_and_captions_change_the_picture() -> None:
    shown = track(segments=[("walks 走路", 0.0, 1.0)], scores=[0.5])
    dark = np.asarray(film(shown, theme="dark").picture(0.5), dtype=np.int64)
    assert np.median(dark) < 40
    with_text, without = (np.asarray(film(shown).picture(time), dtype=np.int64)[200:236] for time in (0.5, 1.5))
    assert (with_text.min(-1) < 110).sum() > (without.min(-1) < 110).sum() + 40


def test_texts_are_cut_and_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    pen = Letters(16)
    long = "a person walks forward and then turns around and walks back again"
    assert pen.width(pen.cut(long, 100)) <= 100
    assert pen.cut("short", 500) == "short"
    lines = pen.wrap(long, 150, 3)
    assert len(lines) == 3
    assert all(pen.width(line) <= 150 for line in lines)
    assert long.startswith(" ".join(lines[:2]))
    assert " ".join(pen.wrap(long, 150, 99)) == long
    unspaced = "走" * 60
    assert "".join(pen.wrap(unspaced, 100, 99)) == unspaced
    assert pen.wrap("", 100, 2) == []
    assert pen.wrap("wide", 1, 2)
    monkeypatch.setattr(letters_module, "_there", lambda: ("",))
    letters_module._font_of.cache_clear()
    try:
        assert Letters(16)._parts("é走–🚶x") == [("", "e?-?x")]
    finally:
        letters_module._font_of.cache_clear()


def test_without_the_extra_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MotionkitError) as caught:
        write_video(tmp_path / "new" / "a.mp4", [track()], size=SMALL)
    assert 'pip install "motionkit[video]"' in caught.value.fix
    assert ".gif" in caught.value.fix
    assert not (tmp_path / "new").exists()
    write_video(tmp_path / "a.gif", [track(frames=2)], size=SMALL)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for ffmpeg")
@pytest.mark.parametrize("reads", ["", "cat > /dev/null\n"])
def test_what_ffmpeg_says_when_it_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: str) -> None:
    program = tmp_path / "ffmpeg"
    program.write_text(f"#!/bin/sh\n{reads}echo first >&2\necho 'No space for frame' >&2\nexit 7\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", lambda: str(program))
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.mp4").write_bytes(b"old")
    with pytest.raises(MotionkitError) as caught:
        write_video(out / "a.mp4", [track()], size=SMALL)
    assert "exit code 7" in caught.value.message
    assert "No space for frame" in caught.value.why
    assert [(file.name, file.read_bytes()) for file in out.iterdir()] == [("a.mp4", b"old")]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def stop(made: int, _: int) -> None:
        if made == 3:
            raise KeyboardInterrupt

    for name in ("a.mp4", "a.gif"):
        with pytest.raises(KeyboardInterrupt):
            write_video(tmp_path / name, [track()], size=SMALL, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_an_ffmpeg_without_h264_takes_its_own_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_encode, "_encoders", lambda program: " V..... mpeg4")
    write_video(tmp_path / "a.mp4", [track(frames=4)], size=SMALL)
    assert len(decode(tmp_path / "a.mp4", SMALL)) == 4


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a.avi", {}, "neither .mp4 nor .gif"),
        ("a.gif", {"size": (10, 120)}, "not a size"),
        ("a.mp4", {"size": (160, 9000)}, "not a size"),
        ("a.gif", {"fps": 60.0}, "60 pictures per second"),
        ("a.mp4", {"fps": 0.0}, "0 pictures per second"),
        ("a.mp4", {"fps": float("nan")}, "nan pictures per second"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, name: str, options: dict, said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        write_video(tmp_path / name, [track(frames=2)], **options)
    assert said in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    long = PlayerTrack("long", torch.zeros(20_000, 1, 3), (-1,), 20.0)
    for name, tracks, options, word in (
        ("a.gif", [], {}, "no motion"),
        ("a.gif", [track(frames=1)] * 30, {}, "too many for one video"),
        ("a.gif", [long], {}, "too many for a GIF"),
        ("file/a.gif", [track(frames=2)], {"size": SMALL}, "cannot write"),
        ("file/a.mp4", [track(frames=2)], {"size": SMALL}, "cannot write"),
    ):
        with pytest.raises(MotionkitError, match=word):
            write_video(tmp_path / name, tracks, **options)


def test_the_path_that_was_asked_for_is_dashed_with_a_ring() -> None:
    """Where it is asked for the picture differs from the one without a path, and nowhere else."""
    path = torch.stack([torch.full((40,), 0.8), torch.arange(40) / 20.0], dim=-1).double()
    plain, drawn = film(track()), film(track(path=path))
    before, after = (np.asarray(one.picture(1.0), dtype=np.int64) for one in (plain, drawn))
    changed = np.abs(before - after).max(axis=-1) > 10
    camera = drawn.camera(drawn.actors[0], 1.0)

    def at(x: float, z: float) -> tuple[int, int]:
        column, row = camera.place(camera.see(np.array([x, 0.0, z]))) / drawn.smooth
        return int(column), int(row)

    column, row = at(0.8, 1.0)
    ring = changed[row - 7 : row + 8, column - 7 : column + 8]
    assert ring.sum() > 15
    along = [at(0.8, z) for z in np.linspace(0.3, 1.6, 60)]
    hit = [bool(changed[row - 1 : row + 2, column - 1 : column + 2].any()) for column, row in along]
    assert 0.35 < np.mean(hit) <= 1
    rows, columns = changed.nonzero()
    line = np.array([at(0.8, z) for z in np.linspace(0.0, 1.95, 200)])
    off = np.abs(np.stack([columns, rows], axis=-1)[:, None] - line).max(axis=-1).min(axis=1)
    assert off.max() <= 8
