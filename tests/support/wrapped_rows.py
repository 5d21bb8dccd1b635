"""Rows that behave like others until a test overrides one of their verbs."""

from omnigraphdb.storage.rows import Rows


class WrappedRows:
    """Passes everything on; subclasses say what goes wrong."""

    def __init__(self, inner: Rows) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)
