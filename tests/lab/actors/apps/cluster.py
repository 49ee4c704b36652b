"""A lab of two nodes without devices on virtual time, and an administrator who makes workloads in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dds_lab.actors.kubelet import EXIT_CODE, RUN_FOR
from dds_lab.client import Object
from dds_lab.lab import Lab
from dds_lab.scenario import parse

SCENARIO = """
cluster: {config: false, nodes: [{count: 2, fabric: null}]}
parts: {scaler: false, operator: false, publisher: false, vendor: false}
"""


class Cluster:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.user = lab.client("people")
        self.run = lab.run

    def make(self, plural: str, name: str = "web", image: str = "one", **spec: Any) -> Object:
        """Pods with the label app=NAME run `image`."""
        kind = {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}[plural]
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
        }
        return self.user.create(plural, body)

    def job(self, name: str = "train", lasts: float | None = None, code: int = 0, **spec: Any) -> Object:
        """Pods run `lasts` seconds, and end with this exit code."""
        told = {} if lasts is None else {RUN_FOR: str(lasts)}
        told |= {EXIT_CODE: str(code)} if code else {}
        pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "one"}]}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"template": {"metadata": {"annotations": told}, "spec": pods}, **spec},
        }
        return self.user.create("jobs", body)

    def change(self, plural: str, name: str = "web", **spec: Any) -> Object:
        return self.user.patch(plural, name, {"spec": spec}, "default")

    def image(self, plural: str, image: str, name: str = "web") -> None:
        containers = [{"name": "c", "image": image}]
        self.change(plural, name, template={"spec": {"containers": containers}})

    def get(self, plural: str, name: str = "web") -> Object:
        return self.user.get(plural, name, "default")

    def status(self, plural: str, name: str = "web") -> Object:
        found: Object = self.get(plural, name).get("status") or {}
        return found

    def conditions(self, plural: str, name: str = "web") -> dict[str, str]:
        """By type: status and reason."""
        found = self.status(plural, name).get("conditions") or ()
        return {one["type"]: f"{one['status']} {one['reason']}" for one in found}

    def all(self, plural: str) -> list[Object]:
        return self.user.list(plural, "default")

    def names(self, plural: str = "pods") -> list[str]:
        return [one["metadata"]["name"] for one in self.all(plural)]

    def images(self, phase: str = "Running") -> list[str]:
        """What the pods of a phase run."""
        pods = [one for one in self.all("pods") if one["status"]["phase"] == phase]
        return sorted(one["spec"]["containers"][0]["image"] for one in pods)

    def sizes(self) -> dict[str, int]:
        """Of the ReplicaSets: how many pods of which image they want, if any."""
        found = {one["spec"]["template"]["spec"]["containers"][0]["image"]: one for one in self.all("replicasets")}
        return {image: one["spec"]["replicas"] for image, one in found.items() if one["spec"]["replicas"]}

    def events(self, reason: str) -> list[str]:
        return [one["message"] for one in self.all("events") if one["reason"] == reason]


@contextmanager
def cluster(seed: int = 1) -> Iterator[Cluster]:
    with Lab.virtual(parse(SCENARIO, "cluster"), seed=seed) as lab:
        lab.run(1)
        yield Cluster(lab)
