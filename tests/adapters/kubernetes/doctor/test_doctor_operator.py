"""What the doctor says of the composable resource operator: its API, rights, settings, and what waits for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.doctor import Examined, Finding, examine, operating
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.write.devices import OPERATOR_LOOK
from dds_core.scaler.model import Rate
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State
from dds_core.timeline.instants import rfc3339
from dds_lab.driver import Direct
from tests.support.doctor_lab import WHERE, DoctorLab, levels, worst

SPACE = "composable-resource-operator-system"
NAME = "composable-resource-operator-controller-manager"
ACCOUNT = "composable-resource-operator-controller-manager"
CRO = "cro.hpsys.ibm.ie.com/v1alpha1"
RBAC = "rbac.authorization.k8s.io"
SECOND = 1_000_000
A100 = "A100 40G"
Object = dict[str, Any]
DETACH = Policy(mode="detach")
ALPHA: Object = {"taint_rules": "resource.k8s.io/v1alpha3"}
FM = {"DEVICE_RESOURCE_TYPE": "DRA", "FTI_CDI_API_TYPE": "FM", "FTI_CDI_ENDPOINT": "canary"}
CM = FM | {"FTI_CDI_API_TYPE": "CM"}


def deployment(image: str = "example/composable-resource-operator:38251b7", env: Object = FM, **more: Any) -> Object:
    """The operator's, beside a proxy. A variable that is None is kept in a ConfigMap."""
    variables = [
        {"name": name, "value": value} if value is not None else {"name": name, "valueFrom": {"configMapKeyRef": {}}}
        for name, value in env.items()
    ]
    proxy, manager = {"name": "proxy", "image": "example/proxy:1"}, {"name": "manager", "image": image}
    spec = {"containers": [proxy, manager | {"env": variables} | more], "serviceAccountName": ACCOUNT}
    return {"metadata": {"name": NAME, "namespace": SPACE}, "spec": {"template": {"spec": spec}}}


class WithOperator(Direct):
    """The lab's API server has no Deployments; this one has these, the operator's under its usual name if `usual`."""

    usual = True
    code = 0
    deployments: tuple[Object, ...] = ()

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        if "deployments" not in path:
            return super().ask(method, path, **more)
        if self.code:
            return Answer(self.code, b"{}")
        if path == "/apis/apps/v1/deployments":
            return Answer(200, json.dumps({"metadata": {}, "items": self.deployments}).encode())
        found = [one for one in self.deployments if self.usual and path.endswith(f"/{SPACE}/deployments/{NAME}")]
        return Answer(200, json.dumps(found[0]).encode()) if found else Answer(404, b"{}")


class Server(WithOperator):
    where = WHERE


def context(clinic: DoctorLab, *found: Object, code: int = 0, usual: bool = True, **more: Any) -> ExaminationContext:
    api = WithOperator(clinic.lab.server, "admin")
    api.deployments, api.code, api.usual = found, code, usual
    return ExaminationContext(api, WHERE, clinic.lab.time.now, **more)


@pytest.fixture(scope="module")
def sound() -> DoctorLab:
    return DoctorLab(seconds=0, **ALPHA)


# -- what it needs of the API server -----------------------------------------------------------------------------------


def test_taint_rules_that_the_operator_can_make(sound: DoctorLab) -> None:
    assert levels(sound.look(operating.taint_rules, policy=DETACH)) == ["ok"]


@pytest.mark.parametrize("served", ["none", "resource.k8s.io/v1beta2"])
def test_no_detach_ends_without_taint_rules_in_its_version(served: str) -> None:
    clinic = DoctorLab(seconds=0, version="1.36.3", taint_rules=served)
    (found,) = clinic.look(operating.taint_rules, policy=DETACH)
    assert found.level == "error"
    assert 'no matches for kind "DeviceTaintRule" in version "resource.k8s.io/v1alpha3"' in found.what
    assert "--runtime-config=resource.k8s.io/v1alpha3/devicetaintrules=true" in found.mend
    assert "DRADeviceTaintRules" in found.mend and "kube-scheduler" not in found.mend


def test_where_rules_end_the_scheduler_that_is_said_too() -> None:
    clinic = DoctorLab(seconds=0, version="1.36", taint_rules="none")
    (found,) = clinic.look(operating.taint_rules, policy=DETACH)
    assert "not in a kube-scheduler before 1.36.3, which exits" in found.mend


