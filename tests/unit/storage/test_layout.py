"""Paths inside a root, and the one spelling of the root itself."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.errors import ConfigError
from omnigraphdb.storage.layout import (
    branch_path,
    lock_name,
    redact,
    root_of,
)


def test_a_branch_of_a_table_nests_by_its_segments() -> None:
    assert branch_path("nodes/1f", None) == "nodes/1f"
    assert branch_path("nodes/1f", "team/a") == "nodes/1f/tree/team/a"


@pytest.mark.parametrize(
    ("given_path", "expected"),
    [
        ("graph", "{cwd}/graph"),
        ("./graph/", "{cwd}/graph"),
        ("a/./b/../graph", "{cwd}/a/graph"),
        ("/data//graph/", "/data/graph"),
        ("//data/graph", "/data/graph"),
        ("~/graph", "{home}/graph"),
        ("file:///data/my%20graph", "/data/my graph"),
        ("file://localhost/data/graph", "/data/graph"),
        ("file://./graph", "{cwd}/graph"),
        ("FILE:///data/graph", "/data/graph"),
        ("file:/data/graph", "/data/graph"),
        ("/data/100%#1 ü", "/data/100%#1 ü"),
        ("a:b", "{cwd}/a:b"),
    ],
)
def test_every_spelling_of_a_local_root_becomes_one_absolute_path(
    given_path: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    root = root_of(given_path)
    assert root.uri == expected.format(cwd=tmp_path, home="/home/ada")
    assert root.is_local
    assert root.at("_schema.pg") == f"{root.uri}/_schema.pg"


def test_a_path_object_is_a_root_too(tmp_path: Path) -> None:
    assert root_of(tmp_path / "graph").uri == f"{tmp_path}/graph"


def test_a_root_is_read_from_its_text_without_touching_the_disk(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert root_of(tmp_path / "link" / ".." / "graph").uri == f"{tmp_path}/graph"
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


@pytest.mark.parametrize(
    ("given_uri", "uri", "container", "prefix"),
    [
        ("s3://bucket/team/graph", "s3://bucket/team/graph", "bucket", "team/graph"),
        ("s3://bucket/team//graph/", "s3://bucket/team/graph", "bucket", "team/graph"),
        ("s3://bucket", "s3://bucket", "bucket", ""),
        ("s3://bucket/", "s3://bucket", "bucket", ""),
        ("S3A://bucket/graph", "s3://bucket/graph", "bucket", "graph"),
        ("s3://bucket/a/../b", "s3://bucket/b", "bucket", "b"),
        ("s3://bucket/../../b", "s3://bucket/b", "bucket", "b"),
        ("gs://bucket/graph", "gs://bucket/graph", "bucket", "graph"),
        ("az://container/graph", "az://container/graph", "container", "graph"),
        ("memory://one/two", "memory://one/two", "one", "two"),
        ("memory://", "memory://default", "default", ""),
    ],
)
def test_every_spelling_of_a_remote_root_becomes_one_uri(
    given_uri: str, uri: str, container: str, prefix: str
) -> None:
    root = root_of(given_uri)
    assert (root.uri, root.container, root.prefix) == (uri, container, prefix)
    assert not root.is_local
    assert root_of(root.uri) == root
    assert root.at("nodes/1f") == f"{uri}/nodes/1f"


@pytest.mark.parametrize(
    ("uri", "fact"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("s3://", "bucket"),
        ("ftp://host/graph", "ftp"),
        ("file://server/share", "server"),
        ("s3://bucket/a?b", "'?'"),
        ("s3://bucket/a%20b", "'%'"),
        ("s3://bucket/a#b", "'#'"),
        ("/data/a\0b", "NUL"),
    ],
)
def test_a_root_no_store_could_serve_is_refused_with_its_reason(uri: str, fact: str) -> None:
    with pytest.raises(ConfigError, match=fact.replace("?", r"\?")):
        root_of(uri)


def test_a_root_that_carries_credentials_is_refused_without_showing_them() -> None:
    with pytest.raises(ConfigError) as refused:
        root_of("s3://AKIAKEY:hunter2@bucket/graph")
    assert "hunter2" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)
    assert "***@bucket" in str(refused.value)


def test_a_uri_is_shown_without_its_secrets() -> None:
    assert redact("https://me:pw@host/a?sig=abc&x=1") == "https://***@host/a?***"
    assert redact("s3://bucket/a") == "s3://bucket/a"
    assert redact("/data/a@b?c") == "/data/a@b?c"


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_keys_never_share_a_lock_even_where_case_does_not_count(one: str, other: str) -> None:
    assert (lock_name(one).lower() == lock_name(other).lower()) == (one == other)


@given(st.text())
def test_a_lock_name_is_a_plain_file_name(key: str) -> None:
    name = lock_name(key)
    assert len(name.encode()) < 120
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
