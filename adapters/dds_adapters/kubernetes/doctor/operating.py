"""Checks of the composable resource operator: what it needs of API server and role, its settings, and what waits for it.
docs/upstream.md describes its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from dds_adapters.kubernetes.cluster import Refused, listed, path_of
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.doctor.context import ExaminationContext, instant_of
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, many, note, ok, several, unknown, warning
from dds_adapters.kubernetes.doctor.guarding import detaches
from dds_adapters.kubernetes.doctor.scheduling import ends_at_a_rule
from dds_adapters.kubernetes.watch.watch_spec import DRA, VERSIONS
from dds_adapters.kubernetes.write.devices import OPERATOR_LOOK
from dds_core.kit.policy import MICROSECONDS
from dds_core.model import AttachRequest, FabricResource, model_of_device
from dds_core.scaler.state import State
from dds_core.timeline.instants import duration

MEASURED_COMMIT = "38251b7"
"""The operator's commit that dds was run with."""
NAME = "composable-resource-operator"

_RULES, _DEPLOYMENT, _RIGHTS = "taint rules", "operator deployment", "operator rights"
_QUEUE, _LOOKS, _WEBHOOK = "operator queue", "operator looks", "operator webhook"
_UNHEARD, _LONG = 60 * MICROSECONDS, 120 * MICROSECONDS
_ENOUGH = 5
"""Attaches after which the measured duration of one is used."""
_ASK = "run it once as a user who may list deployments.apps and create subjectaccessreviews.authorization.k8s.io"
_NEEDED = (
    (DRA, "devicetaintrules", ("get", "list", "watch", "create", "delete"),
     "the first detach or lost node hangs its only worker without a text, and nothing attaches any more"),
    ("", "pods", ("delete",),
     "it cannot restart the vendor's plugin: no detach ends, and a plugin that lists only at its start lists no new device"),
)  # fmt: skip
"""Rights that its roles lack, and what comes of that."""

_T = TypeVar("_T")


def _installed(context: ExaminationContext) -> bool:
    return "composableresources" in context.served(VERSIONS["composableresources"][0])


def taint_rules(context: ExaminationContext) -> Iterator[Finding]:
    """The operator makes a DeviceTaintRule in v1alpha3 at every detach, and looks for one when a node is lost."""
    if not _installed(context):
        return
    if "devicetaintrules" in context.served(f"{DRA}/v1alpha3"):
        yield ok(_RULES, "devicetaintrules are served as v1alpha3, which the operator needs to detach")
        return
    what = "devicetaintrules are not served as v1alpha3: the operator ends no detach and no clean-up of a lost node "
    what += f'(its log: no matches for kind "DeviceTaintRule" in version "{DRA}/v1alpha3")'
    mend = f"start the API server with --runtime-config={DRA}/v1alpha3/devicetaintrules=true and the feature gate "
    mend += "DRADeviceTaintRules (before 1.35: DRADeviceTaints)"
    if ends_at_a_rule(context.release()):
        mend += "; not in a kube-scheduler before 1.36.3, which exits when a slice changes while there is a rule"
    yield (error if detaches(context) or _deployments(context) else warning)(_RULES, what, mend)


# -- its Deployment ----------------------------------------------------------------------------------------------------


def deployment(context: ExaminationContext) -> Iterator[Finding]:
    """Release and settings of each Deployment of the operator."""
    if not _installed(context):
        return
    found = _deployments(context)
    if not found:
        what = "this user can see no Deployment of the operator: its settings and rights are not known"
        yield unknown(_DEPLOYMENT, what, _ASK)
    for one in found:
        yield from _settings(context, one)


def _deployments(context: ExaminationContext) -> list[Any]:
    """Those with the operator's name, label or image, as far as they may be read. Raises Unreachable."""
    return context.once("operator deployments", lambda: [one for one in _asked(context) if _is_the_operators(one)])


def _asked(context: ExaminationContext) -> Iterator[Any]:
    """By the name that its manifests give it; where there is none, every Deployment."""
    usual = path_of("deployments", "apps/v1", f"{NAME}-system", f"{NAME}-controller-manager")
    path = path_of("deployments", "apps/v1")
    with suppress(Refused):
        yield context.decoded(usual, context.get(usual))
        return
    with suppress(Refused):
        pages = listed(lambda query: context.accepted(path, context.ask("GET", path, query)), {})
        yield from map(msgspec.json.decode, pages)


