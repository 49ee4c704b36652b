"""Jobs: defaults, the generated selector, what is refused, what an update may change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kinds.kinds import Object, changed, created, metadata, refused_create, refused_update, strategy, updated

POD = "spec.template.spec"
UID = {"batch.kubernetes.io/controller-uid": "u-1"}


def job(**spec: Any) -> Object:
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata("train"),
        "spec": {"template": {"spec": pods}, **spec},
    }


def stored(**spec: Any) -> Object:
    return created(strategy("jobs"), job(**spec))


def test_a_job_is_completed() -> None:
    made = stored()
    spec = made["spec"]
    assert {key: spec[key] for key in spec if key not in ("template", "selector")} == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert stored(parallelism=3)["spec"].get("completions") is None
    assert stored(completions=3)["spec"]["parallelism"] == 1


def test_the_server_makes_selector_and_labels() -> None:
    made = stored()
    assert made["spec"]["selector"] == {"matchLabels": UID}
    names = {"job-name": "train", "batch.kubernetes.io/job-name": "train", "controller-uid": "u-1", **UID}
    assert made["spec"]["template"]["metadata"]["labels"] == names == made["metadata"]["labels"]


def test_a_selector_of_ones_own_needs_manual_selector() -> None:
    own = {"selector": {"matchLabels": {"app": "a"}}}
    body = changed(job(**own), "spec.template.metadata", {"labels": {"app": "a"}})
    assert refused_create(strategy("jobs"), body) == [("Invalid", "spec.selector")]
    made = created(strategy("jobs"), changed(body, "spec.manualSelector", True))
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "a"}
    assert made["spec"]["selector"] == own["selector"]


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        (f"{POD}.restartPolicy", "Always", [("Required", f"{POD}.restartPolicy")]),
        (f"{POD}.containers.0.image", "", [("Required", f"{POD}.containers[0].image")]),
        ("spec.completions", -1, [("Invalid", "spec.completions")]),
        ("spec.parallelism", -1, [("Invalid", "spec.parallelism")]),
        ("spec.backoffLimit", -1, [("Invalid", "spec.backoffLimit")]),
        ("spec.ttlSecondsAfterFinished", -1, [("Invalid", "spec.ttlSecondsAfterFinished")]),
        ("spec.completionMode", "Sorted", [("NotSupported", "spec.completionMode")]),
        ("spec.podReplacementPolicy", "Never", [("NotSupported", "spec.podReplacementPolicy")]),
    ],
)
def test_what_is_refused(path: str, value: Any, refused: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("jobs"), changed(job(), path, value)) == refused


def test_an_indexed_job_needs_completions() -> None:
    body = job(completionMode="Indexed", parallelism=2)
    assert refused_create(strategy("jobs"), body) == [("Required", "spec.completions")]


@pytest.mark.parametrize(
    ("path", "value", "fields"),
    [
        ("spec.completions", 3, ["spec.completions"]),
        (f"{POD}.containers.0.image", "j", ["spec.template"]),
        (f"{POD}.nodeSelector", {"a": "b"}, ["spec.template"]),
        ("spec.parallelism", 5, []),
        ("spec.suspend", True, []),
        ("spec.ttlSecondsAfterFinished", 5, []),
    ],
)
def test_what_may_change(path: str, value: Any, fields: list[str]) -> None:
    old = stored()
    assert [field for _, field in refused_update(strategy("jobs"), changed(old, path, value), old)] == fields


def test_a_suspended_job_may_go_elsewhere_and_an_indexed_one_be_scaled_by_both_numbers() -> None:
    waiting = stored(suspend=True)
    moved = updated(strategy("jobs"), changed(waiting, f"{POD}.nodeSelector", {"a": "b"}), waiting)
    assert moved["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    indexed = stored(completionMode="Indexed", completions=2, parallelism=2)
    both = changed(changed(indexed, "spec.completions", 3), "spec.parallelism", 3)
    assert updated(strategy("jobs"), both, indexed)["spec"]["completions"] == 3
