"""No secret gets out: whatever goes wrong, no message, repr or log line holds a canary that was put where secrets are.

The manager is as unkind as can be: it quotes everything that it was sent in every answer, as it was sent and decoded.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus, urlencode

import httpx
import pytest

from dds_adapters.fabric import FabricError, FabricRefused, Provider
from dds_adapters.fabric.error_text import said as words_of
from dds_adapters.fabric.fsas.credentials import Folder
from dds_adapters.fabric.survey import Answer, NoAnswer, facts_of, survey
from dds_core.events import encode
from tests.adapters.fabric.rig import A100, M1, Desk, jwt, said
from tests.adapters.fabric.test_facts import Known

CANARY = "CanaryQ7"
SECRETS = {
    "username": f"{CANARY}-user &=ü",
    "password": f"{CANARY} p&ss=w%rd ü\"'<>",
    "client_id": f"{CANARY}.client+id",
    "client_secret": f"{CANARY}/=&é",
}
ISSUED = f"{CANARY}.token"


def quoting(request: httpx.Request) -> str:
    """All that was sent, in every form that a manager might echo."""
    content = request.read().decode()
    head = " ".join(f"{name}: {value}" for name, value in request.headers.items())
    forms = (json.dumps(SECRETS), repr(SECRETS), quote(str(SECRETS)), " ".join(SECRETS.values()), head, content)
    turned = int(request.headers["X-Request-Id"][0], 16) % len(forms)  # an error tells the beginning only
    return " ".join((*forms[turned:], *forms[:turned], unquote_plus(content), str(request.url)))


def broken(kind: str) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        text = quoting(request)
        if kind == "connect":
            raise httpx.ConnectError(text)
        if kind == "read":
            raise httpx.ReadError(text)
        if kind == "timeout":
            raise httpx.ReadTimeout(text)
        if kind == "html":
            return httpx.Response(200, content=f"<html>{text}</html>".encode())
        if kind == "redirect":
            return httpx.Response(302, headers={"Location": f"https://x/?{quote(text)}", "Set-Cookie": CANARY})
        if kind == "odd":
            return said(
                {
                    "data": {"machines": [{"mach_uuid": text, CANARY: text}]},
                    "access_token": f"{CANARY} x",
                    "error": text,
                }
            )
        if kind == "keys":
            return said({text: text, "data": {text: text}, "detail": {"code": text, "message": text}})
        status = int(kind)
        return said(
            {"detail": {"code": "E1", "message": text, "data": text}, "error": ISSUED, "error_description": text},
            status,
        )

    return answer


KINDS = [
    "connect",
    "read",
    "timeout",
    "html",
    "redirect",
    "odd",
    "keys",
    "400",
    "401",
    "403",
    "404",
    "429",
    "500",
    "503",
]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def silent(lines: pytest.LogCaptureFixture, *told: object) -> None:
    logged = [f"{one.getMessage()} {vars(one)}" for one in lines.records]
    for text in (*logged, *map(str, told), *map(repr, told)):
        assert CANARY not in text and "p&ss" not in text and "w%25rd" not in text


def trouble(provider: Provider) -> list[str]:
    """What every question says, with traces as a log would print them."""
    told: list[str] = []
    for ask in (provider.machines, lambda: provider.stock(M1, A100), lambda: provider.limits(M1, [A100])):
        try:
            ask()
        except FabricError as error:
            # Not the source lines: those of this test name the canary.
            told += [str(error), repr(error), repr(error.__dict__), "".join(traceback.format_exception_only(error))]
            told += [repr(error.__cause__), repr(error.__context__) if not error.__suppress_context__ else ""]
    return told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["login", "call"])
def test_no_trouble_tells_a_secret(tmp_path: Path, lines: pytest.LogCaptureFixture, kind: str, where: str) -> None:
    desk = Desk(tmp_path, broken(kind), "cm", SECRETS)
    desk.token = lambda request: said({"access_token": ISSUED, "expires_in": 300})
    if where == "login":
        desk.token = broken(kind)
    told = trouble(desk.provider)
    assert told
    answers: list[Answer] = []
    survey(desk.provider, [A100], 0, answers.append, lambda: False, known=[M1])
    failures = [one for one in answers if isinstance(one, NoAnswer)]
    assert failures
    facts = [encode(fact).decode() for one in failures for fact in facts_of(one, Known())]
    silent(lines, *told, *failures, *facts, *desk.observed, desk.provider, desk.settings)


def test_the_canaries_are_really_sent(tmp_path: Path) -> None:
    desk = Desk(tmp_path, broken("404"), "fm", SECRETS)
    desk.token = lambda request: said({"access_token": ISSUED, "expires_in": 300})
    with pytest.raises(FabricError):
        desk.provider.machines()
    assert CANARY in unquote_plus(desk.asked[0].content.decode())
    assert desk.asked[1].headers["Authorization"] == f"Bearer {ISSUED}"


def test_a_token_that_another_thread_replaced_is_not_told(tmp_path: Path) -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"].removeprefix("Bearer "))
        if len(sent) == 1:
            (tmp_path / "credentials" / "password").write_text("another one")
            desk.provider.stock(M1, A100)
            return said({"detail": {"code": "E1", "message": f"what is {sent[0]}"}}, 400)
        return said({"reserved_res_num_per_fabric": 1})

    tokens = iter(("opaque0canary", "another0canary"))
    desk = Desk(tmp_path, answer)
    desk.token = lambda request: said({"access_token": next(tokens), "expires_in": 300})
    with pytest.raises(FabricRefused, match=r"answers with 400: E1 what is \[removed\]"):
        desk.provider.stock(M1, A100)
    assert sent == ["opaque0canary", "another0canary"]


@pytest.mark.parametrize("field", ["username", "password", "realm", "client_id", "client_secret", "certificate"])
@pytest.mark.parametrize("data", [f"{CANARY}\x00".encode(), CANARY.encode() * 2000, CANARY.encode() + b"\xff"])
def test_credentials_that_cannot_be_used_are_not_told(
    tmp_path: Path, lines: pytest.LogCaptureFixture, field: str, data: bytes
) -> None:
    desk = Desk(tmp_path, broken("404"), "fm", SECRETS)
    (tmp_path / "credentials" / field).write_bytes(data)
    if field != "certificate" or b"\x00" not in data:
        assert trouble(desk.provider)
    silent(lines, *trouble(desk.provider))


def test_what_holds_secrets_does_not_show_them(tmp_path: Path, lines: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path, broken("404"), "fm", SECRETS)
    credentials = Folder(tmp_path / "credentials").read()
    assert credentials.password == SECRETS["password"]
    token: Any = desk.provider.__dict__["_session"].token
    desk.token = lambda request: said({"access_token": jwt(canary=CANARY), "expires_in": 300})
    assert token.current()
    silent(lines, credentials, token, vars(token), desk.provider.__dict__["_session"])


@pytest.mark.parametrize("secret", [*SECRETS.values(), "C" + "x" * 998, "ab"])
def test_words_hide_a_secret_in_every_form_and_wherever_they_are_cut(secret: str) -> None:
    forms = (
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret),
        repr(secret),
        urlencode({"x": secret}),
    )
    for form in forms:
        for before in ("", "so ", "x" * 190 + " ", "word " * 13_100):
            words = words_of(f"{before}{form}{form} and more", [secret])
            assert len(words) <= 200
            assert len(secret) <= 2 or (CANARY not in words and "xx" not in words.removeprefix(before.strip()))
    cut = words_of(secret * 70_000, [secret])
    assert len(secret) <= 2 or CANARY not in cut
