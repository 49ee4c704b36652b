"""Who may see the metrics: judged by the lab's API server over HTTP, remembered for a while, refused in doubt."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer, Cluster
from dds_adapters.web.messages import plain
from dds_adapters.web.reviews import ALLOWED, AWAY, FORBIDDEN, REMEMBERED, UNKNOWN, Reviews, guarded
from dds_adapters.web.server import Server
from dds_lab.api.requests import User
from tests.adapters.web.asking import ask, running
from tests.support.served import client_of, new_server, served

SCRAPER, NOBODY = "scraper-token-6Tz", "nobody-token-8Qw"


class Counting:
    """A cluster that counts what it is asked, and can be away."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.paths: list[str] = []

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        self.paths.append(path.rpartition("/")[2])
        return self._cluster.ask(method, path, **{**more, "timeout": 2.0})


@contextmanager
def api(tmp_path: Path, context: str = "admin") -> Iterator[Counting]:
    """A lab that knows a scraper, who may get /metrics by a role, and somebody who may nothing."""
    server = new_server()
    server.access.register(SCRAPER, User("prometheus", ("monitoring", "system:authenticated")))
    server.access.register(NOBODY, User("nobody", ("system:authenticated",)))
    client = client_of(server)
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    client.create("clusterroles", {**kind, "kind": "ClusterRole", "metadata": {"name": "scrape"}, "rules": rules})
    binding = {
        **kind,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "scrape"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape"},
        "subjects": [{"kind": "Group", "name": "monitoring", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    client.create("clusterrolebindings", binding)
    with served(server=server) as lab:
        path = tmp_path / "kubeconfig"
        lab.kubeconfig(path)
        cluster = Cluster(str(path), context)
        try:
            yield Counting(cluster)
        finally:
            cluster.close()


def bearer(token: str) -> str:
    return f"Bearer {token}"


def test_the_api_server_says_who_may(tmp_path: Path) -> None:
    with api(tmp_path) as cluster:
        reviews = Reviews(cluster)
        assert reviews.judge(bearer(SCRAPER)) == ALLOWED
        assert reviews.judge(bearer(NOBODY)) == FORBIDDEN
        assert reviews.judge(bearer("a-token-of-no-one")) == UNKNOWN
        assert cluster.paths == [*["tokenreviews", "subjectaccessreviews"] * 2, "tokenreviews"]
        assert Reviews(cluster, "/other").judge(bearer(SCRAPER)) == FORBIDDEN


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer ä", "Bearer " + "x" * 20_000]
)
def test_without_a_usable_token_nobody_is_asked(tmp_path: Path, header: str | None) -> None:
    with api(tmp_path) as cluster:
        assert Reviews(cluster).judge(header) == UNKNOWN
        assert cluster.paths == []


def test_answers_are_remembered_for_a_while(tmp_path: Path) -> None:
    now = [1000.0]
    with api(tmp_path) as cluster:
        reviews = Reviews(cluster, now=lambda: now[0])
        for _ in range(3):
            assert reviews.judge(bearer(SCRAPER)) == ALLOWED
            assert reviews.judge(bearer(NOBODY)) == FORBIDDEN
        assert len(cluster.paths) == 4
        now[0] += 11.0
        reviews.judge(bearer(SCRAPER))
        reviews.judge(bearer(NOBODY))
        assert len(cluster.paths) == 6
        now[0] += 50.0
        reviews.judge(bearer(SCRAPER))
        assert len(cluster.paths) == 8


def test_tokens_are_not_kept_and_memory_is_bounded() -> None:
    class Refusing:
        def ask(self, method: str, path: str, **more: Any) -> Answer:
            return Answer(201, b'{"status":{"authenticated":false}}')

    reviews = Reviews(Refusing())
    for number in range(REMEMBERED + 50):
        assert reviews.judge(bearer(f"token-{number}")) == UNKNOWN
    assert len(reviews) == REMEMBERED
    assert "token-1049" not in repr(vars(reviews))


def test_while_the_api_server_is_away_only_the_known_get_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    with api(tmp_path) as cluster:
        reviews = Reviews(cluster, now=lambda: now[0])
        assert reviews.judge(bearer(SCRAPER)) == ALLOWED
    assert reviews.judge(bearer(SCRAPER)) == ALLOWED
    assert reviews.judge(bearer(NOBODY)) == AWAY
    assert reviews.judge(bearer(NOBODY)) == AWAY
    now[0] += 61.0
    assert reviews.judge(bearer(SCRAPER)) == AWAY
    mine = [record.getMessage() for record in caplog.records if record.name == "dds.web"]
    assert mine == ["nobody can be let to /metrics: the API server gave no review (Unreachable)"]


def test_without_the_permission_to_ask_nobody_gets_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with api(tmp_path, "dds") as cluster:
        assert Reviews(cluster).judge(bearer(SCRAPER)) == AWAY
    assert "the API server gave no review (403 for tokenreviews)" in caplog.text


def test_a_guarded_page_over_http(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dds")
    with api(tmp_path) as cluster:
        page = guarded(lambda request: plain(200, "numbers"), Reviews(cluster))
        with running(Server({"/metrics": page, "/livez": lambda request: plain(200, "ok")})) as server:
            said = ask(server, "/metrics")
            assert (said.code, said.headers["www-authenticate"]) == (401, "Bearer")
            assert ask(server, "/metrics", headers={"Authorization": bearer(NOBODY)})[:2] == (403, b"403 forbidden\n")
            assert ask(server, "/metrics", headers={"Authorization": bearer(SCRAPER)})[:2] == (200, b"numbers")
            assert ask(server, "/metrics", "HEAD", headers={"Authorization": bearer(SCRAPER)}).code == 200
            assert ask(server, "/livez").code == 200
    assert SCRAPER not in caplog.text and NOBODY not in caplog.text


def test_a_guarded_page_while_the_api_server_is_away(tmp_path: Path) -> None:
    with api(tmp_path) as cluster:
        page = guarded(lambda request: plain(200, "numbers"), Reviews(cluster))
    with running(Server({"/metrics": page})) as server:
        said = ask(server, "/metrics", headers={"Authorization": bearer(SCRAPER)})
        assert (said.code, said.headers["retry-after"]) == (503, "5")
