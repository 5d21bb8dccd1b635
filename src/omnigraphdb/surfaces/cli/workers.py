"""Where the bulk work of a command runs: in this process, or on Spark."""

from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import typer


class Engine(StrEnum):
    """What does the work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


SparkMaster = Annotated[
    str | None,
    typer.Option(
        "--spark-master", metavar="URL", help="The Spark master; this machine by default."
    ),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="K=V", help="A setting of Spark, k=v; may be repeated."),
]


def choose_workers(engine: Engine, master: str | None, conf: Sequence[str]) -> Any:
    """Choose the value of `spark=`: a session only when master or conf describe one."""
    if engine is Engine.LOCAL and (master or conf):
        raise typer.BadParameter(
            "--spark-master and --spark-conf have no effect with --engine local"
        )
    match engine:
        case Engine.LOCAL:
            return False
        case Engine.AUTO | Engine.SPARK if master or conf:
            # Spark is an extra and slow to load: only who asks for it pays for it.
            return import_module("omnigraphdb.spark").session(master, **_settings(conf))
        case Engine.SPARK:
            return True
        case Engine.AUTO:
            return "auto"


def _settings(given: Sequence[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    wrong = next((one for one in pairs if not one[0] or not one[1]), None)
    if wrong is not None:
        raise typer.BadParameter(f"'{''.join(wrong)}' is not k=v", param_hint="--spark-conf")
    return {name: value for name, _, value in pairs}
