"""The examined cluster: what several checks need to know of it. Each request is sent once; its answer or error is kept.

Nothing in the cluster is changed (requests are GETs, reviews, and creations with dryRun=All), and nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from dds_adapters.kubernetes.cluster import (
    EVERYTHING,
    Answer,
    Asking,
    Refused,
    Scope,
    Unreachable,
    listed,
    path_of,
    refusal,
)
from dds_adapters.kubernetes.decode import config, decoding
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.publish.decode import BareMetalHosts, host, pool_slice
from dds_adapters.kubernetes.publish.device_info import read_pool_config
from dds_adapters.kubernetes.watch.watch_spec import BARE_METAL_HOSTS, VERSIONS, scope_of_config
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.errors import DdsError
from dds_core.model import Claim, Config, FabricResource, Node, Slice
from dds_core.publisher.model import Host, PoolConfig, PoolSlice
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import Policy
from dds_core.timeline.instants import micros

SECONDS = 15.0
"""Time limit for one answer."""
PATIENCE = 2
"""After so many requests in a row without an answer, no more are sent."""

_T = TypeVar("_T")


class _Meta(msgspec.Struct):
    uid: str = ""


class _Namespace(msgspec.Struct):
    metadata: _Meta


class _Named(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Named] = []


_resources = msgspec.json.Decoder(_Resources)
_namespace = msgspec.json.Decoder(_Namespace)


class Unreadable(DdsError):
    """The answer is not of the expected kind."""


class ExaminationContext:
    """One cluster under one policy. `where` is the server's name; `now` gives microseconds of this machine's clock.

    `scaler`, `publishing` and `autoscaling` are the components' policies, None for one that is not examined; `policy` is the
    scaler's in any case.
    `bare_metal_hosts`: these say which machine a node is. `has_machines`: the autoscaler's servers are Machines of this
    cluster.
    """

    def __init__(
        self,
        api: Asking,
        where: str,
        now: Callable[[], int],
        *,
        policy: Policy | None = None,
        namespace: str = config.NAMESPACE,
        publishing: PublishPolicy | None = None,
        bare_metal_hosts: bool = False,
        autoscaling: AutoscalePolicy | None = None,
        has_machines: bool = False,
    ) -> None:
        self.where = where
        self.now = now
        self.scaler = policy
        self.policy = policy or Policy()
        self.publishing = publishing
        self.bare_metal_hosts = bare_metal_hosts
        self.autoscaling = autoscaling
        self.has_machines = has_machines
        self.namespace = namespace
        self.api = api
        self._known: dict[str, Any] = {}
        self._unanswered = 0

    # -- requests ------------------------------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Answer:
        """The answer, whatever its status. Raises Unreachable, without a request after two unanswered ones in a row."""
        if self._unanswered >= PATIENCE:
            raise Unreachable("does not answer any more", where=self.where, fix="check network and address")
        raw = msgspec.json.encode(body) if body is not None else None
        self._unanswered += 1
        answer = self.api.ask(method, path, query=query, body=raw, timeout=SECONDS)
        self._unanswered = 0
        return answer

    def get(self, path: str) -> bytes:
        """The body of the answer. Raises Refused and Unreachable."""
        return self.accepted(path, self.ask("GET", path))

    def dry_create(self, path: str, body: Mapping[str, Any]) -> bytes:
        """The object as the server would create it (dryRun=All). Raises Refused and Unreachable."""
        return self.accepted(path, self.ask("POST", path, {"dryRun": "All"}, body))

    def review(self, group: str, resource: str, kind: str, spec: Mapping[str, Any]) -> Any:
        """The status of a review. Raises Refused, Unreachable and Unreadable."""
        path = path_of(resource, f"{group}/v1")
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        return self.decoded(path, self.accepted(path, self.ask("POST", path, body=body))).get("status") or {}

    def accepted(self, path: str, answer: Answer) -> bytes:
        """The body of a successful answer. Raises Refused."""
        if answer.code < 300:
            return answer.body
        raise refusal(f"{self.where}{path}", answer)

    def decoded(self, path: str, raw: bytes) -> Any:
        """A JSON object. Raises Unreadable."""
        try:
            found = msgspec.json.decode(raw)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Unreadable("answers with something else than an object", where=f"{self.where}{path}")
        return found

    def objects(self, resource: str, scope: Scope = EVERYTHING) -> Iterator[bytes]:
        """All objects of a followed resource, page by page, in the best served version. Raises Refused (404 if none is served)
        and Unreachable."""
        path = path_of(resource, self.version_of(resource), scope.namespace)
        selected = {"fieldSelector": scope.fields} if scope.fields else {}
        try:
            yield from listed(lambda query: self.accepted(path, self.ask("GET", path, query)), selected)
        except ValueError:
            raise Unreadable("answers with something else than a list", where=f"{self.where}{path}") from None

    # -- used by several checks ----------------------------------------------------------------------------------

    def once(self, key: str, find: Callable[[], _T]) -> _T:
        """The result or error of the first call of `find` for this key."""
        if key not in self._known:
            try:
                self._known[key] = find()
            except DdsError as problem:
                self._known[key] = problem
        known: _T = self._known[key]
        if isinstance(known, DdsError):
            raise known
        return known

    def everything(self, resource: str) -> list[bytes]:
        """All objects of a resource, kept."""
        return self.once(f"all {resource}", lambda: list(self.objects(resource)))

    def served(self, api_version: str) -> frozenset[str]:
        """Names of the resources of this version, empty if it is not served. Raises Refused and Unreachable."""
        return self.once(f"served {api_version}", lambda: self._served(api_version))

    def _served(self, api_version: str) -> frozenset[str]:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        answer = self.ask("GET", path)
        if answer.code == 404:
            return frozenset()
        try:
            return frozenset(one.name for one in _resources.decode(self.accepted(path, answer)).resources)
        except ValueError:
            raise Unreadable("answers with something else than resources", where=f"{self.where}{path}") from None

    def version_of(self, resource: str) -> str:
        """The best version that dds understands and the server serves. Raises Refused (404) if there is none, and Unreachable."""
        for version in VERSIONS.get(resource, BARE_METAL_HOSTS.versions):
            if resource in self.served(version):
                return version
        raise Refused(f"{self.where} {resource}", 404, "NotFound")

    def minor(self) -> int:
        """The minor number of the server's release, 0 if unknown. Raises as `get`."""
        told = self.once("version", lambda: self.decoded("/version", self.get("/version")))
        digits = "".join(c for c in str(told.get("minor", "")) if c.isdigit())
        return int(digits) if digits and str(told.get("major")) == "1" else 0

    def release(self) -> str:
        """Such as v1.36.2. Raises as `get`."""
        told = self.once("version", lambda: self.decoded("/version", self.get("/version")))
        return str(told.get("gitVersion", ""))[:60] or "a release that it does not tell"

    def user(self) -> str:
        """The user that dds is to the server, "" if the server does not say. Raises as `review`."""
        return self.once("user", self._user)

    def _user(self) -> str:
        found = self.review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", {})
        return str((found.get("userInfo") or {}).get("username", ""))

    def cluster_uid(self) -> str:
        """The uid of namespace kube-system, the identity of the cluster in a log. Raises as `get`, and Unreadable."""
        return self.once("identity", self._cluster_uid)

    def _cluster_uid(self) -> str:
        path = path_of("namespaces", "v1", name="kube-system")
        try:
            return _namespace.decode(self.get(path)).metadata.uid
        except msgspec.DecodeError:
            raise Unreadable("answers with something else than a namespace", where=f"{self.where}{path}") from None

    def configuration(self) -> tuple[Config, tuple[Fault, ...]]:
        """The ConfigMap as a starting scaler reads it, and the faults of its parts. Raises Refused, Unreachable, and Fault if the
        whole is unusable."""
        return self.once("config", lambda: config.read_config(self._config_map(), None))

    def pool_configuration(self) -> tuple[PoolConfig, tuple[Fault, ...]]:
        """The same for the publisher. Raises as `configuration`."""
        return self.once("pool config", lambda: read_pool_config(self._config_map(), None))

    def written_entries(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """The entries of device-info as written, each with its place. Raises as `configuration`."""
        data = config.raw_config(self._config_map()).data
        return config.written(data.device_info if data is not None else None)

    def _config_map(self) -> bytes:
        return self.once("config map", self._asked_config_map)

    def _asked_config_map(self) -> bytes:
        """By a list with one name, like the watch: the roles of dds allow no GET."""
        scope = scope_of_config(self.namespace)
        found = next(self.objects("configmaps", scope), None)
        if found is None:
            raise Refused(f"{self.where} configmaps {scope.namespace}/{config.NAME}", 404, "NotFound")
        return found

    def slices(self) -> list[Slice]:
        """Every readable ResourceSlice. Raises Refused and Unreachable."""
        return self.once("slices", lambda: list(_read(decoding.resource_slice, self.everything("resourceslices"))))

    def nodes(self) -> list[Node]:
        """Every readable node. Raises Refused and Unreachable."""
        return self.once("nodes", lambda: list(_read(decoding.node, self.everything("nodes"))))

    def hosts(self) -> list[Host]:
        """The same for the publisher. Raises Refused and Unreachable."""
        return self.once("hosts", self._hosts)

    def _hosts(self) -> list[Host]:
        if not self.bare_metal_hosts:
            return list(_read(host, self.everything("nodes")))
        known = BareMetalHosts()
        for raw in self.everything(BARE_METAL_HOSTS.resource):
            with suppress(Fault):
                known.is_there(raw)
        return list(_read(known.host, self.everything("nodes")))

    def published(self) -> list[PoolSlice]:
        """Every readable slice, for the publisher. Raises Refused and Unreachable."""
        return self.once("published", lambda: list(_read(pool_slice, self.everything("resourceslices"))))

    def claims(self) -> Iterator[Claim]:
        """The claims, page by page, requested anew at each call. Raises Refused and Unreachable."""
        return _read(decoding.claim, self.objects("resourceclaims"))

    def resources(self) -> list[FabricResource]:
        """The ComposableResources. Raises Refused and Unreachable."""
        return list(_read(decoding.fabric_resource, self.everything("composableresources")))

    def config_or_usual(self) -> Config:
        """The configuration; an empty one if it cannot be read."""
        try:
            return self.configuration()[0]
        except (Refused, Fault, Unreadable, Unreachable):
            return Config(uid="")

    def pools_or_usual(self) -> PoolConfig:
        """The same for the publisher."""
        try:
            return self.pool_configuration()[0]
        except (Refused, Fault, Unreadable, Unreachable):
            return PoolConfig(uid="")


def _read(decoder: Callable[[bytes], _T], raw: Iterable[bytes]) -> Iterator[_T]:
    """The readable ones. The running scaler reports each unreadable object."""
    for one in raw:
        with suppress(Fault):
            yield decoder(one)


def instant_of(text: object) -> int | None:
    """Microseconds since 1970-01-01 UTC of an instant as Kubernetes writes it; None for anything else."""
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return micros(when) if when is not None and when.tzinfo is not None else None
