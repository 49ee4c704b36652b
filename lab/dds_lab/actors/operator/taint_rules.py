"""The DeviceTaintRules that keep pods off a device while it is detached."""

from __future__ import annotations

from dds_lab.actors.operator.view import Shown
from dds_lab.client import ApiError, Client, Object, tolerating

KEY = "k8s.io/device-uuid"
REFUSED = (403, 404, 405, 422)


class TaintRules:
    """`version`: their API version, "" for no rules. `optional`: the operator continues without rules that the API refuses or
    does not serve. Raises ApiError otherwise."""

    def __init__(self, client: Client, version: str, optional: bool) -> None:
        self._client = client
        self._version = version
        self._tolerated = REFUSED if optional else ()
        self._resource = f"devicetaintrules.{version}.resource.k8s.io"

    def add(self, resource: str, shown: Shown | None, uuid: str) -> None:
        with tolerating(*self._tolerated):
            if self._version and not self._exists(resource) and shown is not None:
                self._client.create(self._resource, self._rule(resource, shown, uuid))

    def remove(self, resource: str) -> None:
        with tolerating(*self._tolerated):
            if self._version and self._exists(resource, f"failed to get DeviceTaintRule {_name(resource)}: "):
                self._client.delete(self._resource, _name(resource))

    def _exists(self, resource: str, what: str = "") -> bool:
        try:
            self._client.resource(self._resource)
        except ApiError:
            version = f"resource.k8s.io/{self._version}"
            words = f'{what}no matches for kind "DeviceTaintRule" in version "{version}"'
            raise ApiError(404, "NotFound", words) from None
        return self._client.find(self._resource, _name(resource)) is not None

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


def _name(resource: str) -> str:
    return f"{resource}-taint"
