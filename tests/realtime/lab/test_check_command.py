"""`dds lab check` with a scaler that is a program: dds itself, disturbed on the wire."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace

import pytest

from dds_lab.check.campaign import Case, Found, faults_of_calm, perturbation_of, play
from tests.support.commands import REPOSITORY
from tests.support.sooner import TIMES, dds_beside, sooner

POINTS = ("dies:12", "unseen:10", "stale:8:5", "stale-start:9:1", "late:12:5")
WRITES = ("dies-before:3", "dies-after:3", "answer-lost:3", "too-late:3")


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> str:
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text("{mode: detach, no_removal_seconds: 8}")
    with sooner(10, "FENCE_SETTLE"):
        times, program = os.environ[TIMES], shlex.join(dds_beside())
    dds = f"env {TIMES}={shlex.quote(times)} PYTHONPATH={shlex.quote(str(REPOSITORY))} {program}"
    addresses = "--health-probe-bind-address 0 --metrics-bind-address 0"
    return f"exec {dds} serve --migrate --log sqlite:///$RUN/dds.db --policy {shlex.quote(str(policy))} {addresses}"


def test_a_program_is_disturbed_and_comes_to_the_same_end(serve: str) -> None:
    calm = Case("first_attach", 1, serve, speed=2.0)
    assert faults_of_calm(calm).said == ()
    found: list[Found] = []
    points = [perturbation_of(one) for one in (*POINTS, *WRITES)]
    play([Case("first_attach", 1, serve, 2.0, one) for one in points], 10, found.append)
    assert {str(one.case.perturbation): one.said for one in found} == {str(one): () for one in points}


def test_a_program_that_does_nothing_is_found_out_and_reaches_no_point() -> None:
    idle = Case("first_attach", 1, "exec sleep 1000", speed=20.0)
    assert [rule for rule, _ in faults_of_calm(idle).said] == ["waits for ever"]
    found: list[Found] = []
    play([replace(idle, perturbation=perturbation_of("dies:0"))], 1, found.append)
    assert found[0].said == (("not reached", "the run has 0 events and 0 writes"),)
