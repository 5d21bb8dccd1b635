"""One mapping of storage options, spelled the way each of the two store clients wants it."""

import configparser
import os
from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from omnigraphdb.errors import ConfigError, did_you_mean, suggestion
from omnigraphdb.limits import STORE_CONNECT_SECONDS, STORE_RETRIES_MAX, STORE_RETRY_SECONDS
from omnigraphdb.storage.layout import Root
from omnigraphdb.values import dataclass

# Canonical name → the spellings taken for it, the strongest first. Each spelling in capitals, with
# AWS_ in front, is also the environment variable.
_S3: Final[Mapping[str, tuple[str, ...]]] = {
    "access_key_id": ("aws_access_key_id", "access_key_id"),
    "secret_access_key": ("aws_secret_access_key", "secret_access_key"),
    "session_token": ("aws_session_token", "session_token", "aws_token", "token"),
    "region": ("aws_region", "region", "aws_default_region", "default_region"),
    "endpoint": (
        "aws_endpoint_url_s3",
        "endpoint_url_s3",
        "aws_endpoint",
        "endpoint",
        "aws_endpoint_url",
        "endpoint_url",
    ),
    "virtual_hosted_style_request": (
        "aws_virtual_hosted_style_request",
        "virtual_hosted_style_request",
    ),
    "skip_signature": ("aws_skip_signature", "skip_signature"),
    "unsigned_payload": ("aws_unsigned_payload", "unsigned_payload"),
    "server_side_encryption": ("aws_server_side_encryption", "server_side_encryption"),
    "sse_kms_key_id": ("aws_sse_kms_key_id", "sse_kms_key_id"),
}
_PATH_STYLE: Final = ("aws_s3_force_path_style", "s3_force_path_style", "force_path_style")
_CLIENT: Final[Mapping[str, tuple[str, ...]]] = {
    "allow_http": ("aws_allow_http", "allow_http"),
    "allow_invalid_certificates": ("allow_invalid_certificates",),
    "connect_timeout": ("connect_timeout",),
    "timeout": ("timeout", "request_timeout"),
    "proxy_url": ("proxy_url",),
    "user_agent": ("user_agent",),
}
_RETRIES: Final = ("client_max_retries", "client_retry_timeout")
_LANCE_ONLY: Final = ("download_retry_count", "aws_s3_express", "s3_express")
_TRUE: Final = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The arguments of obstore's constructors, in their three groups."""

    config: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    retry: Mapping[str, Any] = field(default_factory=dict)


def lance_options(
    root: Root,
    options: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Spell the options for Lance's `storage_options=`; a disk and memory need none."""
    if root.is_local or root.is_memory:
        return {}
    normalised = _normalise_options(root, options)
    if root.scheme != "s3":
        return normalised
    spellings = {
        spelling for group in (_S3, _CLIENT) for names in group.values() for spelling in names
    }
    rest = {k: v for k, v in normalised.items() if k not in spellings and k not in _PATH_STYLE}
    settings = {f"aws_{name}": value for name, value in _s3_settings(normalised, environ).items()}
    if "aws_endpoint" in settings:
        # Only this key beats AWS_ENDPOINT_URL_S3 of the environment; the plain one spares a region lookup.
        settings["aws_endpoint_url_s3"] = settings["aws_endpoint"]
    return rest | settings | _pick(_CLIENT, normalised, environ)


def obstore_options(
    root: Root,
    options: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> StoreOptions:
    """Spell the options for obstore's constructors; a disk and memory need none."""
    if root.is_local or root.is_memory:
        return StoreOptions()
    normalised = _normalise_options(root, options)
    client: dict[str, Any] = {"connect_timeout": f"{STORE_CONNECT_SECONDS:g}s"}
    client |= {
        name: _truth(value) if name.startswith("allow_") else value
        for name, value in _pick(_CLIENT, normalised, environ).items()
    }
    return StoreOptions(
        config=_config(root, normalised, environ), client=client, retry=_retry(normalised)
    )


def _config(root: Root, options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    if root.scheme != "s3":
        client = {spelling for names in _CLIENT.values() for spelling in names}
        return {k: v for k, v in options.items() if k not in client and k not in _RETRIES}
    settings = _s3_settings(options, environ)
    if "endpoint" in settings:
        # Only this key beats AWS_ENDPOINT_URL_S3 of the environment, which would beat plain `endpoint`.
        settings["aws_endpoint_url_s3"] = settings.pop("endpoint")
    return settings


def _retry(options: Mapping[str, str]) -> dict[str, Any]:
    return {
        "max_retries": int(_number(options, "client_max_retries", STORE_RETRIES_MAX)),
        "retry_timeout": timedelta(
            seconds=_number(options, "client_retry_timeout", STORE_RETRY_SECONDS)
        ),
    }


def _number(options: Mapping[str, str], key: str, default: float) -> float:
    try:
        return float(options.get(key, default))
    except ValueError as error:
        raise ConfigError(
            f"storage option '{key}' is '{options[key]}', a number of at least 0 is expected"
        ) from error


def _normalise_options(root: Root, options: Mapping[str, object] | None) -> dict[str, str]:
    """Lower the keys, spell every value as text, and refuse a slip of the pen."""
    normalised = {str(k).lower(): _text(v) for k, v in (options or {}).items()}
    if root.scheme != "s3":
        return normalised
    spellings = [
        spelling for group in (_S3, _CLIENT) for names in group.values() for spelling in names
    ]
    spellings += [*_PATH_STYLE, *_RETRIES, *_LANCE_ONLY]
    for key in normalised:
        near = did_you_mean(key, spellings) if key not in spellings else []
        if near:
            raise ConfigError(f"storage option '{key}' is not known{suggestion(near)}")
    return normalised


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _truth(value: str) -> bool:
    return value.strip().lower() in _TRUE


def _pick(
    group: Mapping[str, tuple[str, ...]], options: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Choose one value per setting: an option before the environment, the stronger spelling first."""
    picked: dict[str, str] = {}
    for name, spellings in group.items():
        values = [options[s] for s in spellings if options.get(s)]
        values += [environ[v] for v in map(_variable, spellings) if environ.get(v)]
        if values:
            picked[name] = values[0]
    return picked


def _variable(spelling: str) -> str:
    return spelling.upper() if spelling.startswith("aws_") else f"AWS_{spelling.upper()}"


def _s3_settings(options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    settings = _pick(_S3, options, environ)
    if any(options.get(s) for s in _S3["access_key_id"]):
        # Keys come from one place: a token of the environment belongs to the environment's keys.
        keys = {name: _S3[name] for name in ("secret_access_key", "session_token")}
        settings = {k: v for k, v in settings.items() if k not in keys} | _pick(keys, options, {})
    path_style = _pick({"path_style": _PATH_STYLE}, options, environ).get("path_style")
    if path_style is not None and "virtual_hosted_style_request" not in settings:
        settings["virtual_hosted_style_request"] = "false" if _truth(path_style) else "true"
    signed = "access_key_id" in settings or _truth(settings.get("skip_signature", ""))
    return settings if signed else settings | _profile(environ)


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Read the static keys of the chosen profile, which obstore does not look up itself."""
    home = environ.get("HOME", "")
    path = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/.aws/credentials")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    profile = environ.get("AWS_PROFILE", "default")
    section = parser[profile] if parser.has_section(profile) else {}
    names = {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
    }
    return {name: section[key] for name, key in names.items() if key in section}
