"""What goes over the wire: who asks, in which words, and what is made of answers that no API server should give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dds_adapters.kubernetes import access
from dds_adapters.kubernetes import cluster as cluster_module
from dds_adapters.kubernetes.access import InCluster, Kubeconfig
from dds_adapters.kubernetes.cluster import Cluster, Refused, Scope, Unreachable, path_of
from dds_adapters.kubernetes.limiter import MOST
from dds_core.errors import InputError
from dds_lab.api.requests import MASTERS, User
from dds_lab.http_frontend import Served
from dds_lab.http_frontend.credentials import write_kubeconfig
from dds_lab.http_frontend.serving import LOOPBACK
from tests.support.http_server import Asked, HttpServer, Said, http_server
from tests.support.served import client_of, served

CLAIMS = "resource.k8s.io/v1"
LIST = b'{"metadata": {"resourceVersion": "1"}, "items": []}'


@pytest.fixture(params=[LOOPBACK, "::1"])
def pod(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, Path]]:
    """A served lab, and the files that a pod would find in itself; in a cluster of IPv6 only, too."""
    with served(tls=True, host=request.param) as lab:
        assert lab.ca is not None
        (tmp_path / "ca.crt").write_bytes(lab.ca)
        (tmp_path / "token").write_text(lab.tokens["admin"])
        host, _, port = lab.url.removeprefix("https://").rpartition(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host.strip("[]"))  # as the kubelet writes it
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        monkeypatch.delenv("KUBECONFIG", raising=False)
        yield lab, tmp_path


def exchange_token(lab: Served, folder: Path) -> None:
    """What the kubelet does: a new token in the file, and the old one ends."""

    def exchanged() -> None:
        lab.server.access.revoke(lab.tokens["admin"])
        lab.server.access.register("a-newer-token", User("admin", (MASTERS,)))

    lab.run(exchanged)
    (folder / "token").write_text("a-newer-token\n")


def test_in_a_cluster_the_token_of_the_pod_is_sent(pod: tuple[Served, Path]) -> None:
    _, folder = pod
    with closing(Cluster(way=InCluster(folder))) as cluster:
        assert cluster.page("resourceclaims", CLAIMS).items == []


def test_a_token_that_was_exchanged_is_read_again(pod: tuple[Served, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    lab, folder = pod
    monkeypatch.setattr(cluster_module, "RENEW_SECONDS", 0.0)
    with closing(Cluster(way=InCluster(folder))) as cluster:
        cluster.page("nodes", "v1")
        exchange_token(lab, folder)
        assert cluster.page("nodes", "v1").items == []


def test_many_threads_survive_the_exchange_together(pod: tuple[Served, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    lab, folder = pod
    monkeypatch.setattr(cluster_module, "RENEW_SECONDS", 0.0)
    answers: list[int] = []
    with closing(Cluster(way=InCluster(folder))) as cluster:
        cluster.page("nodes", "v1")
        exchange_token(lab, folder)
        threads = [
            threading.Thread(target=lambda: answers.append(cluster.ask("GET", path_of("nodes", "v1")).code))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert answers == [200] * 8


def test_a_token_that_stays_wrong_is_not_read_again_and_again(tmp_path: Path) -> None:
    with http_server(lambda _: Said(401)) as server, closing(Cluster(server.kubeconfig(tmp_path / "k"))) as cluster:
        for _ in range(5):
            with pytest.raises(Refused, match="401"):
                cluster.page("nodes", "v1")
        assert len(server.asked) == 5


def test_a_kubeconfig_that_was_written_anew_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "RENEW_SECONDS", 0.0)

    def answer(asked: Asked) -> Said:
        return Said(200, LIST) if asked.headers.get("authorization") == "Bearer second" else Said(401)

    with http_server(answer) as server:
        path = tmp_path / "kubeconfig"
        with closing(Cluster(server.kubeconfig(path, "first"))) as cluster:
            server.kubeconfig(path, "second")
            assert cluster.page("nodes", "v1").items == []


def test_requests_go_out_as_they_are_given(tmp_path: Path) -> None:
    with (
        http_server(lambda _: Said(201, b"made")) as server,
        closing(Cluster(server.kubeconfig(tmp_path / "k"), user_agent="dds/test")) as cluster,
    ):
        for method, kind in (
            ("POST", "application/json"),
            ("PUT", "application/json"),
            ("PATCH", "application/json-patch+json"),
            ("PATCH", "application/apply-patch+yaml"),
            ("PATCH", "application/merge-patch+json"),
            ("DELETE", "application/json"),
        ):
            path = path_of("resourceclaims", CLAIMS, "a namespace", "c", "status")
            found = cluster.ask(method, path, query={"force": "true"}, body=b'{"a" :1}', content_type=kind)
            assert (found.code, found.body) == (201, b"made")
            asked = server.asked[-1]
            assert asked.path == f"/apis/{CLAIMS}/namespaces/a%20namespace/resourceclaims/c/status?force=true"
            assert (asked.method, asked.body, asked.headers["content-type"]) == (method, b'{"a" :1}', kind)
            assert asked.headers["user-agent"] == "dds/test"
            assert asked.headers["authorization"] == "Bearer a-token"


def test_only_the_objects_of_the_scope_are_asked_for(tmp_path: Path) -> None:
    with http_server(lambda _: Said(200, LIST)) as server, closing(_cluster(server, tmp_path)) as cluster:
        cluster.page("configmaps", "v1", "tok/en", Scope("space", "metadata.name=x"))
        assert server.asked[-1].path == (
            "/api/v1/namespaces/space/configmaps?fieldSelector=metadata.name%3Dx&limit=500&continue=tok%2Fen"
        )
        cluster.watch("pods", "v1", "7", 300, Scope(fields="spec.nodeName=")).close()
        assert server.asked[-1].path == (
            "/api/v1/pods?fieldSelector=spec.nodeName%3D&watch=true&resourceVersion=7&timeoutSeconds=300&allowWatchBookmarks=true"
        )


def test_a_sparing_client_asks_a_server_in_trouble_so_often_and_no_more(tmp_path: Path) -> None:
    with http_server(lambda _: Said(503)) as server, closing(_cluster(server, tmp_path)) as cluster:
        cluster.sparing = True
        assert {cluster.ask("GET", "/api/v1/nodes").code for _ in range(MOST)} == {503}
        with pytest.raises(
            Unreachable, match="/api/v1/nodes: is in trouble and was asked often enough; nothing was sent"
        ):
            cluster.ask("GET", "/api/v1/nodes?limit=1")
        assert len(server.asked) == MOST
        assert cluster.ask("GET", "/api/v1/pods").code == 503, "another resource counts by itself"


@pytest.mark.parametrize(
    ("headers", "wait"), [({"Retry-After": "7"}, 7.0), ({"Retry-After": "Wed, 21 Oct 2026"}, 0.0), ({}, 0.0)]
)
def test_a_refusal_says_how_long_to_wait_and_nothing_is_repeated(
    headers: dict[str, str], wait: float, tmp_path: Path
) -> None:
    said = Said(429, json.dumps({"kind": "Status", "reason": "TooManyRequests"}).encode(), headers)
    with http_server(lambda _: said) as server, closing(_cluster(server, tmp_path)) as cluster:
        with pytest.raises(Refused, match="429 TooManyRequests") as page:
            cluster.page("nodes", "v1")
        with pytest.raises(Refused) as watch:
            cluster.watch("nodes", "v1", "1")
        assert page.value.wait == watch.value.wait == wait
        assert cluster.ask("POST", "/api/v1/nodes", body=b"{}").wait == wait
        assert len(server.asked) == 3


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": 3}', b'{"items": [}', b"\xff"])
def test_what_is_no_list_is_told_as_such(body: bytes, tmp_path: Path) -> None:
    said = Said(200, body)
    with http_server(lambda _: said) as server, closing(_cluster(server, tmp_path)) as cluster:
        assert_fails(lambda: cluster.page("nodes", "v1"), "something else than a list")


@pytest.mark.parametrize("body", [b"<html>\n", b'{"type": 3}\n', b"[]\n", b'{"type":"ADDED"}\n'])
def test_what_is_no_watch_is_told_as_such(body: bytes, tmp_path: Path) -> None:
    said = Said(200, body, closed=True)
    with http_server(lambda _: said) as server, closing(_cluster(server, tmp_path)) as cluster:
        assert_fails(lambda: list(cluster.watch("nodes", "v1", "1").events), "not one of objects")


def test_half_a_line_at_the_end_is_not_an_event(tmp_path: Path) -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'
    said = Said(200, line + b"\n" + line[:20], closed=True)
    with http_server(lambda _: said) as server, closing(_cluster(server, tmp_path)) as cluster:
        found = [bytes(event.object) for event in cluster.watch("nodes", "v1", "1").events]
        assert found == [b'{"metadata":{"name":"a"}}']


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "LONGEST_LINE", 100_000)
    said = Said(200, b"x" * 400_000, closed=True)
    with http_server(lambda _: said) as server, closing(_cluster(server, tmp_path)) as cluster:
        assert_fails(lambda: list(cluster.watch("nodes", "v1", "1").events), "not one of objects")


def test_a_redirection_is_not_followed_with_our_token(tmp_path: Path) -> None:
    said = Said(302, b"", {"Location": "http://127.0.0.1:1/elsewhere"})
    with http_server(lambda _: said) as server, closing(_cluster(server, tmp_path)) as cluster:
        assert cluster.ask("GET", "/api/v1/nodes").code == 302
        with pytest.raises(Refused, match="302"):
            cluster.page("nodes", "v1")
        assert len(server.asked) == 2


@pytest.mark.parametrize("tls", [False, True])
def test_a_watch_that_waits_is_ended_from_another_thread(tls: bool, tmp_path: Path) -> None:
    with served(tls=tls) as lab, closing(Cluster(lab.kubeconfig(tmp_path / "k"))) as cluster:
        lab.run(lambda: client_of(lab.server).create("nodes", {"metadata": {"name": "n"}}))
        watch = cluster.watch("nodes", "v1", "1", 300)
        seen = threading.Event()
        ended: list[float] = []

        def read() -> None:
            try:
                for _ in watch.events:
                    seen.set()
            except Unreachable:
                pass
            ended.append(time.monotonic())

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        assert seen.wait(10)
        asked = time.monotonic()
        watch.end()
        thread.join(10)
        assert ended and ended[0] - asked < 2
        watch.end()


def test_nobody_there_is_one_line_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "k"
    with http_server(lambda _: Said()) as server:
        server.kubeconfig(path)
    with closing(Cluster(str(path))) as cluster, pytest.raises(Unreachable, match=r"127\.0\.0\.1.*check network"):
        cluster.page("nodes", "v1")


def test_a_certificate_of_somebody_else_is_told_as_such(tmp_path: Path) -> None:
    with served(tls=True) as lab, served(tls=True) as other:
        write_kubeconfig(tmp_path / "k", lab.url, lab.tokens, other.ca)
        with closing(Cluster(str(tmp_path / "k"))) as cluster, pytest.raises(Unreachable) as caught:
            cluster.page("nodes", "v1")
    assert "has a certificate that is not trusted (" in str(caught.value)
    assert "give the certificate authority of this server" in str(caught.value)


def test_a_server_that_takes_too_long_is_left(tmp_path: Path) -> None:
    over = threading.Event()

    def answer(asked: Asked) -> Said:
        over.wait(10)
        return Said()

    with http_server(answer) as server, closing(_cluster(server, tmp_path)) as cluster:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            cluster.ask("GET", "/api/v1/nodes", timeout=0.3)
        assert time.monotonic() - begun < 5
        over.set()


def test_with_new_credentials_nothing_is_sent_after_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write must not begin when the lease may be another's by then."""
    monkeypatch.setattr(cluster_module, "RENEW_SECONDS", 0.0)

    def answer(asked: Asked) -> Said:
        return Said(401) if asked.headers.get("authorization") == "Bearer first" else Said(200, LIST)

    with http_server(answer) as server:
        path = tmp_path / "kubeconfig"
        with closing(Cluster(server.kubeconfig(path, "first"))) as cluster:
            server.kubeconfig(path, "second")
            client = cluster._way.client

            class Slow:  # a program that has to be run for a token
                name = "slow"

                def client(self) -> object:
                    time.sleep(0.8)
                    return client()

            cluster._way = Slow()
            with pytest.raises(Unreachable):
                cluster.ask("PATCH", "/api/v1/nodes/n", body=b"{}", timeout=0.7)
            assert len(server.asked) == 1
            assert cluster.ask("PATCH", "/api/v1/nodes/n", body=b"{}").code == 200


