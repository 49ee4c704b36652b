"""A real API server, asked through the official client: pages of a list, and the lines of a watch, as raw bytes.

The client serves configuration, authentication and transport; its typed models are never made. Nothing here keeps or
judges what was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from dds_adapters.kubernetes import config
from dds_core.errors import DdsError, InputError

PAGE = 500
CONNECT_SECONDS = 10.0
QUIET_SECONDS = 60.0
"""A watch on which nothing comes for this much longer than it may last is taken for dead."""
WATCH_SECONDS = 240

DRA = "resource.k8s.io"
OPERATOR = "cro.hpsys.ibm.ie.com"

VERSIONS: dict[str, tuple[str, ...]] = {
    "configmaps": ("v1",),
    "deviceclasses": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "nodes": ("v1",),
    "devicetaintrules": (f"{DRA}/v1beta2", f"{DRA}/v1alpha3"),
    "resourceslices": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "composabilityrequests": (f"{OPERATOR}/v1alpha1",),
    "composableresources": (f"{OPERATOR}/v1alpha1",),
    "resourceclaims": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "pods": ("v1",),
}
"""By resource the versions that are understood, the best first. The order is that in which a cluster is listed: what others
refer to comes first."""


class Unreachable(DdsError):
    """The API server does not answer; asking again may help."""


class Refused(DdsError):
    """The API server answered with an error. `code` is the HTTP status, `wait` the seconds it asks for."""

    def __init__(self, where: str, code: int, reason: str, wait: float = 0.0) -> None:
        self.code = code
        self.wait = wait
        super().__init__(f"{code} {reason}".strip(), where=where, fix=_FIXES.get(code, "ask again later"))


_FIXES = {
    401: "renew the credentials of the kubeconfig",
    403: "let this user get, list and watch it",
    404: "it is not served",
    410: "list again",
}


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, rename="camel"):
    """A page of a list. Its items carry neither kind nor apiVersion."""

    items: list[msgspec.Raw] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class Event(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""


_page = msgspec.json.Decoder(Page)
_event = msgspec.json.Decoder(Event)
_status = msgspec.json.Decoder(_Status)


@dataclass
class Answer:
    """A watch that is open: iterate its events, or `end` it from any thread."""

    events: Iterator[Event]
    end: Callable[[], None]


class Cluster:
    """The API server that a kubeconfig names; `where` is its address."""

    def __init__(self, kubeconfig: str, context: str | None = None) -> None:
        """Raises InputError when the kubeconfig cannot be used or the client is not installed."""
        try:
            from kubernetes import client
            from kubernetes import config as configuration
        except ImportError:
            raise InputError(
                "the Kubernetes client is not installed", fix="pip install 'dds-core[kubernetes]'"
            ) from None
        try:
            made: Any = configuration.new_client_from_config
            self._api = made(kubeconfig, context=context)
        except Exception as error:  # a broken file fails in many ways, and none of them is our doing
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            fix = "give a kubeconfig that kubectl can use, and one of its contexts"
            raise InputError(f"cannot be used: {what}", where=kubeconfig, fix=fix) from None
        self._core = client.CoreV1Api(self._api)
        self._custom = client.CustomObjectsApi(self._api)
        self.where = str(self._api.configuration.host)

    def close(self) -> None:
        """Give connections back."""
        self._api.close()
        self._api.rest_client.pool_manager.clear()

    def page(self, resource: str, api_version: str, token: str) -> Page:
        """A page of the list; `token` is the `continue` of the one before. Raises Refused and Unreachable."""
        more = {"_continue": token} if token else {}
        response = self._get(resource, api_version, timeout=60.0, limit=PAGE, **more)
        try:
            return _page.decode(response.data)
        except ValueError:
            raise Unreachable("answers with something else than a list", where=self._said(resource)) from None
        finally:
            response.release_conn()

    def watch(self, resource: str, api_version: str, since: str, seconds: int = WATCH_SECONDS) -> Answer:
        """The changes after a version, for at most so long. Raises Refused and Unreachable, also while iterating."""
        response = self._get(
            resource,
            api_version,
            timeout=seconds + QUIET_SECONDS,
            watch=True,
            resource_version=since,
            timeout_seconds=seconds,
            allow_watch_bookmarks=True,
        )
        return Answer(self._events(response, self._said(resource)), lambda: _shut(response))

    def _events(self, response: Any, where: str) -> Iterator[Event]:
        rest = b""
        try:
            for chunk in response.stream(65_536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event.decode(line)
        except ValueError:
            raise Unreachable("the watch is not one of objects", where=where) from None
        except Exception as error:  # urllib3 and the socket have many kinds of a connection that is gone
            raise Unreachable(f"the watch broke off ({type(error).__name__})", where=where) from None
        finally:
            response.close()

    def _get(self, resource: str, api_version: str, *, timeout: float, **parameters: Any) -> Any:
        parameters |= {"_preload_content": False, "_request_timeout": (CONNECT_SECONDS, timeout)}
        try:
            response = self._asked(resource, api_version, parameters)
        except Exception as error:
            raise self._failure(resource, error) from None
        if response.status >= 400:
            raise _refusal(self._said(resource), response.status, response.headers, response.data)
        return response

    def _asked(self, resource: str, api_version: str, parameters: dict[str, Any]) -> Any:
        group, _, version = api_version.rpartition("/")
        if group:
            return self._custom.list_cluster_custom_object(group, version, resource, **parameters)
        if resource == "nodes":
            return self._core.list_node(**parameters)
        if resource == "pods":
            return self._core.list_pod_for_all_namespaces(**parameters)
        only = f"metadata.name={config.NAME}"
        return self._core.list_namespaced_config_map(config.NAMESPACE, field_selector=only, **parameters)

    def _failure(self, resource: str, error: Exception) -> DdsError:
        status = getattr(error, "status", None)
        if isinstance(status, int) and status >= 400:
            body = getattr(error, "body", b"") or b""
            headers = getattr(error, "headers", None)
            return _refusal(self._said(resource), status, headers, body if isinstance(body, bytes) else body.encode())
        return Unreachable(
            f"does not answer ({type(error).__name__})", where=self._said(resource), fix="check network and address"
        )

    def _said(self, resource: str) -> str:
        return f"{self.where} {resource}"


def _refusal(where: str, status: int, headers: Any, body: bytes) -> Refused:
    try:
        reason = _status.decode(body).reason
    except ValueError:
        reason = ""
    wait = (headers or {}).get("Retry-After", "")
    return Refused(where, status, reason[:100], float(wait) if wait.isdigit() else 0.0)


def _shut(response: Any) -> None:
    """End a response that another thread is reading."""
    try:
        response.shutdown()
    except (AttributeError, ValueError, OSError):
        response.close()
