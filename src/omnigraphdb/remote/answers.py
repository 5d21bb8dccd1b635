"""Answers of a server: one decoder for each kind of body; what cannot be read is one `RemoteError`, and memory is bounded."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Generic, NoReturn, NotRequired, TypedDict, TypeVar

import httpx
import pyarrow as pa

from omnigraphdb.api.wire import ErrorBody
from omnigraphdb.api.wire.hints import fields_of
from omnigraphdb.errors import OmniError, RemoteError, SchemaError
from omnigraphdb.remote.bodies import (
    BodyFile,
    BodyTooLarge,
    UnreadableBody,
    check_messages,
    check_values,
    unpack,
)
from omnigraphdb.remote.shapes import make_check
from omnigraphdb.values import dataclass

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"

ANSWER_BYTES: Final = 256 * 1024 * 1024
"""What an answer that is held whole may take, unpacked; of a stream, one batch or line."""
JSON_COPIES: Final = 3
"""JSON is held as bytes, as text and as values: its text may take this part of the bound."""
_JSON_WEIGHTS: Final = {b"[": 64, b"{": 72, b'"': 28, b",": 16}
"""Bytes that values take beside their text, by the characters that they are written with."""
BEGINNING_BYTES: Final = 200

_UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    OSError,
    pa.ArrowException,
    SchemaError,
)
"""What reading a value raises that is not what it should be."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Form(Generic[Value]):
    """The form of a JSON document: its shape on the wire, and how a value is made of it."""

    shape: Any
    read: Callable[[Any], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a server, and what its answer may take."""

    server: str
    method: str
    path: str
    writes: bool
    bound: int

    def refuse(self, reason: str, **facts: Any) -> RemoteError:
        """Make the error of an answer that cannot be read."""
        return RemoteError(
            reason,
            server=self.server,
            method=self.method,
            path=self.path,
            writes=self.writes,
            **facts,
        )


@dataclass(slots=True)
class Answer:
    """An answer whose headers are there; its body is read while it arrives."""

    response: httpx.Response
    call: Call
    _beginning: bytes = b""
    _content: bytes | None = field(default=None, repr=False)

    @property
    def status(self) -> int:
        """The status."""
        return self.response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        return self.response.headers

    @property
    def media(self) -> str:
        """The type of the body, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def refuse(
        self, reason: str, *, is_passing: bool = False, hint: str | None = None
    ) -> RemoteError:
        """Make the error of this answer."""
        return self.call.refuse(
            reason,
            status=self.status,
            content_type=self.headers.get("content-type"),
            beginning=self._beginning,
            is_passing=is_passing,
            hint=hint,
        )

    def _refuse_body(self, error: UnreadableBody) -> RemoteError:
        hint = _MORE if isinstance(error, BodyTooLarge) else None
        return self.refuse(str(error), hint=hint)

    def read(self, make: Callable[[Any], Value], source: Any) -> Value:
        """Make a value of what came; where that fails, the answer is refused."""
        try:
            return make(source)
        except OmniError as error:
            if not isinstance(error, SchemaError):
                raise
            raise self.refuse(f"its schema cannot be read: {error.message}") from error
        except UnreadableBody as error:
            raise self._refuse_body(error) from error
        except _UNREADABLE as error:
            raise self.refuse(f"its values cannot be read: {_describe_error(error)}") from error

    # ---- bytes

    def chunks(self) -> Iterator[bytes]:
        """The body piece by piece, unpacked."""
        if self._content is not None:
            yield self._content
            return
        encoding = self.headers.get("content-encoding", "").strip().lower()
        try:
            for chunk in unpack(self.response.iter_raw(), encoding):
                if len(self._beginning) < BEGINNING_BYTES:
                    self._beginning += chunk[: BEGINNING_BYTES - len(self._beginning)]
                if chunk:
                    yield chunk
        except httpx.TransportError as error:
            raise self.refuse(
                f"it broke off: {error or type(error).__name__}", is_passing=True
            ) from error
        except UnreadableBody as error:
            raise self._refuse_body(error) from error

    def whole(self, bound: int | None = None) -> bytes:
        """The body, held whole."""
        if self._content is None:
            most = bound or self.call.bound // (1 if self.media == ARROW else JSON_COPIES)
            parts, count = [], 0
            for chunk in self.chunks():
                count += len(chunk)
                if count > most:
                    raise self._refuse_body(BodyTooLarge("its body", most))
                parts.append(chunk)
            self._content = b"".join(parts)
        return self._content

    def _require(self, media: str) -> None:
        if self.status != 200:
            raise self.refuse(f"this call is answered with the status 200{self._name_location()}")
        if self.media != media:
            # Its beginning tells who answered.
            next(self.chunks(), None)
            raise self.refuse(f"this call is answered with '{media}'")

    def _name_location(self) -> str:
        place = self.headers.get("location")
        return "" if place is None else f", not sent on to '{place}'"

    # ---- JSON

    def document(self, form: Form[Value]) -> Value:
        """The value of a JSON document."""
        self._require(JSON)
        try:
            body = parse_json(self.whole(), self.call.bound)
        except BodyTooLarge as error:
            raise self._refuse_body(error) from error
        except (ValueError, RecursionError) as error:
            raise self.refuse(
                f"its body is not a JSON document: {_describe_error(error)}"
            ) from error
        return self.read(form.read, self.check(form.shape, body))

    def check(self, shape: Any, body: Any) -> Any:
        """Give a value of JSON that fits a shape."""
        misfit = make_check(shape)(body)
        if misfit is not None:
            raise self.refuse(f"its body{misfit}")
        return body

    def failure(self, make: Callable[[ErrorBody], OmniError]) -> OmniError:
        """The error that a refusal of the server describes, whatever facts it tells beside its message."""
        if self.media != JSON:
            next(self.chunks(), None)
            return self.refuse("no refusal of omnigraphdb has this type")
        try:
            body = parse_json(self.whole(), self.call.bound)
        except (ValueError, RecursionError) as error:
            return self.refuse(f"its body is not a JSON document: {_describe_error(error)}")
        misfit = make_check(_Refusal)(body)
        if misfit is not None:
            return self.refuse(f"its body{misfit}")
        return self.read(make, {name: fact for name, fact in body.items() if _fits(name, fact)})

    def lines(self) -> Iterator[tuple[Sequence[bytes], Sequence[dict[str, Any]]]]:
        """The lines of a stream of JSON records, many at a time, and the records."""
        self._require(NDJSON)
        most, read = self.call.bound // JSON_COPIES, 0
        rest: list[bytes] = []
        for chunk in self.chunks():
            whole, mark, end = chunk.rpartition(b"\n")
            if mark:
                lines = b"".join((*rest, whole)).split(b"\n")
                yield lines, self._parse_lines(lines, read)
                rest, read = [], read + len(lines)
            rest.append(end)
            if sum(map(len, rest)) > most:
                raise self._refuse_body(BodyTooLarge(f"line {read + 1} of its body", most))
        if any(rest):
            lines = [b"".join(rest)]
            yield lines, self._parse_lines(lines, read)

    def _parse_lines(self, lines: Sequence[bytes], before: int) -> Sequence[dict[str, Any]]:
        """Parse lines together; only where one of them is wrong, one after the other."""
        records = []
        try:
            records = parse_json(b"[" + b",".join(lines) + b"]", self.call.bound)
        except BodyTooLarge as error:
            raise self._refuse_body(error) from error
        except (ValueError, RecursionError):
            pass
        if len(records) != len(lines) or set(map(type, records)) != {dict}:
            self._refuse_line(lines, before)
        return records

    def _refuse_line(self, lines: Sequence[bytes], before: int) -> NoReturn:
        for number, line in enumerate(lines, before + 1):
            try:
                is_record = type(parse_json(line, self.call.bound)) is dict
            except (ValueError, RecursionError) as error:
                raise self.refuse(
                    f"line {number} of its body is not JSON: {_describe_error(error)}"
                ) from error
            if not is_record:
                raise self.refuse(f"line {number} of its body is not a JSON object")
        raise self.refuse("its lines are no JSON objects")

    # ---- Arrow

    def batches(self, *, in_all: bool = False) -> Iterator[Any]:
        """The schema of an Arrow stream, then its batches; `in_all`: the bound is that of all batches together."""
        self._require(ARROW)
        messages = check_messages(BodyFile(self.chunks()), self.call.bound, in_all=in_all)
        reader = self.read(pa.ipc.open_stream, BodyFile(messages))
        yield reader.schema
        while True:
            batch = self.read(_read_batch, reader)
            if batch is None:
                return
            yield batch


class _Refusal(TypedDict):
    """What every refusal tells."""

    error: str
    kind: str
    hint: NotRequired[str | None]


def _fits(name: str, fact: object) -> bool:
    """Whether a fact is one that callers can rely on; facts that are not known are left to them."""
    hint = fields_of(ErrorBody).get(name, Any)
    return make_check(hint)(fact) is None


def _read_batch(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        batch = reader.read_next_batch()
    except StopIteration:
        return None
    batch.validate(full=True)
    for column in batch.columns:
        check_values(column)
    return batch


_MORE: Final = (
    "ask for less, or let it take more: `connect(…, answer_bytes=…)` or OMNIGRAPH_ANSWER_BYTES; "
    "rows of any number come by `stream`, `table` and `export_lines`"
)


def _describe_error(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"{error} is missing" if type(error) is KeyError else str(error)


def parse_json(content: bytes, bound: int) -> Any:
    """Parse JSON as its standard spells it: UTF-8, each name once, no NaN; its values take no more than the bound."""
    weights = (content.count(mark) * weight for mark, weight in _JSON_WEIGHTS.items())
    if JSON_COPIES * len(content) + sum(weights) > bound:
        raise BodyTooLarge("what its JSON describes", bound)
    text = content.decode()
    body = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_make_object)
    if "\\ud" in text or "\\uD" in text:
        # Half of a surrogate pair can neither be printed nor sent on.
        json.dumps(body, ensure_ascii=False).encode()
    return body


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _make_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has the same name twice")
    return made
