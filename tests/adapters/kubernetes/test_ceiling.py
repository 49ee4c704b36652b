"""How often a process asks a server in trouble, whoever of its threads does."""

from __future__ import annotations

from random import Random

import pytest

from dds_adapters.kubernetes.cluster import path_of, resource_of
from dds_adapters.kubernetes.limiter import MOST, RECOVERED, WINDOW, Ceiling


def sent(ceiling: Ceiling, now: float, code: int, times: int = 1) -> int:
    """How many of so many requests, one after the other, were let through and answered with this code."""
    through = 0
    for _ in range(times):
        if ceiling.begins(now):
            ceiling.ended(now, code)
            through += 1
    return through


@pytest.mark.parametrize("code", [0, 401, 429, 500, 503])
def test_a_server_that_only_fails_gets_so_many_in_a_window(code: int) -> None:
    ceiling = Ceiling()
    assert sent(ceiling, 0.0, code, 50) == MOST
    assert sent(ceiling, WINDOW - 0.1, code, 50) == 0
    assert sent(ceiling, WINDOW, code, 50) == MOST


def test_requests_without_an_answer_count() -> None:
    ceiling = Ceiling()
    sent(ceiling, 0.0, 503)
    assert sum(ceiling.begins(1.0) for _ in range(50)) == MOST - 1
    ceiling.ended(9.0, 0)
    assert not ceiling.begins(9.0)
    assert ceiling.begins(WINDOW), "the first is long ago"
    assert not ceiling.begins(WINDOW), "but what hung until now is not"


@pytest.mark.parametrize("code", [200, 201, 403, 404, 409, 410, 422])
def test_whatever_is_an_answer_holds_nobody_up(code: int) -> None:
    assert sent(Ceiling(), 0.0, code, 500) == 500


def test_a_sound_server_is_not_held_up_by_many_at_once() -> None:
    ceiling = Ceiling()
    assert all(ceiling.begins(0.0) for _ in range(200))


def test_some_answers_in_a_row_end_the_trouble() -> None:
    ceiling = Ceiling()
    sent(ceiling, 0.0, 503, MOST - RECOVERED)
    assert sent(ceiling, 0.0, 200, RECOVERED) == RECOVERED
    assert sent(ceiling, 0.0, 200, 500) == 500
    assert sent(ceiling, 0.0, 503, 50) == MOST


@pytest.mark.parametrize("seed", range(20))
def test_no_window_has_more_whatever_the_order(seed: int) -> None:
    """Of a server that answers nothing well, with requests of any length from many threads."""
    random, ceiling = Random(seed), Ceiling()
    now = 0.0
    running: list[float] = []
    begun: list[float] = []
    for _ in range(400):
        now += random.expovariate(4.0)
        running.sort(reverse=True)
        while running and running[-1] <= now:
            ceiling.ended(running.pop(), random.choice((0, 500, 503, 429)))
        if ceiling.begins(now):
            begun.append(now)
            running.append(now + random.choice((0.0, 0.01, 3.0, 15.0)))
    first_failure = min(begun) + 15.0
    times = [at for at in begun if at >= first_failure]
    most = max(sum(at - WINDOW < other <= at for other in times) for at in times)
    assert most <= MOST


@pytest.mark.parametrize("version", ["v1", "resource.k8s.io/v1"])
@pytest.mark.parametrize(
    ("resource", "namespace", "name", "part"),
    [
        ("nodes", "", "", ""),
        ("nodes", "", "one", ""),
        ("nodes", "", "one", "status"),
        ("pods", "default", "", ""),
        ("pods", "default", "one", ""),
        ("pods", "default", "one", "status"),
        ("namespaces", "", "", ""),
        ("namespaces", "", "one", ""),
    ],
)
def test_the_resource_of_a_path(resource: str, namespace: str, name: str, part: str, version: str) -> None:
    path = path_of(resource, version, namespace, name, part)
    assert resource_of(f"{path}?watch=true&limit=5") == resource


@pytest.mark.parametrize("path", ["/version", "/apis", "/api/v1", "/apis/resource.k8s.io/v1", "/"])
def test_other_paths_are_their_own(path: str) -> None:
    assert resource_of(f"{path}?a=b") == path
