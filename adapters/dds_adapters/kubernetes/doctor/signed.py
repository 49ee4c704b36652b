"""Who wrote an object's spec, as its managedFields say. Good enough to tell people who is at work; no decision may rest on it."""

from __future__ import annotations

import msgspec

from dds_adapters.kubernetes.doctor.findings import foreign


class _Owned(msgspec.Struct):
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="f:spec", default=msgspec.UNSET)


class ManagedField(msgspec.Struct):
    """What one manager owns, as far as it matters here."""

    manager: str = ""
    fields: _Owned = msgspec.field(name="fieldsV1", default_factory=_Owned)


def writers(fields: list[ManagedField] | None) -> list[str]:
    """Managers that own a part of the spec; others (who set a finalizer, a label, a status) are left out."""
    return [foreign(one.manager) for one in fields or () if one.manager and one.fields.spec is not msgspec.UNSET]
