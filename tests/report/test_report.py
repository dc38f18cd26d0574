"""The page of a run: what it shows, what it says about gaps, and what it refuses."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from motionkit.errors import Interrupted, MotionkitError
from motionkit.motion import HUMANML, joints_to_features
from motionkit.report.page import compare_page, run_page, write_comparison, write_report
from motionkit.report.watch import watch_report
from motionkit.runs import find_one, next_commands, open_run, peek
from motionkit.starter import generate
from motionkit.text_to_motion.evaluation.heldout import Shown

EVIL = 'a person <script>alert("x")</script> | walks & "waves" </motionkit-player>'

Cli = Callable[..., Result]


def kept(gains: list[float], *, text: str = "walk {} | stop {}") -> Shown:
    """Motions of as many prompts, whose rewards are 0.5 + gain."""
    clips = [torch.from_numpy(generate("walk", frames=41 + place).joints) for place in range(len(gains))]
    features = [joints_to_features(clip, HUMANML).float().numpy() for clip in clips]
    return Shown(
        features=features,
        texts=[text.replace("{}", str(place)) for place in range(len(gains))],
        bounds=[[(0, 20), (20, len(one))] for one in features],
        rewards=[0.5 + gain for gain in gains],
        segments=[[0.25, 0.75]] * len(gains),
        skeleton="humanml",
        fps=20.0,
    )


def make(
    out: Path, *, gains: tuple[float, ...] = (0.1, -0.2, 0.3, 0.0), text: str = "walk {} | stop {}", steps: int = 50
) -> Path:
    """Make a finished run as `grpo` leaves it."""
    block = {"before": 0.5, "after": 0.6, "delta": 0.1, "ci95": [0.05, 0.15], "n": 64}
    with open_run("grpo", {"run": {"out": str(out)}, "seed": 3}, argv=["/somewhere/bin/motionkit", "grpo"]) as run:
        folder = run.artifact("heldout")
        folder.mkdir()
        kept([0.0] * len(gains), text=text).save(folder / "before.npz")
        kept(list(gains), text=text).save(folder / "after.npz")
        run.log(0, {"heldout/reward/mean": 0.5, "heldout/reward/delta": 0.0})
        for step in range(1, steps + 1):
            point = {"heldout/reward/mean": 0.6, "heldout/reward/delta": 0.1} if step == steps else {}
            run.log(step, {"reward/mean": 0.5 + 0.002 * step, "grad/norm": 1.0, **point})
        run.finish({"heldout": {"reward": block, "skate": {**block, "before": 0.2, "after": 0.3}}})
    return out


class Markup(HTMLParser):
    """Counts elements and checks that they close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.words += data


def parsed(page: str) -> Markup:
    markup = Markup()
    markup.feed(page)
    markup.close()
    assert markup.open == []
    return markup


def test_the_result_comes_first_and_the_prompts_are_sorted_by_gain(tmp_path: Path) -> None:
    page = run_page(make(tmp_path / "run"))
    markup = parsed(page)
    words = markup.words
    assert "The reward rose from 0.500 to 0.600 (+0.100, 95 % interval +0.050 to +0.150). Worse: skate +50" in (
        words.replace("\xa0", " ")
    )
    best, middle, worst = (
        words.index(f"{name}: 0.50 → {value}")
        for name, value in (("Best", "0.80"), ("Middle", "0.50"), ("Worst", "0.30"))
    )
    assert words.index("Result") < best < middle < worst < words.index("The other 1 prompt") < words.index("Curves")
    assert markup.seen["motionkit-player"] == 4
    data = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert [track["title"] for track in data[0]["tracks"]] == ["before", "after"]
    assert [part["score"] for part in data[0]["tracks"][1]["segments"]] == [0.25, 0.75]
    assert all(track["contacts"] for one in data for track in one["tracks"])
    assert "motionkit grpo --resume" in words
    assert "/somewhere" not in words


