"""Every kind of write with exactly the scaler's role, and not one request more than it allows."""

from __future__ import annotations

from dds_adapters.kubernetes import decode, rbac
from dds_adapters.kubernetes.arrivals import Arrivals
from dds_adapters.kubernetes.writer.conditions import CLAIMS, TellClaims, Telling
from dds_adapters.kubernetes.writer.events import Regarding, TellPeople
from dds_adapters.kubernetes.writer.labels import LabelNode
from dds_adapters.kubernetes.writer.live_object import Ref
from dds_adapters.kubernetes.writer.pods import ask_pod
from dds_adapters.kubernetes.writer.requests import LowerRequest, RaiseRequest, StampEpoch
from dds_adapters.kubernetes.writer.stamps import StampUse
from dds_adapters.kubernetes.writer.steering import Signalled, SteerPod
from dds_adapters.kubernetes.writer.tasks import Declined, Done, Work
from dds_adapters.kubernetes.writer.victims import LiftTaint, MarkVictim, UnmarkVictim, rule_name
from dds_adapters.lab.direct import Direct
from dds_core.events import Entry
from tests.support.stage import GPU, POOL, REQUEST, RESCHEDULE, Stage, uid_of

WHEN = "2026-01-02T03:04:05Z"
KEY = (GPU, "node0", "gpu-0")


def signalled(stage: Stage) -> Telling:
    made = stage.allocated("c")
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
    allocation = decode.claim(stage.writer.ask("GET", path).body).allocation
    entry = Entry(GPU, POOL, "dev-0", RESCHEDULE, "DeviceAttached", "")
    return Telling(Ref(CLAIMS, "c", "default", uid_of(made)), allocation, (entry,))


def role_of(stage: Stage, powers: rbac.Powers = rbac.EVERYTHING) -> Direct:
    return stage.grant("dds", rbac.cluster_role(powers))


def test_every_kind_of_write_is_allowed() -> None:
    stage = Stage()
    dds = role_of(stage)

    def done(work: Work) -> None:
        result = work.carry_out(dds, stage.versions)
        assert isinstance(result, Done), (work, result)

    def order(size: int, previous: int | None, uid: str) -> RaiseRequest:
        return RaiseRequest("dds-r", uid, "gpu", "A100 40G", "node0", size, previous, "cohdi.io/epoch", 1)

    done(order(1, None, ""))
    request = uid_of(stage.get(REQUEST, "dds-r"))
    done(order(2, 1, request))
    done(StampEpoch("dds-r", request, "cohdi.io/epoch", 2))

    telling = signalled(stage)
    assert telling.allocation is not None
    done(TellClaims((telling,), WHEN))
    pod = Ref("pods", "p", "default", uid_of(stage.pod("p", "SchedulerError")))
    done(SteerPod(pod, "node0", (Signalled(telling.ref, telling.allocation, frozenset({(GPU, POOL, "dev-0")})),)))
    done(ask_pod("default", "p", pod.uid, Arrivals()))
    done(LabelNode("node0", uid_of(stage.node("node0")), (("cohdi.io/x", "true"),)))

    victim, other = (uid_of(stage.resource(name, "dds-r")) for name in ("a", "b"))
    wanted = stage.get(REQUEST, "dds-r")["spec"]["resource"]
    stage.edit(REQUEST, "dds-r", {"status": {"state": "Running", "scalarResource": wanted}}, subresource="status")
    done(MarkVictim("a", victim, "GPU-a", KEY, True, "cohdi.io/detach"))
    done(LowerRequest("dds-r", request, 1, 2, frozenset({victim})))
    done(LiftTaint(rule_name("a", KEY), uid_of(stage.admin.list("devicetaintrules")[0])))
    done(UnmarkVictim("a", victim))
    done(StampUse("b", other, WHEN))
    about = Regarding("ResourceClaim", CLAIMS, "c", "u", "default")
    done(TellPeople(about, "DeviceAttached", "Attach", "words", "Normal", 1_000_000, "dds-1"))


def test_a_power_that_is_off_declines_its_writes_in_one_line() -> None:
    stage = Stage()
    dds = role_of(stage, rbac.Powers(taint_rules=False))
    mark = MarkVictim("a", uid_of(stage.resource("a")), "GPU-a", KEY, True, "cohdi.io/detach")
    result = mark.carry_out(dds, stage.versions)
    assert isinstance(result, Declined) and (result.code, result.reason) == (403, "Forbidden")
    assert "devicetaintrules" in result.text and "\n" not in result.text
    assert stage.admin.list("devicetaintrules") == []
