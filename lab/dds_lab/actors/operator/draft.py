"""An object during a reconcile."""

from __future__ import annotations

from contextlib import suppress

from dds_lab.actors.objects import said, with_finalizer, without_finalizer
from dds_lab.actors.operator.operator_settings import FINALIZER
from dds_lab.client import ApiError, Client, Object, tolerating


class Draft:
    """An object as it was read, with the changes made since. Its writes carry the version that was read, so they are refused if
    another program has changed the object meanwhile. Empty fields are not written."""

    def __init__(self, client: Client, kind: str, obj: Object) -> None:
        self.obj = obj
        self.name: str = obj["metadata"]["name"]
        self._client = client
        self._kind = kind

    @property
    def going(self) -> bool:
        return bool(self.obj["metadata"].get("deletionTimestamp"))

    def said(self, field: str) -> str:
        """A text field of the status, "" if it is missing."""
        return said(self.obj, field)

    def renew(self) -> None:
        """Read the live object. Raises ApiError."""
        self.obj = self._client.get(self._kind, self.name)

    def save(self, **fields: object) -> None:
        """Change fields of the status and write it. A write that is refused raises ApiError; the changes stay in the draft."""
        status = {"state": "", **(self.obj.get("status") or {}), **fields}
        kept = {key: value for key, value in status.items() if key == "state" or value not in ("", {})}
        self.obj = {**self.obj, "status": kept}
        self.obj = self._client.update(self._kind, self.obj, subresource="status")

    def fail(self, words: str) -> None:
        """Write an error. If the write is refused, the error is lost."""
        with suppress(ApiError):
            self.save(error=words)

    def keep(self) -> None:
        """Add the operator's finalizer."""
        if FINALIZER not in (self.obj["metadata"].get("finalizers") or ()):
            self.obj = self._client.update(self._kind, with_finalizer(self.obj, FINALIZER))

    def let_go(self) -> None:
        """Remove the operator's finalizer."""
        self.obj = self._client.update(self._kind, without_finalizer(self.obj, FINALIZER))

    def delete(self) -> None:
        with tolerating(404):
            self._client.delete(self._kind, self.name)
