"""A visitor of the explorer: one page of a real browser, and everything that went wrong on it."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.served import ServerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parents[2] / "docs" / "images"
IN_GUIDE = frozenset({"graph", "diff", "log", "merge", "health"})
"""Pictures that the guide shows; those of the other stories are for looking only."""


class Visit:
    """One visitor: the page, and everything that went wrong on it."""

    def __init__(self, page: "Page", server: ServerProcess) -> None:
        self.page, self.server = page, server
        self.wrong: list[str] = []
        self.expected: tuple[str, ...] = ()
        """What the console may say in a story of trouble."""
        page.on("console", lambda one: self._hear(one.type, f"{one.text} {one.location}"))
        page.on("pageerror", lambda one: self.wrong.append(str(one)))
        page.on("request", lambda one: self._require_own(one.url))

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error" and not any(one in text for one in self.expected):
            self.wrong.append(text)

    def _require_own(self, url: str) -> None:
        if not url.startswith((self.server.url, "blob:", "data:")):
            self.wrong.append(f"asked {url}")

    def take_picture(self, name: str) -> None:
        """Keep a picture of the page, when that is asked for."""
        if os.environ.get("EXPLORER_PICTURES"):
            self.page.mouse.move(0, 0)
            self.page.wait_for_timeout(2500)
            home = IMAGES if name in IN_GUIDE else Path(tempfile.gettempdir())
            self.page.screenshot(path=home / f"explorer-{name}.png")

    def open(self, screen: str, ref: str = "main") -> "Page":
        """Go to a screen at a branch or commit."""
        self.page.goto(f"{self.server.url}/ui/g/default/@{ref}/{screen}")
        return self.page


def open_visit(browser: "Browser", server: ServerProcess, **options: Any) -> Visit:
    """A visitor with a fresh session."""
    shape: dict[str, Any] = {
        "viewport": {"width": 1280, "height": 860},
        "reduced_motion": "reduce",
    }
    context = browser.new_context(**(shape | options))
    context.set_default_timeout(30_000)
    return Visit(context.new_page(), server)
