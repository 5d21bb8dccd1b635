"""How long a command takes from the shell: `python bench/startup.py [rounds]`.

Every round runs each command once, in turn, so that all of them meet the same machine. The first round writes the bytecode
and is not counted. Ratios are to `import lance`, which no command on a graph can do without.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import omnigraphdb

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
ASK = 'query q() { match { $p: Person { name: "p7" } } return { $p.age } }\n'
PEOPLE = 10_000
ROUNDS = 7
OMNIGRAPH = [sys.executable, "-m", "omnigraphdb"]
LANCE = "import lance"
INSERT = "insert of one row"


def commands(number: int) -> dict[str, list[str]]:
    """What is run in a round, by name."""
    add = f'query a() {{ insert Person {{ name: "new{number}" }} }}'
    return {
        "python": [sys.executable, "-c", "pass"],
        LANCE: [sys.executable, "-c", "import lance"],
        "--help": [*OMNIGRAPH, "--help"],
        "version": [*OMNIGRAPH, "version"],
        "lint": [*OMNIGRAPH, "lint", "--schema", "people.pg", "--query", "people.gq"],
        "fmt --check": [*OMNIGRAPH, "fmt", "--check", "people.pg"],
        "point query": [*OMNIGRAPH, "query", "--store", "g", "--query", "people.gq"],
        "commit list": [*OMNIGRAPH, "commit", "list", "g"],
        INSERT: [*OMNIGRAPH, "mutate", "--store", "g", "-q", "-e", add],
        "export": [*OMNIGRAPH, "export", "g"],
    }


def timed(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(folder: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Time every command in every round."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds + 1):
        for name, command in commands(number).items():
            taken = timed(command, folder, environment)
            if number:
                found.setdefault(name, []).append(taken)
    return found


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "people.pg").write_text(SCHEMA)
        (folder / "people.gq").write_text(ASK)
        subprocess.run(
            [*OMNIGRAPH, "fmt", "people.pg"], cwd=folder, check=True, capture_output=True
        )
        with omnigraphdb.init(folder / "g", SCHEMA) as graph:
            people = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(PEOPLE)]
            graph.load(people, mode="append")
        found = run(folder, rounds)
    lance = median(cpu for _, cpu in found[LANCE])
    print(f"{'command':20} {'median s':>9} {'best s':>8} {'cpu s':>8} {'cpu to lance':>13}")
    for name, taken in found.items():
        walls, cpu = [wall for wall, _ in taken], median(one for _, one in taken)
        print(f"{name:20} {median(walls):9.3f} {min(walls):8.3f} {cpu:8.3f} {cpu / lance:13.2f}")


if __name__ == "__main__":
    main()