def test_real_clips_stand_beside_before_and_after_and_players_begin_in_mid_action(tmp_path: Path) -> None:
    out = make(tmp_path / "run", gains=(0.1, -0.2))
    (folder := out / "heldout").joinpath("real.npz").write_bytes(b"")
    assert "heldout/real.npz is damaged, so its motions are not shown." in parsed(run_page(out)).words
    real = kept([0.4, 0.3])
    walking = real.features[1][:, 4 : 4 + 63].copy()
    real.features[0][:] = real.features[0][:1]  # still, but for the eleventh frame
    real.features[0][10, 4 : 4 + 63] = walking[10]
    Shown(**{**real.__dict__, "texts": ["walk 0 | stop 0", "another"]}).save(folder / "real.npz")
    page = run_page(out)
    data = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert [[track["title"] for track in one["tracks"]] for one in data] == [
        ["before", "after", "reference clips"],
        ["before", "after"],
    ]
    assert "0.50 → 0.60 (+0.10), reference 0.90" in parsed(page).words
    times = [float(time) for time in re.findall(r'<motionkit-player time="([\d.]+)">', page)]
    assert times[0] == 0.5
    assert 0.25 <= times[1] < 0.75  # within the middle half of the first segment


def test_the_first_table_and_the_sentence_are_of_what_generate_makes(tmp_path: Path) -> None:
    flat = {"before": 0.5, "after": 0.51, "delta": 0.01, "ci95": [-0.05, 0.07], "n": 32, "real": 0.8}
    good = {"before": 0.5, "after": 0.6, "delta": 0.1, "ci95": [0.05, 0.15], "n": 64}
    with open_run("grpo", {"run": {"out": str(tmp_path / "run")}}) as run:
        run.finish({
            "heldout": {"reward": good}, "heldout_generate": {"reward": flat}, "heldout_all_steps": {},
            "guidance": {"before": 2.5, "after": 1.0, "reward": good},
        })  # fmt: skip
    page = run_page(tmp_path / "run")
    words = parsed(page).words.replace("\xa0", " ")
    assert "The reward shows no clear change: from 0.500 to 0.510" in words
    assert "with the settings of motionkit generate. motionkit generate now takes guidance 1, before 2.5; that" in words
    assert "change in reward+0.010" in words
    assert words.index("32 of the prompts, with the settings of motionkit generate") < words.index(
        "With the sampling steps of training"
    )
    assert re.findall(r"<th[^>]*>([^<]*)</th>", page)[:7] == [
        "", "before", "after", "reference", "change", "95 % interval", "verdict",
    ]  # fmt: skip


def test_the_table_of_an_older_run_that_may_be_of_two_guidance_scales_is_not_the_first(tmp_path: Path) -> None:
    mixed = {"before": 0.674, "after": 0.624, "delta": -0.05, "ci95": [-0.082, -0.019], "n": 32}
    good = {"before": 0.5, "after": 0.6, "delta": 0.1, "ci95": [0.05, 0.15], "n": 64}
    with open_run("grpo", {"run": {"out": str(tmp_path / "run")}}) as run:
        run.finish({"heldout": {"reward": good}, "heldout_generate": {"reward": mixed}})
    words = parsed(run_page(tmp_path / "run")).words.replace("\xa0", " ")
    assert "The reward rose from 0.500 to 0.600" in words
    assert "before and after may have been sampled with different guidance scales" in words
    assert "change in reward+0.100" in words
    assert words.index("0.600") < words.index("0.624"), "the table is not hidden"


