"""Read the rows of a table: CSV (also gzipped) or Parquet, whichever the file's first bytes say it is.

A row comes with the place at which a user finds it ("line 7" of a text, "row 6" of Parquet). Cells of CSV are texts, those of Parquet what
the file holds; "" and None mean that a row leaves a column out.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from koordsched.manifests.documents import InputError

CSV, PARQUET = "csv", "parquet"
_GZIP_MAGIC, _PARQUET_MAGIC = b"\x1f\x8b", b"PAR1"


class Table(msgspec.Struct, frozen=True):
    """A table that is read row by row. rows: yields place and cells, of CSV perhaps more or fewer than `columns`; may be used once, and
    raises InputError."""

    format: str
    columns: tuple[str, ...]
    rows: Iterator[tuple[str, tuple[Any, ...]]]


def open_table(file: str) -> Table:
    """Open a table and read its header. InputError: it cannot be read, or names a column twice."""
    try:
        with open(file, "rb") as opened:
            magic = opened.read(len(_PARQUET_MAGIC))
    except OSError as mistake:
        raise InputError(f"{file}: cannot be read: {mistake.strerror}") from None
    table = _open_parquet(file) if magic == _PARQUET_MAGIC else _open_csv(file, zipped=magic.startswith(_GZIP_MAGIC))
    twice = sorted({column for column in table.columns if table.columns.count(column) > 1})
    if twice:
        raise InputError(f"{file}: the column {', '.join(twice)} is there twice")
    return table


def _open_csv(file: str, *, zipped: bool) -> Table:
    try:
        with gzip.open(file) if zipped else open(file, "rb") as opened:
            text = opened.read().decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as mistake:
        raise InputError(f"{file}: cannot be read: {getattr(mistake, 'strerror', None) or mistake}") from None
    except ValueError:
        raise InputError(f"{file}: not UTF-8 text") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = tuple(cell.strip() for cell in next(reader, []))
    except csv.Error as mistake:
        raise InputError(f"{file}: line {reader.line_num}: not CSV: {mistake}") from None
    return Table(CSV, header, _csv_rows(file, reader))


def _csv_rows(file: str, reader: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the rows; blank lines are none."""
    try:
        for cells in reader:
            if cells:
                yield f"line {reader.line_num}", tuple(cells)
    except csv.Error as mistake:
        raise InputError(f"{file}: line {reader.line_num}: not CSV: {mistake}") from None


def _open_parquet(file: str) -> Table:
    try:
        import pyarrow as pa  # noqa: PLC0415  # an optional extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InputError(f"{file}: to read Parquet, install the package pyarrow: pip install 'koordsched[parquet]'") from None
    try:
        opened = pq.ParquetFile(file)
        names = tuple(opened.schema_arrow.names)
    except (OSError, pa.ArrowException) as mistake:
        raise InputError(f"{file}: not a Parquet file: {mistake}") from None

    def values(column: Any) -> list[Any]:
        if pa.types.is_timestamp(column.type):  # in nanoseconds, which Python's datetime has not
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return list(column.to_pylist())

    def rows() -> Iterator[tuple[str, tuple[Any, ...]]]:
        number = 0
        try:
            for batch in opened.iter_batches():
                for cells in zip(*(values(column) for column in batch.columns), strict=True):
                    number += 1
                    yield f"row {number}", cells
        except (OSError, pa.ArrowException) as mistake:
            raise InputError(f"{file}: row {number + 1}: cannot be read: {mistake}") from None

    return Table(PARQUET, names, rows())
