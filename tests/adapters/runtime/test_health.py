"""Liveness and readiness say what kube-apiserver says, in its form, and one check that fails never hides the others."""

from __future__ import annotations

from functools import partial

from dds_adapters.runtime.health import (
    OK,
    Check,
    Health,
    Verdict,
    alive,
    log_there,
    turning,
    unless_standby,
    viewed,
)


def failing() -> Verdict:
    return Verdict(False, "not today")


def good() -> Verdict:
    return OK


def raising() -> Verdict:
    raise KeyError("secret=hunter2")


def test_when_all_is_well_a_page_says_ok() -> None:
    health = Health({"loop": good}, {"log": good})
    assert health.livez() == (200, "ok")
    assert health.readyz() == (200, "ok")


def test_verbose_names_every_check() -> None:
    health = Health({"loop": good}, {"log": good})
    assert health.readyz(verbose=True) == (200, "[+]loop ok\n[+]log ok\nreadyz check passed\n")
    assert health.livez(verbose=True) == (200, "[+]loop ok\nlivez check passed\n")


def test_a_failure_is_told_with_its_detail_even_when_nobody_asked_for_it() -> None:
    health = Health({"loop": good}, {"log": failing, "pods": good})
    assert health.readyz() == (500, "[+]loop ok\n[-]log failed: not today\n[+]pods ok\nreadyz check failed\n")
    assert health.livez() == (200, "ok")


def test_what_does_not_live_is_not_ready() -> None:
    assert Health({"loop": failing}, {}).readyz().code == 500


def test_a_check_that_raises_has_failed_and_shows_nothing_of_the_error() -> None:
    said = Health({}, {"one": raising, "two": good}).readyz()
    assert said == (500, "[-]one failed: the check itself failed with KeyError\n[+]two ok\nreadyz check failed\n")


def test_one_check_alone() -> None:
    health = Health({"loop": good}, {"log": failing})
    assert health.readyz("loop") == (200, "ok")
    assert health.readyz("log") == (500, "internal server error: not today\n")
    assert health.readyz("nothing").code == 404
    assert health.livez("log").code == 404


def test_checks_can_be_excluded() -> None:
    health = Health({"loop": good}, {"log": failing})
    assert health.readyz(exclude=["log"]) == (200, "ok")
    said = health.readyz(exclude=["log", "lgo"], verbose=True)
    assert said.text.splitlines() == [
        "[+]loop ok",
        "[+]log excluded: ok",
        "warn: some health checks cannot be excluded: no matches for 'lgo'",
        "readyz check passed",
    ]


def test_secrets_in_a_detail_are_not_shown() -> None:
    health = Health({}, {"log": lambda: log_there("cannot reach postgresql://dds:hunter2@db/dds")})
    assert "hunter2" not in health.readyz().text


def test_a_loop_that_stands_still_is_dead() -> None:
    assert turning(5.0, 30.0).ok
    assert turning(31.0, 30.0) == (False, "the loop has not run for 31 s")


def test_a_dead_thread_is_named() -> None:
    assert alive({"pods": True, "writer-1": True}).ok
    assert alive({"pods": True, "writer-1": False}) == (False, "writer-1 ended")


def test_while_the_log_is_away_it_is_not_ready() -> None:
    why = [""]
    health = Health({"loop": good}, {"log": lambda: log_there(why[0])})
    assert health.readyz().code == 200
    why[0] = "the database does not answer"
    assert health.readyz().code == 500
    assert health.livez().code == 200


def test_each_resource_has_its_own_line() -> None:
    synced, lost = {"pods"}, {"composableresources"}
    wanted = ("pods", "resourceclaims", "composableresources")
    checks: dict[str, Check] = {one: partial(viewed, one, synced, lost) for one in wanted}
    lines = Health({}, checks).readyz().text.splitlines()
    assert lines == [
        "[+]pods ok",
        "[-]resourceclaims failed: not synced: it was not listed yet",
        "[-]composableresources failed: not served, or this user may not list and watch it",
        "readyz check failed",
    ]
    synced |= {"resourceclaims", "composableresources"}
    lost.clear()
    assert Health({}, checks).readyz().code == 200


def test_a_standby_is_ready() -> None:
    leading = [False]
    health = Health({}, {"resourceclaims": unless_standby(lambda: leading[0], lambda: "a leads", failing)})
    assert health.readyz(verbose=True).text == "[+]resourceclaims ok: standby: a leads\nreadyz check passed\n"
    leading[0] = True
    assert health.readyz().code == 500
