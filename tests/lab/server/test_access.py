"""Who asks and whether they may: tokens, impersonation, RBAC, what may be granted, reviews."""

from typing import Any

import pytest

from dds_lab.api.access import NODE_NAME
from dds_lab.api.kinds import RBAC, Object
from dds_lab.api.requests import Call, Reading, User
from dds_lab.api.status import ApiError
from tests.lab.server.rooms import ALL_CLAIMS, CLAIMS, Room, claim

ROLES = f"/apis/{RBAC}/v1/clusterroles"
REVIEWS = "/apis/authorization.k8s.io/v1"
GROUP = "resource.k8s.io"


@pytest.fixture
def room() -> Room:
    return Room()


def grant(
    room: Room, *rules: Object, user: str = "ddsuser", kind: str = "User", namespace: str = "", name: str = "r"
) -> None:
    """Bind a role with these rules to somebody, everywhere or in a namespace."""
    plural, meta = ("roles", "rolebindings") if namespace else ("clusterroles", "clusterrolebindings"), {"name": name}
    role = {"Role": "roles", "ClusterRole": "clusterroles"}
    kind_of_role = "Role" if namespace else "ClusterRole"
    room.admin.create(role[kind_of_role], {"metadata": meta, "rules": list(rules)}, namespace)
    subject: Object = {"kind": kind, "name": user, "apiGroup": RBAC}
    if kind == "ServiceAccount":
        subject = {"kind": kind, "name": user, "namespace": "default"}
    reference = {"apiGroup": RBAC, "kind": kind_of_role, "name": name}
    room.admin.create(plural[1], {"metadata": meta, "subjects": [subject], "roleRef": reference}, namespace)


def rule(verbs: list[str], resources: list[str], group: str = GROUP, **more: Any) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **more}


