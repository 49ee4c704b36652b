"""What the actors of a joined lab see of a server, and what they do while it is away."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from dds_adapters.kubernetes.cluster import Cluster
from dds_lab.client import ApiError, Client
from dds_lab.joined.checks import Options, adapted
from dds_lab.joined.leaving import others_in
from dds_lab.joined.remote import RemoteServer
from dds_lab.lab import Lab
from dds_lab.scenario import parse
from dds_lab.time import VirtualTime
from tests.support.joined import QUICK, patient
from tests.support.served import served

MAPS = "configmaps"


def test_what_a_cluster_has_itself_is_not_played_twice() -> None:
    parts = adapted(parse(QUICK, "quick"), Options()).parts
    assert (parts.controllers, parts.claims, parts.scheduler) == (None, None, None)


def test_a_mirror_has_what_was_written_before_the_watch_tells_and_hears_it_once(tmp_path: Path) -> None:
    told: list[Callable[[], None]] = []
    with served() as server:
        server.kubeconfig(tmp_path / "kubeconfig")
        with closing(Cluster(str(tmp_path / "kubeconfig"), "admin")) as cluster:
            remote, time = RemoteServer(cluster, told.append, print), VirtualTime(0, 0)
            client = Client(remote, time, "actor")
            made = client.create(MAPS, {"metadata": {"name": "one"}}, "default")
            mirror = client.mirror(MAPS)
            heard: list[str] = []
            mirror.on_change(lambda old, new: heard.append(str(new and new["data"])))
            client.update(MAPS, {**made, "data": {"a": "1"}})
            client.patch(MAPS, "one", {"data": {"b": "2"}}, "default")
            time.step()
            written = ["{'a': '1'}", "{'a': '1', 'b': '2'}"]
            assert heard == written
            patient(lambda: len(told) >= 2)
            for tell in told:
                tell()
            time.step()
            assert heard == written
            remote.close()


def test_what_each_namespace_is_given_keeps_none_and_what_somebody_made_does() -> None:
    """OpenShift and service meshes put the certificate of their authority into every namespace."""
    with Lab.virtual(parse("cluster: {nodes: []}", "test")) as lab:
        client = lab.client("test")
        client.create("namespaces", {"metadata": {"name": "monitoring"}})
        for namespace in ("default", "monitoring"):
            client.create(MAPS, {"metadata": {"name": "ca"}, "data": {"ca.crt": "one"}}, namespace)
        assert others_in(client, "monitoring") == ""
        client.patch(MAPS, "ca", {"data": {"ca.crt": "another"}}, "monitoring")
        assert others_in(client, "monitoring") == "configmaps ca"


def test_a_step_is_tried_again_while_the_server_is_away() -> None:
    steps = "steps: [{wait_for: {object: nodes/lab0000, has: metadata.name, within: 1s}}]\n"
    away = [429, 500, 503]

    def refuse(call: object) -> None:
        if away:
            raise ApiError(away.pop(), "", "not now")

    with Lab.virtual(parse(QUICK + steps, "quick")) as lab:
        lab.steps._client.before = refuse
        lab.run(2.5)
        assert lab.steps.done == 0
        lab.run(2.0)
        assert lab.steps.done == 1
        assert lab.steps.failures == []
