"""The API server: verbs on objects and HTTP semantics, over one store, without I/O, clock or threads of its own.

It knows nothing of what devices are for. `perform` serves those in the same process, `respond` whoever speaks HTTP;
both are answered by the same code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from dds_lab.api import status
from dds_lab.api.access import Access, attributes_of
from dds_lab.api.clock import MICROSECONDS, Clock
from dds_lab.api.deleting import DEFINITIONS, NAMESPACES, Deleter
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import RBAC, Object
from dds_lab.api.policies import Policies
from dds_lab.api.posted import POSTED, PodVerbs, Reviews
from dds_lab.api.reading import Reader
from dds_lab.api.registry import Registry
from dds_lab.api.requests import (
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    Call,
    Outcome,
    Request,
    Response,
    User,
    Writing,
)
from dds_lab.api.responding import Responder
from dds_lab.api.store import DELETED, Change, Store
from dds_lab.api.watches import Stream, Watch
from dds_lab.api.writing import Admission, Writer

EVENTS = "events"
LIFE_SECONDS = 3600


class Expiry:
    """Events do not stay: each goes an hour after it was last written, as a lease in etcd would make it. Old ones are only looked
    for when somebody asks for events or writes one; in between nobody can tell."""

    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._written: deque[tuple[int, str, int]] = deque()
        store.subscribe(EVENTS, self._note)

    def _note(self, change: Change) -> None:
        if change.type != DELETED:
            self._written.append((self._now() + LIFE_SECONDS * MICROSECONDS, change.path, change.revision))

    def clear(self) -> None:
        """Take away what is older."""
        now = self._now()
        while self._written and self._written[0][0] <= now:
            _, path, revision = self._written.popleft()
            record = self._store.get(EVENTS, path)
            if record is not None and record.revision == revision:
                self._store.remove(EVENTS, path)


# -- what a new cluster holds before anybody asked for it: namespaces, and the roles that every user has
#
# Stored objects like all others: who deletes them goes without.

SERVER = User("system:apiserver", (MASTERS,))
FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PUBLIC_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"]

ROLES: dict[str, tuple[list[Object], tuple[str, ...]]] = {
    "cluster-admin": (
        [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}],
        (MASTERS,),
    ),
    "system:basic-user": (
        [
            {
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                "verbs": ["create"],
            },
            {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
        ],
        (AUTHENTICATED,),
    ),
    "system:discovery": (
        [{"nonResourceURLs": [*DISCOVERY_PATHS, "/version", "/version/"], "verbs": ["get"]}],
        (AUTHENTICATED,),
    ),
    "system:public-info-viewer": (
        [{"nonResourceURLs": PUBLIC_PATHS, "verbs": ["get"]}],
        (AUTHENTICATED, UNAUTHENTICATED),
    ),
}
"""Cluster roles by name: rules, and the groups that are bound to them."""


def fill(server: ApiServer) -> None:
    """Create all of it."""
    for name in FIRST_NAMESPACES:
        _create(server, "", "namespaces", {"metadata": {"name": name}})
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    for name, (rules, groups) in ROLES.items():
        meta = {"name": name, "labels": labels}
        _create(server, RBAC, "clusterroles", {"metadata": meta, "rules": rules})
        subjects = [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups]
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
        """`now` gives microseconds since 1970-01-01 UTC; `random` makes names and uids; `history` is how many changes are
        remembered for watches and old lists. Without `track_updates` plain updates leave managedFields alone."""
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

    @property
    def admission(self) -> list[Admission]:
        """Validating hooks, asked in order before anything is stored; append to register one."""
        return self._writer.admission

    def perform(self, call: Call, authorised: bool = False) -> Outcome:
        """Do what a call asks (every verb but watch). ApiError where a real server answers with a failure."""
        self._admissible(call, authorised)
        outcome = self._verbs[call.verb](call)
        if call.verb not in ("get", "list", "create"):
            if call.namespace:
                self._deleter.end(NAMESPACES, call.namespace)
            if call.resource.custom:
                self._deleter.end(DEFINITIONS, call.resource.name)
        return outcome

    def respond(self, request: Request) -> Response | Stream:
        """The answer to an HTTP request; a watch is a stream of lines. It raises nothing that a request could bring about."""
        return self._responder.respond(request)

    def watch(self, call: Call, endless: bool = True, authorised: bool = False) -> Watch:
        """Follow a resource. An `endless` watch has no bookmarks and no end of its own."""
        self._admissible(call, authorised)
        watch = self._reader.watch(call, endless)
        self._watches = [each for each in self._watches if not each.closed]
        if not watch.closed:
            self._watches.append(watch)
        return watch

    def restart(self) -> None:
        """What a restart of a real server does to its clients: every watch ends, and history before now is gone."""
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
        """Served at all, and allowed; events that are too old are gone before anything is done with events."""
        if not (authorised or call.user.master):
            self.access.check(call.user, attributes_of(call))
        resource = call.resource
        served = self.registry.find(resource.group, resource.version, resource.plural) is not None
        if not served or (call.subresource and call.subresource not in resource.subresources):
            raise status.no_such_path()
        if call.verb not in resource.verbs:
            raise status.method_not_allowed()
        if resource.key == EVENTS:
            self._expiry.clear()

    def _definition_changed(self, change: Change) -> None:
        """Serve what a definition of custom resources says, for as long as it is there; who watches is told of its end."""
        if change.type == DELETED:
            self.registry.uninstall(change.path)
            for watch in self._watches:
                if watch.resource.custom and watch.resource.name == change.path:
                    watch.close()
        else:
            self.registry.install(change.new.object)