def test_without_a_token_one_is_nobody_and_a_wrong_one_is_refused(room: Room) -> None:
    code, status = room.http("GET", CLAIMS, who="")
    assert (code, status["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "resourceclaims"' in status["message"]
    assert room.http("GET", "/healthz", who="") == (200, "ok")
    assert room.http("GET", "/apis", who="")[0] == 403
    code, status = room.http("GET", "/healthz", who="wrong")
    assert (code, status["reason"]) == (401, "Unauthorized")
    assert room.http("GET", CLAIMS, who="", headers={"authorization": "Basic YTpi"})[0] == 401
    room.server.access.revoke("dds")
    assert room.http("GET", "/version", who="dds")[0] == 401


def test_a_role_says_what_a_user_may(room: Room) -> None:
    assert room.http("GET", CLAIMS, who="dds")[0] == 403
    grant(room, rule(["get", "list"], ["resourceclaims"]))
    room.claim("a")
    assert room.http("GET", CLAIMS, who="dds")[0] == 200
    assert room.http("GET", ALL_CLAIMS, who="dds")[0] == 200
    assert room.http("GET", f"{CLAIMS}/a", who="dds")[0] == 200
    code, status = room.http("GET", CLAIMS, who="dds", params={"watch": "1"})
    assert (code, "cannot watch resource" in status["message"]) == (403, True)
    code, status = room.http("DELETE", f"{CLAIMS}/a", who="dds")
    assert (code, status["details"]) == (403, {"name": "a", "group": GROUP, "kind": "resourceclaims"})
    code, status = room.http("DELETE", CLAIMS, who="dds")
    assert (code, "cannot deletecollection" in status["message"]) == (403, True)
    code, status = room.http("PATCH", f"{CLAIMS}/a/status", {}, who="dds")
    assert (code, 'resource "resourceclaims/status"' in status["message"]) == (403, True)
    room.admin.delete("clusterrolebindings", "r")
    assert room.http("GET", CLAIMS, who="dds")[0] == 403, "at once"


def test_a_role_of_a_namespace_counts_there(room: Room) -> None:
    room.admin.create("namespaces", {"metadata": {"name": "other"}})
    grant(room, rule(["list"], ["*"]), namespace="default")
    assert room.http("GET", CLAIMS, who="dds")[0] == 200
    assert room.http("GET", CLAIMS.replace("default", "other"), who="dds")[0] == 403
    code, status = room.http("GET", ALL_CLAIMS, who="dds")
    assert (code, "at the cluster scope" in status["message"]) == (403, True)


def test_rules_name_objects_subresources_groups_and_paths(room: Room) -> None:
    room.claim("a")
    room.claim("b")
    grant(
        room,
        rule(["get"], ["resourceclaims"], resourceNames=["a"]),
        rule(["*"], ["*/status"], "*"),
        {"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]},
    )
    assert room.http("GET", f"{CLAIMS}/a", who="dds")[0] == 200
    assert room.http("GET", f"{CLAIMS}/b", who="dds")[0] == 403
    assert room.http("GET", f"{CLAIMS}/b/status", who="dds")[0] == 200
    assert room.http("GET", "/metrics/x", who="dds") == (404, "404 page not found\n")
    code, status = room.http("GET", "/metrics", who="dds")
    assert (code, status["message"]) == (403, 'forbidden: User "ddsuser" cannot get path "/metrics"')


def test_groups_and_service_accounts_are_subjects(room: Room) -> None:
    room.server.access.register("op", User("op", ("operators",)))
    room.server.access.register("sa", User("system:serviceaccount:default:bot"))
    grant(room, rule(["list"], ["resourceclaims"]), user="operators", kind="Group", name="g")
    assert room.http("GET", CLAIMS, who="op")[0] == 200
    assert room.http("GET", CLAIMS, who="sa")[0] == 403
    grant(room, rule(["list"], ["resourceclaims"]), user="bot", kind="ServiceAccount", name="s")
    assert room.http("GET", CLAIMS, who="sa")[0] == 200


def test_a_name_in_a_field_selector_is_a_name(room: Room) -> None:
    grant(room, rule(["list", "watch"], ["resourceclaims"], resourceNames=["mine"]))
    for params in ({}, {"watch": "1"}):
        for selector, code in (("metadata.name=mine", 200), ("metadata.name=other", 403), ("metadata.name!=mine", 403),
                               ("metadata.namespace=default,metadata.name==mine", 200), ("", 403), ("=,", 403)):  # fmt: skip
            answer = room.ask("GET", CLAIMS, params={**params, "fieldSelector": selector}, who="dds")
            assert answer.code == code, (params, selector)
    user = room.server.access.user_of("dds")
    assert user is not None
    claims = room.admin.resource("resourceclaims")
    reading = Reading(fields="metadata.name=mine")
    room.server.perform(Call(verb="list", resource=claims, user=user, namespace="default", reading=reading))


def test_who_makes_something_by_another_verb_must_be_allowed_to_create(room: Room) -> None:
    leases, lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": {"name": "l"}}
    apply: Any = {"type": "application/apply-patch+yaml", "params": {"fieldManager": "m"}, "who": "dds"}
    grant(room, rule(["patch"], ["resourceclaims"]), rule(["update"], ["leases"], "coordination.k8s.io"))
    code, status = room.http("PATCH", f"{CLAIMS}/new", claim("new"), **apply)
    assert (code, "cannot create" in status["message"]) == (403, True)
    assert room.http("PUT", f"{leases}/l", lease, who="dds")[0] == 403
    grant(
        room, rule(["create"], ["resourceclaims"]), rule(["create"], ["leases"], "coordination.k8s.io"), name="creator"
    )
    assert room.http("PATCH", f"{CLAIMS}/new", claim("new"), **apply)[0] == 201
    assert room.http("PUT", f"{leases}/l", lease, who="dds")[0] == 201


def test_what_a_role_granted_before_counts_when_it_is_written_again(room: Room) -> None:
    grant(room, rule(["get"], ["resourceclaims"]), rule(["patch"], ["clusterroles"], RBAC))
    room.admin.create("clusterroles", {"metadata": {"name": "strong"}, "rules": [rule(["delete"], ["resourceclaims"])]})
    room.admin.create("clusterroles", {"metadata": {"name": "weak"}, "rules": [rule(["get"], ["resourceclaims"])]})
    label: Object = {"metadata": {"labels": {"a": "b"}}}
    gathers: Object = {"aggregationRule": {"clusterRoleSelectors": [{}]}}
    for name, patch, code in (("weak", label, 200), ("strong", label, 403), ("weak", gathers, 403)):
        assert room.http("PATCH", f"{ROLES}/{name}", patch, who="dds")[0] == code, (name, patch)


def test_a_binding_to_a_role_that_is_not_there_gives_nothing_until_it_is(room: Room) -> None:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "later"}
    subject = {"kind": "User", "name": "ddsuser", "apiGroup": RBAC}
    room.admin.create("clusterrolebindings", {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": reference})
    assert room.http("GET", CLAIMS, who="dds")[0] == 403
    room.admin.create("clusterroles", {"metadata": {"name": "later"}, "rules": [rule(["list"], ["resourceclaims"])]})
    assert room.http("GET", CLAIMS, who="dds")[0] == 200


def test_impersonation_is_a_permission(room: Room) -> None:
    ask = {"impersonate-user": "ddsuser"}
    code, status = room.http("GET", CLAIMS, headers=ask)
    assert (code, 'User "ddsuser"' in status["message"]) == (403, True)
    assert room.http("GET", CLAIMS, headers={**ask, "impersonate-group": "system:masters"})[0] == 200
    code, status = room.http("GET", CLAIMS, who="dds", headers={"impersonate-user": "admin"})
    assert (code, status["details"]["kind"]) == (403, "users")
    assert room.http("GET", CLAIMS, headers={"impersonate-group": "x"})[0] == 500
    grant(room, rule(["impersonate"], ["serviceaccounts"], ""), namespace="default")
    account = "system:serviceaccount:default:bot"
    _, shown = room.http(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {},
        who="dds",
        headers={"impersonate-user": account},
    )
    assert shown["status"]["userInfo"]["username"] == account
    assert "system:serviceaccounts:default" in shown["status"]["userInfo"]["groups"]
    extra = {"impersonate-user": account, "impersonate-extra-authentication.kubernetes.io%2fnode-name": "n1,n2"}
    review: Any = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    _, shown = room.http(*review, headers=extra)
    assert shown["status"]["userInfo"]["extra"] == {NODE_NAME: ["n1", "n2"]}
    userextra = rule(["impersonate"], [f"userextras/{NODE_NAME}"], "authentication.k8s.io", resourceNames=["n1"])
    grant(room, userextra, name="extras")
    assert room.http(*review, who="dds", headers=extra)[0] == 403
    one = {"impersonate-extra-authentication.kubernetes.io%2fnode-name": "n1"}
    assert room.http(*review, who="dds", headers={**extra, **one})[0] == 201
    for header in ("impersonate-group", "impersonate-uid", "impersonate-extra-x"):
        assert room.http("GET", CLAIMS, who="dds", headers={"impersonate-user": account, header: "x"})[0] == 403


def test_nobody_grants_what_they_do_not_hold(room: Room) -> None:
    held = rule(["get", "list"], ["resourceclaims"])
    grant(room, held, rule(["*"], ["clusterroles", "clusterrolebindings", "roles", "rolebindings"], RBAC))

    def role(name: str, *rules: Object) -> int:
        code, _ = room.http("POST", ROLES, {"metadata": {"name": name}, "rules": list(rules)}, who="dds")
        return code

    room.admin.patch(
        "clusterroles", "r", [{"op": "replace", "path": "/rules/1/verbs", "value": ["create", "update"]}], how="json"
    )
    assert role("same", held) == 201
    assert role("part", rule(["get"], ["resourceclaims"], resourceNames=["a"])) == 201
    assert role("more", rule(["delete"], ["resourceclaims"])) == 403
    assert role("all", rule(["*"], ["*"], "*")) == 403
    assert role("paths", {"nonResourceURLs": ["*"], "verbs": ["get"]}) == 403
    role_ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "User", "name": "ddsuser", "apiGroup": RBAC}
    body = {"metadata": {"name": "mine"}, "subjects": [subject], "roleRef": role_ref}
    code, status = room.http("POST", ROLES.replace("roles", "rolebindings"), body, who="dds")
    assert (code, "attempting to grant RBAC permissions not currently held" in status["message"]) == (403, True)
    grant(room, rule(["bind", "escalate"], ["clusterroles"], RBAC), name="e")
    assert role("more", rule(["delete"], ["resourceclaims"])) == 201
    assert room.http("POST", ROLES.replace("roles", "rolebindings"), body, who="dds")[0] == 201


DEVICE = {"driver": "gpu.nvidia.com", "pool": "p", "device": "gpu-0"}
CHANGED = {"status": {"devices": [{**DEVICE, "data": {"a": 1}}]}}


def test_a_node_s_own_account_needs_less(room: Room) -> None:
    room.claim("a")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    result = {"request": "r0", **DEVICE}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    room.admin.patch("resourceclaims", "a", {"status": {"allocation": allocation}}, "default", subresource="status")
    rules = [rule(["patch"], ["resourceclaims/status"]), rule(["associated-node:patch"], ["resourceclaims/driver"])]
    grant(room, *rules, user="driver", kind="ServiceAccount")
    for node, code in (("n2", 422), ("n1", 200)):
        account = User("system:serviceaccount:default:driver", (), "", {NODE_NAME: (node,)})
        room.server.access.register("sa", account)
        assert room.http("PATCH", f"{CLAIMS}/a/status", CHANGED, who="sa")[0] == code


def test_calls_in_the_process_are_authorised_too(room: Room) -> None:
    resource = room.admin.resource("resourceclaims")
    call = Call(verb="create", resource=resource, user=User("somebody"), namespace="default", body=claim("a"))
    with pytest.raises(ApiError) as error:
        room.server.perform(call)
    assert error.value.code == 403


# -- reviews -----------------------------------------------------------------------------------------------------


def may(room: Room, who: str = "dds", **attributes: str) -> bool:
    _, shown = room.http(
        "POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}, who=who
    )
    allowed: bool = shown["status"]["allowed"]
    return allowed


def test_one_may_ask_what_one_may(room: Room) -> None:
    asked = {"group": GROUP, "resource": "resourceclaims", "verb": "list", "namespace": "default"}
    assert not may(room, **asked)
    assert may(room, "admin", **asked)
    grant(room, rule(["list"], ["resourceclaims"]), namespace="default")
    assert may(room, **asked)
    assert not may(room, **{**asked, "namespace": ""})
    assert not may(room, **asked, subresource="status")
    path = {"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}}
    code, shown = room.http("POST", f"{REVIEWS}/selfsubjectaccessreviews", path, who="dds")
    assert (code, shown["status"]["allowed"]) == (201, True)
    _, rules = room.http("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, who="dds")
    own = {"verbs": ["list"], "apiGroups": [GROUP], "resources": ["resourceclaims"]}
    assert own in rules["status"]["resourceRules"]
    assert any("/version" in each["nonResourceURLs"] for each in rules["status"]["nonResourceRules"])


def test_others_may_be_asked_about_by_those_who_may(room: Room) -> None:
    attributes = {"group": GROUP, "resource": "resourceclaims", "verb": "list", "namespace": "default"}
    body = {"spec": {"user": "ddsuser", "groups": ["system:masters"], "resourceAttributes": attributes}}
    assert room.http("POST", f"{REVIEWS}/subjectaccessreviews", body, who="dds")[0] == 403
    _, shown = room.http("POST", f"{REVIEWS}/subjectaccessreviews", body)
    assert shown["status"]["allowed"]
    body["spec"] = {"user": "ddsuser", "resourceAttributes": attributes}
    _, shown = room.http("POST", f"{REVIEWS}/subjectaccessreviews", body)
    assert not shown["status"]["allowed"]
    local = f"{REVIEWS}/namespaces/default/localsubjectaccessreviews"
    assert room.http("POST", local, body)[0] == 201
    assert room.http("POST", local.replace("default", "kube-system"), body)[0] == 422


@pytest.mark.parametrize(
    ("plural", "spec", "code"),
    [
        ("selfsubjectaccessreviews", {}, 422),
        ("selfsubjectaccessreviews", {"resourceAttributes": {}, "nonResourceAttributes": {}}, 422),
        ("subjectaccessreviews", {"resourceAttributes": {}}, 422),
        ("selfsubjectrulesreviews", {}, 400),
        ("selfsubjectaccessreviews", {"resourceAttributes": []}, 400),
    ],
)
def test_questions_that_ask_nothing(room: Room, plural: str, spec: Object, code: int) -> None:
    assert room.http("POST", f"{REVIEWS}/{plural}", {"spec": spec})[0] == code


def test_tokens_are_told_apart(room: Room) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    _, shown = room.http("POST", path, {"spec": {"token": "dds", "audiences": ["x"]}})
    assert shown["status"]["authenticated"]
    assert shown["status"]["user"]["username"] == "ddsuser"
    _, shown = room.http("POST", path, {"spec": {"token": "wrong"}})
    assert not shown["status"].get("authenticated")
    assert room.http("POST", path, {"spec": {}})[0] == 422
    assert room.http("GET", path)[0] == 405
