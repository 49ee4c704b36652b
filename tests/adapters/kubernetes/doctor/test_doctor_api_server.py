"""What the doctor says of the API server itself."""

from __future__ import annotations

import inspect
import re

import pytest

from dds_adapters.kubernetes.doctor import LEVELS, api_server, examination, fabric
from tests.support.commands import REPOSITORY
from tests.support.doctor_lab import DoctorLab, levels

SECOND = 1_000_000


@pytest.fixture(scope="module")
def clinic() -> DoctorLab:
    return DoctorLab()


def test_a_server_that_answers(clinic: DoctorLab) -> None:
    assert levels(clinic.look(api_server.reachable)) == ["ok"]


def test_who_we_are(clinic: DoctorLab) -> None:
    assert [one.what for one in clinic.look(api_server.authentication)] == ["as admin"]


def test_credentials_that_nobody_knows_are_one_line() -> None:
    clinic = DoctorLab(seconds=0)
    context = clinic.context(user="somebody")
    clinic.lab.server.access.revoke("direct-somebody")
    (found,) = api_server.authentication(context)
    assert found.level == "error"
    assert "401" in found.what and found.mend.startswith("renew the credentials")


def test_whoever_is_anonymous_is_told_so() -> None:
    clinic = DoctorLab(seconds=0)
    (found,) = clinic.look(api_server.authentication, user="system:anonymous")
    assert (found.level, found.what) == ("error", "we are anonymous")


@pytest.mark.parametrize(("version", "level"), [("1.34", "note"), ("1.35", "note"), ("1.36", "ok")])
def test_what_a_release_means(version: str, level: str) -> None:
    (found,) = DoctorLab(seconds=0, version=version).look(api_server.release)
    assert found.level == level
    assert found.what.startswith(f"v{version}.")
    assert ("off by default" in found.what) == (level == "note")


def test_the_kinds_are_served(clinic: DoctorLab) -> None:
    found = clinic.look(api_server.kinds)
    assert levels(found) == ["ok"] * 3
    assert {one.what.split()[0] for one in found} == {"resourceclaims", "resourceslices", "deviceclasses"}


@pytest.mark.parametrize(
    ("ahead", "level"),
    [(0, "ok"), (2.5, "ok"), (-2, "ok"), (5, "warning"), (-5, "warning"), (75, "error"), (-600, "error")],
)
def test_a_clock_that_is_wrong(clinic: DoctorLab, ahead: float, level: str) -> None:
    (found,) = clinic.look(api_server.clock, skew=round(ahead * SECOND))
    assert found.level == level
    if level != "ok":
        assert ("ahead of" if ahead > 0 else "behind") in found.what
        assert found.mend


def test_everybody_sees_the_clock() -> None:
    clinic = DoctorLab(seconds=0)
    (found,) = clinic.look(api_server.clock, user="stranger", groups=(), skew=75 * SECOND)
    assert (found.level, found.what.startswith("our clock is at least 1 min 1")) == ("error", True)


@pytest.mark.parametrize(
    ("stamp", "before", "after", "skew"),
    [
        (10, 10.0, 10.1, 0.0),  # the same second
        (10, 10.9, 11.2, 0.0),  # ours has turned over meanwhile
        (10, 11.5, 11.6, -0.5),  # its second was over before ours began
        (10, 9.0, 9.5, 0.5),
        (10, 10.2, 10.1, 0.0),  # our own clock went back
    ],
)
def test_whole_seconds_tell_only_so_much(stamp: float, before: float, after: float, skew: float) -> None:
    found = api_server.between(round(stamp * SECOND), round(before * SECOND), round(after * SECOND))
    assert found == round(skew * SECOND)


# -- docs/doctor.md names every topic that there is, and no other


PAGE = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
OTHERS = {
    "policy",
    "publish policy",
    "log",
    "binding timeout",
    "operator queue",
    "cluster",
    "machines",
    "autoscale policy",
}
FABRIC = re.findall(r'"(fabric(?: [a-z]+)?)"', inspect.getsource(fabric) + inspect.getsource(examination))


def test_the_page_has_every_level_and_topic() -> None:
    named = set(re.findall(r"^\| ([a-z ]+) \|", PAGE, flags=re.MULTILINE)) - {"level", "topic"}
    assert named == {one.topic for one in examination.CHECKS} | OTHERS | set(FABRIC) | set(LEVELS)
