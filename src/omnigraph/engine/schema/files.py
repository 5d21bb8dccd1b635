"""The schema files of a change: staged beside the standing ones, then put in their place."""

from omnigraph.failpoints import Failpoint, fail
from omnigraph.manifest.accepted_schema import AcceptedSchema
from omnigraph.recovery.schema_files import place_staged
from omnigraph.storage.layout import staging_path
from omnigraph.storage.objects.protocol import Objects


def stage_files(objects: Objects, accepted: AcceptedSchema) -> None:
    """Write the three texts beside those that stand; nobody reads them yet."""
    fail(Failpoint.SCHEMA_UNSTAGED)
    for name, text in accepted.texts.items():
        objects.put(staging_path(name), text)
        fail(Failpoint.SCHEMA_HALF_STAGED)
    fail(Failpoint.SCHEMA_STAGED)


def place_files(objects: Objects) -> None:
    """Put the staged texts in place, now that the tables they describe are visible."""
    fail(Failpoint.SCHEMA_PUBLISHED)
    place_staged(objects)