def test_before_anything_is_detached_an_operator_that_is_not_seen_is_only_warned_of() -> None:
    clinic = DoctorLab(seconds=0, taint_rules="none")
    assert levels(clinic.look(operating.taint_rules, policy=Policy(mode="attach"))) == ["warning"]
    assert levels(operating.taint_rules(context(clinic, deployment()))) == ["error"]


CHECKS: list[Callable[[ExaminationContext], Iterable[Finding]]] = [
    operating.taint_rules,
    operating.deployment,
    operating.rights,
    operating.webhook,
    operating.looks,
    lambda context: operating.queue(context, None),
]


@pytest.mark.parametrize("check", CHECKS)
def test_without_the_operators_kinds_nothing_is_said(check: Callable[..., Any], sound: DoctorLab) -> None:
    bare = sound.context()
    bare.once("served cro.hpsys.ibm.ie.com/v1alpha1", lambda: frozenset[str]())
    assert list(check(bare)) == []


# -- its Deployment ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 403, 404])
def test_an_operator_that_is_not_to_be_seen(code: int, sound: DoctorLab) -> None:
    other = deployment("example/web")
    other["metadata"]["name"] = "web"
    (found,) = operating.deployment(context(sound, other, code=code, usual=False))
    assert found.level == "unknown" and "can see no Deployment of the operator" in found.what
    assert "list deployments.apps" in found.mend and "create subjectaccessreviews" in found.mend


@pytest.mark.parametrize("usual", [True, False])
def test_the_release_that_was_measured(usual: bool, sound: DoctorLab) -> None:
    found = list(operating.deployment(context(sound, deployment(), usual=usual)))
    assert [(one.level, one.what) for one in found] == [
        ("ok", f"{NAME} runs example/composable-resource-operator:38251b7")
    ]


def test_another_release_is_noted(sound: DoctorLab) -> None:
    (found,) = operating.deployment(context(sound, deployment("controller@sha256:abc"), usual=True))
    assert found.level == "note" and "dds was run with commit 38251b7" in found.what


@pytest.mark.parametrize("form", ["DEVICE_PLUGIN", ""])
def test_an_operator_that_does_not_serve_dra(form: str, sound: DoctorLab) -> None:
    found = list(operating.deployment(context(sound, deployment(env=FM | {"DEVICE_RESOURCE_TYPE": form}))))
    (said,) = [one for one in found if one.level == "warning"]
    assert said.mend == "set it to DRA" and (form or "not set") in said.what


def test_settings_that_are_kept_elsewhere(sound: DoctorLab) -> None:
    for one in (
        deployment(env=FM | {"DEVICE_RESOURCE_TYPE": None}),
        deployment(env={}, envFrom=[{"configMapRef": {}}]),
    ):
        found = list(operating.deployment(context(sound, one)))
        assert levels(found) == ["ok", "unknown"]


def test_no_value_of_another_variable_is_shown(sound: DoctorLab) -> None:
    found = list(operating.deployment(context(sound, deployment())))
    assert found and "canary" not in str(found)


# -- its rights --------------------------------------------------------------------------------------------------------


def allowed(clinic: DoctorLab, *rules: tuple[str, str, list[str]]) -> None:
    made = [{"apiGroups": [group], "resources": [resource], "verbs": verbs} for group, resource, verbs in rules]
    clinic.admin.create("clusterroles", {"metadata": {"name": "operator"}, "rules": made})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SPACE}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "operator"}
    clinic.admin.create(
        "clusterrolebindings", {"metadata": {"name": "operator"}, "roleRef": role, "subjects": [subject]}
    )


RULES = ("resource.k8s.io", "devicetaintrules", ["get", "list", "watch", "create", "delete"])
PODS = ("", "pods", ["get", "list", "watch", "delete"])


def test_rights_that_are_there() -> None:
    clinic = DoctorLab(seconds=0, **ALPHA)
    allowed(clinic, RULES, PODS)
    assert levels(list(operating.rights(context(clinic, deployment())))) == ["ok", "ok"]


