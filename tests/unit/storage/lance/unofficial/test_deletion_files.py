"""Deletion files, decoded: every form Lance may choose gives the same offsets."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.lance.unofficial.deletion_files import decode_offsets


def array_file(offsets: list[int]) -> bytes:
    table = pa.table({"row_id": pa.array(offsets, pa.uint32())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def plain_bitmap(containers: dict[int, list[int]]) -> bytes:
    """The portable form without runs: arrays up to 4,096 values, bit sets above."""
    head = struct.pack("<II", 12346, len(containers))
    bodies = [_body(values) for values in containers.values()]
    described = b"".join(struct.pack("<HH", k, len(v) - 1) for k, v in containers.items())
    start = len(head) + len(described) + 4 * len(bodies)
    places = np.cumsum([start, *map(len, bodies[:-1])])
    return head + described + places.astype("<u4").tobytes() + b"".join(bodies)


def _body(values: list[int]) -> bytes:
    if len(values) <= 4096:
        return np.array(values, "<u2").tobytes()
    bits = np.zeros(65_536, np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def run_bitmap(containers: dict[int, tuple[bool, list[int]]]) -> bytes:
    """The portable form with runs: a flag per container, and a list of places from four containers on."""
    count = len(containers)
    flags = np.packbits([runs for runs, _ in containers.values()], bitorder="little").tobytes()
    head = struct.pack("<I", 12347 | (count - 1) << 16) + flags
    described = b"".join(
        struct.pack("<HH", key, len(values) - 1) for key, (_, values) in containers.items()
    )
    bodies = [_runs(values) if runs else _body(values) for runs, values in containers.values()]
    places = b"\0" * (4 * count if count >= 4 else 0)
    return head + described + places + b"".join(bodies)


def _runs(values: list[int]) -> bytes:
    found = np.array(values)
    breaks = np.flatnonzero(np.diff(found) > 1) + 1
    parts = np.split(found, breaks)
    pairs = [(int(part[0]), len(part) - 1) for part in parts]
    return struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", *pair) for pair in pairs)


def test_an_array_is_read_in_order() -> None:
    assert decode_offsets(array_file([7, 1, 90_000]), "array").tolist() == [1, 7, 90_000]
    assert decode_offsets(array_file([]), "array").tolist() == []


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_bitmap_without_runs_gives_every_container(count: int) -> None:
    containers = {2 * n: list(range(n, 65_536, 3 if n % 2 else 700)) for n in range(count)}
    expected = [(key << 16) + low for key, values in containers.items() for low in values]
    assert decode_offsets(plain_bitmap(containers), "bitmap").tolist() == expected


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_a_bitmap_with_runs_gives_every_container(count: int) -> None:
    stretch = [*range(5, 900), *range(1_000, 1_001), *range(60_000, 65_536)]
    containers = {n: (n % 2 == 0, stretch if n % 2 == 0 else [3, 8]) for n in range(count)}
    expected = [(key << 16) + low for key, (_, values) in containers.items() for low in values]
    assert decode_offsets(run_bitmap(containers), "bitmap").tolist() == expected


@pytest.mark.parametrize(
    "data", [b"", b"\1\2", struct.pack("<II", 99, 1), plain_bitmap({0: [1]})[:9]]
)
def test_what_is_no_bitmap_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(StorageError, match="not a roaring bitmap"):
        decode_offsets(data, "bitmap")


WHOLE = {
    "array": array_file([1, 5, 900]),
    "bitmap": run_bitmap({0: (True, [3, 4, 5, 9]), 1: (False, [7, 8])}),
}


@pytest.mark.parametrize("form", WHOLE)
def test_damaged_bytes_are_told_or_read_as_offsets(form: str) -> None:
    data = WHOLE[form]
    cuts = [data[:length] for length in range(len(data))]
    flips = [
        data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        for place in range(len(data))
        for bit in (0, 3, 7)
    ]
    refused = [damaged for damaged in (*cuts, *flips) if is_refused(damaged, form)]
    assert set(cuts) <= set(refused)
    assert len(refused) > len(data)


def is_refused(data: bytes, form: str) -> bool:
    """Whether a file is called damaged, which is the only error; else it gives offsets."""
    try:
        return decode_offsets(data, form).dtype != np.uint32
    except StorageError as error:
        return "is damaged" in str(error)