def test_jerk_that_goes_away_from_real_clips_has_the_colour_of_what_is_worse(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    record = json.loads((out / "run.json").read_text())
    jerk = {"before": 80.0, "after": 96.0, "delta": 16.0, "ci95": [8.0, 24.0], "n": 64}
    bad, good, none = ' class="bad"', ' class="good"', ""
    further, closer = "further from reference", "closer to reference"
    for real, mark, word in ((60.0, bad, further), (120.0, good, closer), (None, none, "rougher")):
        record["summary"]["heldout"]["jerk"] = jerk | ({} if real is None else {"real": real})
        (out / "run.json").write_text(json.dumps(record))
        assert f'<td{mark} data-label="verdict">{word}</td>' in run_page(out)


def test_a_doubted_row_is_without_colour_and_says_why(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    record = json.loads((out / "run.json").read_text())
    rises = {"before": 0.3, "after": 0.4, "delta": 0.1, "ci95": [0.05, 0.15], "n": 64}
    why = "the evaluator finds the text of reference clips with R@3 0.25"
    record["summary"]["heldout"]["r_precision_3"] = rises | {"doubt": why}
    (out / "run.json").write_text(json.dumps(record))
    page = run_page(out)
    assert '<td data-label="verdict">n/a</td>' in page
    assert f"No verdict, because {why}" in page


def test_text_of_prompts_and_names_is_never_markup(tmp_path: Path) -> None:
    out = make(tmp_path / "<b>run", text=EVIL)
    page = run_page(out)
    markup = parsed(page)
    assert "b" not in markup.seen
    assert "alert" not in re.sub(r'<script type="application/json">.*?</script>', "", page).replace(
        "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;", ""
    )
    assert 'a person <script>alert("x")</script>' in markup.words


def test_a_torn_line_and_a_missing_folder_are_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 51, "rew')
    shutil.rmtree(out / "heldout")
    words = parsed(run_page(out)).words
    assert "1 line of metrics.jsonl cannot be read and is left out." in words
    assert "heldout/before.npz is missing" in words
    assert "heldout/after.npz is missing" in words
    assert "The reward rose" in words
    assert "Curves" in words


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"no archive", None])
def test_damaged_motions_are_left_out(tmp_path: Path, damage: bytes | None) -> None:
    out = make(tmp_path / "run")
    file = out / "heldout" / "after.npz"
    if damage is None:
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
    else:
        file.write_bytes(damage)
    markup = parsed(run_page(out))
    assert "heldout/after.npz is damaged" in markup.words
    assert "Motions before training" in markup.words


def test_motions_that_do_not_fit_their_description_are_refused(tmp_path: Path) -> None:
    file = make(tmp_path / "run") / "heldout" / "after.npz"
    good = kept([0.1, 0.2])
    for change in (
        {"bounds": [[(0, 20)], [(0, 41)]]},
        {"texts": ["one"]},
        {"segments": [[0.1], [0.2]]},
        {"features": good.features[:1]},
        {"radii": (0.1,)},
    ):
        Shown(**{**good.__dict__, **change}).save(file)
        with pytest.raises(MotionkitError, match="cannot be read as held-out motions"):
            Shown.load(file)


def test_a_run_that_never_logged_has_a_page(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_run("grpo", {"run": {"out": str(tmp_path / "run")}}):
        raise ZeroDivisionError("no steps")
    words = parsed(run_page(tmp_path / "run")).words
    assert "The run did not finish" in words
    assert "metrics.jsonl is empty" in words
    assert "The run failed: no steps" in words
    (tmp_path / "run" / "config.json").unlink()
    (tmp_path / "run" / "metrics.jsonl").unlink()
    words = parsed(run_page(tmp_path / "run")).words
    assert "damaged" in words
    assert "metrics.jsonl is missing" in words


def test_warnings_of_the_log_are_alarms_once(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    with (out / "log.txt").open("a") as file:
        for _ in range(2):
            file.write("2026-01-01 10:00:00,123 WARNING jerk rose from 1 to 2\n")
        file.write("2026-01-01 10:00:00,123 INFO all is well\n")
    words = parsed(run_page(out)).words
    assert words.count("jerk rose from 1 to 2") == 1
    assert "all is well" not in words


def test_a_comparison_has_a_column_per_run_and_the_settings_that_differ(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a" / "run"), make(tmp_path / "b" / "run", gains=(0.4, 0.1, 0.2, 0.3))
    config = json.loads((second / "config.json").read_text())
    (second / "config.json").write_text(json.dumps({**config, "seed": 4}))
    page = compare_page([first, second])
    markup = parsed(page)
    assert "a/run and b/run" in markup.words
    assert "+0.100, better" in markup.words
    assert "seed34" in markup.words
    data = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', page)[0])
    assert [track["title"] for track in data["tracks"]] == ["before", "A", "B"]
    assert "A a/runmotionkit grpo" in markup.words
    with pytest.raises(MotionkitError, match="named twice"):
        compare_page([first, first])
    with pytest.raises(MotionkitError, match="do not fit"):
        compare_page([tmp_path / str(place) for place in range(9)])


def test_runs_without_a_common_prompt_each_show_their_own(tmp_path: Path) -> None:
    first, second = make(tmp_path / "first"), make(tmp_path / "second", text="run {}")
    for run, count in ((first, 0), (second, 2)):
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, "prompts": {"k_segments": count}}))
    page = compare_page([first, second])
    words = parsed(page).words
    assert "These runs were measured on different prompts (prompts.k_segments 0, 2), so that each shows" in words
    data = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert [[track["title"] for track in one["tracks"]] for one in data] == [["before", "after"]] * 4
    assert [one["tracks"][0]["segments"][0]["text"] for one in data] == ["walk 0", "walk 1", "run 0", "run 1"]


