"""One of each kind of write, in the order of a claim's life, against the lab's API server.

live_through(stage, carry)     # `carry` carries a write out and says what became of it
snapshot(stage)                # what is there afterwards, without what each run numbers anew
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.watch.delta_queue import DeltaQueue
from dds_adapters.kubernetes.write.conditions import CLAIMS, Signalled, SteerPod, TellClaims, Telling
from dds_adapters.kubernetes.write.devices import LabelNode, MarkVictim, StampUse, UnmarkVictim
from dds_adapters.kubernetes.write.events import Regarding, TellPeople
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.pods import ask_pod
from dds_adapters.kubernetes.write.requests import LowerRequest, RaiseRequest, StampEpoch
from dds_adapters.kubernetes.write.tasks import Done, Result, Write
from dds_core.scaler.events import Entry
from tests.support.written_objects import GPU, POOL, REQUEST, RESCHEDULE, RESOURCE, WrittenObjects, uid_of

WHEN = "2026-01-02T03:04:05Z"
RULES = "devicetaintrules"

Carry = Callable[[Write], Result]


def live_through(stage: WrittenObjects, carry: Carry) -> None:
    """Each write in turn; every one is to end with Done."""

    def done(write: Write) -> None:
        result = carry(write)
        assert isinstance(result, Done), (write, result)

    _attach(stage, done)
    _hand_over(stage, done)
    _detach(stage, done)
    about = Regarding("ResourceClaim", CLAIMS, "c", "u", "default")
    done(TellPeople(about, "DeviceAttached", "Attach", "words", "Normal", 1_000_000, "dds-1"))


def _order(size: int, previous: int | None, uid: str) -> RaiseRequest:
    return RaiseRequest("dds-r", uid, "gpu", "A100 40G", "node0", size, previous, "cohdi.io/epoch", 1)


def _attach(stage: WrittenObjects, done: Callable[[Write], None]) -> None:
    done(_order(1, None, ""))
    request = uid_of(stage.get(REQUEST, "dds-r"))
    done(_order(2, 1, request))
    done(StampEpoch("dds-r", request, "cohdi.io/epoch", 2))
    done(LabelNode("node0", uid_of(stage.node("node0")), (("cohdi.io/x", "true"),)))


def _hand_over(stage: WrittenObjects, done: Callable[[Write], None]) -> None:
    signalled = [_signalled(stage, name, f"dev-{name}") for name in ("c", "d")]
    done(TellClaims(tuple(telling for telling, _ in signalled), WHEN))
    pod = Ref("pods", "p", "default", uid_of(stage.pod("p", "SchedulerError")))
    done(SteerPod(pod, "node0", tuple(one for _, one in signalled)))
    done(ask_pod("default", "p", pod.uid, DeltaQueue()))


def _signalled(stage: WrittenObjects, name: str, device: str) -> tuple[Telling, Signalled]:
    made = stage.allocated(name, device)
    reader = stage.as_user("reader", "system:masters")
    allocation = decoding.claim(
        reader.ask("GET", f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}").body
    ).allocation
    assert allocation is not None
    ref = Ref(CLAIMS, name, "default", uid_of(made))
    entry = Entry(GPU, POOL, device, RESCHEDULE, "DeviceAttached", "")
    return Telling(ref, allocation, (entry,)), Signalled(ref, allocation, frozenset({(GPU, POOL, device)}))


def _detach(stage: WrittenObjects, done: Callable[[Write], None]) -> None:
    victim, other = (uid_of(stage.resource(name, "dds-r")) for name in ("a", "b"))
    request = stage.get(REQUEST, "dds-r")
    acted = {"status": {"state": "Running", "scalarResource": request["spec"]["resource"]}}
    stage.edit(REQUEST, "dds-r", acted, subresource="status")
    done(MarkVictim("a", victim, "GPU-a"))
    done(LowerRequest("dds-r", uid_of(request), 1, 2, frozenset({victim})))
    done(UnmarkVictim("a", victim))
    done(StampUse("b", other, WHEN))


def snapshot(stage: WrittenObjects) -> dict[str, Any]:
    """By resource and name what writers leave there."""
    found: dict[str, Any] = {}
    for resource in (REQUEST, RESOURCE, RULES, "nodes", "pods", CLAIMS, "events.events.k8s.io"):
        for one in stage.admin.list(resource):
            meta = one["metadata"]
            kept = {key: meta.get(key) for key in ("labels", "annotations")}
            found[f"{resource}/{meta['name']}"] = (kept, one.get("spec"), one.get("status"), one.get("reason"))
    return found
