"""Get, list and watch, with versions, pages and selectors. Nothing is written here."""

import base64
import binascii
from bisect import bisect_left
from random import Random

import msgspec

from dds_lab.api import status
from dds_lab.api.clock import Clock
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Call, Outcome, Page, Reading
from dds_lab.api.status import ApiError, Cause
from dds_lab.api.store import Record, Store, Table, TooOld
from dds_lab.api.watches import Filter, Watch

SHORTEST_WATCH_SECONDS = 1800
"""A watch without a timeout gets a random one between this and twice this."""

EXACT = "Exact"
NOT_OLDER = "NotOlderThan"

_TOKEN_VERSION = "meta.k8s.io/v1"
_GONE_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the"
    " continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing"
    " with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the"
    " time the first chunk was returned and now may show up in the list."
)
_GONE_LIST = "The resourceVersion for the provided list is too old."


class Token(msgspec.Struct, frozen=True):
    """The content of a continue token: the revision of the first page, and the path after which the next page begins."""

    v: str
    rv: int
    start: str


class Reader:
    def __init__(self, store: Store, registry: Registry, clock: Clock, random: Random) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._random = random

    def get(self, call: Call) -> Outcome:
        self._not_future(revision_of(call.reading.version))
        record = self._store.get(call.resource.key, call.path)
        if record is None:
            raise status.not_found(call.resource, call.name)
        strategy = self._registry.strategy(call.resource)
        return Outcome(object=strategy.from_storage(record.object), record=record)

    def page(self, call: Call) -> Outcome:
        options = call.reading
        _check_list_options(options)
        strategy = self._registry.strategy(call.resource)
        filter = Filter(strategy, call.namespace, options.labels, _fields_with_name(call))
        table = self._store.table(call.resource.key)
        wanted = revision_of(options.version)
        limit = 0 if options.version == "0" else options.limit  # "any version" is answered whole from the cache
        if options.cont:
            token = _decode_token(options.cont)
            start = filter.prefix + token.start.removeprefix("/")
            revision, paths, records = self._at_token(table, token)
        else:
            self._not_future(wanted)
            start = ""
            exact = options.match == EXACT or (wanted and limit and not options.match)
            revision, paths, records = self._at(table, wanted if exact else 0)
        shown, rest, remaining = _cut(filter, paths, records, start, limit)
        cont = _encode_token(revision, rest[len(filter.prefix) :]) if rest else ""
        found = Page(records=shown, revision=revision, cont=cont, remaining=remaining)
        return Outcome(page=found)

    def watch(self, call: Call, endless: bool = False) -> Watch:
        """A watch; without a timeout if it is `endless` (for clients in the same process)."""
        options = call.reading
        _check_watch_options(options)
        strategy = self._registry.strategy(call.resource)
        filter = Filter(strategy, call.namespace, options.labels, _fields_with_name(call))
        since = revision_of(options.version)
        initial = since == 0 if options.initial_events is None else options.initial_events
        if options.initial_events:
            self._not_future(since)
        watch = Watch(self._store, strategy, filter, self._clock.now)
        if not endless:
            seconds = options.timeout or SHORTEST_WATCH_SECONDS * (1 + self._random.random())
            watch.lasts(seconds, options.bookmarks)
        watch.begin(since or None, initial, bool(options.initial_events) and options.bookmarks)
        return watch

    def _not_future(self, wanted: int) -> None:
        if wanted > self._store.revision:
            raise status.too_large_resource_version(wanted, self._store.revision)

    def _at(self, table: Table, exactly: int) -> tuple[int, list[str], dict[str, Record]]:
        if not exactly:
            return self._store.revision, table.paths, table.records
        try:
            return exactly, *table.as_of(exactly)
        except TooOld:
            raise status.expired(_GONE_LIST) from None

    def _at_token(self, table: Table, token: Token) -> tuple[int, list[str], dict[str, Record]]:
        if token.rv < 0:
            return self._store.revision, table.paths, table.records
        self._not_future(token.rv)
        try:
            return token.rv, *table.as_of(token.rv)
        except TooOld:
            gone = status.expired(_GONE_TOKEN)
            gone.status["metadata"] = {"continue": _encode_token(-1, token.start.removeprefix("/"))}
            raise gone from None


def revision_of(text: str) -> int:
    """A resourceVersion as a number, 0 if not given. ApiError 500 for a malformed one, as on a real server."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 64):
        why = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
        raise status.internal(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}')
    return int(text)


def _cut(
    filter: Filter, paths: list[str], records: dict[str, Record], start: str, limit: int
) -> tuple[list[Record], str, int | None]:
    """Up to `limit` records that pass the filter, from path `start` on; the start of the next page ("" at the end); how many
    are left (None if selectors make that unknown)."""
    low = bisect_left(paths, max(start, filter.prefix))
    high = bisect_left(paths, filter.prefix[:-1] + "0", low) if filter.prefix else len(paths)
    found: list[Record] = []
    for at in range(low, high):
        record = records[paths[at]]
        if filter.selects and not filter.accepts(record):
            continue
        if limit and len(found) == limit:
            return found, paths[at - 1] + "\0", None if filter.selects else high - at
        found.append(record)
    return found, "", None


def _fields_with_name(call: Call) -> str:
    """A list or watch of a path with a name (an old form) is a field selector."""
    fields = call.reading.fields
    if not call.name:
        return fields
    named = f"metadata.name={call.name}"
    return f"{fields},{named}" if fields else named


def _encode_token(revision: int, start: str) -> str:
    packed = msgspec.json.encode(Token(_TOKEN_VERSION, revision, f"/{start}"))
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def _decode_token(text: str) -> Token:
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(packed, type=Token)
    except (ValueError, binascii.Error, msgspec.DecodeError) as wrong:
        raise status.bad_request(f"invalid continue token: continue key is not valid: {wrong}") from None
    if token.v != _TOKEN_VERSION or not token.rv or not token.start.startswith("/") or ".." in token.start.split("/"):
        raise status.bad_request("invalid continue token: continue key is not valid: unrecognized encoded value")
    return token


def _refuse(field: str, reason: str, message: str) -> ApiError:
    return status.invalid("ListOptions", "", [Cause(reason, message, field)], "meta.k8s.io")


def _check_match(options: Reading) -> None:
    match = options.match
    if not match:
        return
    field = "resourceVersionMatch"
    if options.cont:
        raise _refuse(
            field, "FieldValueForbidden", "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        )
    if not options.version and options.initial_events is None:
        words = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _refuse(field, "FieldValueForbidden", words)
    if match not in (EXACT, NOT_OLDER):
        words = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise _refuse(field, "FieldValueNotSupported", words)
    if match == EXACT and options.version == "0":
        words = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _refuse(field, "FieldValueForbidden", words)


def _check_list_options(options: Reading) -> None:
    if options.initial_events is not None:
        words = "Forbidden: sendInitialEvents is forbidden for list"
        raise _refuse("sendInitialEvents", "FieldValueForbidden", words)
    _check_match(options)
    if options.cont and options.version not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")


def _check_watch_options(options: Reading) -> None:
    field = "resourceVersionMatch"
    if options.initial_events is not None and options.match != NOT_OLDER:
        words = f"Forbidden: sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}"
        raise _refuse(field, "FieldValueForbidden", words)
    if options.initial_events is None and options.match:
        words = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _refuse(field, "FieldValueForbidden", words)
