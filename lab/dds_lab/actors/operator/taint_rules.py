"""The DeviceTaintRules that keep pods off a device while it is detached."""

from __future__ import annotations

from contextlib import suppress

from dds_lab.actors.operator.view import Shown
from dds_lab.client import ApiError, Client, Object, tolerating

KEY = "k8s.io/device-uuid"
NOT_THERE = (403, 404, 405)


class NotServed(Exception):
    """The API does not serve DeviceTaintRules in the operator's version."""


class TaintRules:
    """`version`: their API version, "" for no rules. If the API refuses a rule, the operator continues without it. `remove`
    raises ApiError when it must be tried again."""

    def __init__(self, client: Client, version: str) -> None:
        self._client = client
        self._version = version
        self._resource = f"devicetaintrules.{version}.resource.k8s.io"

    def add(self, resource: str, shown: Shown, uuid: str) -> None:
        if not self._version:
            return
        with suppress(ApiError):  # it exists already, or the API does not serve it
            self._client.create(self._resource, self._rule(resource, shown, uuid))

    def remove(self, resource: str) -> None:
        if self._version:
            with tolerating(*NOT_THERE):
                self._client.delete(self._resource, _name(resource))

    def _rule(self, resource: str, shown: Shown, uuid: str) -> Object:
        return {
            "apiVersion": f"resource.k8s.io/{self._version}",
            "kind": "DeviceTaintRule",
            "metadata": {"name": _name(resource)},
            "spec": {
                "deviceSelector": {"driver": shown.driver, "pool": shown.pool, "device": shown.device},
                "taint": {"key": KEY, "value": uuid, "effect": "NoSchedule"},
            },
        }


class StrictTaintRules(TaintRules):
    """The same of the real operator: what the API refuses is an error. Raises NotServed and ApiError."""

    def add(self, resource: str, shown: Shown | None, uuid: str) -> None:
        if self._version and not self._exists(resource) and shown is not None:
            self._client.create(self._resource, self._rule(resource, shown, uuid))

    def remove(self, resource: str) -> None:
        if self._version and self._exists(resource, f"failed to get DeviceTaintRule {_name(resource)}: "):
            self._client.delete(self._resource, _name(resource))

    def _exists(self, resource: str, what: str = "") -> bool:
        try:
            self._client.resource(self._resource)
        except ApiError:
            version = f"resource.k8s.io/{self._version}"
            raise NotServed(f'{what}no matches for kind "DeviceTaintRule" in version "{version}"') from None
        return self._client.find(self._resource, _name(resource)) is not None


def _name(resource: str) -> str:
    return f"{resource}-taint"