def _is_the_operators(one: Any) -> bool:
    meta = one["metadata"]
    signs = (meta["name"], (meta.get("labels") or {}).get("app.kubernetes.io/name", ""))
    return any(NAME in each for each in (*signs, *(each.get("image", "") for each in _pod(one)["containers"])))


def _pod(one: Any) -> Any:
    return one["spec"]["template"]["spec"]


def _settings(context: ExaminationContext, one: Any) -> Iterator[Finding]:
    """Of the container with its image, or with the name that its manifests give it."""
    its = max(_pod(one)["containers"], key=lambda each: (NAME in each.get("image", ""), each.get("name") == "manager"))
    variables = {each["name"]: each.get("value", None if "valueFrom" in each else "") for each in its.get("env") or ()}
    form, api = (
        variables.get(key, None if its.get("envFrom") else "") for key in ("DEVICE_RESOURCE_TYPE", "FTI_CDI_API_TYPE")
    )
    what = f"{foreign(one['metadata']['name'])} runs {foreign(its.get('image', ''))}"
    if MEASURED_COMMIT in what:
        yield ok(_DEPLOYMENT, what)
    else:
        yield note(_DEPLOYMENT, f"{what}; dds was run with commit {MEASURED_COMMIT} of the operator")
    if None in (form, api):
        yield unknown(_DEPLOYMENT, "the Deployment itself does not say DEVICE_RESOURCE_TYPE or FTI_CDI_API_TYPE")
    if form not in (None, "DRA"):
        what = f"DEVICE_RESOURCE_TYPE is {foreign(form) or 'not set'}: the operator looks at no ResourceSlices"
        yield warning(_DEPLOYMENT, what, "set it to DRA")
    if api == "CM":
        what = "with CM, two attaches at once on a node order the same count: the second device comes a minute later"
        yield note(_DEPLOYMENT, what)
        yield from _surplus(context)


def rights(context: ExaminationContext) -> Iterator[Finding]:
    """Of the account of each Deployment of the operator, by SubjectAccessReviews, for all namespaces."""
    for one in _deployments(context) if _installed(context) else ():
        yield from _rights(context, one)


def _rights(context: ExaminationContext, one: Any) -> Iterator[Finding]:
    namespace, name = one["metadata"].get("namespace", ""), _pod(one).get("serviceAccountName") or "default"
    account = f"{foreign(namespace)}/{foreign(name)}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    user = {"user": f"system:serviceaccount:{namespace}:{name}", "groups": groups}

    def may(**asked: str) -> bool:
        spec = user | {"resourceAttributes": asked}
        found = context.review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", spec)
        return found.get("allowed") is True

    for group, resource, verbs, outcome in _NEEDED:
        try:
            missing = [verb for verb in verbs if not may(group=group, resource=resource, verb=verb)]
        except Refused as refused:
            yield unknown(_RIGHTS, f"what the operator's account {account} may is not told ({refused.code})", _ASK)
            return
        if missing:
            what = f"the operator's account {account} may not {', '.join(missing)} {resource}: {outcome}"
            yield error(
                _RIGHTS, what, f"give it {', '.join(verbs)} on {resource}{group and '.'}{group} by a ClusterRole"
            )
        else:
            yield ok(_RIGHTS, f"the operator's account {account} may {', '.join(verbs)} {resource}")


# -- its objects -------------------------------------------------------------------------------------------------------


def _read(context: ExaminationContext, resource: str, decoder: Callable[[bytes], _T]) -> Iterator[tuple[_T, Any]]:
    """The readable objects of one of its kinds, each also as JSON."""
    for raw in context.everything(resource) if _installed(context) else ():
        with suppress(Fault):
            yield decoder(raw), msgspec.json.decode(raw)


def _resources(context: ExaminationContext) -> Iterator[tuple[FabricResource, Any]]:
    return _read(context, "composableresources", decoding.fabric_resource)


