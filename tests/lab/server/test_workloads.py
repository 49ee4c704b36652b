"""The kinds of apps and batch over HTTP: the subresource scale, columns, discovery, a real server's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.server.rooms import SECOND, Room

APPS = "/apis/apps/v1/namespaces/default"
WEB = f"{APPS}/deployments/web"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TABLE = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


def made(plural: str = "deployments", **spec: Any) -> Room:
    room = Room()
    pods = {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pods}
    body = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }
    assert room.http("POST", f"{APPS}/{plural}", body)[0] == 201
    return room


def job(room: Room, **pods: Any) -> tuple[int, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", **pods}
    return room.http("POST", JOBS, {"metadata": {"name": "train"}, "spec": {"template": {"spec": spec}}})


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets"])
def test_scale_is_read_and_written(plural: str) -> None:
    room, path = made(plural), f"{APPS}/{plural}/web/scale"
    room.http("PATCH", f"{APPS}/{plural}/web/status", {"status": {"replicas": 1}})
    code, scale = room.http("GET", path)
    assert (code, scale["kind"], scale["apiVersion"]) == (200, "Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 1, "selector": "app=web"})
    assert room.http("PATCH", path, {"spec": {"replicas": 3}})[1]["spec"] == {"replicas": 3}
    assert room.http("PUT", path, scale)[0] == 409, "the version that it was read at is older"
    fresh = room.http("GET", path)[1]
    assert room.http("PUT", path, {**fresh, "spec": {"replicas": 0}})[1]["spec"] == {}
    stored = room.http("GET", f"{APPS}/{plural}/web")[1]
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (0, 3)


def test_scale_refuses_what_is_no_scale() -> None:
    room = made()
    code, answer = room.http("PATCH", f"{WEB}/scale", {"spec": {"replicas": -1}})
    words = "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    assert (code, answer["message"]) == (422, f'Scale.autoscaling "web" is invalid: {words}')
    assert room.http("PUT", f"{WEB}/scale", {"kind": "Pod", "metadata": {"name": "web"}})[0] == 400
    assert room.http("PATCH", f"{WEB}/scale", {"spec": {"replicas": "many"}})[0] == 400
    assert room.http("GET", f"{APPS}/deployments/none/scale")[0] == 404
    assert room.http("GET", f"{JOBS}/train/scale")[0] == 404


def test_scale_is_a_right_of_its_own() -> None:
    room = made()
    rule = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]}
    room.admin.create("clusterroles", {"metadata": {"name": "scaler"}, "rules": [rule]})
    binding = {"roleRef": {"kind": "ClusterRole", "name": "scaler"}, "subjects": [{"kind": "User", "name": "ddsuser"}]}
    room.admin.create("clusterrolebindings", {"metadata": {"name": "scaler"}, **binding})
    assert room.http("PATCH", f"{WEB}/scale", {"spec": {"replicas": 2}}, who="dds")[0] == 200
    assert room.http("PATCH", WEB, {"spec": {"replicas": 3}}, who="dds")[0] == 403


def row(room: Room, path: str) -> dict[str, Any]:
    table = room.http("GET", path, headers=TABLE)[1]
    return dict(zip([one["name"] for one in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))


def test_columns() -> None:
    room = made(replicas=2)
    room.http("PATCH", f"{WEB}/status", {"status": {"readyReplicas": 1, "updatedReplicas": 2}})
    shown = {"Name": "web", "Ready": "1/2", "Up-to-date": 2, "Available": 0, "Age": "0s", "Containers": "c,d"}
    assert row(room, WEB) == {**shown, "Images": "i,j", "Selector": "app=web"}
    assert row(made("replicasets"), f"{APPS}/replicasets")["Desired"] == 1
    assert row(made("statefulsets"), f"{APPS}/statefulsets")["Ready"] == "0/1"


def test_columns_of_a_job() -> None:
    room = Room()
    job(room)
    told = row(room, JOBS)
    assert (told["Status"], told["Completions"], told["Duration"]) == ("Running", "0/1", "")
    begun = {"startTime": "2026-11-21T00:00:00Z", "succeeded": 1}
    room.http("PATCH", f"{JOBS}/train/status", {"status": begun})
    room.time.run(room.time.now() + 90 * SECOND)
    assert row(room, JOBS)["Duration"] == "90s"
    ended = {"completionTime": "2026-11-21T00:00:30Z", "conditions": [{"type": "Complete", "status": "True"}]}
    room.http("PATCH", f"{JOBS}/train/status", {"status": ended})
    told = row(room, JOBS)
    assert (told["Status"], told["Completions"], told["Duration"]) == ("Complete", "1/1", "30s")


def test_discovery_names_them() -> None:
    found = {one["name"]: one for one in Room().http("GET", "/apis/apps/v1")[1]["resources"]}
    assert found["deployments"]["shortNames"] == ["deploy"]
    assert found["deployments"]["categories"] == ["all"]
    assert found["deployments"]["storageVersionHash"] == "8aSe+NMegvE=", "as every real server says"
    scale = found["statefulsets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"template": {"metadata": {"labels": {"app": "db"}}}},
            'spec.template.metadata.labels: Invalid value: {"app":"db"}: `selector` does not match template `labels`',
        ),
        (
            {"strategy": {"type": "Recreate"}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"template": {"spec": {"restartPolicy": "Never"}}},
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ),
    ],
)
def test_usual_mistakes_are_refused_in_a_real_servers_words(change: Any, words: str) -> None:
    code, answer = made().http("PATCH", WEB, {"spec": change})
    assert (code, answer["message"]) == (422, f'Deployment.apps "web" is invalid: {words}')


def test_a_job_that_would_never_end_is_refused_in_a_real_servers_words() -> None:
    code, answer = job(Room(), restartPolicy="Always")
    words = 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    assert (code, answer["message"]) == (422, f'Job.batch "train" is invalid: {words}')
