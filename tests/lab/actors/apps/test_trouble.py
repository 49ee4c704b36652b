"""The controllers on an API that fails every few calls: they try again, and in the end all is as wanted."""

from __future__ import annotations

from dds_lab.api import status
from dds_lab.api.requests import Call
from tests.lab.actors.apps.cluster import cluster


def test_in_the_end_everything_is_as_wanted() -> None:
    with cluster() as there:
        lab, random = there.lab, there.lab.time.random("trouble")
        failed: list[Call] = []

        def fail(call: Call) -> None:
            if lab.time.now() < end and call.verb != "watch" and random.random() < 0.2:
                failed.append(call)
                raise status.internal("an error on the server")

        end = lab.time.now() + 60_000_000
        lab.on_client = lambda part, client: setattr(client, "before", fail)
        lab.restart("controllers")
        there.make("deployments", replicas=3)
        there.make("statefulsets", "db", replicas=3)
        there.job(lasts=2, completions=10, parallelism=3)
        there.run(20)
        there.image("deployments", "two")
        there.image("statefulsets", "two", "db")
        there.run(100)
        assert len(failed) > 30
        assert (
            there.status("deployments")["updatedReplicas"] == there.status("statefulsets", "db")["updatedReplicas"] == 3
        )
        assert there.images() == ["two"] * 6
        assert there.status("jobs", "train")["succeeded"] == len(there.images("Succeeded")) == 10