def _requests(context: ExaminationContext) -> Iterator[tuple[AttachRequest, Counter[str]]]:
    """The requests, and how many devices each has or is to have on which node."""
    for one, raw in _read(context, "composabilityrequests", decoding.attach_request):
        planned = ((raw.get("status") or {}).get("resources") or {}).values()
        yield one, Counter({one.node: one.size} if one.node else [each.get("node_name", "") for each in planned])


def _surplus(context: ExaminationContext) -> Iterator[Finding]:
    """Nodes with more devices of a model than requests ask for: those with a resource, and those that only a driver lists."""
    config, wanted, there = context.config_or_usual(), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for request, nodes in _requests(context):
        wanted.update({(node, request.model): number for node, number in nodes.items()})
    resources = [one for one, _ in _resources(context) if one.uuid]
    there.update((one.node, one.model) for one in resources if not (one.marked or one.leaving))
    named = {one.uuid for one in resources}
    for found in context.slices():
        for device in found.devices.values() if found.node else ():
            model = model_of_device(config, found.driver, device)
            if model is not None and device.attributes.get("uuid", "") not in {*named, ""}:
                there[found.node, model.model] += 1
    for (node, name), number in sorted(there.items()):
        if number > wanted[node, name] > 0:
            has = f"{foreign(node)} has {many(number, 'device')} of {foreign(name)}"
            what = f"{has}, requests ask for {wanted[node, name]}: the counts of a CM that lists devices in progress run away"
            yield warning(_DEPLOYMENT, what, "unless some are built in, lower the count in the cluster manager")


def webhook(context: ExaminationContext) -> Iterator[Finding]:
    """Requests without a node: the webhook takes each for a request of any one node on which it has a device."""
    models = {model.model for model in context.config_or_usual().models}
    for one, nodes in _requests(context):
        if nodes and not one.node and one.model in models:
            what = f"ComposabilityRequest {foreign(one.name)} ({foreign(one.policy)}, no target_node) has devices of "
            what += f"{foreign(one.model)} on {several(map(foreign, nodes))}: the operator's webhook refuses other requests of "
            what += "the model for these nodes at random" if len(nodes) > 1 else "the model for this node"
            yield warning(_WEBHOOK, what, "replace it by a request with target_node for each of these nodes")


def queue(context: ExaminationContext, state: State | None) -> Iterator[Finding]:
    """What waits for the operator's only worker; how long, if the scaler has measured enough attaches."""
    found = (one for one, _ in _resources(context) if not one.uuid and not one.leaving)
    coming = sorted((one for one in found if one.state in ("", "Attaching")), key=lambda one: one.created)
    if not coming:
        return
    age = max(context.now() - coming[0].created, 0)
    what = f"one worker attaches one device after the other; {len(coming)} {'is' if len(coming) == 1 else 'are'} not there yet, "
    what += f"the oldest ({foreign(coming[0].name)}) for {duration(age)}"
    rate = state.fleet.rates.get("") if state is not None else None
    left = round(rate.service * len(coming) * MICROSECONDS) if rate is not None and rate.count >= _ENOUGH else 0
    what += f"; at the measured pace the last one comes in {duration(left)}" if left else ""
    if max(age, left) < _LONG:
        yield note(_QUEUE, what)
    else:
        mend = "see status.error of the oldest and the operator's log; compare the wait with the schedulers' bindingTimeout"
        yield warning(_QUEUE, what, mend)


def looks(context: ExaminationContext) -> Iterator[Finding]:
    """Resources that the operator was asked to look at over a minute ago, and that wait though their device is listed."""
    there = {(one.node, each.attributes.get("uuid")) for one in context.slices() for each in one.devices.values()}
    unheard = []
    for one, raw in _resources(context):
        asked = instant_of((raw["metadata"].get("annotations") or {}).get(OPERATOR_LOOK))
        if asked is not None and context.now() - asked > _UNHEARD and one.state == "Attaching" and one.uuid:
            unheard += [one.name] * ((one.node, one.uuid) in there)
    if unheard:
        what = f"the operator does not react to a change of its objects: {several(map(foreign, unheard))} stay in Attaching, "
        what += f"though a driver lists their device and {OPERATOR_LOOK} was written over a minute ago"
        yield warning(
            _LOOKS, what, "see by its log whether its only worker hangs or a slow attach keeps it; restart it"
        )
