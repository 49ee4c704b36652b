"""How a log is told, by the component whose log it is: how to find whom a person means, and how to tell what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dds_core.component import SCALER, Component
from dds_core.log.envelope import LeanEvent
from dds_core.publisher import timeline as publisher
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.state import PoolPicture
from dds_core.publisher.timeline import PublisherKnown, PublisherTeller
from dds_core.publisher.timeline import scope_of as publisher_scope
from dds_core.scaler.state import Picture
from dds_core.timeline.entries import Entry, Teller
from dds_core.timeline.known import Known
from dds_core.timeline.moments import Moment
from dds_core.timeline.scope import Everything, scope_of
from dds_core.timeline.subjects import NAMING, Directory, Subject, naming


@dataclass(frozen=True)
class Telling:
    """`names` are the types of events that names come from, `naming` leaves out those of them that name nothing new;
    `directory` takes these in. `teller` tells of a subject, or of everything; a picture is where it begins."""

    names: frozenset[str]
    naming: Callable[[Iterable[LeanEvent]], Iterable[LeanEvent]]
    directory: Callable[[], Directory]
    teller: Callable[[Subject | None, Any], Teller]

    def timeline(self, told: Iterable[Moment], subject: Subject | None = None) -> Iterator[Entry]:
        """The entries of a subject, or of everything, in the order of their instants."""
        teller = self.teller(subject, None)
        for moment in told:
            yield from teller.tell(moment)
        yield from teller.rest()


def _of_scaler(subject: Subject | None, picture: Picture | None) -> Teller:
    known = Known()
    if picture is not None:
        known.begin(picture)
    return Teller(known, scope_of(subject, known) if subject is not None else Everything())


def _of_publisher(subject: Subject | None, picture: PoolPicture | None) -> Teller:
    known = PublisherKnown()
    if picture is not None:
        known.begin_with(picture)
    return PublisherTeller(known, publisher_scope(subject, known))


_TOLD = {
    SCALER.name: Telling(NAMING, naming, Directory, _of_scaler),
    PUBLISHER.name: Telling(publisher.NAMING, iter, publisher.PublisherDirectory, _of_publisher),
}


def telling_of(component: Component[Any]) -> Telling:
    """How the log of a component is told."""
    return _TOLD[component.name]
