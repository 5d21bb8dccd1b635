"""Every foreign failure has one kind, and a message that can be acted on."""

import errno

import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.faults import (
    StoreAction,
    fault_of,
    storage_error,
    translate_object_faults,
)

DISK, S3 = root_of("/data/graph"), root_of("s3://bucket/graph")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOENT, "x"), "not_found"),
        (OSError(errno.EACCES, "x"), "configuration"),
        (OSError(errno.EROFS, "x"), "configuration"),
        (OSError(errno.ENOSPC, "x"), "permanent"),
        (OSError(errno.EDQUOT, "x"), "permanent"),
        (OSError(errno.ENAMETOOLONG, "x"), "permanent"),
        (OSError(errno.EMFILE, "x"), "configuration"),
        (OSError(errno.ENFILE, "x"), "configuration"),
        (GenericError("error sending request: Too many open files (os error 24)"), "configuration"),
        (OSError(errno.ESTALE, "x"), "transient"),
        (OSError(errno.EIO, "x"), "unknown"),
        (PermissionDeniedError("x"), "configuration"),
        (UnauthenticatedError("x"), "configuration"),
        (PreconditionError("x"), "precondition"),
        (AlreadyExistsError("x"), "precondition"),
        (GenericError("x"), "unknown"),
        (NotImplementedError("x"), "configuration"),
        (FileNotFoundError("<Code>NoSuchKey</Code>"), "not_found"),
        (FileNotFoundError("<Code>NoSuchBucket</Code>"), "configuration"),
        (PreconditionError("<Code>NoSuchBucket</Code>"), "configuration"),
        (GenericError("status code: 503 Service Unavailable"), "transient"),
        (GenericError("<Code>SlowDown</Code>"), "transient"),
        (GenericError("HTTP error: error sending request"), "transient"),
        (
            GenericError("GET http://169.254.169.254/latest - error sending request"),
            "configuration",
        ),
    ],
)
def test_every_foreign_error_has_its_kind(error: Exception, kind: str) -> None:
    assert fault_of(error).kind == kind


def test_a_full_disk_says_which_file_and_what_is_left() -> None:
    cause = OSError(errno.ENOSPC, "No space left on device")
    error = storage_error(cause, StoreAction.WRITE, DISK, "__recovery/x.json")
    text = str(error)
    assert "could not write '/data/graph/__recovery/x.json'" in text
    assert "No space left on device" in text
    assert "intact" in text
    assert "free" in str(error.hint)
    assert error.details == {"storage": {"kind": "permanent"}}


def test_a_lost_answer_is_not_called_a_failure_without_effect() -> None:
    error = storage_error(GenericError("status code: 500"), StoreAction.CREATE, S3, "x")
    assert "may or may not" in str(error)
    read = storage_error(GenericError("status code: 500"), StoreAction.READ, S3, "x")
    assert "nothing was changed" in str(read)


@pytest.mark.parametrize(
    ("root", "variable"),
    [
        (S3, "AWS_ACCESS_KEY_ID"),
        (root_of("gs://b"), "GOOGLE_APPLICATION_CREDENTIALS"),
        (root_of("az://b"), "AZURE_STORAGE_ACCOUNT_KEY"),
        (DISK, "mode of the directory"),
    ],
)
def test_a_lack_of_permission_names_what_to_check(root: object, variable: str) -> None:
    error = storage_error(PermissionDeniedError("x"), StoreAction.READ, root, "x")  # type: ignore[arg-type]
    assert variable in str(error.hint)


def test_the_stores_own_words_come_without_its_dump_and_without_secrets() -> None:
    cause = GenericError(
        "Generic error: GET https://me:pw@host/c/x?sig=SECRET - broken\n\nDebug source:\nSECRET"
    )
    text = str(storage_error(cause, StoreAction.READ, S3, "x"))
    assert "SECRET" not in text
    assert "pw" not in text
    assert "broken" in text
    answer = GenericError("… <Error><Code>SlowDown</Code><Message>Reduce it</Message></Error>")
    assert "SlowDown: Reduce it" in str(storage_error(answer, StoreAction.READ, S3, "x"))


def test_the_foreign_error_stays_the_cause() -> None:
    cause = OSError(errno.EIO, "Input/output error")
    with (
        pytest.raises(StorageError) as failed,
        translate_object_faults(StoreAction.READ, DISK, "x"),
    ):
        raise cause
    assert failed.value.__cause__ is cause


def test_an_error_of_ours_passes_unchanged() -> None:
    ours = StorageError("ours")
    with (
        pytest.raises(StorageError) as failed,
        translate_object_faults(StoreAction.READ, DISK, "x"),
    ):
        raise ours
    assert failed.value is ours
