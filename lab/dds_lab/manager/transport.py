"""The manager behind httpx, without a socket: for clients in the same process, on virtual time or on real.

Time goes on only if somebody lets it: `step` for answers that take the fabric time, `sleep` for answers that are late. What
is later than the request's own timeout is raised as httpx raises it, and was carried out all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

import httpx

from dds_lab.manager.calls import Call, Reply
from dds_lab.manager.manager import Manager
from dds_lab.time import MICROSECONDS


class ManagerTransport(httpx.BaseTransport):
    """Give it to `httpx.Client(transport=…)`. `delays` has how late each answer was, in seconds.

    `step` lets time go on to whatever comes next and says whether there was anything (`VirtualTime.step`); without it an
    answer that takes the fabric time does not come. `sleep` waits so many seconds; without it a delay is only noted.
    """

    def __init__(
        self,
        manager: Manager,
        *,
        step: Callable[[], bool] | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.manager = manager
        self.delays: list[float] = []
        self._step = step
        self._sleep = sleep
        self._lock = RLock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.ConnectError where the manager is away, RemoteProtocolError where the connection is cut, ReadTimeout
        where the answer is later than the request's read timeout."""
        timeout: float | None = (request.extensions.get("timeout") or {}).get("read")
        with self._lock:
            reply, waited = self._answered(_call(request), timeout)
            if reply is None:
                raise httpx.ReadTimeout("the answer did not come in time", request=request)
            self.delays.append(waited + reply.delay)
        left = reply.delay if timeout is None else min(reply.delay, max(0.0, timeout - waited))
        if self._sleep is not None and left:
            self._sleep(left)
        if left < reply.delay:
            raise httpx.ReadTimeout("the answer did not come in time", request=request)
        if reply.lost == "away":
            raise httpx.ConnectError("connection refused", request=request)
        if reply.lost == "cut":
            raise httpx.RemoteProtocolError("the server disconnected without sending a response", request=request)
        return httpx.Response(reply.status, headers=dict(reply.headers), content=reply.body, request=request)

    def _answered(self, call: Call, timeout: float | None) -> tuple[Reply | None, float]:
        """The reply, None when it does not come in time, and how many seconds of the lab it took."""
        asked = self.manager.time.now()
        replies: list[Reply] = []
        self.manager.ask(call, replies.append)
        waited = 0.0
        while not replies and self._step is not None and (timeout is None or waited <= timeout) and self._step():
            waited = (self.manager.time.now() - asked) / MICROSECONDS
        late = timeout is not None and waited > timeout
        return (replies[0] if replies and not late else None), waited


def _call(request: httpx.Request) -> Call:
    target = request.url.raw_path.decode("ascii")
    return Call.of(request.method, target, dict(request.headers), request.read())
