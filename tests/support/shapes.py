"""Holds values to the shapes that the wire declares."""

import json
from typing import Any

import jsonschema_rs

from omnigraphdb.surfaces.http.shapes import describe_shapes, reference


def fits(shape: Any, value: Any) -> None:
    """Refuse a value that is not of a shape, or that has a key which the shape does not name."""
    components = describe_shapes([shape])
    for one in components.values():
        one["additionalProperties"] = False
    schema = reference(shape) | {"components": {"schemas": components}}
    jsonschema_rs.validator_for(schema).validate(json.loads(json.dumps(value)))
