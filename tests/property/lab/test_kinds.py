"""Whatever is sent, a kind answers: with an object, with causes, or with a bad request, and never with a crash."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dds_lab import crds
from dds_lab.api.custom import Custom, resources_of
from dds_lab.api.registry import Registry
from dds_lab.api.status import ApiError
from dds_lab.api.strategies import Strategy
from tests.lab.kinds.kinds import Object, allocated, pod, registry, request, resource_slice

KNOWN: Registry = registry("1.36", DRAListTypeAttributes=True)

SHARED = {
    "bandwidth": {
        "value": "10Gi",
        "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "1Gi"}},
    }
}
META = {"name": "x", "namespace": "default", "labels": {"a": "b"}, "finalizers": ["a.com/b"]}
OWNED = {**META, "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}]}
CLUSTER = {key: value for key, value in META.items() if key != "namespace"}
SUBJECTS = [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}, {"kind": "User", "name": "u"}]

EXAMPLES: dict[str, Object] = {
    "resourceclaims": allocated(),
    "resourceclaimtemplates": {
        "metadata": META,
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": allocated()["spec"]},
    },
    "resourceslices": resource_slice(
        allowMultipleAllocations=True,
        capacity=SHARED,
        attributes={"type": {"string": "gpu"}, "n": {"ints": [1]}},
        taints=[{"key": "k", "effect": "NoSchedule"}],
        consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
        bindingConditions=["A"],
        bindingFailureConditions=["B"],
    ),
    "deviceclasses": {
        "metadata": CLUSTER,
        "spec": {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [{"opaque": {"driver": "d.com", "parameters": {"a": 1}}}],
            "extendedResourceName": "a.com/gpu",
        },
    },
    "devicetaintrules": {
        "metadata": CLUSTER,
        "spec": {
            "deviceSelector": {"driver": "d.com", "pool": "p", "device": "d"},
            "taint": {"key": "k", "effect": "None"},
        },
        "status": {
            "conditions": [{"type": "T", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        },
    },
    "pods": {
        **pod(),
        "spec": {
            **pod()["spec"],
            "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "nodeSelector": {"a": "b"},
            "schedulingGates": [{"name": "g"}],
        },
        "status": {"conditions": [{"type": "T", "status": "True"}], "resourceClaimStatuses": [{"name": "gpu"}]},
    },
    "nodes": {
        "metadata": CLUSTER,
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "providerID": "x"},
        "status": {
            "capacity": {"cpu": "1"},
            "addresses": [{"type": "A", "address": "b"}],
            "conditions": [{"type": "Ready"}],
        },
    },
    "namespaces": {"metadata": CLUSTER, "spec": {"finalizers": ["kubernetes"]}},
    "configmaps": {"metadata": OWNED, "data": {"a": "b"}, "binaryData": {"c": "AAE="}, "immutable": True},
    "secrets": {"metadata": OWNED, "data": {"a": "AAE="}, "stringData": {"b": "c"}, "type": "Opaque"},
    "serviceaccounts": {"metadata": META, "secrets": [{"name": "s"}]},
    "leases": {"metadata": META, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1}},
    "events": {"metadata": META, "involvedObject": {"namespace": "default"}, "source": {"component": "c"}, "count": 1},
    "clusterroles": {"metadata": CLUSTER, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "rolebindings": {"metadata": META, "roleRef": {"kind": "Role", "name": "r"}, "subjects": SUBJECTS},
    "customresourcedefinitions": crds.COMPOSABILITY_REQUESTS,
    "composabilityrequests": {**request(), "status": {"state": "", "resources": {"a": {"state": "Online"}}}},
}

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["1Gi", "true", "a.com/b", "2026-01-01T00:00:00Z", "NoExecute", "x" * 300])
)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every position below the root."""
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += places(part, (*at, key))
    return found


def with_value(obj: Object, at: tuple[Any, ...], value: Any) -> Object:
    made = copy.deepcopy(obj)
    inner: Any = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return made


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, Object]:
    """An object of some kind with one or two of its values replaced by anything."""
    plural = draw(st.sampled_from(sorted(EXAMPLES)))
    obj = EXAMPLES[plural]
    for _ in range(draw(st.integers(1, 2))):
        where = places(obj)
        if where:
            obj = with_value(obj, draw(st.sampled_from(where)), draw(anything))
    return plural, obj


def store(strategy: Strategy, body: Object) -> Object | None:
    """What becomes of a creation: the object, or nothing when it is refused."""
    try:
        decoded, unknown = strategy.decode(body)
    except ApiError as refused:
        assert refused.code == 400
        return None
    assert all(isinstance(path, str) for path in unknown)
    if not isinstance(decoded.get("metadata"), dict):
        return None
    made = strategy.admitted(strategy.for_create(strategy.to_storage(decoded)))
    return None if strategy.check_create(made) else made


@settings(max_examples=300)
@given(damaged())
def test_creations_are_answered(given: tuple[str, Object]) -> None:
    plural, body = given
    strategy = KNOWN.strategy(KNOWN.named(plural))
    before = copy.deepcopy(body)
    made = store(strategy, body)
    assert repr(body) == repr(before), "the body was changed"
    if made is not None:
        shown = strategy.from_storage(made)
        again, unknown = strategy.decode(shown)
        assert (again, unknown) == (shown, []), "what is stored is what is understood"
        assert all(isinstance(value, str) for value in strategy.selectable(made).values())
        if plural == "customresourcedefinitions":
            for resource, version in resources_of(made):
                Custom(resource, version).decode({"metadata": {}, "spec": {"resource": {}}})


@settings(max_examples=300)
@given(damaged(), st.booleans())
def test_updates_are_answered_and_touch_only_their_part(given: tuple[str, Object], of_status: bool) -> None:
    plural, body = given
    resource = KNOWN.named(plural)
    strategy = KNOWN.strategy(resource)
    old = store(strategy, EXAMPLES[plural])
    assert old is not None
    subresource = "status" if of_status and "status" in resource.subresources else ""
    try:
        decoded, _ = strategy.decode(body, old)
    except ApiError as refused:
        assert refused.code == 400
        return
    if not isinstance(decoded.get("metadata"), dict):
        return
    new = strategy.for_update(strategy.to_storage(decoded), old, subresource)
    strategy.check_update(new, old, subresource)
    strategy.granular(new, old, subresource, "update")
    if subresource:
        assert new.get("spec") == old.get("spec")
    elif "status" in resource.subresources and not resource.plural.startswith("customresource"):
        assert new.get("status") == old.get("status")


def test_the_examples_are_acceptable() -> None:
    for plural, example in EXAMPLES.items():
        assert store(KNOWN.strategy(KNOWN.named(plural)), example) is not None, plural
