"""What goes wrong around a process of ours on virtual time: an API server that does not answer or says no, watches that break,
a log that is away. Each trouble has a beginning and an end, in seconds from the scenario's start."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Literal

import msgspec

from dds_adapters.kubernetes.cluster import Answer, Unreachable
from dds_adapters.kubernetes.watch.watch_spec import watched
from dds_core.errors import LogUnavailable
from dds_lab.driver import SCALER_USER, Direct
from dds_lab.lab import Lab
from tests.support.exits import Watched
from tests.support.ours import Running

SECOND = 1_000_000
Trouble = Literal["silent", "unseen", "409", "429", "500", "503"]
TROUBLES: tuple[Trouble, ...] = ("silent", "unseen", "409", "429", "500", "503")
"""`silent`: nothing arrives. `unseen`: it is done and the answer is lost. Else the status that answers, and nothing is done."""
_REASONS = {"409": "Conflict", "429": "TooManyRequests", "500": "InternalError", "503": "ServiceUnavailable"}


class TroubledApi(Direct):
    """Requests that meet troubles: a share of all that are sent from `since` to `until`. `met` counts them.

    The question what became of a pod is spared: in the lab's mirror nobody asks it again."""

    def __init__(
        self,
        lab: Lab,
        kinds: tuple[Trouble, ...],
        share: float,
        since: float = 0.0,
        until: float = 1e9,
        user: str = SCALER_USER,
    ) -> None:
        super().__init__(lab.server, user)
        self.met: Counter[Trouble] = Counter()
        self._lab = lab
        self._random: Random = lab.time.random("troubles")
        self._kinds, self._share = kinds, share
        self._since, self._until = since, until

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        kind = self._trouble(method, path)
        if kind is not None:
            self.met[kind] += 1
        if kind == "silent":
            raise Unreachable("does not answer", where=path)
        if kind in _REASONS:
            words = {
                "kind": "Status",
                "status": "Failure",
                "reason": _REASONS[kind],
                "message": "no",
                "code": int(kind),
            }
            return Answer(int(kind), msgspec.json.encode(words), 1.0 if kind == "429" else 0.0)
        answer = super().ask(method, path, **more)
        if kind == "unseen":
            raise Unreachable("the connection was lost", where=path)
        return answer

    def _trouble(self, method: str, path: str) -> Trouble | None:
        passed = (self._lab.time.now() - self._lab.scenario.start) / SECOND
        if not self._since <= passed < self._until or "/pods/" in path or self._random.random() >= self._share:
            return None
        kinds = [one for one in self._kinds if one != "409" or method in ("PATCH", "PUT")]
        return self._random.choice(kinds) if kinds else None


def troubled(run: Running, *kinds: Trouble, share: float = 1.0, since: float = 0.0, until: float = 1e9) -> TroubledApi:
    """Give the newest process a troubled way to the API."""
    api = TroubledApi(run.lab, kinds or TROUBLES, share, since, until)
    run.ours.requests = api
    return api


def cut_now_and_then(run: Running, *, every: float, lasts: float, until: float) -> None:
    """Every resource is not heard of for a while, again and again, each at its own times."""
    random = run.lab.time.random("cuts")

    def cut(resource: str) -> None:
        passed = (run.lab.time.now() - run.lab.scenario.start) / SECOND
        if passed < until:
            away = random.uniform(0.01, lasts)
            if run.ours.scaler.synced:
                run.ours.cut(resource, away)
            run.lab.time.after(away + random.uniform(0.1, every), lambda: cut(resource))

    for one in watched():
        name = one.resource
        run.lab.time.after(random.uniform(0.1, every), lambda name=name: cut(name))  # type: ignore[misc]


def log_away(run: Running, *spans: tuple[float, float]) -> list[float]:
    """The log (a `Watched` one) takes nothing in these spans. What is given grows by the instant of each vain append."""
    log: Any = run.log
    assert isinstance(log, Watched)
    vain: list[float] = []

    def before() -> None:
        passed = (run.lab.time.now() - run.lab.scenario.start) / SECOND
        if any(since <= passed < until for since, until in spans):
            vain.append(passed)
            raise LogUnavailable("no answer", where="lab", fix="wait")

    log.before = before
    return vain
