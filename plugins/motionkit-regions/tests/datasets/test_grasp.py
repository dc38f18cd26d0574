"""Grasp-Any-Region: its folders, its images, its masks, and which text is of which region."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_regions.datasets.arrow_files import check_batch
from motionkit_regions.datasets.grasp import parts_of
from motionkit_regions.datasets.rows import UnusableError, caption_of
from motionkit_regions.datasets.settings import GraspOptions, grasp
from tests.made.regions import grasp_rows, png, rle, scenes, write_grasp

ALL = ("train", "val", "test")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def opened(path: Path | str, **options: Any) -> Any:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    return grasp.build(GraspOptions.model_validate({"path": str(path), **options}))


def captions(data: Any) -> list[str]:
    return sorted(text for split in ALL for text in data.regions(split, np.arange(data.count(split))).captions)


def said(*turns: str) -> list[dict[str, str]]:
    return [{"from": ("human", "gpt")[place % 2], "value": text} for place, text in enumerate(turns)]


def found(masks: Any, *turns: str) -> list[tuple[object, object]]:
    return [(part.mask, part.caption) for part in parts_of(masks, said(*turns))]


def test_which_text_is_of_which_region() -> None:
    a, b = {"size": [1, 1]}, {"size": [2, 2]}
    assert found(a, "Describe it.", "One.", "Shorter.", "Two.") == [(a, "Two.")]
    assert found([a], "<Prompt0>?", "<Prompt0>: A cat on <Prompt0>.") == [(a, "A cat on this object.")]
    assert found([a, b], "Describe.", "One.", "Describe.", "Two.") == [(a, "One."), (b, "Two.")]
    assert found([a, b], "What is <Prompt1>?", "A dog.", "And <Prompt0>?", "A cat.") == [(b, "A dog."), (a, "A cat.")]
    assert found([a, b], "Both?", "<Prompt0>: A cat.\n\n<Prompt1>: A dog.") == [(a, "A cat."), (b, "A dog.")]
    assert found([a, b], "<Prompt0>?", "A cat.", "And <Prompt1> beside <Prompt0>?", "A dog.") == [(a, "A cat.")]


@pytest.mark.parametrize(
    ("masks", "turns", "reason"),
    [
        ([{}, {}], ("How do <Prompt0> and <Prompt1> relate?", "Side by side."), "text is of several regions"),
        ([{}, {}], ("Describe.", "Both."), "1 answers for 2 regions"),
        ([{}, {}], ("<Prompt5>?", "A."), "<Prompt5> of 2"),
        ({}, ("Describe.",), "there is no answer"), (None, ("Describe.", "A."), "there is no mask"),
        ([], ("Describe.", "A."), "there is no mask"),
    ],
)  # fmt: skip
def test_texts_that_are_of_no_region(masks: Any, turns: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UnusableError, match=reason):
        found(masks, *turns)


@pytest.mark.parametrize(
    "conversations", [None, [], ["text"], [{"from": "gpt"}], "text", [{"from": "human", "value": 3}]]
)
def test_conversations_that_are_none(conversations: Any) -> None:
    with pytest.raises(UnusableError, match="the caption is empty"):
        caption_of(parts_of({}, conversations)[0].caption)


def test_folders_and_subsets(tmp_path: Path) -> None:
    rows = grasp_rows(30)
    for number, part in enumerate(("Fine-Grained-Dataset-Part1", "Fine-Grained-Dataset-Part2", "Seed-Dataset")):
        write_grasp(tmp_path, rows[number * 10 : number * 10 + 10], part=part)
    texts = [caption for *_, caption in scenes(30)]
    assert captions(opened(tmp_path)) == sorted(texts)
    assert captions(opened(tmp_path, subset="fine-grained")) == sorted(texts[:20])
    assert captions(opened(tmp_path, subset="seed, fine-grained-dataset-part2")) == sorted(texts[10:])
    assert captions(opened(tmp_path / "Seed-Dataset")) == sorted(texts[20:])
    with pytest.raises(MotionkitError) as error:
        opened(tmp_path, subset="relation")
    assert "there are Fine-Grained-Dataset-Part1, " in error.value.why
    (tmp_path / "Seed-Dataset/cache-0123.arrow").write_bytes(b"what map leaves")
    assert len(captions(opened(tmp_path))) == 30


def test_what_the_library_itself_saves(tmp_path: Path) -> None:
    library = pytest.importorskip("datasets", reason="datasets is not installed (extra sa2va)")
    rows = grasp_rows(12)
    features = library.Features(
        {
            "image": library.Image(), "catagory": library.Value("string"),
            "mask_rle": {"size": library.List(library.Value("int64")), "counts": library.Value("string")},
            "conversations": library.List({"from": library.Value("string"), "value": library.Value("string")}),
        }
    )  # fmt: skip
    library.disable_progress_bars()
    table = library.Dataset.from_list(rows, features=features)
    table.save_to_disk(str(tmp_path / "one/Seed-Dataset"), num_shards=3)
    assert captions(opened(tmp_path / "one")) == sorted(caption for *_, caption in scenes(12))
    library.DatasetDict({"train": table}).save_to_disk(str(tmp_path / "dict"))
    assert captions(opened(tmp_path / "dict")) == captions(opened(tmp_path / "one"))
    (tmp_path / "one/Seed-Dataset/data-00001-of-00003.arrow").unlink()
    with pytest.raises(MotionkitError, match="data-00001-of-00003"):
        opened(tmp_path / "one")


def test_every_way_to_store_an_image_and_a_mask(tmp_path: Path) -> None:
    rows = grasp_rows(12)
    wanted = captions(opened(write_grasp(tmp_path / "table", rows)))
    folder = tmp_path / "paths/Seed-Dataset"
    folder.mkdir(parents=True)
    for number, (image, *_) in enumerate(scenes(12)):
        (folder / f"{number}.png").write_bytes(png(image))
    paths = [row | {"image": {"bytes": None, "path": f"{number}.png"}} for number, row in enumerate(rows)]
    letters = [row | {"image": "data:base64," + base64.b64encode(row["image"]["bytes"]).decode()} for row in rows]
    lists = [row | {"mask_rle": [row["mask_rle"]]} for row in rows]
    plain = [row | {"image": row["image"]["bytes"]} for row in rows]
    for name, changed in (("letters", letters), ("lists", lists), ("plain", plain)):
        assert captions(opened(write_grasp(tmp_path / name, changed))) == wanted
    write_grasp(tmp_path / "paths", paths, part="Other")
    for path in (tmp_path / "paths/Other").iterdir():
        path.rename(folder / path.name)
    assert captions(opened(tmp_path / "paths")) == wanted


def test_an_arrow_file_rather_than_a_stream(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    (tmp_path / "data").mkdir()
    table = pa.Table.from_pylist(grasp_rows(12))
    with pa.OSFile(str(tmp_path / "data/a.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert len(captions(opened(tmp_path / "data"))) == 12


def test_rows_of_several_regions_are_no_fault(tmp_path: Path) -> None:
    masks = [rle(scenes(2)[place][1]) for place in (0, 1)]
    rows = [row | {"mask_rle": [row["mask_rle"]]} for row in grasp_rows(30)]
    for row in rows[:25]:
        row |= {"mask_rle": masks, "conversations": said("Where is <Prompt0> to <Prompt1>?", "On the left.")}
    data = opened(write_grasp(tmp_path / "some", rows))
    assert len(captions(data)) == 5
    assert (
        "the text is of several regions: 25 (row 0 of Fine-Grained-Dataset/data-00000-of-00002.arrow, " in data.summary
    )
    with pytest.raises(MotionkitError) as error:
        opened(write_grasp(tmp_path / "all", rows[:25], part="Relation-Dataset"))
    assert "the text is of several regions: 25" in error.value.why


def test_bad_rows_and_files(tmp_path: Path) -> None:
    rows = grasp_rows(30)
    rows[1] |= {"image": {"bytes": b"text", "path": None}}
    rows[2] |= {"image": {"bytes": None, "path": None}}
    rows[3] |= {"mask_rle": None}
    rows[4] |= {"conversations": []}
    rows[5] |= {"mask_rle": {"size": [5, 5], "counts": "9"}}
    summary = opened(write_grasp(tmp_path / "rows", rows, files=1)).summary
    for text in ("the image does not open: 1 (row 1 of", "the image is missing: 1", "there is no mask: 1",
                 "the caption is empty: 1", "the mask cannot be read: 1 (row 5 of"):  # fmt: skip
        assert text in summary
    with pytest.raises(MotionkitError) as error:
        opened(write_grasp(tmp_path / "columns", [{"image": "a", "mask": "b", "caption": "c"}]))
    assert "found were image, mask, caption; wanted are image, mask_rle, conversations" in error.value.why
    path = tmp_path / "rows/Fine-Grained-Dataset/data-00000-of-00001.arrow"
    whole = path.read_bytes()
    for content in (b"", b"text" * 30, whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(MotionkitError) as error:
            opened(tmp_path / "rows")
        assert error.value.code == 2
    (tmp_path / "none").mkdir()
    (tmp_path / "none/readme.txt").write_text("")
    with pytest.raises(MotionkitError) as error:
        opened(tmp_path / "none")
    assert "it holds readme.txt; wanted are folders" in error.value.why


def written(folder: Path, table: Any, **options: Any) -> Path:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    folder.mkdir()
    with (
        pa.OSFile(str(folder / "a.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer,
    ):
        writer.write_table(table)
    return folder


def changed(**columns: Any) -> Any:
    """A table of three good rows with other columns in place of its own."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    table = pa.Table.from_pylist(grasp_rows(3))
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def test_columns_that_take_no_room_are_refused(tmp_path: Path) -> None:
    """However many values such a column has, its file is small; it is refused by its type."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    many = 10
    ends = pa.array([0, many, many, many], pa.int64())
    empty = pa.array([{}] * 3, pa.struct([])).slice(0, 0)
    kinds = {
        "nulls": {"conversations": pa.LargeListArray.from_arrays(ends, pa.nulls(many))},
        "values": {"mask_rle": pa.array([None] * 3, pa.dictionary(pa.int8(), pa.string()))},
        "runs": {"mask_rle": pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array(["a"]))},
        "empty": {"mask_rle": pa.array([[]] * 3, pa.list_(empty.type))},
        "zero": {"mask_rle": pa.array([[]] * 3, pa.list_(pa.int8(), 0))},
        "bytes": {"image": pa.array([[1, 2]] * 3, pa.list_(pa.int8()))},
    }
    for name, columns in kinds.items():
        with pytest.raises(MotionkitError, match=f"the column {next(iter(columns))} of .* holds"):
            opened(written(tmp_path / name, changed(**columns)))
    nothing = pa.table({name: pa.nulls(many) for name in ("image", "mask_rle", "conversations")})
    with pytest.raises(MotionkitError, match="holds null"):
        opened(written(tmp_path / "rows", nothing))


def test_a_row_of_more_values_than_a_mask_has_is_unusable(tmp_path: Path) -> None:
    """A bit of the file would become a table of Python: 8 MB took 12 GB."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    tables = pa.StructArray.from_arrays([pa.array(np.zeros(1_200_000, bool))], ["a"])
    masks = pa.LargeListArray.from_arrays(pa.array([0, 1_200_000, 1_200_000, 1_200_000], pa.int64()), tables)
    folder = written(tmp_path / "bits", changed(mask_rle=masks))
    with pytest.raises(MotionkitError) as error:
        opened(folder)
    assert "the row cannot be read: 1 (row 0 of a.arrow (mask_rle of 2,400,001 values))" in error.value.why


