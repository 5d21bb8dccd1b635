"""Packets: key rows of one bucket as the bytes of an Arrow stream, which Spark shuffles."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

import pyarrow as pa

from omnigraphdb.pipeline.shuffle import split_by_bucket
from omnigraphdb.values import dataclass

FLUSH_BYTES: Final = 32 * 1024 * 1024
"""Key rows a task buffers before it sends them."""

Packet = tuple[int, str, bytes]
"""A bucket, a side and the rows of that side in that bucket."""


@dataclass(slots=True)
class Packing:
    """The buffered key rows of one task."""

    sides: Mapping[str, pa.Schema]
    buckets: int
    buffered: dict[str, list[pa.Table]] = field(default_factory=dict)
    bytes: int = 0

    def add(self, side: str, rows: pa.Table) -> Iterator[Packet]:
        """Buffer rows of a side; yield packets when the buffer is full."""
        if rows.num_rows:
            self.buffered.setdefault(side, []).append(rows.cast(self.sides[side]))
            self.bytes += rows.nbytes
        if self.bytes >= FLUSH_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[Packet]:
        """Yield packets of everything that is buffered."""
        for side, tables in self.buffered.items():
            for bucket, rows in split_by_bucket(pa.concat_tables(tables), self.buckets):
                yield bucket, side, pack_packet(rows)
        self.buffered, self.bytes = {}, 0


def pack_packet(rows: pa.Table) -> bytes:
    """Encode a table, schema included."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def unpack_packet(packet: pa.BinaryScalar) -> pa.Table:
    """Decode the table of a packet."""
    return pa.ipc.open_stream(packet.as_buffer()).read_all()
