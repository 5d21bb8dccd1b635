"""What Lance could not remove when it built an index is no damage of the index."""

from pathlib import Path

import omnigraphdb


def test_a_leftover_of_a_build_is_no_damage_of_its_index(tmp_path: Path) -> None:
    home = tmp_path / "g.omni"
    with omnigraphdb.init(home, "node Person { name: String @key  age: I32? @index }") as graph:
        rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(100)]
        graph.load(rows, mode="append")
        graph.ensure_indices()
        segments = [path for path in home.glob("nodes/*/_indices/*") if path.is_dir()]
        assert segments
        for segment in segments:
            (segment / "staging").mkdir(exist_ok=True)
            (segment / "staging" / "part_17179869184_tokens.lance").write_bytes(b"left over")
        assert [str(issue) for issue in graph.doctor()] == []
        assert {str(index.state) for index in graph.index_status().indexes} == {"ready"}
