"""Removes a lab from a cluster: whatever carries its label, however the lab ended.

Objects go in the order of `marks.KINDS`, round after round until none is left. The pods of its nodes go with them, as when any
node is deleted. A node that existed before only loses what was added to it. The lab's own lease goes last.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from dds_adapters.kubernetes.watch.watch_spec import OPERATOR as GROUP
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.joined.marks import FINALIZERS, KINDS, LABEL, LEASE, LEASES, LENT, is_made, is_marked, target_of

PATIENCE = 90.0
AWAY_SECONDS = 15.0
"""A cluster that does not answer for so long is left as it is."""
PAUSE, LONGEST_PAUSE = 0.2, 2.0
WORKERS = 8
_INSIDE = ("pods", "configmaps", "leases.coordination.k8s.io", "resourceclaims.resource.k8s.io")
"""Kinds that keep a namespace of the lab's if somebody else has made one there."""


@dataclass
class Left:
    """`removed`: how many objects of each kind. `stays`: what could not be removed, and why."""

    removed: Counter[str] = field(default_factory=Counter)
    stays: list[str] = field(default_factory=list)


def leave(client: Client, patience: float = PATIENCE) -> Left:
    """Remove the lab, for at most `patience` seconds. Raises ApiError if the cluster does not answer for `AWAY_SECONDS`."""
    left, nodes = Left(), set[str]()
    until, pause, answered = time.monotonic() + patience, PAUSE, time.monotonic()
    seen: set[str] = set()
    with ThreadPoolExecutor(WORKERS, "leaving") as pool:
        while True:
            away: ApiError | None = None
            left.stays, found = [], 0
            for kind in KINDS:
                try:
                    objects = list(_objects(client, kind, nodes))
                except ApiError as error:
                    if error.code in (429, 500, 503, 504):
                        away = error
                        break
                    if error.code != 404:
                        left.stays.append(f"{kind}: {error.code} {error}")
                    continue
                answered = time.monotonic()
                found += len(objects)
                for obj, words in zip(objects, pool.map(partial(_remove, client, kind), objects), strict=True):
                    metadata = obj["metadata"]
                    if words:
                        left.stays.append(f"{kind} {_place(obj)}: {words}")
                    if metadata["uid"] not in seen:
                        seen.add(metadata["uid"])
                        left.removed[kind.partition(".")[0]] += 1
            kept = [one for one in left.stays if one.startswith("namespaces")]
            if not away and found == len(kept) and len(left.stays) == len(kept):
                with tolerating(404):
                    client.delete("leases.coordination.k8s.io", LEASE, LEASES)
                return left
            if away is not None and time.monotonic() > min(until, answered + AWAY_SECONDS):
                raise away
            if time.monotonic() > until:
                return left
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 1.5)


def _objects(client: Client, kind: str, nodes: set[str]) -> Iterator[Object]:
    """The lab's objects of a kind. `nodes` collects the names of the nodes that it made."""
    client.resource(kind)
    if kind == "pods":
        nodes |= {one["metadata"]["name"] for one in client.list("nodes", labels=LABEL) if is_made(one)}
        for pod in client.list("pods"):
            if is_marked(pod) or pod["spec"].get("nodeName") in nodes:
                yield pod
        return
    ordered = kind.endswith(GROUP)  # what was ordered for its nodes goes with them, as the operator has it
    for obj in client.list(kind, labels="" if ordered else LABEL):
        mine = is_marked(obj) or target_of(obj) in nodes
        if mine and not (kind.startswith("leases") and obj["metadata"]["name"] == LEASE):
            yield obj


def _remove(client: Client, kind: str, obj: Object) -> str:
    """Begin the removal of an object; gives what keeps it for now, "" for nothing."""
    metadata = obj["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    try:
        if kind == "nodes" and not is_made(obj):
            _give_back(client, obj)
            return ""
        if kind == "namespaces" and (others := others_in(client, name)):
            return f"it stays, since it has {others}, which the lab did not make"
        if not metadata.get("deletionTimestamp"):
            grace = 0 if kind == "pods" else None
            client.delete(kind, name, namespace, uid=metadata["uid"], grace=grace, propagation="Background")
        mine = [one for one in metadata.get("finalizers") or () if one in FINALIZERS]
        if mine:
            others_left = [one for one in metadata["finalizers"] if one not in FINALIZERS]
            client.patch(kind, name, {"metadata": {"uid": metadata["uid"], "finalizers": others_left}}, namespace)
    except ApiError as error:
        return "" if error.code in (404, 409) else f"{error.code} {error}"
    foreign = [one for one in metadata.get("finalizers") or () if one not in FINALIZERS]
    return f"it waits for {', '.join(foreign)}" if metadata.get("deletionTimestamp") and foreign else ""


def _give_back(client: Client, node: Object) -> None:
    """Take off a node that existed before what the lab has added."""
    metadata = node["metadata"]
    added = [one for one in (metadata.get("annotations") or {}).get(LENT, "").split(",") if one]
    labels = dict.fromkeys((*added, LABEL))
    client.patch("nodes", metadata["name"], {"metadata": {"labels": labels, "annotations": {LENT: None}}})


def others_in(client: Client, namespace: str) -> str:
    """An object in the namespace that is not the lab's, "" for none. What each namespace is given does not count, such as the
    certificates of an authority: the namespace `default` has the same."""
    given = [(one["metadata"]["name"], one.get("data")) for one in client.list("configmaps", "default")]
    for kind in _INSIDE:
        for obj in client.list(kind, namespace):
            name = obj["metadata"]["name"]
            if not is_marked(obj) and name != "kube-root-ca.crt" and (name, obj.get("data")) not in given:
                return f"{kind.partition('.')[0]} {name}"
    return ""


def _place(obj: Object) -> str:
    metadata = obj["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
