"""Sizes of columns are those that pyarrow tells, and a damaged footer is an error, not the end of the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motionkit_lerobot.parquet import column_sizes

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")


def write(path: Path) -> Path:
    """Write plain, nested and nullable columns in several row groups, with metadata of every kind."""
    rows = 300
    table = pa.table({
        "number": pa.array(np.arange(rows)),
        "half": pa.array([None, 0.5] * (rows // 2)),
        "flag": pa.array([True, False, True] * (rows // 3)),
        "wide": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * 7, np.float32)), 7),
        "ragged": pa.array([list(range(row % 5)) for row in range(rows)]),
        "words": pa.array([["a", "bc"]] * rows),
        "nested": pa.array([{"x": 1, "y": {"z": "é"}}] * rows),
    }).replace_schema_metadata({"note": "é" * 500})  # fmt: skip
    pq.write_table(table, path, row_group_size=70, write_page_index=True, sorting_columns=[pq.SortingColumn(0)])
    return path


@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "use_dictionary": False}])
def test_sizes_are_those_of_pyarrow(tmp_path: Path, options: dict[str, object]) -> None:
    path = write(tmp_path / "a.parquet")
    pq.write_table(pq.read_table(path), path, row_group_size=70, **options)
    metadata = pq.read_metadata(path)
    columns = [
        metadata.row_group(group).column(number)
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
    ]
    assert len(columns) == 5 * 8
    assert column_sizes(path) == [
        (column.path_in_schema, column.num_values, column.total_uncompressed_size) for column in columns
    ]


def test_few_bytes_that_stand_for_many_values_are_counted(tmp_path: Path) -> None:
    values = pa.ListArray.from_arrays(pa.array([0, 3_000_000]), pa.array(np.zeros(3_000_000, np.float32)))
    pq.write_table(pa.table({"action": values}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 2000
    assert column_sizes(tmp_path / "a.parquet")[0][1] == 3_000_000


def test_a_damaged_footer_is_a_value_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    sound = path.read_bytes()
    begin = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    rng, refused = np.random.default_rng(0), 0
    for place in rng.integers(begin, len(sound), 400).tolist():
        path.write_bytes(sound[:place] + bytes([rng.integers(256)]) + sound[place + 1 :])
        try:
            column_sizes(path)
        except ValueError:
            refused += 1
    assert 20 < refused < 400
    for content in (b"", b"PAR1", b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1", sound[:-1], sound[: len(sound) // 2]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="it "):
            column_sizes(path)


@pytest.mark.parametrize("field", [b"\x1c", b"\x19"])
def test_a_footer_that_is_nested_too_deep_is_refused(tmp_path: Path, field: bytes) -> None:
    footer = field * 100  # field 1, a structure in a structure, or a list of one list, ...
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="nested too deep"):
        column_sizes(tmp_path / "a.parquet")
