"""The tests of tests/realtime/lab/test_join.py, beside a real control plane in place of the lab's own server.

Left out are those that need another server: faults of the wire, Kubernetes 1.33.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from dds_lab.crds import DEFINITIONS
from tests.realtime.lab import test_join
from tests.realtime.lab.test_join import joining, leaving
from tests.support.commands import program as done
from tests.support.control_plane import ControlPlane
from tests.support.joined import HOST, Host, others, patient, program

OTHER_SERVERS = ("goes_away", "older_server", "troubles_of_the_wire")
scenario = test_join.scenario
globals().update(
    (name, test)
    for name, test in vars(test_join).items()
    if name.startswith("test_") and not any(part in name for part in OTHER_SERVERS)
)


@pytest.fixture(autouse=True)
def hosted(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def real(folder: Path, scenario: str = HOST, number: int = 0) -> Iterator[Host]:
        before = _stored(plane.host)
        with patient_controllers(plane) if number else nullcontext():
            try:
                for definition in DEFINITIONS:
                    plane.apply(definition)
                patient(lambda: all(_established(plane.host, one) for one in DEFINITIONS))
                others(plane.host, number)
                if number:
                    patient(lambda: _settled(plane.host), 120.0)
                yield plane.host
            finally:
                _remove(plane.host, before)

    monkeypatch.setattr(test_join, "hosted", real)


@contextmanager
def patient_controllers(plane: ControlPlane) -> Iterator[None]:
    """Nobody minds that foreign nodes have no kubelets: the cluster's own controllers would change them."""
    part = "kube-controller-manager"
    plane.kill(part)
    plane.start(part, node_monitor_grace_period="1h")
    try:
        yield
    finally:
        plane.kill(part)
        plane.start(part)


def _stored(host: Host) -> set[str]:
    return {*host.objects(marked=True), *host.objects(marked=False)}


def _established(host: Host, definition: dict[str, Any]) -> bool:
    spec = definition["spec"]
    return host.ask("GET", f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")[0] == 200


def _settled(host: Host) -> bool:
    """Whether the controllers change nothing more."""
    before = host.objects(marked=False)
    time.sleep(3.0)
    return host.objects(marked=False) == before


def _remove(host: Host, before: set[str]) -> None:
    for kind in ("clusterrolebindings", "clusterroles"):
        host.ask("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/dds-lab")

    def gone() -> bool:
        found = _stored(host) - before
        for one in found:
            kind, _, place = one.partition(" ")
            namespace, _, name = place.partition("/")
            root, _, plural = kind.rpartition("/")
            path = f"{root}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{kind}/{name}"
            host.ask("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
        return not found

    patient(gone, 600.0)  # thousands of foreign objects


def test_an_api_server_that_goes_away_is_told_in_words(plane: ControlPlane, scenario: str) -> None:
    host = plane.host
    before = set(host.objects(marked=False))
    with program(*joining(host, scenario)) as lab:
        lab.until("has joined")
        plane.kill("kube-apiserver")
        try:
            lab.until("does not answer", 30.0)
            assert lab.end() == 1
            assert "'dds lab leave' removes the rest" in lab.text
            assert "Traceback" not in lab.text
        finally:
            plane.start("kube-apiserver")
    left = done(*leaving(host))
    assert left.returncode == 0, left.stderr
    assert host.objects(marked=True) == {}
    patient(
        lambda: set(host.objects(marked=False)) <= before, words=lambda: json.dumps(sorted(host.objects(marked=False)))
    )
