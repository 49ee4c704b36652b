"""The simulated API server: verbs on objects over one store, without I/O, clock or threads of its own.

Clients in the same process call `perform` and `watch`; HTTP front ends call `respond`. Both run the same code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from dds_lab.api import status
from dds_lab.api.access import Access, attributes_of
from dds_lab.api.clock import MICROSECONDS, Clock
from dds_lab.api.deleting import DEFINITIONS, NAMESPACES, Deleter
from dds_lab.api.facts import facts
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import RBAC, Object, Resource
from dds_lab.api.policies import Policies
from dds_lab.api.posted import POSTED, PodVerbs, Reviews
from dds_lab.api.reading import Reader
from dds_lab.api.registry import Registry
from dds_lab.api.requests import MASTERS, Call, Outcome, Request, Response, User, Writing
from dds_lab.api.responding import Responder
from dds_lab.api.scale import SCALE, scaled
from dds_lab.api.store import DELETED, Change, Store
from dds_lab.api.watches import Stream, Watch
from dds_lab.api.writing import Admission, Writer

EVENTS = "events"
LIFE_SECONDS = 3600


class Expiry:
    """Removes Events an hour after their last write, as a lease in etcd does. It looks for them only before a call on events,
    so that clients see no difference."""

    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._written: deque[tuple[int, str, int]] = deque()
        store.subscribe(EVENTS, self._note)

    def _note(self, change: Change) -> None:
        if change.type != DELETED:
            self._written.append((self._now() + LIFE_SECONDS * MICROSECONDS, change.path, change.revision))

    def clear(self) -> None:
        now = self._now()
        while self._written and self._written[0][0] <= now:
            _, path, revision = self._written.popleft()
            record = self._store.get(EVENTS, path)
            if record is not None and record.revision == revision:
                self._store.remove(EVENTS, path)


# -- stored objects of a new cluster: namespaces, and roles with their bindings (`facts`); clients may delete them

SERVER = User("system:apiserver", (MASTERS,))
FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def fill(server: ApiServer) -> None:
    """Create the first namespaces, cluster roles and bindings."""
    for name in FIRST_NAMESPACES:
        _create(server, "", "namespaces", {"metadata": {"name": name}})
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    for name, role in facts("roles").items():
        meta = {"name": name, "labels": labels}
        _create(server, RBAC, "clusterroles", {"metadata": meta, "rules": role["rules"]})
        subjects = [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in role["groups"]]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        _create(server, RBAC, "clusterrolebindings", {"metadata": meta, "subjects": subjects, "roleRef": reference})


def _create(server: ApiServer, group: str, plural: str, obj: Object) -> None:
    resource = server.registry.find(group, "v1", plural)
    assert resource is not None
    body = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
    server.perform(
        Call(verb="create", resource=resource, user=SERVER, body=body, writing=Writing(manager="kube-apiserver"))
    )


class ApiServer:
    """One simulated kube-apiserver with its store."""

    def __init__(
        self,
        *,
        gates: Gates,
        now: Callable[[], int],
        random: Random,
        history: int = 20_000,
        track_updates: bool = True,
    ) -> None:
        """`now` returns microseconds since 1970-01-01 UTC. `random` makes names and uids. `history` is the number of changes
        kept for watches and lists of old versions. Without `track_updates`, plain updates leave managedFields unchanged."""
        self.gates = gates
        self.clock = Clock(now)
        self.store = Store(history)
        self.registry = Registry(gates, self.clock.text)
        self.access = Access(self.store)
        self._random = random
        self._reader = Reader(self.store, self.registry, self.clock, random)
        self._writer = Writer(self.store, self.registry, self.clock, random, self.access, track_updates)
        self.policies = Policies(self.store, self.registry)
        self._writer.admission.append(self.policies.judge)
        self._deleter = Deleter(self.store, self.registry, self.clock, self._reader, self._writer.admission)
        self._expiry = Expiry(self.store, self.clock.now)
        self._pods = PodVerbs(self.store, self.clock, self._deleter)
        self._reviews = Reviews(self.registry, self.access, self.clock.text)
        self._responder = Responder(self)
        self._watches: list[Watch] = []
        self._verbs: dict[str, Callable[[Call], Outcome]] = {
            "get": self._reader.get,
            "list": self._reader.page,
            "create": self._create,
            "update": self._writer.update,
            "patch": self._writer.patch,
            "delete": self._deleter.delete,
            "deletecollection": self._deleter.collection,
        }
        self.store.subscribe(DEFINITIONS, self._definition_changed)
        fill(self)

    def shown(self, resource: Resource) -> Callable[[Object], Object]:
        """Converts a stored object to the version of the resource."""
        return self.registry.strategy(resource).from_storage

    @property
    def admission(self) -> list[Admission]:
        """Validating hooks, called in order before an object is stored. Append to register one."""
        return self._writer.admission

    def perform(self, call: Call, authorised: bool = False) -> Outcome:
        """Carry out a call of any verb but watch. ApiError where a real server fails. `authorised` skips the RBAC check."""
        self._admissible(call, authorised)
        if call.subresource == SCALE:
            return scaled(call, self._reader.get, self._writer.update)
        revision = self.store.revision
        outcome = self._verbs[call.verb](call)
        if self.store.revision != revision and call.verb not in ("get", "list", "create"):
            if call.namespace:
                self._deleter.end(NAMESPACES, call.namespace)
            if call.resource.custom:
                self._deleter.end(DEFINITIONS, call.resource.name)
        return outcome

    def respond(self, request: Request) -> Response | Stream:
        """The answer to an HTTP request; for a watch a stream of lines. Failures become answers and are never raised."""
        return self._responder.respond(request)

    def watch(self, call: Call, endless: bool = True, authorised: bool = False) -> Watch:
        """Watch a resource. An `endless` watch has no timeout and no bookmarks."""
        self._admissible(call, authorised)
        watch = self._reader.watch(call, endless)
        self._watches = [each for each in self._watches if not each.closed]
        if not watch.closed:
            self._watches.append(watch)
        return watch

    def restart(self) -> None:
        """End every watch and forget the history, as the restart of a real server does."""
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.close()
        self.store.compact()

    def _create(self, call: Call) -> Outcome:
        if call.subresource in POSTED:
            return self._pods.create(call)
        if call.subresource:
            raise status.method_not_allowed()
        if not call.resource.kept:
            return self._reviews.create(call)
        return self._writer.create(call)

    def _admissible(self, call: Call, authorised: bool) -> None:
        """Raise ApiError unless the call is served and allowed. Old events are removed before a call on events."""
        if not (authorised or call.user.master):
            self.access.check(call.user, attributes_of(call))
        resource = call.resource
        served = self.registry.find(*resource.place) is not None
        if not served or (call.subresource and call.subresource not in resource.subresources):
            raise status.no_such_path()
        if call.verb not in resource.verbs:
            raise status.method_not_allowed()
        if resource.key == EVENTS:
            self._expiry.clear()

    def _definition_changed(self, change: Change) -> None:
        """Serve a custom resource while its definition is stored. The end of the definition ends its watches."""
        if change.type == DELETED:
            self.registry.uninstall(change.path)
            for watch in self._watches:
                if watch.resource.custom and watch.resource.name == change.path:
                    watch.close()
        else:
            self.registry.install(change.new.object)
