"""The DeviceTaintRule that keeps pods off a device while it is being detached. Where the API refuses it, there is none:
silently."""

from dds_adapters.lab.actors.operator.view import Shown
from dds_adapters.lab.client import ApiError, Client, Object

KEY = "k8s.io/device-uuid"
NOT_THERE = (403, 404, 405)


class TaintRules:
    """Rules in one version of the API, "" for none at all. `remove` raises ApiError when it has to be tried again."""

    def __init__(self, client: Client, version: str) -> None:
        self._client = client
        self._version = version
        self._resource = f"devicetaintrules.{version}.resource.k8s.io"

    def add(self, resource: str, shown: Shown, uuid: str) -> None:
        if not self._version:
            return
        try:
            self._client.create(self._resource, self._rule(resource, shown, uuid))
        except ApiError:
            return  # it is there already, or it is not served: the operator goes on without

    def remove(self, resource: str) -> None:
        if not self._version:
            return
        try:
            self._client.delete(self._resource, name(resource))
        except ApiError as error:
            if error.code not in NOT_THERE:
                raise

    def _rule(self, resource: str, shown: Shown, uuid: str) -> Object:
        return {
            "apiVersion": f"resource.k8s.io/{self._version}",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name(resource)},
            "spec": {
                "deviceSelector": {"driver": shown.driver, "pool": shown.pool, "device": shown.device},
                "taint": {"key": KEY, "value": uuid, "effect": "NoSchedule"},
            },
        }


def name(resource: str) -> str:
    return f"{resource}-taint"