def test_rights_that_its_own_role_lacks() -> None:
    clinic = DoctorLab(seconds=0, **ALPHA)
    allowed(clinic, ("", "pods", ["get", "list", "watch"]))
    rules, pods = list(operating.rights(context(clinic, deployment())))
    assert (rules.level, pods.level) == ("error", "error")
    assert f"{SPACE}/{ACCOUNT} may not get, list, watch, create, delete devicetaintrules" in rules.what
    assert "nothing attaches any more" in rules.what
    assert rules.mend == "give it get, list, watch, create, delete on devicetaintrules.resource.k8s.io by a ClusterRole"
    assert "may not delete pods" in pods.what and pods.mend == "give it delete on pods by a ClusterRole"


def test_rights_of_groups_of_accounts_count() -> None:
    clinic = DoctorLab(seconds=0, **ALPHA)
    made = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    clinic.admin.create("clusterroles", {"metadata": {"name": "all"}, "rules": made})
    subject = {"kind": "Group", "apiGroup": RBAC, "name": f"system:serviceaccounts:{SPACE}"}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "all"}
    clinic.admin.create("clusterrolebindings", {"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]})
    assert levels(list(operating.rights(context(clinic, deployment())))) == ["ok", "ok"]


def test_who_may_not_ask_for_others_says_so() -> None:
    clinic = DoctorLab(seconds=0, **ALPHA)
    asking = context(clinic, deployment())
    who = clinic.with_role(without=["subjectaccessreviews"])
    api = WithOperator(clinic.lab.server, who["user"], who["groups"])
    api.deployments = (deployment(),)
    asking.api = api
    (found,) = list(operating.rights(asking))
    assert found.level == "unknown" and "403" in found.what and "subjectaccessreviews" in found.mend


# -- requests and resources --------------------------------------------------------------------------------------------


def requested(clinic: DoctorLab, name: str, *places: str, node: str = "", size: int = 1, model: str = A100) -> None:
    policy = "samenode" if node else "differentnode"
    resource = {"type": "gpu", "model": model, "size": size, "allocation_policy": policy, "target_node": node}
    clinic.admin.create("composabilityrequests", _object("ComposabilityRequest", name, {"resource": resource}))
    planned = {f"gpu-{at}": {"state": "Online", "node_name": at} for at in places}
    clinic.admin.patch("composabilityrequests", name, {"status": {"resources": planned}}, subresource="status")


def attached(clinic: DoctorLab, name: str, uuid: str = "", state: str = "Attaching", look: int | None = None) -> None:
    """A resource on node0000; `look`: the seconds since dds asked for a look."""
    made = _object("ComposableResource", name, {"type": "gpu", "model": A100, "target_node": "node0000"})
    if look is not None:
        at = rfc3339(clinic.lab.time.now() - look * SECOND)
        made["metadata"]["annotations"] = {OPERATOR_LOOK: at}
    clinic.admin.create("composableresources", made)
    status = {"state": state} | ({"device_id": uuid} if uuid else {})
    clinic.admin.patch("composableresources", name, {"status": status}, subresource="status")


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": CRO, "kind": kind, "metadata": {"name": name}, "spec": spec}


def listed(clinic: DoctorLab, *uuids: str, node: str = "node0000", driver: str = "gpu.nvidia.com") -> None:
    """The node's driver lists these devices too."""
    models = clinic.context().config_or_usual().models
    wanted = next(one.attributes for one in models if one.model == A100)
    attributes = {key: {"string": str(value)} for key, value in wanted.items() if value}
    devices = [{"name": one.lower(), "attributes": attributes | {"uuid": {"string": one}}} for one in uuids]
    pool = {"name": f"{node}-more", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    clinic.admin.create("resourceslices", {"metadata": {"name": f"{node}-more"}, "spec": spec})


def test_a_request_of_another_that_stops_ours_at_random() -> None:
    clinic = DoctorLab(seconds=0)
    requested(clinic, "everywhere", "node0000", "node0001", size=2)
    requested(clinic, "dds-1", node="node0000", model="H100 80G")
    (found,) = clinic.look(operating.webhook)
    assert found.level == "warning"
    assert found.what == (
        "ComposabilityRequest everywhere (differentnode, no target_node) has devices of A100 40G on node0000, node0001: the "
        "operator's webhook refuses other requests of the model for these nodes at random"
    )
    assert "target_node" in found.mend


def test_requests_that_stop_nobody() -> None:
    clinic = DoctorLab(seconds=0)
    requested(clinic, "of-no-node", size=0)
    requested(clinic, "of-no-model-of-ours", "node0000", model="L4")
    requested(clinic, "of-one-node", node="node0000")
    assert clinic.look(operating.webhook) == []


def test_a_request_on_one_node_stops_every_other() -> None:
    clinic = DoctorLab(seconds=0)
    requested(clinic, "one", "node0001")
    (found,) = clinic.look(operating.webhook)
    assert found.what.endswith("refuses other requests of the model for this node")


def measured(service: float, count: int) -> State:
    state = State()
    state.fleet.rates.put("", Rate(service, count))
    return state


def test_what_waits_for_the_only_worker() -> None:
    clinic = DoctorLab(seconds=0)
    for number in range(2):
        attached(clinic, f"gpu-{number}")
    attached(clinic, "gpu-there", "GPU-1")
    attached(clinic, "gpu-online", "GPU-2", state="Online")
    ahead = clinic.context(skew=90 * SECOND)
    (found,) = operating.queue(ahead, None)
    assert found.level == "note"
    said = "one worker attaches one device after the other; 2 are not there yet, the oldest (gpu-0) for 1 min 30 s"
    assert found.what == said
    (late,) = operating.queue(clinic.context(skew=150 * SECOND), measured(40, 4))
    assert late.level == "warning" and "measured" not in late.what and "bindingTimeout" in late.mend


def test_the_wait_at_the_measured_pace() -> None:
    clinic = DoctorLab(seconds=0)
    for number in range(7):
        attached(clinic, f"gpu-{number}")
    (found,) = operating.queue(clinic.context(), measured(40, 5))
    assert found.level == "warning"
    assert found.what.endswith("; at the measured pace the last one comes in 4 min 40 s")


def test_a_whole_examination_looks_at_the_operator_too() -> None:
    clinic = DoctorLab(seconds=0)
    attached(clinic, "gpu-0")
    server = Server(clinic.lab.server, "admin")
    asked = Examined(connect=lambda: server, policy=Policy, journal=None, now=clinic.lab.time.now)
    assert {"taint rules", "operator deployment", "operator queue"} <= {one.check for one in examine(asked)}


def test_nothing_waits(sound: DoctorLab) -> None:
    assert list(operating.queue(sound.context(), None)) == []


def test_a_look_that_nobody_takes() -> None:
    clinic = DoctorLab(seconds=0)
    listed(clinic, "GPU-1", "GPU-2", "GPU-3")
    attached(clinic, "gpu-unheard", "GPU-1", look=70)
    attached(clinic, "gpu-just-asked", "GPU-2", look=50)
    attached(clinic, "gpu-never-asked", "GPU-3")
    attached(clinic, "gpu-online", "GPU-3", state="Online", look=70)
    attached(clinic, "gpu-unlisted", "GPU-4", look=70)
    (found,) = clinic.look(operating.looks)
    assert found.level == "warning"
    assert "does not react to a change of its objects: gpu-unheard stay in Attaching" in found.what


# -- CM ----------------------------------------------------------------------------------------------------------------


def surplus(clinic: DoctorLab, env: Object = CM) -> list[str]:
    return worst(list(operating.deployment(context(clinic, deployment(env=env)))), "warning")


def test_counts_that_run_away() -> None:
    clinic = DoctorLab(seconds=0)
    requested(clinic, "dds-1", node="node0000", size=2)
    attached(clinic, "gpu-1", "GPU-1", state="Online")
    listed(clinic, "GPU-1", "GPU-2")
    assert surplus(clinic) == []
    attached(clinic, "gpu-3", "GPU-3")
    (what,) = surplus(clinic)
    assert what.startswith("node0000 has 3 devices of A100 40G, requests ask for 2: the counts of a CM")
    assert surplus(clinic, FM) == []
    clinic.admin.patch(
        "composableresources", "gpu-3", {"metadata": {"annotations": {"cohdi.io/delete-device": "true"}}}
    )
    assert surplus(clinic) == []
    attached(clinic, "gpu-4", "GPU-4", state="Detaching")
    assert surplus(clinic) == []


def test_devices_that_nobody_asked_for_are_built_in() -> None:
    clinic = DoctorLab(seconds=0)
    listed(clinic, "GPU-1", "GPU-2")
    assert surplus(clinic) == []


def test_with_cm_the_second_of_two_attaches_waits(sound: DoctorLab) -> None:
    found = list(operating.deployment(context(sound, deployment(env=CM))))
    assert levels(found) == ["ok", "note"] and "order the same count" in found[1].what
