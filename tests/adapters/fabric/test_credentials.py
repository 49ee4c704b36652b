"""Credentials in a folder, and the token that is got for them."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest

from dds_adapters.fabric import FabricDenied, FabricError, FabricOdd
from dds_adapters.fabric.fsas.credentials import Credentials, Folder
from dds_core.text import scrub
from tests.adapters.fabric.rig import FIELDS, Desk, folder, jwt, login, said


def machines(request: httpx.Request) -> httpx.Response:
    return said({"data": {"machines": []}})


# -- the folder --------------------------------------------------------------------------------------------------------


def test_fields_are_read_as_they_are_but_for_the_last_line_break(tmp_path: Path) -> None:
    path = folder(tmp_path / "c", password=" a&b=c ü \n", username="user\r\n", certificate="-----BEGIN\n")
    assert Folder(path).read() == Credentials("user", " a&b=c ü ", "CDI", "client", "a-secret", "-----BEGIN\n")


def test_a_mounted_secret_that_changes_is_read_again(tmp_path: Path) -> None:
    for version, word in (("v1", "old"), ("v2", "new")):
        folder(tmp_path / version, password=word)
    mount = tmp_path / "mount"
    mount.mkdir()
    (mount / "..data").symlink_to(tmp_path / "v1")
    for name in FIELDS:
        (mount / name).symlink_to(Path("..data") / name)
    found = Folder(mount)
    assert found.read().password == "old"
    (mount / "..next").symlink_to(tmp_path / "v2")
    os.replace(mount / "..next", mount / "..data")  # as the kubelet does it
    assert found.read().password == "new"


def test_a_secret_that_turns_while_it_is_read_is_read_as_one(tmp_path: Path) -> None:
    """Never the user of the one with the password of the other."""
    for name in ("old", "new"):
        folder(tmp_path / name, **{field: f"{name}-{field}" for field in FIELDS})
    (tmp_path / "..data").symlink_to("old")
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for field in FIELDS:
        (mounted / field).symlink_to(f"../..data/{field}")

    class Turning(Folder):
        def _text(self, name: str, most: int) -> str:
            if name == "realm" and (tmp_path / "..data").readlink() == Path("old"):
                (tmp_path / "..next").symlink_to("new")
                (tmp_path / "..next").replace(tmp_path / "..data")
            return super()._text(name, most)

    found = Turning(mounted).read()
    assert {getattr(found, field) for field in FIELDS} == {f"new-{field}" for field in FIELDS}


def test_a_mark_that_an_editor_puts_before_a_text_is_no_part_of_it(tmp_path: Path) -> None:
    found = Folder(folder(tmp_path / "c", password="\ufeffp&ss\r\n", certificate="\ufeff-----BEGIN")).read()
    assert (found.password, found.certificate) == ("p&ss", "-----BEGIN")


def test_what_does_not_change_is_not_read_again(tmp_path: Path) -> None:
    found = Folder(folder(tmp_path / "c"))
    assert found.read() is found.read()


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("password", None, "is missing"),
        ("username", b"", "is empty"),
        ("realm", b"\n", "is empty"),
        ("client_id", b"x" * 1000, "is longer than 999 bytes"),
        ("client_secret", b"a\nb", "holds a control character"),
        ("password", b"\xff\xfe", "is not UTF-8"),
        ("certificate", b"x" * 10_000, "is longer than 9999 bytes"),
    ],
)
def test_what_cannot_be_used_is_named_and_not_quoted(tmp_path: Path, name: str, data: bytes | None, what: str) -> None:
    path = folder(tmp_path / "credentials")  # a word that stands before secrets
    (path / name).unlink(missing_ok=True)
    if data is not None:
        (path / name).write_bytes(data)
    with pytest.raises(FabricDenied) as caught:
        Folder(path).read()
    told = str(caught.value)
    assert told.startswith(f"login: the file {name} in {path} {what}; the folder holds username, password, ")
    assert scrub(told) == told, "as it stands in the log"
    assert caught.value.general


def test_what_was_taken_away_is_not_used_any_more(tmp_path: Path) -> None:
    path = folder(tmp_path / "c")
    found = Folder(path)
    found.read()
    (path / "password").unlink()
    for _ in range(2):
        with pytest.raises(FabricDenied, match="is missing"):
            found.read()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FabricDenied, match=r"the file username in .* is missing"):
        Folder(tmp_path / "none").read()


# -- the token ---------------------------------------------------------------------------------------------------------


def test_the_login_sends_every_value_whole(tmp_path: Path) -> None:
    odd = {
        "username": "a=b",
        "password": "p&ss w+rd=%41 ü\"'",
        "client_id": "c&d",
        "client_secret": "=&=é",
        "realm": "r m/ü",
    }
    desk = Desk(tmp_path, machines, fields=odd)
    desk.provider.machines()
    request = desk.asked[0]
    form = {name: value for name, [value] in parse_qs(request.content.decode("ascii"), strict_parsing=True).items()}
    assert form == {
        **{name: value for name, value in odd.items() if name != "realm"},
        "scope": "openid",
        "response_type": "id_token token",
        "grant_type": "password",
    }
    assert request.url.raw_path.endswith(b"/id_manager/realms/r%20m%2F%C3%BC/protocol/openid-connect/token")
    assert (request.method, request.headers["content-type"]) == ("POST", "application/x-www-form-urlencoded")


@pytest.mark.parametrize(
    ("claims", "expires_in", "lives"),
    [
        ({"exp": 1_800_001_000 + 300}, 10, 270),  # by its end and our clock
        ({"exp": 5_000, "iat": 4_700}, 10, 270),  # by the id manager's clock, whatever ours shows
        ({"exp": 5_020, "iat": 5_000}, None, 10),  # a short one: half of it
        ({"exp": True}, 300, 270),
        ({"exp": "soon"}, 300, 270),
        ({}, 300, 270),
        (None, 300, 270),  # a token of another kind
    ],
)
def test_a_token_is_renewed_thirty_seconds_before_its_end(
    tmp_path: Path, claims: dict[str, object] | None, expires_in: int | None, lives: float
) -> None:
    desk = Desk(tmp_path, machines)
    token = "opaque" if claims is None else jwt(**claims)
    desk.token = lambda request: said({"access_token": token, "expires_in": expires_in})
    desk.provider.machines()
    desk.clock.now += lives - 0.5
    desk.provider.machines()
    assert desk.logins == 1
    desk.clock.now += 1
    desk.provider.machines()
    assert desk.logins == 2
    assert desk.calls[-1].headers["Authorization"] == f"Bearer {token}"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({}, "field access_token is missing"),
        ({"access_token": ""}, "field access_token is not of the form"),
        ({"access_token": "a b", "expires_in": 5}, "field access_token is not of the form"),
        ({"access_token": "ü", "expires_in": 5}, "field access_token is not of the form"),
        ({"access_token": "x" * 20_000, "expires_in": 5}, "field access_token is not of the form"),
        ({"access_token": "opaque"}, "field expires_in is missing, and the token does not tell its end"),
        ({"access_token": "opaque", "expires_in": -1}, "field expires_in is not as expected"),
        ({"access_token": "opaque", "expires_in": 0}, "field access_token has ended already"),
        ({"access_token": jwt(exp=1), "expires_in": 300}, "field access_token has ended already"),
    ],
)
def test_a_login_that_gives_no_token(tmp_path: Path, body: object, what: str) -> None:
    desk = Desk(tmp_path, machines)
    desk.token = lambda request: said(body)
    with pytest.raises(FabricOdd) as caught:
        desk.provider.machines()
    assert what in str(caught.value) and caught.value.general
    assert not desk.calls


def test_d10_many_threads_log_in_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, machines)
    entered = threading.Barrier(8, timeout=30)

    def ask() -> None:
        entered.wait()
        for _ in range(20):
            desk.provider.machines()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(ask) for _ in range(8)]:
            done.result()
    assert (desk.logins, len(desk.calls)) == (1, 160)


def test_logins_that_give_nothing_of_use_are_not_made_by_every_question(tmp_path: Path) -> None:
    desk = Desk(tmp_path, machines)
    desk.token = lambda request: said({"access_token": jwt(exp=1)})
    for _ in range(20):
        with pytest.raises(FabricOdd, match="has ended already"):
            desk.provider.machines()
        desk.clock.now += 1
    assert desk.logins == 2
    desk.token = lambda request: login(desk.clock)
    desk.clock.now += 10
    assert desk.provider.machines() == ()


@pytest.mark.parametrize("answer", [said({}, 500), said({"token": "?"}), httpx.ReadTimeout("slow")])
def test_a_login_that_fails_fails_for_all_that_wait_for_it(
    tmp_path: Path, answer: httpx.Response | httpx.HTTPError
) -> None:
    """Else each of them would wait for a login of its own, one after the other."""
    desk = Desk(tmp_path, machines)
    begun, waiting = threading.Event(), threading.Event()

    def token(request: httpx.Request) -> httpx.Response:
        begun.set()
        waiting.wait(30)
        desk.clock.now += 30
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return answer

    def ask() -> FabricError:
        with pytest.raises(FabricError) as caught:
            desk.provider.machines()
        return caught.value

    desk.token = token
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(ask)
        begun.wait(30)
        others = [pool.submit(ask) for _ in range(7)]
        while any(not one.running() for one in others):
            time.sleep(0.01)
        time.sleep(0.1)
        waiting.set()
        assert all(one.result().general for one in (first, *others))
    assert desk.logins == 1
    desk.clock.now += 10
    ask()
    assert desk.logins == 2, "who comes later tries again"


def test_many_threads_that_are_refused_renew_once(tmp_path: Path) -> None:
    good: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        fine = request.headers["Authorization"] == f"Bearer {good[-1]}" and len(good) > 1
        return machines(request) if fine else said({}, 401)

    def token(request: httpx.Request) -> httpx.Response:
        good.append(jwt(exp=int(desk.clock.wall() + 300), number=len(good)))
        return said({"access_token": good[-1]})

    desk = Desk(tmp_path, answer)
    desk.token = token
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(desk.provider.machines) for _ in range(8)]:
            done.result()
    assert desk.logins == 2


def test_d10_other_credentials_are_used_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, machines)
    desk.provider.machines()
    folder(tmp_path / "credentials", username="somebody-else")
    desk.provider.machines()
    assert desk.logins == 2
    assert b"username=somebody-else" in desk.asked[2].content


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            400,
            {"error": "invalid_grant", "error_description": "user a-password"},
            r"refused \(400 invalid_grant\); check username",
        ),
        (401, {"error": "a-password is wrong"}, r"refused \(401\); check username.* whether the account is locked"),
        (403, "no", r"refused \(403\); check username"),
        (404, {"error": "Realm does not exist"}, r"refused \(404\); check realm in the credentials"),
    ],
)
def test_a_refused_login_says_what_to_check_and_no_more(tmp_path: Path, status: int, body: object, words: str) -> None:
    desk = Desk(tmp_path, machines)
    desk.token = lambda request: said(body, status)
    with pytest.raises(FabricDenied, match=words) as caught:
        desk.provider.machines()
    assert "a-password" not in str(caught.value)


def test_a_login_that_is_sent_elsewhere_does_not_go_there(tmp_path: Path) -> None:
    desk = Desk(tmp_path, machines)
    desk.token = lambda request: httpx.Response(302, headers={"Location": "https://elsewhere.example/?a-password"})
    with pytest.raises(FabricError, match=r"im\.token .*answers with a redirect \(302\).*; give the address") as caught:
        desk.provider.machines()
    assert "elsewhere" not in str(caught.value)
    assert [request.url.host for request in desk.asked] == ["fabric.example"]


def test_a_refused_login_is_repeated_ever_more_seldom(tmp_path: Path) -> None:
    desk = Desk(tmp_path, machines)
    desk.token = lambda request: said({}, 401)
    for _ in range(3600):
        with pytest.raises(FabricError):
            desk.provider.machines()
        desk.clock.now += 1
    assert desk.logins == 9  # at 0, 60, 180, 420, 900, and then every ten minutes
    desk.token = lambda request: login(desk.clock)
    desk.clock.now += 600
    assert desk.provider.machines() == ()


def test_d10_a_token_that_has_ended_is_not_used_when_there_is_no_other(tmp_path: Path) -> None:
    desk = Desk(tmp_path, machines)
    desk.provider.machines()
    desk.clock.now += 3600
    desk.token = lambda request: said({}, 500)
    for _ in range(3):
        with pytest.raises(FabricError, match="the login fails with 500"):
            desk.provider.machines()
    assert len(desk.calls) == 1
