"""Files that others write are read up to a limit, and a file that others read is written as a whole."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from koordsched.files import MAX_BYTES, read_limited, write_atomically


def test_a_file_of_the_largest_size_is_read_whole_and_one_that_is_larger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_limited(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="larger than 9 bytes") as refused:
        read_limited(path, 9)
    assert (refused.value.errno, refused.value.strerror) == (errno.EFBIG, "larger than 9 bytes")


def test_a_file_without_end_costs_a_message() -> None:
    with pytest.raises(OSError, match=f"larger than {MAX_BYTES} bytes"):
        read_limited("/dev/zero")


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")
    write_atomically(path, b"after")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"after"]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")

    def no_space(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"after")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"before"]
