"""An httpx transport to the manager without a socket, for clients in the same process, on virtual or real time.

Time advances only through the callers' functions: `step` while the fabric works, `sleep` for a reply's delay. A reply that is
later than the request's timeout raises httpx.ReadTimeout; the call is carried out all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

import httpx

from dds_lab.manager.calls import Call, Reply
from dds_lab.manager.manager import Manager
from dds_lab.time import MICROSECONDS


class ManagerTransport(httpx.BaseTransport):
    """For `httpx.Client(transport=…)`. `delays` has the delay of each reply in seconds.

    `step` advances the time to the next timer and returns whether there was one (`VirtualTime.step`); without it, calls for which
    the fabric needs time get no reply. `sleep` waits some seconds; without it a delay is only recorded.
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
        """Raises httpx.ConnectError if the manager is away, RemoteProtocolError if the connection is cut, ReadTimeout if the
        reply is later than the request's read timeout."""
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
        """The reply, None if it does not come in time, and the seconds of lab time that it took."""
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