def test_a_comparison_says_what_does_not_compare(tmp_path: Path) -> None:
    first, second = make(tmp_path / "first"), make(tmp_path / "second")
    for run, before, own in ((first, 0.678, {"hold": 1}), (second, 0.719, {"pairs": 2})):
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, "objective": {**own, "beta": before}}))
        record = json.loads((run / "run.json").read_text())
        record["summary"]["heldout"]["reward"]["before"] = before
        (run / "run.json").write_text(json.dumps(record))
    page = compare_page([first, second])
    words = parsed(page).words
    assert "Not directly comparable: before training these runs already score 0.678 and 0.719." in words
    differ = words[words.index("Settings that differ") :]
    common, own = differ.split("2 settings that not all of these runs have")
    assert "objective.beta0.6780.719" in common
    assert "objective.hold1-objective.pairs-2" in own
    captions = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert captions
    assert not any("heldout/" in caption for caption in captions)


def test_a_page_says_how_it_is_read_and_its_commands_can_be_copied(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    record = json.loads((out / "run.json").read_text())
    record["git"] = {"commit": "0123456789abcdef"}
    record["summary"]["heldout"]["judge"] = record["summary"]["heldout"]["reward"]
    (out / "run.json").write_text(json.dumps(record))
    page = run_page(out)
    words = parsed(page).words
    assert ", done, commit 0123456789" in words
    read = words[words.index("How to read this") :]
    assert "The judge measures the same as the reward by another network" in read
    assert "skate (m/s)Speed of the feet along the floor while they touch it, held out. Lower is better." in read
    assert "no changeThe 95 % interval of the change, as it is printed, contains 0; or the change is below half" in read
    assert "'no change': it contains 0" in words
    buttons = page.count('<button class="copy" type="button" hidden>')
    assert buttons == 1 + len(next_commands(peek(out)))


def test_only_a_page_of_its_own_is_replaced(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    assert write_report(out) == out / "report.html"
    assert write_report(out / "checkpoints") == out / "report.html"
    other = tmp_path / "other.html"
    other.write_text("mine")
    with pytest.raises(MotionkitError, match="not a page of motionkit report"):
        write_report(out, other)
    assert other.read_text() == "mine"
    write_report(out, tmp_path / "new" / "page.html")
    write_comparison([out, make(tmp_path / "second")], tmp_path / "new" / "page.html")
    assert "Comparison of" in (tmp_path / "new" / "page.html").read_text()


def test_the_command(cli: Cli) -> None:
    make(Path("runs/grpo/first"))
    done = cli("report", "first")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "runs/grpo/first/report.html\n"
    make(Path("runs/grpo/second"))
    both = cli("report", "first", "second", "--json")
    page = Path(json.loads(both.stdout)["page"])
    assert (page.parent.parent, page.name) == (Path("runs/report"), "comparison.html")
    assert page.is_file()
    assert [path.name for path in Path().iterdir()] == ["runs"], "nothing is written into the current folder"
    assert "report" not in cli("runs", "list").stdout, "a page is not a run"
    for wrong, words in (
        (("report", "nope"), "nope is not a motionkit run."),
        (("report", "firts"), "did you mean first?"),
        (("report", "first", "--out", "runs"), "--out runs is a folder."),
        (("report", "first", "first"), "named twice"),
    ):
        failed = cli(*wrong)
        assert failed.exit_code == 2
        assert words in failed.stderr


def test_a_run_is_found_by_its_last_part_or_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("grpo/first", "grpo/final", "pretrain-tmr/first"):
        make(Path("runs") / name)
    assert find_one("final").directory == Path("runs/grpo/final")
    assert find_one("fin").directory == Path("runs/grpo/final")
    assert find_one("grpo/first").directory == Path("runs/grpo/first")
    assert find_one("runs/grpo/first/checkpoints").directory == Path("runs/grpo/first/checkpoints").parent
    with pytest.raises(MotionkitError, match="2 runs are called 'first'"):
        find_one("first")


def in_a_browser(path: Path, script: str) -> Any:
    """Open a page in Chromium; return what the script puts into `found`, beside the errors of the page, `bad`."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    probe = f"""<script>window.bad = []; onerror = (what) => bad.push(what);
      setTimeout(() => {{
        const found = {{ bad }};
        {script}
        document.documentElement.dataset.found = JSON.stringify(found);
      }}, 800);</script>"""
    path.write_text(path.read_text().replace("<title>", probe + "<title>", 1))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={path.parent / 'profile'}"]
    command = [browser, *options, "--window-size=1280,900", "--virtual-time-budget=4000", "--dump-dom", path.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
    return json.loads(dom.split('data-found="')[1].split('"')[0].replace("&quot;", '"'))


@pytest.mark.slow
def test_the_page_runs_without_an_error_in_a_browser(tmp_path: Path) -> None:
    script = """
      const chart = document.querySelector('svg[data-frame]'), box = chart.getBoundingClientRect();
      chart.dispatchEvent(new PointerEvent('pointermove', { clientX: box.right - 20, clientY: box.top + 90 }));
      found.tip = document.querySelector('.tip:not([hidden])').textContent;
      found.copy = [...document.querySelectorAll('button.copy')].every((button) => !button.hidden);
      found.ready = document.querySelectorAll('motionkit-player[ready]').length;
      found.wide = document.documentElement.scrollWidth - innerWidth;"""
    found = in_a_browser(write_report(make(tmp_path / "run")), script)
    assert found["bad"] == []
    assert found["copy"] is True
    assert found["ready"] == 4
    assert found["wide"] <= 0
    assert re.fullmatch(r"step \d+\ntrain 0\.\d+\nheld out 0\.6.*", found["tip"])


@pytest.mark.slow
def test_a_row_of_a_comparison_puts_its_columns_in_order(tmp_path: Path) -> None:
    """Of three runs: by a figure, by one that a run does not have, by a setting that is a word."""
    runs = [make(tmp_path / name) for name in ("one", "two", "three")]
    rates, words = (9e-5, 0.01, 0.001), ("tmr", "dense", "physics")
    for run, after, jerk, rate, word in zip(runs, (0.6, 0.9, 0.75), (1200.0, None, 95.0), rates, words, strict=True):
        record = json.loads((run / "run.json").read_text())
        block = record["summary"]["heldout"]["reward"]
        record["summary"]["heldout"]["reward"] = {**block, "after": after, "delta": after - 0.5}
        if jerk is not None:
            record["summary"]["heldout"]["jerk"] = {**block, "after": jerk, "before": 100.0, "delta": jerk - 100}
        (run / "run.json").write_text(json.dumps(record))
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, "optim": {"rate": rate}, "objective": {"kind": word}}))
    write_comparison(runs, tmp_path / "page.html")
    script = """
      const heads = (name) => {
        const row = [...document.querySelectorAll('td:first-child')].find((one) => one.textContent.startsWith(name));
        return [1, 2, 3, 4].map(() => {
          const words = (one) => [...one.cells].slice(1).map((cell) => cell.textContent);
          const now = [...row.closest('table').rows].map(words);
          const whole = now.slice(1).every((cells) => cells.length === 3);
          row.querySelector('button').click();
          return whole ? now[0].join('') : 'torn';
        });
      };
      found.reward = heads('reward');
      found.jerk = heads('jerk');
      found.rate = heads('optim.rate');
      found.kind = heads('objective.kind');"""
    found = in_a_browser(tmp_path / "page.html", script)
    assert found == {
        "bad": [],
        "reward": ["ABC", "BCA", "ACB", "ABC"],
        "jerk": ["BCA", "ACB", "CAB", "ABC"],  # the fourth click on the reward left BCA
        "rate": ["ABC", "BCA", "ACB", "ABC"],
        "kind": ["BCA", "ACB", "BCA", "ABC"],
    }


def on_the_way(run: Path, steps: list[int], *, count: int = 2) -> None:
    """Keep motions at points, as `grpo` does."""
    for step in steps:
        kept([step / 1000] * count, text="on the way {}").save(run / "heldout" / f"step-{step:08d}.npz")


def test_motions_on_the_way_are_in_one_player_for_each_prompt(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    assert "During training" not in run_page(run)
    on_the_way(run, [0, 5, 10, 20, 30, 40, 50])
    page = run_page(run)
    assert page.index("Before and after") < page.index("During training"), "what was reached comes first"
    part = page[page.index("During training") :]
    assert "0.50 → 0.51 → 0.52 → 0.53 → 0.55 (+0.05)" in part, "the first, the last, and three between them"
    assert re.findall(r'"title":"(start|step \d+)"', part)[:5] == ["start", "step 5", "step 20", "step 30", "step 50"]
    assert part.count("</motionkit-player>") == 2
    assert part.count("<summary>0.50") == 1, "one prompt is open"
    (run / "heldout" / "after.npz").unlink()
    page = run_page(run)
    assert page.index("During training") < page.index("Motions before training")
    assert page.count("<summary>0.50") == page[page.index("Motions before training") :].count("<summary>0.50")


def test_a_point_that_is_damaged_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    on_the_way(run, [0, 5, 10])
    (run / "heldout" / "step-00000005.npz").write_bytes(b"PK")
    page = run_page(run)
    assert "heldout/step-00000005.npz is damaged" in page
    assert "0.50 → 0.51 (+0.01)" in page
    assert motions_at(page) == ["start", "step 10"]


def test_motions_of_a_run_without_a_judge_are_shown_without_scores(tmp_path: Path) -> None:
    with open_run("pretrain mdm", {"run": {"out": str(tmp_path / "run")}, "seed": 3}) as run:
        run.artifact("heldout").mkdir()
        for step in (0, 250):
            one = kept([math.nan])
            one.segments[0] = [math.nan, math.nan]
            one.save(run.directory / "heldout" / f"step-{step:08d}.npz")
        page = run_page(run.directory)
        assert "no reward" not in page
        assert "is missing, so its motions" not in page, "what comes at the end is not missed before"
        assert motions_at(page) == ["start", "step 250"]


def motions_at(page: str) -> list[str]:
    """Return the titles of the first player on the way."""
    part = page[page.index("During training") :]
    return re.findall(r'"title":"(start|step \d+)"', part[: part.index("</motionkit-player>")])


def test_the_page_of_a_run_is_renewed_until_the_run_ends(tmp_path: Path) -> None:
    said: list[str] = []
    pages: list[str] = []
    waits: list[float] = []
    with open_run("grpo", {"run": {"out": str(tmp_path / "run"), "num_steps": 4}, "seed": 3}) as run:
        (run.artifact("heldout")).mkdir()
        run.log(0, {"heldout/reward/mean": 0.5, "heldout/reward/delta": 0.0})

        def pause(seconds: float) -> None:
            waits.append(seconds)
            pages.append((run.directory / "report.html").read_text())
            if len(waits) == 1:
                return  # nothing was written
            if len(waits) == 4:
                run.finish({"heldout": {}})
                return
            step = len(waits)
            run.log(step, {"heldout/reward/mean": 0.5 + step / 100, "heldout/reward/delta": step / 100})
            on_the_way(run.directory, [step])

        path = watch_report(run.directory, None, said.append, pause=pause)
    file = run.directory / "report.html"
    assert path == file
    assert said == [
        f"step 0 of 4: {file}", f"step 2 of 4: {file}", f"step 3 of 4: {file}",
        f"the run has ended (done), step 3 of 4: {file}",
    ]  # fmt: skip
    assert len(waits) == 4
    assert min(waits) >= 10
    assert pages[0] == pages[1]
    assert "motionkit report RUN --watch renews this page until it ends" in pages[0]
    assert motions_at(pages[3]) == ["step 2", "step 3"]
    assert ["data-seconds" in page for page in (*pages, file.read_text())] == [True] * 4 + [False]


def test_ctrl_c_leaves_a_page_that_no_longer_loads_itself(tmp_path: Path) -> None:
    said: list[str] = []

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    def end(seconds: float) -> None:
        raise Interrupted(signal.SIGTERM)

    with open_run("grpo", {"run": {"out": str(tmp_path / "run")}, "seed": 3}) as run:
        run.log(1, {"reward/mean": 0.5})
        out = tmp_path / "page.html"
        assert watch_report(run.directory, out, said.append, pause=stop) == out
        assert said == [f"step 1: {out}", f"no longer renewed, step 1: {out}"]
        assert "data-seconds" not in out.read_text()
        with pytest.raises(Interrupted):
            watch_report(run.directory, out, said.append, pause=end)
        assert "data-seconds" not in out.read_text()


def test_a_run_that_goes_away_while_it_is_watched_ends_the_watch_with_an_error(tmp_path: Path) -> None:
    def pause(seconds: float) -> None:
        shutil.rmtree(tmp_path / "run")

    with open_run("grpo", {"run": {"out": str(tmp_path / "run")}, "seed": 3}) as run:
        run.log(1, {"reward/mean": 0.5})
        with pytest.raises(MotionkitError, match="is not a motionkit run") as caught:
            watch_report(run.directory, tmp_path / "page.html", lambda line: None, pause=pause)
    assert caught.value.code == 1


def test_watch_of_a_finished_run_writes_its_page_once(tmp_path: Path, cli: Cli) -> None:
    run = make(tmp_path / "run")
    done = cli("report", run, "--watch")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"the run has ended (done), step 50: {run / 'report.html'}\n"
    assert "data-seconds" not in (run / "report.html").read_text()
    told = json.loads(cli("report", run, "--watch", "--json").stdout)
    assert told["page"] == str(run / "report.html")
    refused = cli("report", run, run, "--watch")
    assert refused.exit_code == 2
    assert "--watch follows one run, and 2 were named" in refused.stderr
    assert cli("report", tmp_path / "none", "--watch").exit_code == 2


@pytest.mark.slow
def test_a_watched_page_loads_itself_again_and_stays_where_it_was(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    page = write_report(run, tmp_path / "page.html", renewed=1.0)
    script = """
      const loads = Number(sessionStorage.loads ?? 0) + 1;
      sessionStorage.loads = loads;
      if (loads === 1) {
        document.querySelectorAll('details')[1].open = true;
        scrollTo(0, 700);
      }
      found.open = [...document.querySelectorAll('details')].map((one) => one.open);
      found.top = scrollY;
      found.loads = loads;
      if (loads === 3) dispatchEvent(new KeyboardEvent('keydown', { key: 'a' }));  // it waits for whoever uses it"""
    found = in_a_browser(page, script)
    assert found["bad"] == []
    assert found["loads"] == 3
    assert found["open"][1] is True
    assert sum(found["open"]) == 1
    assert found["top"] == 700
