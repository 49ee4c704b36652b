"""Who may see a page: a bearer token that the API server authenticates (TokenReview) and whose user may get the path
(SubjectAccessReview), as with kube-rbac-proxy and the components of Kubernetes.

A token is sent to the API server only, and never kept: answers are cached under a keyed hash of it, "allowed" for at most a
minute, refusals for ten seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from dds_adapters.web.messages import Request, Response, Route, plain

LOG = logging.getLogger("dds.web")

ALLOWED_SECONDS = 60.0
REFUSED_SECONDS = 10.0
REMEMBERED = 1000
LONGEST_TOKEN = 16_384
ANSWER_SECONDS = 5.0
AT_A_TIME = 4
"""Reviews at once; a further request waits, and is then answered with 503."""

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

ALLOWED, UNKNOWN, FORBIDDEN, AWAY = 200, 401, 403, 503


class Answer(Protocol):
    """An answer of the API server."""

    @property
    def code(self) -> int: ...

    @property
    def body(self) -> bytes: ...


class Asking(Protocol):
    """The part of an API server that is needed (`kubernetes.cluster.Cluster`). Without an answer it may raise anything."""

    def ask(self, method: str, path: str, *, body: bytes | None = None, timeout: float = 60.0) -> Answer: ...


class _NoReview(Exception):
    """The API server gave no review; the text says why."""


class Reviews:
    """Judges bearer tokens for one path. Thread-safe."""

    def __init__(self, api: Asking, path: str = "/metrics", *, now: Callable[[], float] = time.monotonic) -> None:
        """`now` gives seconds of a monotonic clock."""
        self._api = api
        self._path = path
        self._now = now
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._asking = threading.BoundedSemaphore(AT_A_TIME)
        self._told = ""

    def __len__(self) -> int:
        """Number of cached answers."""
        return len(self._known)

    def judge(self, authorization: str | None) -> int:
        """200, 401, 403 or 503 (no review at present) for the value of an Authorization header."""
        token = _bearer(authorization)
        if not token:
            return UNKNOWN
        name = hmac.digest(self._key, token.encode(), hashlib.sha256)
        with self._lock:
            verdict, until = self._known.get(name, (0, 0.0))
        if self._now() < until:
            return verdict
        if not self._asking.acquire(timeout=ANSWER_SECONDS):
            return AWAY
        try:
            verdict = self._review(token)
        finally:
            self._asking.release()
        if verdict != AWAY:
            self._remember(name, verdict)
        return verdict

    def _remember(self, name: bytes, verdict: int) -> None:
        until = self._now() + (ALLOWED_SECONDS if verdict == ALLOWED else REFUSED_SECONDS)
        with self._lock:
            self._known.pop(name, None)
            self._known[name] = (verdict, until)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _review(self, token: str) -> int:
        try:
            user = self._user_of(token)
            if user is None:
                return UNKNOWN
            verdict = ALLOWED if self._may(user) else FORBIDDEN
        except Exception as error:
            self._tell(str(error) if isinstance(error, _NoReview) else type(error).__name__)
            return AWAY
        self._told = ""
        return verdict

    def _tell(self, why: str) -> None:
        """Once for each reason, until a review succeeds."""
        if why != self._told:
            self._told = why
            LOG.warning("nobody can be let to %s: the API server gave no review (%s)", self._path, why)

    def _user_of(self, token: str) -> dict[str, Any] | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = self._asked(TOKENS, review)
        user = status.get("user")
        return user if status.get("authenticated") is True and isinstance(user, dict) else None

    def _may(self, user: dict[str, Any]) -> bool:
        spec: dict[str, Any] = {"nonResourceAttributes": {"path": self._path, "verb": "get"}}
        spec |= {theirs: user[ours] for ours, theirs in _WHO if user.get(ours)}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = self._asked(ACCESS, review)
        return status.get("allowed") is True and not status.get("denied")

    def _asked(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        answer = self._api.ask("POST", path, body=msgspec.json.encode(review), timeout=ANSWER_SECONDS)
        if answer.code not in (200, 201):
            raise _NoReview(f"{answer.code} for {path.rpartition('/')[2]}")
        status = msgspec.json.decode(answer.body).get("status")
        return status if isinstance(status, dict) else {}


_WHO = (("username", "user"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra"))
"""Fields of a TokenReview's user, and their names in a SubjectAccessReview."""

_PAGES = {
    UNKNOWN: plain(UNKNOWN, "401 unauthorized\n", {"WWW-Authenticate": "Bearer"}),
    FORBIDDEN: plain(FORBIDDEN, "403 forbidden\n"),
    AWAY: plain(AWAY, "503 the API server cannot be asked just now\n", {"Retry-After": "5"}),
}


def guarded(route: Route, reviews: Reviews) -> Route:
    """The route, for allowed users only."""

    def guard(request: Request) -> Response:
        verdict = reviews.judge(request.headers.get("authorization"))
        return route(request) if verdict == ALLOWED else _PAGES[verdict]

    return guard


def _bearer(authorization: str | None) -> str:
    """The token of a header, "" without a usable one."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    usable = scheme.lower() == "bearer" and token.isascii() and token.isprintable() and " " not in token
    return token if usable and len(token) <= LONGEST_TOKEN else ""
