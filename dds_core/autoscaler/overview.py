"""The autoscaler's log in sentences: ordered servers and what came of them, groups closed for a device, and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from dds_core.autoscaler import events as e
from dds_core.events import Event
from dds_core.timeline import Moment
from dds_core.timeline.instants import duration


def overview(told: Iterable[Moment], since: int = 0) -> list[str]:
    """The sentences on what was decided at an instant or later; empty if nothing of that kind happened."""
    seen = _Seen(since)
    for moment in told:
        for event in (moment.fact, *moment.caused):
            if event is not None:
                seen.take(event, moment.at)
    return list(seen.sentences())


class _Seen:
    def __init__(self, since: int) -> None:
        self._since = since
        self._now = 0
        self._ordered: set[str] = set()
        self._returned: set[str] = set()
        self._failed: dict[str, str] = {}
        self._refused: Counter[str] = Counter()
        self._closed: dict[str, int] = {}
        self._closed_for: Counter[str] = Counter()

    def take(self, event: Event, at: int) -> None:
        self._now = at
        if isinstance(event, e.GroupShown):  # also before `since`: it may have been closed then
            self._show(event, at)
        if at < self._since:
            return
        match event:
            case e.ServerOrdered():
                self._ordered.add(event.order)
            case e.ServerReturned():
                self._returned.add(event.order or event.server)
            case e.OrderFailed():
                self._failed[event.order] = event.code
            case e.AskRefused():
                self._refused[event.text] += 1

    def _show(self, event: e.GroupShown, at: int) -> None:
        if event.closed:
            self._closed.setdefault(event.group, at)
        elif (began := self._closed.pop(event.group, None)) is not None:
            self._closed_for[event.group] += max(0, at - max(began, self._since))

    def sentences(self) -> Iterator[str]:
        if self._ordered or self._returned:
            failed = f", {len(self._failed)} of them failed ({_counted(self._failed.values())})" if self._failed else ""
            yield f"Servers: {len(self._ordered)} ordered{failed}, {len(self._returned)} given back."
        for group, began in self._closed.items():
            self._closed_for[group] += max(0, self._now - max(began, self._since))
        for group, micros in sorted(self._closed_for.items()):
            if micros:
                yield f"Group {group} was closed for {duration(micros)}, as a device would do."
        if self._refused:
            text, count = self._refused.most_common(1)[0]
            yield f"Cluster Autoscaler was refused {self._refused.total()} times; most often ({count}): {text}."


def _counted(codes: Iterable[str]) -> str:
    return ", ".join(f"{count} {code}" for code, count in Counter(codes).most_common())
