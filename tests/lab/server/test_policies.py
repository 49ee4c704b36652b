"""ValidatingAdmissionPolicies: stored like other kinds, refused where they cannot work, asked of every write that they mean."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab.api.kinds import Object
from dds_lab.api.verdicts import Denied
from tests.lab.server.rooms import CLAIMS, Room, claim, pod

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DRY = {"dryRun": "All"}
ON_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


@pytest.fixture
def room() -> Room:
    return Room()


def spec(*expressions: str, rules: Any = (ON_MAPS,), **more: Any) -> Object:
    """Of a policy on ConfigMaps, unless told otherwise."""
    validations = [{"expression": each} for each in expressions]
    return {"matchConstraints": {"resourceRules": list(rules)}, "validations": validations, **more}


def policy(given: Object, name: str = "p") -> Object:
    return {"metadata": {"name": name}, "spec": given}


def binding(name: str = "b", to: str = "p", **more: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"policyName": to, "validationActions": ["Deny"], **more}}


def install(room: Room, given: Object, **more: Any) -> None:
    for path, body in ((POLICIES, policy(given)), (BINDINGS, binding(**more))):
        code, answer = room.http("POST", path, body)
        assert code == 201, answer


def config(name: str = "c", data: Object | None = None, **meta: Any) -> Object:
    return {"metadata": {"name": name, **meta}, "data": data or {}}


def wrote(room: Room, name: str = "c", **meta: Any) -> tuple[int, str]:
    """A ConfigMap made, as a dry run: the code, and why not."""
    code, answer = room.http("POST", MAPS, config(name, **meta), params=DRY)
    return code, answer.get("message", "")


def test_a_refusal_is_told_as_a_real_server_tells_it(room: Room) -> None:
    install(room, spec("false"))
    words = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: false"
    code, answer = room.http("POST", MAPS, config())
    assert (code, answer) == (
        422,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'configmaps "c" is forbidden: {words}',
            "reason": "Invalid",
            "details": {"name": "c", "kind": "configmaps", "causes": [{"message": words}]},
            "code": 422,
        },
    )


# -- what counts when


def test_a_policy_counts_with_its_binding_and_as_it_is_now(room: Room) -> None:
    code, made = room.http("POST", POLICIES, policy(spec("false", variables=[])))
    assert (code, made["metadata"]["generation"], made["spec"]["failurePolicy"]) == (201, 1, "Fail")
    assert made["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent"
    assert made["spec"]["matchConstraints"]["resourceRules"][0]["scope"] == "*"
    assert wrote(room)[0] == 201
    room.http("POST", BINDINGS, binding())
    assert wrote(room)[0] == 422
    code, made = room.http("PATCH", f"{POLICIES}/p", {"spec": {"validations": [{"expression": "true"}]}})
    assert (code, made["metadata"]["generation"]) == (200, 2)
    assert wrote(room)[0] == 201
    room.http("PATCH", f"{POLICIES}/p", {"spec": {"validations": [{"expression": "false"}]}})
    assert wrote(room)[0] == 422
    room.http("DELETE", f"{POLICIES}/p")
    assert wrote(room)[0] == 201, "a binding without a policy says nothing"


def test_policies_are_kinds_like_others(room: Room) -> None:
    install(room, spec("true"))
    code, listed = room.http("GET", POLICIES)
    assert (code, listed["kind"]) == (200, "ValidatingAdmissionPolicyList")
    kinds = [each["name"] for each in room.http("GET", GROUP)[1]["resources"]]
    assert kinds == [
        "validatingadmissionpolicies",
        "validatingadmissionpolicies/status",
        "validatingadmissionpolicybindings",
    ]


@pytest.mark.parametrize("actions", [["Warn"], ["Audit"], ["Warn", "Audit"]], ids=str)
def test_only_the_action_deny_denies(room: Room, actions: list[str]) -> None:
    install(room, spec("false"), validationActions=actions)
    assert wrote(room)[0] == 201


def test_nobody_is_kept_from_changing_policies(room: Room) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    install(room, spec("false", rules=[everything]))
    assert wrote(room)[0] == 422
    assert room.http("DELETE", f"{BINDINGS}/b")[0] == 200
    assert wrote(room)[0] == 201


def test_deletions_are_asked_about_one_by_one_also_as_dry_runs(room: Room) -> None:
    room.http("POST", MAPS, config("stays"))
    install(room, spec("request.operation != 'DELETE' || oldObject.metadata.name != 'stays' || object != null"))
    for path in (f"{MAPS}/stays", MAPS):
        for params in (DRY, {}):
            code, answer = room.http("DELETE", path, params=params)
            assert (code, "denied request: failed expression: request.op" in answer["message"]) == (422, True)
    assert room.http("GET", f"{MAPS}/stays")[0] == 200
    room.http("DELETE", f"{POLICIES}/p")
    room.http("DELETE", MAPS, params=DRY)
    assert room.http("GET", f"{MAPS}/stays")[0] == 200, "a dry run of a deletion of many stores nothing"


# -- which writes are meant


RULES: dict[str, tuple[bool, Object]] = {
    "the operation": (True, {"operations": ["CREATE"]}),
    "another operation": (False, {"operations": ["UPDATE", "DELETE"]}),
    "all groups and versions": (True, {"apiGroups": ["*"], "apiVersions": ["*"]}),
    "another group": (False, {"apiGroups": ["apps"]}),
    "another version": (False, {"apiVersions": ["v2"]}),
    "all resources": (True, {"resources": ["*"]}),
    "all with their parts": (True, {"resources": ["*/*"]}),
    "only parts": (False, {"resources": ["*/status", "configmaps/status"]}),
    "the name": (True, {"resourceNames": ["c"]}),
    "another name": (False, {"resourceNames": ["d"]}),
    "in namespaces": (True, {"scope": "Namespaced"}),
    "of the cluster": (False, {"scope": "Cluster"}),
}


@pytest.mark.parametrize("case", RULES)
def test_rules_mean_writes(room: Room, case: str) -> None:
    meant, rule = RULES[case]
    install(room, spec("false", rules=[{**ON_MAPS, **rule}]))
    assert wrote(room)[0] == (422 if meant else 201)


@pytest.mark.parametrize(
    ("resources", "codes"), [(["pods"], (422, 200)), (["pods/status"], (200, 422)), (["pods/*"], (422, 422))]
)
def test_a_part_is_meant_by_its_own_name(room: Room, resources: list[str], codes: tuple[int, int]) -> None:
    room.http("POST", PODS, pod("p"))
    install(room, spec("false", rules=[{**ON_MAPS, "resources": resources}]))
    whole = room.http("PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})[0]
    assert (whole, room.http("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}})[0]) == codes


def test_another_version_of_a_kind_is_meant_too_unless_told_otherwise(room: Room) -> None:
    room = Room(served=("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"))
    path = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"
    rule = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "r"}}
    rule["spec"] = {"taint": {"key": "a.b/c", "effect": "NoSchedule"}}
    means = {**ON_MAPS, "apiGroups": ["resource.k8s.io"], "apiVersions": ["v1beta2"], "resources": ["devicetaintrules"]}
    shape = "object.apiVersion != 'resource.k8s.io/v1beta2' || request.resource.version != 'v1beta2'"
    install(room, spec(f"{shape} || request.requestResource.version != 'v1alpha3'", rules=[means]))
    assert room.http("POST", path, rule, params=DRY)[0] == 422
    room.http("PATCH", f"{POLICIES}/p", {"spec": {"matchConstraints": {"matchPolicy": "Exact"}}})
    assert room.http("POST", path, rule, params=DRY)[0] == 201


def test_selectors_and_exclusions_narrow_what_is_meant(room: Room) -> None:
    room.http("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"team": "a"}}})
    match: Object = {
        "resourceRules": [ON_MAPS],
        "excludeResourceRules": [{**ON_MAPS, "resourceNames": ["free"]}],
        "objectSelector": {"matchLabels": {"guarded": "yes"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]},
    }
    install(room, {"matchConstraints": match, "validations": [{"expression": "false"}]})
    assert wrote(room)[0] == 201
    assert wrote(room, labels={"guarded": "yes"})[0] == 422
    assert wrote(room, "free", labels={"guarded": "yes"})[0] == 201
    room.http("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"team": "c"}}})
    assert wrote(room, labels={"guarded": "yes"})[0] == 201


def test_a_binding_narrows_further(room: Room) -> None:
    install(room, spec("false"), matchResources={"objectSelector": {"matchLabels": {"guarded": "yes"}}})
    assert wrote(room)[0] == 201
    assert wrote(room, labels={"guarded": "yes"})[0] == 422


# -- parameters


def reference(**more: Any) -> Object:
    return {"namespace": "default", "parameterNotFoundAction": "Allow", **more}


@pytest.mark.parametrize(
    ("action", "failure", "code"),
    [("Allow", "Fail", 201), ("Deny", "Fail", 422), ("Deny", "Ignore", 201)],
)
def test_where_the_parameters_are_missing(room: Room, action: str, failure: str, code: int) -> None:
    given = spec(
        "params.data.open == 'yes'", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}, failurePolicy=failure
    )
    install(room, given, paramRef=reference(name="settings", parameterNotFoundAction=action))
    found, words = wrote(room)
    assert found == code
    assert code == 201 or words.endswith("no params found for policy binding with `Deny` parameterNotFoundAction")


def test_every_object_that_a_selector_finds_is_asked_with(room: Room) -> None:
    for name, value in (("s1", "yes"), ("s2", "no"), ("other", "no")):
        labels = {} if name == "other" else {"settings": "true"}
        room.http("POST", MAPS, config(name, {"open": value}, labels=labels))
    given = spec("params.data.open == 'yes'", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    given["validations"][0]["messageExpression"] = "'closed by ' + params.metadata.name"
    install(room, given, paramRef=reference(selector={"matchLabels": {"settings": "true"}}))
    code, words = wrote(room)
    assert (code, words.endswith("denied request: closed by s2")) == (422, True)


def test_a_binding_without_parameters_asks_with_null(room: Room) -> None:
    given = spec("params == null", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    install(room, given)
    assert wrote(room)[0] == 201


def test_a_kind_of_parameters_that_is_not_served(room: Room) -> None:
    given = spec("params.open", paramKind={"apiVersion": "example.com/v1", "kind": "Setting"})
    given["validations"][0]["expression"] = "params.open == true"
    install(room, given, paramRef=reference(name="settings"))
    assert "failed to configure binding: paramKind kind" in wrote(room)[1]


# -- expressions


@pytest.mark.parametrize(("failure", "code"), [("Fail", 422), ("Ignore", 201)])
@pytest.mark.parametrize("where", ["validation", "condition"])
def test_an_expression_that_fails(room: Room, where: str, failure: str, code: int) -> None:
    fails = "object.data.missing == 'a'"
    more: Any = {"matchConditions": [{"name": "c", "expression": fails}]} if where == "condition" else {}
    install(room, spec(fails if where == "validation" else "true", failurePolicy=failure, **more))
    found, words = wrote(room)
    assert found == code
    assert code == 201 or words.endswith(f"denied request: expression '{fails}' resulted in error: no such key: data")


def test_a_condition_that_does_not_hold_outweighs_one_that_fails(room: Room) -> None:
    conditions = [{"name": "a", "expression": "object.data.missing == 'a'"}, {"name": "b", "expression": "1 == 2"}]
    install(room, spec("false", matchConditions=conditions))
    assert wrote(room)[0] == 201


def test_variables_build_on_each_other_and_fail_only_who_asks_for_them(room: Room) -> None:
    variables = [
        {"name": "name", "expression": "object.metadata.name"},
        {"name": "end", "expression": "timestamp('2026-01-01T00:00:00Z') + duration('1h')"},
        {"name": "broken", "expression": "object.data.missing"},
        {
            "name": "long",
            "expression": "variables.name.size() > 3 && variables.end > timestamp('2026-01-01T00:30:00Z')",
        },
    ]
    given = spec("!variables.long || variables.broken == 'x'", variables=variables)
    install(room, given)
    assert wrote(room)[0] == 201
    assert 'composited variable "broken" fails to evaluate: expression' in wrote(room, "longer")[1]


def test_what_a_refusal_says(room: Room) -> None:
    install(room, spec("false"))
    told = {
        "the message": {"message": "  not so "},
        "more than the message": {"message": "m", "messageExpression": "'more than ' + 'the message'"},
        "a message without an expression": {
            "message": "a message without an expression",
            "messageExpression": "object.no + ''",
        },
        "instead": {"message": "instead", "messageExpression": "'two\\nlines'"},
        "failed expression: false": {},
    }
    told["not so"] = told.pop("the message")
    for words, more in told.items():
        room.http("PATCH", f"{POLICIES}/p", {"spec": {"validations": [{"expression": "false", **more}]}})
        assert wrote(room)[1].endswith(f"with binding 'b' denied request: {words}")


@pytest.mark.parametrize(
    ("reason", "code"), [("Forbidden", 403), ("Unauthorized", 401), ("RequestEntityTooLarge", 413), ("Invalid", 422)]
)
def test_a_refusal_has_its_reason(room: Room, reason: str, code: int) -> None:
    given = spec("false")
    given["validations"][0]["reason"] = reason
    install(room, given)
    found, answer = room.http("POST", MAPS, config())
    assert (found, answer["reason"], answer["code"]) == (code, reason, code)


HOLDS = [
    "request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups",
    "request.name == 'c' && request.namespace == 'default' && request.operation == 'CREATE' && request.dryRun",
    "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps' && !has(request.subResource)",
    "object.kind == 'ConfigMap' && object.metadata.namespace == 'default' && oldObject == null",
    "namespaceObject.metadata.name == 'default' && !has(object.status)",
    "[1, 2, 3].exists(x, x > 2) && ['a', 'b'].map(x, x.upperAscii()) == ['A', 'B'] && [1, 2].filter(x, x > 1) == [2]",
    "'a_b_c'.replace('_', '/').split('/').size() == 3 && 'abc'.matches('^a.c$') && 'x' in {'x': 1}",
    "object.?data.missing.orValue('none') == 'none'",
]


@pytest.mark.parametrize("expression", HOLDS)
def test_what_expressions_may_name(room: Room, expression: str) -> None:
    install(room, spec(expression))
    assert wrote(room) == (201, "")


def test_of_several_policies_the_first_by_name_tells(room: Room) -> None:
    for name in ("z", "a"):
        room.http("POST", POLICIES, policy(spec("false"), name))
        room.http("POST", BINDINGS, binding(f"of-{name}", name))
    heard: list[tuple[str, list[Denied]]] = []
    room.server.policies.on_verdict = lambda call, name, found: heard.append((name, found))
    assert "ValidatingAdmissionPolicy 'a' with binding 'of-a' denied" in wrote(room)[1]
    assert heard == [(name, [Denied("failed expression: false")]) for name in ("a", "z")]


# -- what is refused when it is made


REFUSED: dict[str, tuple[Object, str]] = {
    "a syntax error": (spec("object.a =="), "spec.validations[0].expression"),
    "a name that there is not": (spec("objekt.a == 1"), "spec.validations[0].expression"),
    "types that do not go together": (spec("1 + 'a' == 2"), "spec.validations[0].expression"),
    "parameters without a kind of them": (spec("params.a == 1"), "spec.validations[0].expression"),
    "no boolean": (spec("object.a"), "spec.validations[0].expression"),
    "nothing": (spec(" "), "spec.validations[0].expression"),
    "a condition that asks for a variable": (
        spec(
            "true",
            variables=[{"name": "v", "expression": "1"}],
            matchConditions=[{"name": "c", "expression": "variables.v == 1"}],
        ),
        "spec.matchConditions[0].expression",
    ),
    "a variable before its time": (
        spec("true", variables=[{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]),
        "spec.variables[0].expression",
    ),
    "a variable of another type": (
        spec("variables.n == 'a'", variables=[{"name": "n", "expression": "1"}]),
        "spec.validations[0].expression",
    ),
    "more variables than are reasonable": (
        spec("true", variables=[{"name": f"v{n}", "expression": "1"} for n in range(65)]),
        "spec.variables",
    ),
    "a name that is none": (spec("true", variables=[{"name": "a-b", "expression": "1"}]), "spec.variables[0].name"),
    "a message that is no text": (
        {**spec("true"), "validations": [{"expression": "true", "messageExpression": "1"}]},
        "spec.validations[0].messageExpression",
    ),
    "a reason that is none": (
        {**spec("true"), "validations": [{"expression": "true", "reason": "Conflict"}]},
        "spec.validations[0].reason",
    ),
    "no rules": (spec("true", rules=()), "spec.matchConstraints.resourceRules"),
    "no operations": (
        spec("true", rules=[{**ON_MAPS, "operations": []}]),
        "spec.matchConstraints.resourceRules[0].operations",
    ),
    "nothing matched": ({"validations": [{"expression": "true"}]}, "spec.matchConstraints"),
    "another failure policy": (spec("true", failurePolicy="Hope"), "spec.failurePolicy"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_policy_that_cannot_work_is_refused(room: Room, case: str) -> None:
    given, field = REFUSED[case]
    code, answer = room.http("POST", POLICIES, policy(given))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert [each["field"] for each in answer["details"]["causes"]] == [field], answer["message"]


def test_the_words_about_an_expression_show_where_it_breaks(room: Room) -> None:
    message = room.http("POST", POLICIES, policy(spec("objekt == 1")))[1]["message"]
    assert (
        'spec.validations[0].expression: Invalid value: "objekt == 1": compilation failed: ERROR: <input>:1:1:'
        in message
    )
    assert "undeclared reference to 'objekt'" in message


BINDINGS_REFUSED: dict[str, tuple[Object, str]] = {
    "no policy": ({"policyName": ""}, "spec.policyName"),
    "no actions": ({"validationActions": []}, "spec.validationActions"),
    "both to deny and to warn": ({"validationActions": ["Deny", "Warn"]}, "spec.validationActions"),
    "an action that is none": ({"validationActions": ["Hope"]}, "spec.validationActions[0]"),
    "no word about missing parameters": ({"paramRef": {"name": "a"}}, "spec.paramRef.parameterNotFoundAction"),
    "no parameters named": ({"paramRef": {"parameterNotFoundAction": "Deny"}}, "spec.paramRef"),
    "a selector that is none": (
        {"matchResources": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}},
        "spec.matchResources.objectSelector.matchExpressions[0].operator",
    ),
}


@pytest.mark.parametrize("case", BINDINGS_REFUSED)
def test_a_binding_that_cannot_work_is_refused(room: Room, case: str) -> None:
    given, field = BINDINGS_REFUSED[case]
    code, answer = room.http("POST", BINDINGS, binding(**given))
    assert (code, [each["field"] for each in answer["details"]["causes"]]) == (422, [field]), answer["message"]


def test_claims_are_not_asked_about_by_policies_for_others(room: Room) -> None:
    install(room, spec("false"))
    assert room.http("POST", CLAIMS, claim("c"))[0] == 201