def test_pictures_beside_the_rows_and_in_them_are_in_the_fingerprint(tmp_path: Path) -> None:
    rows = grasp_rows(12)
    inside = write_grasp(tmp_path / "inside", rows, files=1)
    before = opened(inside).inputs["path"]
    (path,) = inside.glob("*/*.arrow")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert opened(inside, bad_share=0.9).inputs["path"] != before
    for number, row in enumerate(rows):
        row["image"] = {"bytes": None, "path": f"{number}.png"}
    beside = write_grasp(tmp_path / "beside", rows)
    for number, (image, *_) in enumerate(scenes(12)):
        (beside / f"Fine-Grained-Dataset/{number}.png").write_bytes(png(image))
    before = opened(beside).inputs["path"]
    assert opened(beside).inputs["path"] == before
    (beside / "Fine-Grained-Dataset/3.png").write_bytes(png(255 - scenes(12)[3][0]))
    assert opened(beside).inputs["path"] != before


def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    kind = "zstd"
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    table = changed(image=pa.array([b"\0" * 30_000_000] * 3))
    folder = written(tmp_path / kind, table, compression=kind)
    assert (folder / "a.arrow").stat().st_size < 1_000_000
    before = pa.total_allocated_bytes()
    del table
    with pytest.raises(MotionkitError) as error:
        opened(folder)
    assert "save_to_disk" in error.value.fix
    assert pa.total_allocated_bytes() <= before
    with (
        pa.OSFile(str(folder / "a.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, changed().schema, options=pa.ipc.IpcWriteOptions(compression=kind)) as writer,
    ):
        writer.write_table(changed())
    with pytest.raises(MotionkitError, match="is compressed"):
        opened(folder)


def test_more_rows_than_bytes_are_refused(tmp_path: Path) -> None:
    """A row of three bits is sound, and no row of a picture."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    bits = pa.array(np.zeros(30_000, bool))
    folder = written(tmp_path / "rows", pa.table(dict.fromkeys(("image", "mask_rle", "conversations"), bits)))
    assert (folder / "a.arrow").stat().st_size < 30_000
    with pytest.raises(MotionkitError, match="more rows than bytes"):
        opened(folder)


def test_a_picture_that_ends_a_byte_too_late_is_not_read(tmp_path: Path) -> None:
    """pyarrow trusts offsets unless they are checked; the byte that is too many is one of the padding."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    sizes = [len(row["image"]["bytes"]) for row in grasp_rows(3)]
    ends = np.cumsum([0, *sizes]).astype(np.int32)
    for more in (0, 1):
        folder = written(tmp_path / str(more), changed())
        data = (folder / "a.arrow").read_bytes()
        assert data.count(ends.tobytes()) == 1
        later = ends + np.array([0, 0, 0, more], np.int32)
        (folder / "a.arrow").write_bytes(data.replace(ends.tobytes(), later.tobytes()))
        if more:
            with pytest.raises(MotionkitError) as error:
                opened(folder, bad_share=0.99)
            assert "the row cannot be read: 3" in error.value.why
        else:
            assert "the row cannot be read" not in opened(folder).summary


def test_a_row_of_many_bytes_is_unusable(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    rows = grasp_rows(12)
    rows[4]["mask_rle"] |= {"counts": "0" * (9 << 20)}
    summary = opened(written(tmp_path / "long", pa.Table.from_pylist(rows))).summary
    assert "the row cannot be read: 1 (row 4 of a.arrow (mask_rle of 9 MB))" in summary


def test_a_batch_of_many_rows_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow checks the whole batch for each of its rows: 60 ms a row for 100,000 rows."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
    checked: list[int] = []

    def check(batch: object) -> str:
        checked.extend([batch.num_rows] if isinstance(batch, pa.RecordBatch) else [])
        return check_batch(batch)

    monkeypatch.setattr("motionkit_regions.datasets.grasp.check_batch", check)
    assert len(captions(opened(written(tmp_path / "one", pa.Table.from_pylist(grasp_rows(30)))))) == 30
    assert checked == [30]


def test_the_hub_is_asked_for_what_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = write_grasp(tmp_path / "snapshots" / commit, grasp_rows(12), part="Seed-Dataset")
    asked: list[dict[str, Any]] = []

    def download(name: str, **options: Any) -> str:
        asked.append({"name": name, **options})
        return str(folder)

    monkeypatch.chdir(tmp_path)
    with pytest.raises(MotionkitError) as error:
        opened("owner/name")
    assert "HF_HUB_OFFLINE is set" in error.value.why
    monkeypatch.setattr(hub, "snapshot_download", download)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    data = opened("owner/name", subset="seed", revision="main")
    assert data.inputs["revision"] == commit
    assert asked[0] | {"allow_patterns": 0} == {
        "name": "owner/name", "repo_type": "dataset", "revision": "main", "local_files_only": False,
        "allow_patterns": 0,
    }  # fmt: skip
    assert asked[0]["allow_patterns"] == ["[sS][eE][eE][dD]*/*.arrow", "[sS][eE][eE][dD]*/*.json"]
    assert "revision" not in opened(folder).inputs
    (tmp_path / "empty" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "empty" / "here")
    for path, text in (("no/such/folder", "there is no folder"), ("..", "arrow")):
        with pytest.raises(MotionkitError, match=text):
            opened(path)
