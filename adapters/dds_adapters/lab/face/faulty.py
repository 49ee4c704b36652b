"""Wire faults made true: what a plan says shall happen to a request happens to its connection.

The request itself is answered by the server as ever; only what the client sees of it is touched.
"""

from collections.abc import Callable

import msgspec

from dds_adapters.lab.api.access import Access
from dds_adapters.lab.api.paths import Query, place
from dds_adapters.lab.api.requests import Request, Response
from dds_adapters.lab.api.status import ApiError
from dds_adapters.lab.api.watches import Stream
from dds_adapters.lab.face.connection import Connection
from dds_adapters.lab.faults.streams import FaultyStream
from dds_adapters.lab.faults.wire import NOTHING, Asked, Effects, FaultPlan
from dds_adapters.lab.time import Time

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


def effects_of(plan: FaultPlan, access: Access, request: Request) -> Effects:
    """What the plan has for a request; nothing for what names no resource (discovery, health) or nobody that is known."""
    where = place(request.path)
    if where is None:
        return NOTHING
    try:
        user = access.authenticate(request.headers).name
    except ApiError:
        return NOTHING
    verb = _VERBS.get(request.method, "")
    version = ""
    if verb == "get":
        query = Query(request.query)
        if query.flag("watch"):
            verb, version = "watch", query.text("resourceVersion")
        elif not where.name:
            verb = "list"
    elif verb == "delete" and not where.name:
        verb = "deletecollection"
    return plan.for_request(Asked(user, verb, where.plural, version not in ("", "0")))


def refusal(error: ApiError) -> Response:
    """An error as an answer."""
    return Response(
        error.code, msgspec.json.encode(error.status), {"Content-Type": "application/json", **error.headers}
    )


def deliver(
    outcome: Response | Stream,
    effects: Effects,
    connection: Connection,
    plan: FaultPlan,
    now: Callable[[], int],
    time: Time,
) -> None:
    """Give the client the answer as far as the effects allow."""

    def give() -> None:
        if isinstance(outcome, Response):
            connection.reply(outcome)
        elif effects.watch.any:
            stream = FaultyStream(outcome, effects.watch, now, plan.random, connection.cut)
            connection.stream(outcome.code, outcome.headers, stream)
        else:
            connection.stream(outcome.code, outcome.headers, outcome)

    if effects.lost:
        connection.cut()
    elif effects.slow:
        time.after(effects.slow, give)
    else:
        give()
