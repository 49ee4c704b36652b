"""The data of the page of `dds report` and `dds ui`: compact patches that add to one another; the first holds everything.

The page knows strings, claims and devices by number, and applies each patch with one function. A report is one patch; a live page
gets another after each change. Instants are milliseconds since the first moment, null for none. In rows a string is a number: its
place in `strings`, to which each patch adds.

    claim     [number, uid, name, pods, outcome, cause, first, gone, spans, attempts]
              spans: stage (its place in `stages`), since, until, node, and so on
              attempts: [since, until, node, outcome, reason, cause, models]
    device    [number, uid, name, resource, node, model, fabric, first, gone, spans]
              spans: [state (its place in `states`), since, until, numbers of claims]
    alert     [at, of, reason, text]
    stock     [at, pool, free devices from then on]
    account   [kind, what it is about, head, entries]: of a claim its number, of a device or node its name
              entries: [at, kind, name, trigger, from, to, milliseconds in `from`, cause, notes], notes: at, kind, text, and so on
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dds_core.scaler.blame import WHOSE
from dds_core.scaler.history.claims import BOUND, Attempt, ClaimHistory
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.fold import Alert, History
from dds_core.scaler.history.incident import devices_since, ranked
from dds_core.scaler.history.stock import Stocked
from dds_core.scaler.history.words import devices_summary, summary
from dds_core.scaler.spending import STATES
from dds_core.timeline.telling import Entry, Subject

VERSION = 2
STAGES = (*WHOSE, BOUND)

_SUBJECTS = 300
_CLAIMS, _AROUND = 200, 20
_LINES = 60_000
"""Timelines are made of up to _SUBJECTS things. If there are more: of _CLAIMS claims, those not served and those that waited
longest first, and of _AROUND devices and nodes of theirs. _LINES: entries and notes together."""

Row = list[Any]


class Page:
    """Makes the patches of a page; knows the numbers that the page knows."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._strings: dict[str, int] = {"": 0}
        self._sent = 0
        self._claims: dict[str, int] = {}
        self._devices: dict[str, int] = {}

    @property
    def strings(self) -> list[str]:
        return list(self._strings)

    def beginning(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """What the first patch says once and for all; `meta` is passed on."""
        return {
            "version": VERSION,
            "start": self.first // 1000,
            **meta,
            "stages": list(WHOSE.items()),
            "states": list(STATES),
        }

    def patch(
        self,
        history: History,
        claims: Iterable[ClaimHistory],
        devices: Iterable[DeviceHistory],
        alerts: Iterable[Alert] = (),
        stock: Iterable[Stocked] = (),
        accounts: Iterable[Row] = (),
    ) -> dict[str, Any]:
        """These claims and devices as they are now, and new alerts, changes of the stock of pools of dds, and accounts."""
        rows = {
            "now": self.ms(history.now),
            "claims": [self._claim(one) for one in claims],
            "devices": [self._device(one) for one in devices],
            "alerts": [[self.ms(one.at), *map(self._text, (one.of, one.reason, one.text))] for one in alerts],
            "stock": [
                [self.ms(at), self._text(name), free] for at, pool, free in stock if (name := history.pool_name(pool))
            ],
            "accounts": list(accounts),
        }
        strings = list(self._strings)[self._sent :]
        self._sent = len(self._strings)
        return {"strings": strings, **rows}

    def account(self, subject: Subject, head: Sequence[str], entries: Iterable[Entry]) -> Row:
        """The row of a timeline."""
        about = self._number(self._claims, min(subject.uids)) if subject.kind == "claim" else self._text(subject.name)
        return [
            self._text(subject.kind),
            about,
            [self._text(one) for one in head],
            [self._entry(one) for one in entries],
        ]

    def ms(self, at: int) -> int | None:
        """An instant (microseconds) as the page counts."""
        return (at - self.first) // 1000 if at else None

    def _text(self, text: str) -> int:
        return self._number(self._strings, text)

    @staticmethod
    def _number(known: dict[str, int], key: str) -> int:
        return known.setdefault(key, len(known))

    def _claim(self, claim: ClaimHistory) -> Row:
        spans: Row = []
        for span in claim.spans:
            spans += [STAGES.index(span.stage), self.ms(span.since), self.ms(span.until), self._text(span.node)]
        return [
            self._number(self._claims, claim.uid),
            self._text(claim.uid),
            self._text(claim.name),
            [self._text(pod) for pod in claim.pods],
            self._text(claim.outcome),
            self._text(claim.cause),
            self.ms(claim.first),
            self.ms(claim.gone),
            spans,
            [self._attempt(one) for one in claim.attempts],
        ]

    def _attempt(self, one: Attempt) -> Row:
        texts = map(self._text, (one.node, one.outcome, one.reason, one.cause))
        return [self.ms(one.since), self.ms(one.until), *texts, [self._text(model) for model in one.models]]

    def _device(self, device: DeviceHistory) -> Row:
        return [
            self._number(self._devices, device.uid),
            *map(self._text, (device.uid, device.name, device.resource, device.node, device.model, device.fabric)),
            self.ms(device.first),
            self.ms(device.gone),
            [
                [
                    STATES.index(span.state),
                    self.ms(span.since),
                    self.ms(span.until),
                    [self._number(self._claims, uid) for uid in span.claims],
                ]
                for span in device.spans
            ],
        ]

    def _entry(self, entry: Entry) -> Row:
        after = None if entry.after is None else entry.after // 1000
        notes: Row = []
        for note in entry.notes:
            notes += [self.ms(note.at), self._text(note.kind), self._text(note.text)]
        names = map(self._text, (entry.kind, entry.name, entry.trigger, entry.source, entry.target))
        return [self.ms(entry.at), *names, after, self._text(entry.cause or entry.meaning), notes]


def subjects(history: History, since: int = 0) -> list[Subject]:
    """The things that timelines are made of: everything, or the most important if that is too much."""
    claims = ranked(history, since)
    everything = _around(claims, devices_since(history, since))
    if len(everything) <= _SUBJECTS:
        return everything
    unserved = [one for one in claims if one.outcome != BOUND]
    worst = list({one.uid: one for one in (*unserved[: _CLAIMS // 2], *claims)}.values())[:_CLAIMS]
    theirs = {one.uid for one in worst}
    held = [one for one in devices_since(history, since) if any(theirs.intersection(span.claims) for span in one.spans)]
    found = _around(worst, held)
    kinds = ((kind, [one for one in found if one.kind == kind]) for kind in ("claim", "device", "node"))
    return [one for kind, these in kinds for one in (these if kind == "claim" else these[:_AROUND])]


def lives(history: History, about: Sequence[Subject]) -> list[tuple[int, int]] | None:
    """The first and the last instant of each subject's entries; None, which means always, if there are few subjects."""
    if len(about) <= _CLAIMS:
        return None
    claims = [history.claims.get(min(one.uids, default="")) for one in about]
    return [(one.first, one.ended or history.now) if one is not None else (0, history.now) for one in claims]


def _around(claims: Iterable[ClaimHistory], devices: Iterable[DeviceHistory]) -> list[Subject]:
    """These claims, these devices (all resources of one name together), and their nodes."""
    found: list[Subject] = []
    resources: dict[str, set[str]] = {}
    nodes: dict[str, None] = {}
    for claim in claims:
        found.append(Subject("claim", claim.name, frozenset({claim.uid})))
        nodes |= dict.fromkeys(span.node for span in claim.spans)
    for device in devices:
        resources.setdefault(device.name, set()).add(device.uid)
        nodes[device.node] = None
    found += [Subject("device", name, frozenset(uids)) for name, uids in resources.items()]
    return found + [Subject("node", name, frozenset()) for name in nodes if name]


def report(
    history: History,
    about: Sequence[Subject],
    timelines: Sequence[Iterable[Entry]],
    meta: Mapping[str, Any],
    since: int = 0,
    origin: int = 0,
) -> dict[str, Any]:
    """All of a log in one patch; `timelines` are those of `about`. `untold` is the number of things without a timeline. `origin`:
    the instant from which the page counts; default: the log's first."""
    page = Page(origin or history.first)
    claims, devices = ranked(history, since), devices_since(history, since)
    alerts = [one for one in history.alerts if one.at >= since]
    first = page.patch(history, claims, devices, alerts, history.stock.changes)
    accounts, lines = [], 0
    for subject, told in zip(about, timelines, strict=True):
        entries = [one for one in told if one.at >= since]
        lines += sum(1 + len(one.notes) for one in entries)
        if lines > _LINES:
            break
        accounts.append(page.account(subject, head_of(subject, history), entries))
    rest = page.patch(history, (), (), accounts=accounts)
    more = {"since": page.ms(max(since, history.first)) or 0, "untold": len(_around(claims, devices)) - len(accounts)}
    return {
        **page.beginning(meta),
        **more,
        **first,
        "strings": first["strings"] + rest["strings"],
        "accounts": accounts,
    }


def head_of(subject: Subject, history: History) -> list[str]:
    """The lines above a timeline."""
    if subject.kind == "claim":
        return summary(history.claims[min(subject.uids)], history)
    if subject.kind == "device":
        return devices_summary([history.devices[uid] for uid in sorted(subject.uids)], history)
    return []
