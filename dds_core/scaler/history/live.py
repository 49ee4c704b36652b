"""A log as a live page shows it: what exists, and the newest of what has ended, so that neither page nor server grows with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dds_core.scaler.history.fold import History
from dds_core.scaler.history.overview import overview
from dds_core.scaler.history.page import Page, Row, head_of
from dds_core.timeline.telling import Entry, Subject

KEEP = 2_000
"""So many ended claims, ended devices, alerts and refused writes are kept, each."""
_MANY = 20
"""Spans of one claim or device; more of them count like things that have ended."""
_STOCKED = 5
"""So many changes of the stock of pools are kept for each ended claim: a claim takes a device and gives it back."""
_SUMMARY_EVERY = 2_000_000
"""Microseconds of the log's time between summaries; a summary looks at everything."""


class Live:
    """Makes what pages are sent. A page begins with `whole` and then gets each result of `news`; all pages count alike."""

    def __init__(self, first: int, meta: Mapping[str, Any], keep: int = KEEP) -> None:
        """`first`: the instant from which pages count, that of the log's first event even if the window begins later."""
        self.history = History()
        self._since = self._now = 0
        self._first, self._meta, self._keep = first, meta, keep
        self._begin()

    def _begin(self) -> None:
        self._page = Page(self._first)
        self._rows: dict[str, dict[int, Row]] = {"claims": {}, "devices": {}}
        self._settled: dict[str, tuple[int, str]] = {}
        self._alerted = 0
        self._alerts: list[Row] = []
        self._stocked = 0
        self._stock: list[Row] = []
        self._summary: dict[str, Any] = {}
        self._summed_up = 0

    def news(self, now: int = 0) -> dict[str, Any]:
        """What has changed since the last call; what goes on goes on until `now`. If too much has ended, the oldest of it is
        dropped and everything is sent `anew`."""
        newest = self.history.now
        self.history.now = self._now = max(newest, now)
        try:
            if self._forget():
                self._begin()
                self._changed()
                return {**self.whole(), "anew": True}
            return self._changed()
        finally:
            self.history.now = newest  # moments are not later than they were

    def whole(self) -> dict[str, Any]:
        """Everything sent so far, for a page that begins."""
        rows = {name: list(rows.values()) for name, rows in self._rows.items()}
        told = {"strings": self._page.strings, **rows, "alerts": self._alerts, "stock": self._stock, "accounts": []}
        return {**self._page.beginning(self._meta), **self._always(), **told, "live": True, "untold": 0}

    def account(self, subject: Subject, entries: Iterable[Entry]) -> dict[str, Any]:
        """The timeline of one thing, with strings of its own."""
        page = Page(self._first)
        row = page.account(subject, head_of(subject, self.history), entries)
        return {"strings": page.strings, "account": row}

    def subject(self, kind: str, key: str) -> Subject | None:
        """A claim by uid, a device or a node by name; None if unknown."""
        history = self.history
        if kind == "claim" and key in history.claims:
            return Subject(kind, history.claims[key].name, frozenset({key}))
        uids = frozenset(uid for uid, one in history.devices.items() if one.name == key)
        if kind == "device" and uids:
            return Subject(kind, key, uids)
        nodes = {one.node for one in history.devices.values()} | {one.node for one in history.claims.values()}
        return Subject(kind, key, frozenset()) if kind == "node" and key in nodes - {""} else None

    @property
    def since(self) -> int:
        """The instant (microseconds) from which everything is shown."""
        return max(self._since, self.history.first)

    def _always(self) -> dict[str, Any]:
        now, since = self._page.ms(self._now) or 0, self._page.ms(self.since) or 0
        return {"now": now, "since": since, "summary": self._summary}

    def _changed(self) -> dict[str, Any]:
        history = self.history
        if history.first and history.now >= self._summed_up + _SUMMARY_EVERY:
            self._summary, self._summed_up = overview(history, self.since).data, history.now
        claims = [one for one in history.claims.values() if self._moves(one.uid, one.ended, one.state)]
        devices = [one for one in history.devices.values() if self._moves(one.uid, one.gone, one.life)]
        stock = history.stock.changes[self._stocked :] if history.knows_pools else []
        patch = self._page.patch(history, claims, devices, history.alerts[self._alerted :], stock)
        self._alerted, self._stocked = len(history.alerts), self._stocked + len(stock)
        self._alerts += patch["alerts"]
        self._stock += patch["stock"]
        for name, told in self._rows.items():
            patch[name] = [row for row in patch[name] if told.get(row[0]) != row]
            told.update({row[0]: row for row in patch[name]})
        return {**patch, **self._always()}

    def _moves(self, uid: str, ended: int, state: str) -> bool:
        """Whether it may differ from what was sent last: something that has ended does not, unless its end changes."""
        if ended and self._settled.get(uid) == (ended, state):
            return False
        self._settled[uid] = ended, state
        return True

    def _forget(self) -> bool:
        """True if there was too much, and the oldest of it was dropped."""
        history, most = self.history, self._keep
        claims = sorted((one.ended, one.uid) for one in history.claims.values() if one.ended)
        devices = sorted((one.gone, one.uid) for one in history.devices.values() if one.gone)
        spans = [span.until for one in history.claims.values() if len(one.spans) > _MANY for span in one.spans[:-1]]
        spans += [span.until for one in history.devices.values() if len(one.spans) > _MANY for span in one.spans[:-1]]
        spans.sort()
        stock = [one.at for one in history.stock.changes]
        told = max(len(history.alerts), len(history.refused))
        many = max(len(claims), len(devices), told, len(spans), len(stock) // _STOCKED)
        if many <= most + most // 4:
            return False
        claims, devices = claims[:-most], devices[:-most]
        ends = [*(at for at, _ in claims), *(at for at, _ in devices), *(one.at for one in history.alerts[:-most])]
        ends += [one.at for one in history.refused[:-most]]
        self._since = max(self._since, *ends, *spans[:-most], *stock[: -most * _STOCKED])
        history.forget((uid for _, uid in claims), (uid for _, uid in devices), most, self._since)
        return True