def test_where_the_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert access.found().name == str(tmp_path / ".kube" / "config")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert access.found(account=tmp_path) == InCluster(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/some/where")
    assert access.found().name == "/some/where"
    assert access.found("/given", "context") == access.Kubeconfig("/given", "context")


def test_a_pod_without_its_account_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(InputError, match="service account's token"):
        Cluster(way=InCluster(tmp_path))


def test_the_official_client_is_loaded_when_a_cluster_is_asked_and_not_before() -> None:
    script = "import sys, dds_adapters.kubernetes.watch.reflector; print('kubernetes' in sys.modules, 'urllib3' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["False", "False"]


def assert_fails(call: Callable[[], object], words: str) -> None:
    with pytest.raises(Unreachable, match=words):
        call()


def _cluster(server: HttpServer, folder: Path) -> Cluster:
    return Cluster(server.kubeconfig(folder / "kubeconfig"))


# -- how a client is made from a kubeconfig: what is said of one that cannot be used


def refused(path: str, context: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        Kubeconfig(path, context).client()
    said = str(caught.value)
    assert said.startswith(f"{path}: ") and ".;" not in said and "\n" not in said
    return said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no such file; give a kubeconfig" in refused(str(tmp_path / "no"))
    assert "there is no such file" in refused(os.pathsep.join([str(tmp_path / "no"), str(tmp_path / "neither")]))


@pytest.mark.parametrize("text", ["", "mode: attach\n", "[", "current-context: a\n"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert "cannot be used: " in refused(str(path))
