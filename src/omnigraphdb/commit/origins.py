"""The origins of rows: lines of files, or records one after the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omnigraphdb.errors import Problem
from omnigraphdb.ids import TableKey
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a row: the line of a file, or one of several records."""

    file: str | None = None
    line: int | None = None
    record: int | None = None

    def __str__(self) -> str:
        number = f"record {self.record}" if self.line is None else f"line {self.line}"
        return number if self.file is None else f"{self.file}, {number}"

    def problem(
        self,
        rule: str,
        message: str,
        *,
        table_key: TableKey | None = None,
        row_id: str | None = None,
        property: str | None = None,
        value: str | None = None,
    ) -> Problem:
        """Describe a problem with the row of this origin."""
        return Problem(
            rule=rule,
            message=message,
            file=self.file,
            line=self.line,
            record=self.record,
            table_key=table_key,
            row_id=row_id,
            property=property,
            value=value,
        )


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of many rows: a number each, and the file whose lines it counts."""

    numbers: "np.ndarray[Any, np.dtype[np.int64]]"
    files: tuple[str | None, ...] = (None,)
    file_numbers: "np.ndarray[Any, np.dtype[np.int64]] | None" = None
    row_files: frozenset[str] = frozenset()
    """Files that hold rows instead of lines."""

    def of(self, row: int) -> Origin:
        """Return the origin of one row; a row of number 0 was made by the write and comes from nowhere."""
        number = int(self.numbers[row])
        if not number:
            return Origin()
        file = self.files[0 if self.file_numbers is None else int(self.file_numbers[row])]
        if file is None or file in self.row_files:
            return Origin(file=file, record=number)
        return Origin(file=file, line=number)

    @property
    def order(self) -> "np.ndarray[Any, Any] | None":
        """The order of the input, as row numbers; None when the rows are in it."""
        steps = np.diff(self.numbers) > 0
        if self.file_numbers is None:
            return None if steps.all() else np.argsort(self.numbers, kind="stable")
        files = np.diff(self.file_numbers)
        if np.all((files > 0) | ((files == 0) & steps)):
            return None
        return np.lexsort((self.numbers, self.file_numbers))

    def take(self, rows: "np.ndarray[Any, Any]") -> "Origins":
        """Return the origins of selected rows."""
        files = None if self.file_numbers is None else self.file_numbers[rows]
        return Origins(self.numbers[rows], self.files, files, self.row_files)


def join_origins(parts: Sequence[Origins]) -> Origins:
    """Join the origins of rows that are put one after the other."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.files))
    file_numbers = [_file_numbers(part, names) for part in parts]
    numbers = np.concatenate([part.numbers for part in parts])
    row_files = frozenset[str]().union(*(part.row_files for part in parts))
    return Origins(
        numbers, names, np.concatenate(file_numbers) if len(names) > 1 else None, row_files
    )


def rows_in(file: str | None, numbers: "np.ndarray[Any, np.dtype[np.int64]]") -> Origins:
    """Number the rows of a file that has no lines, or rows without a file."""
    return Origins(numbers, (file,), row_files=frozenset() if file is None else frozenset({file}))


def _file_numbers(part: Origins, names: tuple[str | None, ...]) -> "np.ndarray[Any, Any]":
    positions = np.array([names.index(name) for name in part.files], dtype=np.int64)
    if part.file_numbers is None:
        return np.full(len(part.numbers), positions[0], dtype=np.int64)
    numbers: np.ndarray[Any, Any] = positions[part.file_numbers]
    return numbers
