"""The player's JavaScript, run by node, against the Python that it mirrors."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML
from motionkit.player import PlayerTrack
from motionkit.player._figure import Camera, figure_of, fit_distance, panels
from motionkit.player._page import _PARTS, document, known_names, look
from motionkit.player.video._scene import Actor, Brush, _parts, dashes

from .figures import track, walking


def node(body: str, given: object) -> Any:
    """Run statements that see the player's functions and `given`, and return what `answer(...)` got."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    folder = files("motionkit.player")
    sources = "\n".join((folder / name).read_text(encoding="utf-8") for name in _PARTS)
    sources = f"const LOOK = {json.dumps(look())};\nconst NAMES = {known_names()};\n{sources}"
    read = "const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    said = "const answer = (value) => process.stdout.write(JSON.stringify(value));"
    script = f"'use strict';\n{sources}\n{read}\n{said}\n{body}"
    done = subprocess.run([program, "-e", script], input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_positions_decode_to_a_tenth_of_a_millimetre() -> None:
    torch.manual_seed(0)
    positions = walking(30) * 30 + 0.3 * torch.randn(30, 22, 3)
    positions[7] = float("nan")
    contacts, unknown = torch.rand(30, 2), tuple(f"joint{i}" for i in range(22))
    shown = PlayerTrack("x", positions, HUMANML.parents, 30.0, contacts=contacts, names=unknown)
    got = node(
        """const t = decodeTrack(given.tracks[0], given.step);
        answer({positions: [...t.positions], contacts: [...t.contacts], shown: [...t.shown]});""",
        document([shown], title=""),
    )
    expected = positions.clone()
    expected[7] = positions[6]
    assert np.abs(np.array(got["positions"]).reshape(30, 22, 3) - expected.numpy()).max() < 1e-4
    assert np.abs(np.array(got["contacts"]).reshape(30, 2) / 255 - contacts.numpy()).max() <= 0.5001 / 255
    assert got["shown"] == [int(frame != 7) for frame in range(30)]


def test_a_time_on_a_frame_shows_that_frame_and_the_middle_is_in_between() -> None:
    fps = 30000 / 1001
    got = node(
        """const t = decodeTrack(given.tracks[0], given.step);
        const pose = new Float32Array(66);
        const frames = Array.from({length: t.frames}, (_, k) => frameAt(t, k / t.fps));
        poseAt(t, 5.5 / t.fps, pose);
        answer({frames, after: frameAt(t, 99), before: frameAt(t, -1), pose: [...pose]});""",
        document([track(frames=300, fps=fps)], title=""),
    )
    assert [frame["before"] for frame in got["frames"]] == list(range(300))
    assert max(frame["part"] for frame in got["frames"]) < 1e-6
    assert got["after"]["before"] == 299
    assert got["before"]["before"] == 0
    middle = walking(300, fps)[5:7].mean(0).flatten().numpy()
    assert np.abs(np.array(got["pose"]) - middle).max() < 1e-4


VIEWS = [
    Camera((0.0, 0.9, 0.0), 0.0, 0.0, 4.0, 640, 480, 0.5, 0.0),
    Camera((1.5, 0.8, -2.0), 0.6, 0.16, 3.3, 375, 512, 0.5236, -17.0),
    Camera((-3.0, 1.2, 7.0), -2.4, 1.3, 9.0, 1200, 300, 0.9, 12.5),
]


def test_projection_is_the_same_in_both_languages() -> None:
    points = np.random.default_rng(1).uniform(-1.5, 1.5, (20, 3))
    got = node(
        """answer(given.views.map((view) => { const axes = cameraAxes(view); return given.points.map((p) => {
        const seen = see(axes, p[0] + view.target[0], p[1] + view.target[1], p[2] + view.target[2]);
        return [...seen, ...place(axes, seen)]; }); }));""",
        {"views": [vars(view) for view in VIEWS], "points": points.tolist()},
    )
    for view, rows in zip(VIEWS, got, strict=True):
        seen = view.see(points + np.array(view.target))
        assert np.allclose(np.array(rows)[:, :3], seen, atol=1e-9)
        assert np.allclose(np.array(rows)[:, 3:], view.place(seen), atol=1e-6)


def test_projection_by_hand() -> None:
    view = VIEWS[0]
    # A point one metre to the left (+X is on the right of a camera that looks along -Z) and half a metre up.
    pixel = view.place(view.see(np.array([-1.0, 1.4, 0.0])))
    focal = 240 / np.tan(0.25)
    assert pixel == pytest.approx([320 - focal / 4, 240 - focal * 0.5 / 4])
    for view in VIEWS:
        _, axes = view.axes()
        assert np.allclose(axes @ axes.T, np.eye(3), atol=1e-12)
        assert np.allclose(np.cross(axes[0], axes[1]), -axes[2], atol=1e-12)
        middle = view.place(view.see(np.array(view.target)))
        assert middle == pytest.approx([view.width / 2, view.height / 2 + view.shift])


def test_framing_is_the_same_in_both_languages() -> None:
    sizes = [(640, 480, 1.7, 0.7, 100), (200, 500, 1.6, 1.2, 20), (900, 120, 0.4, 0.1, 110)]
    grids = [(n, w, h) for n in (1, 2, 3, 5, 12, 48) for w, h in ((1280, 600), (375, 700), (640, 480))]
    got = node(
        """answer([given.sizes.map((s) => fitDistance(s[0], s[1], 0.5236, s[2], s[3], s[4])),
        given.grids.map((g) => panelGrid(...g))]);""",
        {"sizes": sizes, "grids": grids},
    )
    assert got[0] == pytest.approx(
        [fit_distance(w, h, 0.5236, tall, reach, spare) for w, h, tall, reach, spare in sizes]
    )
    assert [tuple(grid) for grid in got[1]] == [panels(*grid) for grid in grids]
    assert panels(2, 1280, 480) == (2, 1)
    assert panels(2, 375, 1400) == (1, 2)


def test_lines_are_cut_at_the_camera() -> None:
    got = node(
        """const axes = cameraAxes(given);
        const behind = see(axes, 0, 0, 100), front = see(axes, 0, 0, 0);
        answer([placeLine(axes, behind, behind, 0.05), placeLine(axes, behind, front, 0.05),
        placeLine(axes, front, behind, 0.05)]);""",
        vars(VIEWS[0]),
    )
    assert got[0] is None
    assert np.isfinite(got[1]).all()
    assert got[1] == got[2][::-1]


def test_scores_and_segments() -> None:
    def part(*scores: float | None) -> dict[str, Any]:
        return {"segments": [{"start": k, "end": k + 1.5, "score": score} for k, score in enumerate(scores)]}

    got = node(
        """const scale = (tracks) => { const s = scoreScale(tracks); return s && [s.from, s.to]; };
        answer({scales: given.map((t) => scale([t])),
        now: [-1, 0, 0.5, 1.2, 2.4, 2.5, 9].map((t) => segmentAt(given[0], t)),
        steps: [0.3, 6, 10, 600, 40000].map((d) => tickStep(d, 12)), texts: [secondsText(2.345), secondsText(75)],
        numbers: [0.5, 0, 0.001, 12345].map(scoreText)});""",
        [part(0.2, 0.9), part(-0.5, 0.5), part(3.0, 5.0), part(None, None)],
    )
    assert got["scales"] == [[0, 1], [-0.5, 0.5], [3, 5], None]
    assert got["now"] == [-1, 0, 0, 1, 1, -1, -1]
    assert got["steps"] == [0.05, 0.5, 1, 60, 3600]
    assert got["texts"] == ["2.35 s", "1:15.0"]
    assert got["numbers"] == ["0.50", "0.00", "1.0e-3", "1.2e+4"]


def test_names_that_begin_alike_are_told_apart() -> None:
    titles = [
        "a person jumps up, then a person walks",
        "a person jumps up, then a person sits down",
        "a person jumps up, then a person",
        "someone bows",
        "someone bows",
        "a person kicks",
    ]
    assert node("answer(shortNames(given));", titles) == [
        "… walks", "… sits down", "a person jumps up, then a person", "someone bows", "someone bows", "a person kicks"
    ]  # fmt: skip
    assert node("answer(shortNames(given));", ["one"]) == ["one"]
    short = ["a person walks forward", "a person walks backward and stops by the door"]
    assert node("answer(shortNames(given));", short) == ["a person walks forward", "… backward and stops by the door"]


def test_where_there_is_no_room_a_pressed_name_takes_the_place_of_the_one_shown_longest() -> None:
    got = node(
        """answer([roomFor(390), chosen([3, 2, 1, 0], 7, 4), chosen([3, 2, 1, 0], 1, 4), chosen([5], 5, 4),
        chosen([0, 1], 7, roomFor(1280))]);""",
        None,
    )
    assert got == [4, [2, 1, 0, 7], [3, 2, 0], [5], [0, 1, 7]]


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("overlay", [True, False])
def test_every_panel_holds_its_figure_below_its_texts(overlay: bool, follow: bool) -> None:
    tracks = [track("one"), track("two", frames=90), track("three")]
    seen = node(
        """const tracks = given.tracks.map((part) => decodeTrack(part, given.step));
        const state = { time: 0.5, overlay: given.overlay, follow: given.follow };
        const layout = layoutOf([1280, 500], tracks.length, given.overlay);
        const view = { yaw: LOOK.yaw, pitch: LOOK.pitch, zoom: 1, pan: [0, 0, 0] };
        const shot = { all: tracks, state, layout, view, duration: 4.5 };
        const pixels = tracks.map((track) => {
          const axes = cameraAxes(panelCamera(given.overlay ? tracks : [track], shot));
          const pose = new Float32Array(66);
          poseAt(track, state.time, pose);
          return Array.from({ length: 22 }, (_, i) => place(axes, see(axes, ...pose.slice(3 * i, 3 * i + 3))));
        });
        answer({ pixels, panel: layout.panel, texts: layout.texts });""",
        {**document(tracks, title=""), "overlay": overlay, "follow": follow},
    )
    pixels = np.array(seen["pixels"])
    assert (pixels >= 0).all()
    assert (pixels <= seen["panel"]).all()
    if follow:
        assert pixels[..., 1].min() >= seen["texts"][0]


@pytest.mark.parametrize("names", [(), tuple(f"joint{i}" for i in range(22))])
def test_a_figure_is_the_same_in_both_languages_and_its_trunk_does_not_cut_itself(names: tuple[str, ...]) -> None:
    shown = track(names=names)
    figure, view = figure_of(shown), VIEWS[1]
    got = node(
        """const t = { ...decodeTrack(given.tracks[0], given.step), shade: '#0a7d63' };
        const pose = new Float32Array(66);
        poseAt(t, 0.5, pose);
        const parts = figureParts(cameraAxes(given.view), { ...LOOK.light, near: LOOK.near }, t, pose, false);
        answer(parts.map(({ depth, ends, colour, rim }) => [depth, ends, colour, Boolean(rim)]));""",
        {**document([shown], title=""), "view": vars(view)},
    )
    actor = Actor(figure, figure.positions.numpy(), figure.follow.numpy(), shown.fps)
    brush = Brush(None, look()["light"], look()["near"], 1.0)
    pose = actor.pose(0.5)
    assert pose is not None
    parts = _parts(brush, view, actor, pose)
    assert [part.rim for part in parts] == [row[3] for row in got]
    assert [part.depth for part in parts] == pytest.approx([row[0] for row in got], abs=1e-3)
    assert np.allclose([part.ends for part in parts], [row[1] for row in got], atol=0.2)
    sided = not names
    assert [part.rim for part in parts[: len(figure.bones)]] == [
        not sided or figure.sides[end] != "-" for _, end in figure.bones
    ]


def test_a_wanted_path_is_drawn_with_a_ring_where_the_root_should_be_now() -> None:
    plain = track("walk")
    wanted = torch.stack([torch.linspace(0, 0.3, plain.frames), torch.linspace(0, 0.5, plain.frames)], dim=-1).double()
    got = node(
        """globalThis.Path2D = class { constructor() { this.lines = []; }
          moveTo(x, y) { this.lines.push([x, y]); } lineTo(x, y) { this.lines.push([x, y]); } };
        const calls = [];
        const context = { beginPath: () => {},
          arc: (x, y) => calls.push(['ring', x, y]), stroke: (line) => calls.push(['line', line ? line.lines : null]) };
        const axes = cameraAxes(given.view);
        const [with_, without] = given.tracks.map((part) => decodeTrack(part, given.step));
        drawWanted(context, axes, { near: LOOK.near }, with_, 0.5, '#0a7d63', given.view.distance);
        const frame = frameAt(with_, 0.5).before;
        answer({ calls, path: Array.from(with_.path), without: without.path,
          there: place(axes, see(axes, given.wanted[frame][0], 0, given.wanted[frame][1])) });""",
        {
            **document([replace(plain, path=wanted), plain], title=""), "view": vars(VIEWS[1]),
            "wanted": wanted.tolist(),
        },
    )  # fmt: skip
    assert np.allclose(np.array(got["path"]).reshape(-1, 2), wanted.numpy(), atol=1e-4)
    assert got["without"] is None
    kinds = [call[0] for call in got["calls"]]
    assert kinds == ["line", "ring", "line"]
    seen = VIEWS[1].place(VIEWS[1].see(dashes(wanted.numpy(), VIEWS[1].distance)))
    assert np.abs(np.array(got["calls"][0][1]) - seen.reshape(-1, 2)).max() < 0.5
    assert len(seen) > 2, "the path is not one line"
    assert got["calls"][1][1:] == pytest.approx(got["there"], abs=0.5)


@pytest.mark.parametrize("path", [torch.zeros(3, 2), torch.full((40, 2), torch.nan), torch.full((40, 2), 1e6)])
def test_a_path_of_another_length_or_out_of_the_world_is_refused(path: torch.Tensor) -> None:
    with pytest.raises(MotionkitError, match="path"):
        replace(track("walk"), path=path)


def test_dashes_of_a_wanted_path_are_those_of_the_video() -> None:
    """A path that goes, stands for ten frames and goes back; each dash has its length along the path."""
    along = torch.cat([torch.linspace(0, 2, 30), torch.full((10,), 2.0), torch.linspace(2, 1, 15)]).double()
    path = torch.stack([along, 0.5 * along], dim=-1)
    for distance in (2.0, 7.0):
        wanted = dashes(path.numpy(), distance)
        found = np.array(node("answer(pathDashes(given.path.flat(), given.distance));",
                              {"path": path.tolist(), "distance": distance}))  # fmt: skip
        assert np.abs(found - wanted[..., ::2]).max() < 1e-9
        assert (wanted[..., 1] == 0).all()
        length = np.hypot(*(wanted[0, 1] - wanted[0, 0])[[0, 2]])
        assert length == pytest.approx(0.55 * 0.027 * distance)
        total = 3 * math.hypot(1.0, 0.5)
        assert len(wanted) == math.ceil(total / (0.027 * distance))
    assert len(dashes(np.zeros((5, 2)), 3.0)) == 0  # a path that stands
    assert node("answer(pathDashes(given, 3));", [0, 0, 0, 0]) == []
