"""The three stored schema texts as one: the state that seals a contract, and the check at open."""

import json
from dataclasses import replace

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.ir.decode import load_object, make_contract_error
from omnigraphdb.catalog.ir.encode import shape_hash
from omnigraphdb.catalog.ir.rules import IR_FILE
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.errors import SchemaContractError, SchemaError
from omnigraphdb.language.source import Source
from omnigraphdb.values import dataclass

FORMAT_VERSION = 1
IDENTITY_VERSION = 1

_STATE_FILE = "the schema state"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """The small file that seals a contract: the hashes of its IR and of its meaning."""

    schema_ir_hash: str
    schema_shape_hash: str
    identity_domain: str

    def to_json(self) -> str:
        """Write the text of the state file."""
        document = {
            "format_version": FORMAT_VERSION,
            "schema_ir_hash": self.schema_ir_hash,
            "schema_shape_hash": self.schema_shape_hash,
            "schema_identity_version": IDENTITY_VERSION,
            "identity_domain": self.identity_domain,
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "SchemaState":
        """Read the text of a state file."""
        document = load_object(text, _STATE_FILE)
        versions = {"format_version": FORMAT_VERSION, "schema_identity_version": IDENTITY_VERSION}
        for key, version in versions.items():
            stored_version = document.whole(key)
            if stored_version != version:
                raise make_contract_error(
                    _STATE_FILE, f"has {key} {stored_version}, this release reads {version}"
                )
        state = cls(
            schema_ir_hash=document.text("schema_ir_hash"),
            schema_shape_hash=document.text("schema_shape_hash"),
            identity_domain=document.text("identity_domain"),
        )
        document.done()
        return state


def seal(contract: Contract) -> SchemaState:
    """Make the state of a contract."""
    return SchemaState(
        schema_ir_hash=contract.ir_hash,
        schema_shape_hash=contract.shape_hash,
        identity_domain=contract.domain,
    )


def open_contract(source: Source, ir: str | None, state: str | None) -> Contract:
    """Take the stored schema text, IR and state for one contract, or refuse them."""
    if ir is None or state is None:
        absent = [name for name, text in ((IR_FILE, ir), (_STATE_FILE, state)) if text is None]
        raise make_contract_error(" and ".join(absent), "is missing")
    contract, sealed = Contract.from_json(ir), SchemaState.from_json(state)
    actual = seal(contract)
    if sealed.schema_ir_hash != actual.schema_ir_hash:
        raise _mismatch(IR_FILE, sealed.schema_ir_hash, actual.schema_ir_hash)
    if sealed != actual:
        raise make_contract_error(
            _STATE_FILE, "names another identity domain or shape than the contract"
        )
    written = _read_stored_catalog(source)
    text_hash = shape_hash(written)
    if text_hash != contract.shape_hash:
        raise _mismatch(f"the schema text '{source.name}'", contract.shape_hash, text_hash)
    return replace(contract, catalog=contract.catalog.in_order_of(written))


def _read_stored_catalog(source: Source) -> Catalog:
    try:
        return compile_schema(source, stored=True)
    except SchemaError as error:
        raise make_contract_error(
            f"the schema text '{source.name}'", f"does not compile ({error})"
        ) from error


def _mismatch(what: str, expected: str, actual: str) -> SchemaContractError:
    return make_contract_error(
        what, f"is not the one that was accepted (expected {expected}, actual {actual})"
    )
