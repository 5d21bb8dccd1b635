"""One mapping of options, spelled for both store clients alike."""

from datetime import timedelta
from pathlib import Path

import pytest

from omnigraphdb.errors import ConfigError
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.options import lance_options, obstore_options

S3 = root_of("s3://bucket/graph")
NO_PROFILE = {"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"}


@pytest.mark.parametrize("uri", ["/data/graph", "memory://x"])
def test_a_disk_and_memory_need_no_options(uri: str) -> None:
    root, options = root_of(uri), {"aws_region": "eu-west-1"}
    assert lance_options(root, options, {}) == {}
    assert obstore_options(root, options, {}).config == {}


@pytest.mark.parametrize("key", ["aws_endpoint", "endpoint", "AWS_ENDPOINT_URL", "endpoint_url"])
def test_every_spelling_of_the_endpoint_reaches_both_clients(key: str) -> None:
    options = {key: "https://store.example"}
    assert lance_options(S3, options, NO_PROFILE)["aws_endpoint"] == "https://store.example"
    config = obstore_options(S3, options, NO_PROFILE).config
    assert config == {"aws_endpoint_url_s3": "https://store.example"}


def test_the_environment_is_used_where_no_option_speaks() -> None:
    environ = NO_PROFILE | {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://general",
        "AWS_ENDPOINT_URL_S3": "http://special",
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_FORCE_PATH_STYLE": "false",
    }
    assert lance_options(S3, None, environ) == {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_session_token": "token",
        "aws_region": "eu-west-1",
        "aws_endpoint": "http://special",
        "aws_endpoint_url_s3": "http://special",
        "aws_virtual_hosted_style_request": "true",
        "allow_http": "true",
    }
    chosen = obstore_options(S3, None, environ)
    assert chosen.config["aws_endpoint_url_s3"] == "http://special"
    assert chosen.config["virtual_hosted_style_request"] == "true"
    assert chosen.client["allow_http"] is True


def test_an_option_is_stronger_than_the_environment() -> None:
    environ = NO_PROFILE | {"AWS_REGION": "a", "AWS_ENDPOINT_URL_S3": "http://a"}
    options = {"region": "b", "aws_endpoint": "http://b", "force_path_style": "true"}
    assert lance_options(S3, options, environ) == {
        "aws_region": "b",
        "aws_endpoint": "http://b",
        "aws_endpoint_url_s3": "http://b",
        "aws_virtual_hosted_style_request": "false",
    }


def test_keys_are_never_mixed_from_two_places() -> None:
    environ = NO_PROFILE | {
        "AWS_ACCESS_KEY_ID": "theirs",
        "AWS_SECRET_ACCESS_KEY": "theirs",
        "AWS_SESSION_TOKEN": "theirs",
    }
    options = {"aws_access_key_id": "ours", "aws_secret_access_key": "ours"}
    assert lance_options(S3, options, environ) == options


def test_the_keys_of_a_profile_are_found_for_both_clients(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id=a\naws_secret_access_key=b\n"
        "[work]\naws_access_key_id=c\naws_secret_access_key=d%e\naws_session_token=f\n"
    )
    environ = {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
    assert lance_options(S3, None, environ) == {
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
    }
    config = obstore_options(S3, None, environ | {"AWS_PROFILE": "work"}).config
    assert config == {"access_key_id": "c", "secret_access_key": "d%e", "session_token": "f"}
    assert lance_options(S3, None, environ | {"AWS_PROFILE": "none"}) == {}
    file.write_text("not an ini file")
    assert lance_options(S3, None, environ) == {}


def test_retries_and_timeouts_are_bounded_and_can_be_set() -> None:
    bounded = obstore_options(S3, None, NO_PROFILE)
    assert bounded.retry["max_retries"] == 5
    assert bounded.client["connect_timeout"] == "5s"
    options = {"client_max_retries": 1, "client_retry_timeout": 7, "timeout": "9s"}
    chosen = obstore_options(S3, options, NO_PROFILE)
    assert chosen.retry == {"max_retries": 1, "retry_timeout": timedelta(seconds=7)}
    assert chosen.client["timeout"] == "9s"
    assert lance_options(S3, options, NO_PROFILE)["client_max_retries"] == "1"


def test_a_slip_in_an_option_is_refused_with_the_likely_name() -> None:
    with pytest.raises(ConfigError, match="aws_endpoint"):
        lance_options(S3, {"aws_endpont": "http://x"}, NO_PROFILE)


def test_an_option_only_lance_knows_reaches_lance_only() -> None:
    options = {"download_retry_count": "3"}
    assert lance_options(S3, options, NO_PROFILE) == options
    assert obstore_options(S3, options, NO_PROFILE).config == {}


def test_a_value_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="client_max_retries"):
        obstore_options(S3, {"client_max_retries": "many"}, NO_PROFILE)


def test_other_stores_get_their_options_as_given() -> None:
    root, options = root_of("gs://bucket/graph"), {"google_service_account": "file.json"}
    assert lance_options(root, options, {}) == options
    assert obstore_options(root, options, {}).config == options
