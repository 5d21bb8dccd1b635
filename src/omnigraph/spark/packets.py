"""Rows on their way through Spark: Arrow streams as bytes, key rows packed by bucket."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

import pyarrow as pa

from omnigraph.pipeline.keys.buckets import by_bucket
from omnigraph.values import dataclass

FLUSH_BYTES: Final = 32 * 1024 * 1024
"""Key rows a task holds before it sends them on."""

Packet = tuple[int, str, bytes]
"""A bucket, a side and the rows of that side for that bucket."""


@dataclass(slots=True)
class Packing:
    """Key rows of one task, held until there is enough for packets worth sending."""

    sides: Mapping[str, pa.Schema]
    buckets: int
    held: dict[str, list[pa.Table]] = field(default_factory=dict)
    bytes: int = 0

    def add(self, side: str, rows: pa.Table) -> Iterator[Packet]:
        """Take rows of a side; give packets when enough are held."""
        if rows.num_rows:
            self.held.setdefault(side, []).append(rows.cast(self.sides[side]))
            self.bytes += rows.nbytes
        if self.bytes >= FLUSH_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Packet]:
        """Give packets of everything held."""
        for side, tables in self.held.items():
            for bucket, rows in by_bucket(pa.concat_tables(tables), self.buckets):
                yield bucket, side, pack_packet(rows)
        self.held, self.bytes = {}, 0


def pack_packet(rows: pa.Table) -> bytes:
    """A table as bytes that know their schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def unpack_packet(packet: pa.BinaryScalar) -> pa.Table:
    """The table in a packet."""
    return pa.ipc.open_stream(packet.as_buffer()).read_all()
