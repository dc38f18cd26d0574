"""Each format gives the scenes that were written to it; what cannot be used is left out, counted and named."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from motionkit.errors import MotionkitError
from motionkit_regions.datasets.settings import (
    CocoOptions,
    FinetuneOptions,
    GraspOptions,
    JsonlOptions,
    coco,
    finetune,
    jsonl,
)
from motionkit_regions.datasets.settings import grasp as grasp_component
from tests.made.regions import grasp_rows, rle, scenes, write_coco, write_finetune, write_grasp, write_jsonl

ALL = ("train", "val", "test")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))


def opened(kind: str, path: Path, **options: Any) -> Any:
    component, make = {
        "jsonl": (jsonl, JsonlOptions), "coco": (coco, CocoOptions), "finetune": (finetune, FinetuneOptions),
        "grasp": (grasp_component, GraspOptions),
    }[kind]  # fmt: skip
    return component.build(make.model_validate({"path": path, **options}))


def every(data: Any) -> list[tuple[bytes, bytes, str]]:
    found = []
    for split in ALL:
        one = data.regions(split, np.arange(data.count(split)))
        found += [(i.tobytes(), m.tobytes(), c) for i, m, c in zip(one.images, one.masks, one.captions, strict=True)]
    return found


def wanted(count: int, *more: tuple[Callable[[np.ndarray], np.ndarray], str]) -> list[tuple[bytes, bytes, str]]:
    found = []
    for image, mask, caption in scenes(count):
        found.append((image.tobytes(), mask.tobytes(), caption))
        found += [(image.tobytes(), change(mask).tobytes(), text) for change, text in more]
    return sorted(found)


def write(kind: str, folder: Path, count: int = 40) -> Path:
    if kind == "grasp":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
        return write_grasp(folder, grasp_rows(count))
    return {"jsonl": write_jsonl, "coco": write_coco, "finetune": write_finetune}[kind](folder, count)


MORE: dict[str, Any] = {"coco": [(lambda mask: mask, "it")], "finetune": [(np.ones_like, "the picture")]}
KINDS = ("jsonl", "coco", "finetune", "grasp")


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_read(tmp_path: Path, kind: str) -> None:
    data = opened(kind, write(kind, tmp_path / "data"))
    assert sorted(every(data)) == wanted(40, *MORE.get(kind, []))
    assert data.summary
    for split in ALL:
        found = data.regions(split, np.arange(data.count(split)))
        np.testing.assert_allclose(data.areas(split), [mask.mean() for mask in found.masks], rtol=1e-6)
    some = data.regions("train", np.array([5, 0, 5]))
    assert some.images[0].tobytes() == some.images[2].tobytes()
    assert "left out" not in data.summary


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_and_the_fingerprint_do_not_depend_on_the_place(tmp_path: Path, kind: str) -> None:
    data = opened(kind, write(kind, tmp_path / "data"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").rename(tmp_path / "elsewhere/moved")
    again = opened(kind, tmp_path / "elsewhere/moved")
    assert again.inputs == data.inputs
    for split in ALL:
        numbers = np.arange(data.count(split))
        assert again.count(split) == len(numbers)
        np.testing.assert_array_equal(again.areas(split), data.areas(split))
    other = opened(kind, write(kind, tmp_path / "fewer", 39))
    assert other.inputs != data.inputs


def test_a_list_that_took_long_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from motionkit_regions.datasets import dataset as _index

    folder = write_jsonl(tmp_path / "data", caption=" ")
    monkeypatch.setattr(_index, "_WORTH_KEEPING", -1.0)
    data = opened("jsonl", folder)
    (kept,) = (tmp_path / "cache").glob("regions-*.npz")
    monkeypatch.setattr(_index, "_make", lambda *_, **__: pytest.fail("it was made again"))
    again = opened("jsonl", folder)
    assert again.summary == data.summary
    assert every(again)
    monkeypatch.undo()
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    kept.write_bytes(kept.read_bytes()[:100])
    assert opened("jsonl", folder).summary == data.summary


def _bad(folder: Path, *rows: dict[str, Any]) -> Path:
    with (folder / "regions.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


GOOD = {"image": "3.png", "mask": rle(scenes(4)[3][1]), "caption": "a shape"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image": "none.png"}, "the image is missing: 1 (line 41 ("), ({"image": 7}, "the image is missing"),
        ({"image": "text.png"}, "the image does not open: 1 (line 41"),
        ({"image": "half.png"}, "the image does not open"),
        ({"mask": None}, "there is no mask: 1 (line 41)"), ({"mask": "none.png"}, "there is no mask"),
        ({"mask": rle(np.zeros((48, 48), bool))}, "the mask is empty: 1 (line 41)"),
        ({"mask": rle(np.ones((24, 24), bool))}, "the mask has another size than the image: 1 (line 41 (24 x 24, "),
        ({"mask": {"size": [48, 48], "counts": "xyz"}}, "the mask cannot be read"),
        ({"mask": "text.png"}, "the mask cannot be read"), ({"caption": "  \n"}, "the caption is empty: 1 (line 41)"),
        ({"caption": None}, "the caption is empty"), ({"caption": "long " * 3000}, "the caption is too long"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_left_out_and_named(
    tmp_path: Path, change: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_jsonl(tmp_path / "data")
    (folder / "text.png").write_text("text")
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 48, 3)).astype(np.uint8))
    noise.save(folder / "noise.png")
    (folder / "half.png").write_bytes((folder / "noise.png").read_bytes()[:4000])
    with caplog.at_level(logging.WARNING, "motionkit"):
        data = opened("jsonl", _bad(folder, GOOD | change))
    assert said in data.summary
    assert said in caplog.text
    assert sum(data.count(split) for split in ALL) == 40
    assert sorted(every(data)) == wanted(40)


def test_more_than_a_fifth_is_refused_before_the_start(tmp_path: Path) -> None:
    folder = write_jsonl(tmp_path / "data")
    _bad(folder, *[GOOD | {"caption": ""}] * 6, *[GOOD | {"mask": None}] * 5)
    with pytest.raises(MotionkitError) as error:
        opened("jsonl", folder)
    assert error.value.code == 2
    assert "the caption is empty: 6 (line 41, line 42, line 43, ...); there is no mask: 5" in error.value.why
    assert "--dataset.bad-share 0.22" in error.value.fix
    assert sum(opened("jsonl", folder, bad_share=0.22).count(split) for split in ALL) == 40


def test_a_region_that_can_no_longer_be_read_gives_way_to_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = opened("jsonl", write_jsonl(tmp_path / "data"))
    first, second = (data.regions("train", np.array([place])) for place in (0, 1))
    name = next(
        f"{number}.png" for number, (image, *_) in enumerate(scenes(40)) if np.array_equal(image, first.images[0])
    )
    (tmp_path / "data" / name).unlink()
    for _ in range(2):
        found = data.regions("train", np.array([0, 1]))
        assert found.captions == (second.captions[0],) * 2
    assert caplog.text.count("another region takes its place") == 1
    for path in (tmp_path / "data").glob("*.png"):
        path.unlink()
    with pytest.raises(MotionkitError, match="can no longer be read") as error:
        data.regions("train", np.array([0]))
    assert error.value.code == 1


def test_photos_are_scaled_down_with_their_masks(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = []
    for number in range(3):
        Image.new("RGB", (640, 480), (100 * number, 0, 0)).save(folder / f"{number}.jpg")
        rows.append({"image": f"{number}.jpg", "mask": [[160, 120, 480, 120, 480, 360, 160, 360]], "caption": "half"})
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))  # no line feed behind the last
    found = opened("jsonl", folder, max_side=64).regions("train", np.array([0]))
    assert found.images[0].shape == (48, 64, 3)
    assert found.masks[0].shape == (48, 64)
    assert found.masks[0].mean() == pytest.approx(0.25)
    assert opened("jsonl", folder / "rows.jsonl").regions("train", np.array([0])).images[0].shape == (480, 640, 3)
    with pytest.raises(MotionkitError) as error:
        opened("jsonl", folder, max_pixels=1000)
    assert "the image is too large: 3 (line 1 (640 x 480)" in error.value.why


def test_data_need_a_path() -> None:
    for component, options in ((jsonl, JsonlOptions()), (coco, CocoOptions()), (finetune, FinetuneOptions()),
                               (grasp_component, GraspOptions())):  # fmt: skip
        with pytest.raises(MotionkitError, match=r"--dataset\.path"):
            component.build(options)


@pytest.mark.parametrize(
    ("kind", "files", "place", "word"),
    [
        *((kind, {}, "none", "does not exist") for kind in ("jsonl", "coco", "finetune")),
        *((kind, {}, "", "holds nothing") for kind in ("jsonl", "coco", "finetune")),
        ("jsonl", {"a.jsonl": "{}", "b.jsonl": "{}"}, "", "a.jsonl, b.jsonl"),
        ("jsonl", {"a.jsonl": '{"picture": "a.png", "text": "a"}\n'}, "a.jsonl", "image, mask, caption"),
        ("jsonl", {"a.jsonl": "no json\n"}, "a.jsonl", "no JSON objects"),
        ("jsonl", {"a.jsonl": "\n\n"}, "a.jsonl", "is empty"),
        ("finetune", {"a.json": '[{"image": "a", "masks": []}]'}, "a.json", "image, mask, text"),
        ("finetune", {"a.json": "{"}, "a.json", "not valid JSON"),
        ("coco", {"a.json": '{"info": {}}'}, "a.json", "wanted are images"),
    ],
)
def test_wrong_folders_and_columns(tmp_path: Path, kind: str, files: dict[str, str], place: str, word: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(MotionkitError) as error:
        opened(kind, tmp_path / place)
    assert word in error.value.sentence()
    assert error.value.code == 2


def test_splits_of_refcoco_and_those_of_lines(tmp_path: Path) -> None:
    data = opened("coco", write_coco(tmp_path / "coco"))
    assert [data.count(split) for split in ALL] == [74, 2, 4]
    anew = opened("coco", tmp_path / "coco", split="hash", held_out=0.2)
    assert anew.count("test") > 10
    folder = write_jsonl(tmp_path / "lines")
    lines = [json.loads(line) for line in (folder / "regions.jsonl").read_text().splitlines()]
    for line, split in zip(lines, ["test"] * 5 + ["val"] * 3 + ["train"] * 32, strict=True):
        line["split"] = split
    (folder / "regions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert [opened("jsonl", folder).count(split) for split in ALL] == [32, 3, 5]


def test_refs_of_coco(tmp_path: Path) -> None:
    folder = write_coco(tmp_path / "coco")
    refs = folder / "refs(unc).json"
    listed = json.loads(refs.read_text())
    data = opened("coco", folder)
    refs.with_name("refs(google).json").write_text(json.dumps(listed[:30]))
    assert every(opened("coco", folder, refs="unc")) == every(data)
    assert len(every(opened("coco", folder, refs="google"))) == 60
    for path in folder.glob("refs*.json"):
        path.unlink()
    content = json.loads((folder / "instances.json").read_text())
    (tmp_path / "one.json").write_text(json.dumps(content | {"refs": listed}))
    assert every(opened("coco", tmp_path / "one.json", images=folder / "train2014")) == every(data)
    for one, ref in zip(content["annotations"], listed, strict=True):
        one |= {"caption": ref["sentences"][0]["sent"], "split": ref["split"]}
    (folder / "instances.json").write_text(json.dumps(content))
    assert len(every(opened("coco", folder))) == 40


@pytest.mark.parametrize(
    ("names", "chosen", "word"),
    [(("google", "unc"), {}, "refs(google).json, refs(unc).json"), (("google", "unc"), {"refs": "umd"}, "umd"),
     ((), {}, "no sentences")],
)  # fmt: skip
def test_refs_of_coco_must_be_one_file(tmp_path: Path, names: tuple[str, ...], chosen: Any, word: str) -> None:
    folder = write_coco(tmp_path / "coco")
    text = (folder / "refs(unc).json").read_text()
    (folder / "refs(unc).json").unlink()
    for name in names:
        (folder / f"refs({name}).json").write_text(text)
    with pytest.raises(MotionkitError) as error:
        opened("coco", folder, **chosen)
    assert word in error.value.message


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("trap"),))


def test_a_pickle_of_refs_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_coco(tmp_path / "coco")
    listed = json.loads((folder / "refs(unc).json").read_text())
    data = every(opened("coco", folder))
    (folder / "refs(unc).json").unlink()
    (folder / "refs(unc).p").write_bytes(pickle.dumps(listed, 2))
    assert every(opened("coco", folder)) == data
    for content in (pickle.dumps(listed, 0), pickle.dumps([_Trap()], 2)):
        (folder / "refs(unc).p").write_bytes(content)
        with pytest.raises(MotionkitError) as error:
            opened("coco", folder)
        assert "json.dump" in error.value.fix
    assert not (tmp_path / "trap").exists()


def test_ids_and_files_that_are_not_there(tmp_path: Path) -> None:
    folder = write_coco(tmp_path / "coco")
    listed = json.loads((folder / "refs(unc).json").read_text())
    listed[5]["ann_id"], listed[6]["image_id"], listed[7]["sentences"], listed[8]["ann_id"] = 7, 99, [], [1]
    listed += [None, 3]
    (folder / "refs(unc).json").write_text(json.dumps(listed))
    (folder / "train2014" / f"COCO_train2014_{9:012d}.png").unlink()
    summary = opened("coco", folder).summary
    for said in ("there is no mask: 2", "the image is missing: 2", "the caption is empty: 1"):
        assert said in summary
    rows = json.loads((write_finetune(tmp_path / "fine") / "annotations.json").read_text())
    rows[1]["text"], rows[2], rows[3]["mask"], rows[4]["mask"][0] = ["one"], "row", [], [[1, 2]]
    (tmp_path / "fine/annotations.json").write_text(json.dumps(rows))
    summary = opened("finetune", tmp_path / "fine").summary
    for said in (
        "2 masks and 1 texts",
        "row 2 (a str)",
        "there is no mask: 1 (row 3)",
        "row 4, region 0 (no polygon has three points",
    ):
        assert said in summary
