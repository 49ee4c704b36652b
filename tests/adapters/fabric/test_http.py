"""One call: tries, waits, bounds, and what an answer may not be."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest

from dds_adapters.fabric import FabricAway, FabricOdd, FabricRefused, FabricUnreachable
from dds_adapters.fabric.provider import FabricBusy
from tests.adapters.fabric.rig import A100, M1, Desk, said

EMPTY: dict[str, Any] = {"data": {"machines": []}}


def in_turn(*answers: httpx.Response | Exception) -> Callable[[httpx.Request], httpx.Response]:
    """Answers one after the other, the last one for ever."""
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    return answer


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("slow"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed"),
        said({}, 429),
        said({}, 500),
        said({}, 502),
        said({}, 503),
        said({}, 504),
    ],
)
def test_what_passes_is_tried_three_times(tmp_path: Path, trouble: Any) -> None:
    desk = Desk(tmp_path, in_turn(trouble, trouble, said(EMPTY)))
    assert desk.provider.machines() == ()
    assert len(desk.calls) == 3
    first, second = desk.clock.waits
    assert 0 <= first <= 0.5 and 0 <= second <= 1.0


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (
            httpx.ConnectError("refused"),
            FabricAway,
            "no connection to fabric.example:443 comes about (ConnectError); check address, port and network",
        ),
        (httpx.ReadError("reset"), FabricUnreachable, "the connection broke off (ReadError); "),
        (said({"detail": {"code": "E1", "message": "no"}}, 503), FabricRefused, "answers with 503: E1 no; "),
        (said({}, 429), FabricRefused, "answers with 429; the manager has too much to do"),
    ],
)
def test_the_third_time_it_is_told(tmp_path: Path, trouble: Any, kind: type[Exception], words: str) -> None:
    desk = Desk(tmp_path, in_turn(trouble))
    with pytest.raises(kind) as caught:
        desk.provider.machines()
    assert words in str(caught.value)
    assert len(desk.calls) == 3
    assert desk.calls[-1].headers["X-Request-Id"] in str(caught.value)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 418, 501])
def test_what_does_not_pass_is_not_tried_again(tmp_path: Path, status: int) -> None:
    desk = Desk(tmp_path, in_turn(said({"detail": {"code": status, "message": {"x": 1}}}, status)))
    with pytest.raises(FabricRefused, match=rf"answers with {status}: {status};") as caught:
        desk.provider.machines()
    assert caught.value.code == status
    assert len(desk.calls) == 1


def test_a_redirect_is_not_followed_and_its_goal_not_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_turn(httpx.Response(302, headers={"Location": "https://thief.example/?t=canary"})))
    with pytest.raises(FabricRefused, match=r"answers with a redirect \(302\), which is not followed") as caught:
        desk.provider.machines()
    assert "thief" not in str(caught.value)
    assert {one.url.host for one in desk.asked} == {"fabric.example"}


def test_retry_after_may_be_a_date(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said({}))
    date = formatdate(desk.clock.wall() + 20, usegmt=True)
    desk.handler = in_turn(said({}, 503, {"Retry-After": date}), said(EMPTY))
    desk.provider.machines()
    assert desk.clock.waits == [20.0]


def test_who_wishes_to_be_left_alone_is_left_alone_by_every_question(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_turn(said({}, 503, {"Retry-After": "100"}), said(EMPTY)))
    with pytest.raises(FabricRefused, match="answers with 503"):
        desk.provider.machines()
    for _ in range(5):
        with pytest.raises(FabricBusy, match=r"wishes to be left alone for 100 s \(it answered 503\)") as caught:
            desk.provider.machines()
        assert caught.value.general
    assert len(desk.calls) == 1
    desk.clock.now += 50
    assert desk.provider.machines() == ()  # it fits into a call
    assert (desk.clock.waits, len(desk.calls)) == ([50.0], 2)


def test_a_wish_to_be_left_alone_for_ever_is_heeded_for_five_minutes(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_turn(said({}, 429, {"Retry-After": "999999999"}), said(EMPTY)))
    with pytest.raises(FabricBusy, match="answers with 429"):
        desk.provider.machines()
    desk.clock.now += 301
    assert desk.provider.machines() == ()


def test_one_service_speaks_for_itself_alone(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        busy = request.url.path.startswith("/base/cluster_manager")
        return said({}, 503, {"Retry-After": "200"}) if busy else said(EMPTY)

    desk = Desk(tmp_path, answer, "cm")
    for _ in range(3):
        with pytest.raises(FabricRefused):
            desk.provider.limits(M1, [A100])
        assert desk.provider.machines() == ()
    assert [one.url.path.split("/")[2] for one in desk.calls].count("cluster_manager") == 1


@pytest.mark.parametrize("text", ["soon", "-5", "1e3", "", "99999999999999999999", "Fri, 99 Foo 2026"])
def test_retry_after_may_be_nonsense(tmp_path: Path, text: str) -> None:
    desk = Desk(tmp_path, in_turn(said({}, 503, {"Retry-After": text}), said(EMPTY)))
    if text.startswith("9"):  # longer than the call may take
        with pytest.raises(FabricRefused):
            desk.provider.machines()
    else:
        assert desk.provider.machines() == ()


class Dripping(httpx.SyncByteStream):
    """A body that comes in pieces, each `seconds` after the other."""

    def __init__(self, desk: Desk, pieces: int, piece: bytes, seconds: float) -> None:
        self._desk, self._pieces, self._piece, self._seconds = desk, pieces, piece, seconds
        self.read, self.closed = 0, False

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(self._pieces):
            self._desk.clock.now += self._seconds
            self.read += 1
            yield self._piece

    def close(self) -> None:
        self.closed = True


def test_a_body_that_drips_is_given_up(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said({}))
    body = Dripping(desk, 100_000, b" ", 10.0)
    desk.handler = lambda request: httpx.Response(200, stream=body)
    with pytest.raises(FabricUnreachable, match="no whole answer within 60 s"):
        desk.provider.machines()
    assert (body.read, body.closed, len(desk.calls)) == (6, True, 1)


def test_a_body_without_end_is_given_up(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said({}))
    body = Dripping(desk, 100_000, b" " * (1 << 20), 0.0)
    desk.handler = lambda request: httpx.Response(200, stream=body)
    with pytest.raises(FabricOdd, match="the answer is longer than 32 MiB"):
        desk.provider.machines()
    assert (body.read, body.closed) == (33, True)


def test_answers_of_which_several_may_come_at_a_time_are_bounded_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said({}))
    body = Dripping(desk, 100_000, b" " * (1 << 20), 0.0)
    desk.handler = lambda request: httpx.Response(200, stream=body)
    with pytest.raises(FabricOdd, match=r"fm\.available .*: the answer is longer than 8 MiB"):
        desk.provider.stock(M1, A100)
    desk.token = desk.handler
    desk.clock.now += 1000
    with pytest.raises(FabricOdd, match=r"im\.token .*: the answer is longer than 8 MiB"):
        desk.provider.stock(M1, A100)


def packed(desk: Desk, encoding: str, body: bytes) -> Callable[[httpx.Request], httpx.Response]:
    headers = {"Content-Encoding": encoding}
    return lambda request: httpx.Response(200, headers=headers, stream=Dripping(desk, 1, body, 0.0))


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [
        ("br", b"x", "is compressed, which was not asked for"),
        ("gzip", b"no gzip", "is not compressed as it says"),
        ("gzip", gzip.compress(b" " * (33 << 20)), "is longer than 32 MiB"),
        ("deflate", zlib.compress(json.dumps(EMPTY).encode())[:-12], "is not JSON"),
    ],
    ids=["unknown", "other bytes", "bomb", "cut"],
)
def test_what_is_compressed_is_not_asked_for_and_is_bounded(
    tmp_path: Path, encoding: str, body: bytes, words: str
) -> None:
    desk = Desk(tmp_path, lambda request: said({}))
    desk.handler = packed(desk, encoding, body)
    with pytest.raises(FabricOdd, match=words):
        desk.provider.machines()
    assert desk.calls[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("encoding", ["gzip", "X-GZIP", "deflate"])
def test_a_compressed_answer_that_was_not_asked_for_is_read(tmp_path: Path, encoding: str) -> None:
    pack = zlib.compress if encoding == "deflate" else gzip.compress
    desk = Desk(tmp_path, lambda request: said({}))
    desk.handler = packed(desk, encoding, pack(json.dumps(EMPTY).encode()))
    assert desk.provider.machines() == ()


def test_the_title_of_a_gateways_page_is_told(tmp_path: Path) -> None:
    page = b"<html><head>\n<title>\n504 Gateway Time-out</title></head></html>"
    desk = Desk(tmp_path, lambda request: httpx.Response(504, content=page))
    with pytest.raises(FabricRefused, match="answers with 504: 504 Gateway Time-out"):
        desk.provider.machines()
    desk.handler = lambda request: httpx.Response(200, content=page)
    with pytest.raises(FabricOdd, match="the answer is a web page, not JSON"):
        desk.provider.machines()
    desk.handler = lambda request: httpx.Response(202, content=b'{"task": 1}')
    with pytest.raises(FabricRefused, match="answers with 202: it has only begun a task"):
        desk.provider.machines()


def test_cookies_are_not_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_turn(said(EMPTY, headers={"Set-Cookie": "session=1"})))
    desk.provider.machines()
    desk.provider.machines()
    assert all("cookie" not in one.headers for one in desk.asked)


def test_paths_go_behind_the_endpoints_own(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_turn(said({"reserved_res_num_per_fabric": 1})))
    desk.provider.stock(M1, A100)
    [call] = desk.calls
    assert str(call.url).startswith(
        "https://fabric.example/base/fabric_manager/api/v1/machines/m-1/available-reserved-"
    )
    assert call.url.params["condition"] == '{"column":"model","operator":"eq","value":"NVIDIA A100"}'


def test_each_try_is_told_to_who_measures(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        in_turn(
            said({}, 500),
            httpx.ReadTimeout("slow"),
            httpx.ConnectError("no"),
            httpx.Response(200, headers={"Content-Encoding": "br"}, content=b""),
            said(EMPTY),
        ),
    )
    with pytest.raises(FabricAway):
        desk.provider.machines()
    with pytest.raises(FabricOdd):
        desk.provider.machines()
    desk.provider.machines()
    outcomes = [(call, outcome) for call, _, outcome in desk.observed if call != "im.token"]
    assert outcomes == [("fm.machines", one) for one in ("500", "timeout", "unreachable", "odd", "200")]


def test_a_login_is_sent_again_only_if_it_did_not_arrive(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_turn(said(EMPTY)))
    desk.token = in_turn(httpx.ReadError("reset"))
    with pytest.raises(FabricUnreachable) as caught:
        desk.provider.machines()
    assert (desk.logins, caught.value.general) == (1, True)
    desk.token = in_turn(said({}, 503))
    with pytest.raises(FabricRefused, match="the login fails with 503"):
        desk.provider.machines()
    assert desk.logins == 2
    desk.token = in_turn(httpx.ConnectError("no"))
    with pytest.raises(FabricAway):
        desk.provider.machines()
    assert desk.logins == 5
