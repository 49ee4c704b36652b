"""Two contenders are never both certain to lead, whatever happens to requests, clocks, processes and the object; and when all is
well again, somebody leads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dds_adapters.kubernetes.lease.state import Ask, LeaseSettings, Phase
from tests.support.drawn import examples
from tests.support.elections import SAFE, Contender, Election, Trip

STRIKING_S = 120.0
"""Whatever goes wrong goes wrong before."""
SETTINGS = LeaseSettings(15, 12, 2)
"""Less in reserve than by default, so that mistakes show."""
NAMES = ("a", "b", "c")

seeds = st.integers(0, 2**32 - 1)
seconds = st.floats(0, STRIKING_S)
pauses = st.lists(st.tuples(seconds, st.sampled_from(NAMES), st.floats(0.1, 40)), max_size=6)
strikes = st.lists(
    st.tuples(seconds, st.sampled_from(["delete", "annotate", "lengthen", "release", "kill", "replace"]), st.sampled_from(NAMES)),
    max_size=8,
)  # fmt: skip


@dataclass(frozen=True)
class Weather:
    """Shares of requests to which something happens, and how long it takes."""

    lost: float
    answer_lost: float
    refused: float
    slow: float
    longest: float


shares = st.just(0.0) | st.floats(0, 0.6)
weathers = st.builds(Weather, shares, shares, shares, st.just(0.0) | st.floats(0, 0.8), st.sampled_from([2, 8, 20, 60]))
rates_of_clocks = st.tuples(*[st.floats(0.95, 1.05)] * 3)


def trips(election: Election, weather: Weather, random: Random) -> Callable[[Ask], Trip]:
    """What requests meet until the faults end; what is under way then arrives all the same."""

    def trip(ask: Ask) -> Trip:
        if election.now > STRIKING_S:
            return Trip(0.01, 0.01)
        there: float | None = random.uniform(0, weather.longest) if random.random() < weather.slow else 0.01
        back: float | None = random.uniform(0, weather.longest) if random.random() < weather.slow else 0.01
        there = None if random.random() < weather.lost else there
        back = None if random.random() < weather.answer_lost else back
        code = random.choice([409, 429, 500, 503]) if random.random() < weather.refused else None
        return Trip(there, back, code)

    return trip


class Turmoil:
    """Contenders, those that come after them, and what is done to them and to the object."""

    def __init__(self, election: Election, weather: Weather, random: Random, rates: tuple[float, ...]) -> None:
        self.election = election
        self._trip = trips(election, weather, random)
        self._rates = dict(zip(NAMES, rates, strict=True))
        self._skews = dict(zip(NAMES, (0.0, 600.0, -600.0), strict=True))
        self.now: dict[str, Contender] = {}
        self._generation = 0
        for name in NAMES:
            self.begin(name)

    def begin(self, name: str) -> None:
        """A process of that place begins, with an identity of its own, as a restarted one does."""
        self._generation += 1
        identity = f"{name}{self._generation}"
        self.now[name] = self.election.contender(identity, self._rates[name], self._skews[name], self._trip)

    def strike(self, what: str, name: str) -> None:
        lease, spec = self.election.lease(), {}
        if lease is not None:
            spec = lease["spec"]
        if what == "delete":
            self.election.delete()
        elif what == "annotate" and lease is not None:
            self.election.put(spec, annotations={"at": str(self.election.now)})
        elif what == "lengthen" and spec.get("holderIdentity"):
            self.election.put({**spec, "leaseDurationSeconds": 40})
        elif what == "replace":  # by an empty one, as who applies a manifest does
            self.election.delete()
            self.election.put({})
        elif what == "release":
            self.now[name].release()
            self.begin(name)
        elif what == "kill":
            self.now[name].kill()
            self.begin(name)

    def restart_losers(self) -> None:
        for name, contender in self.now.items():
            if contender.phase is Phase.LOST:
                self.begin(name)
        self.election.after(3, self.restart_losers)


def everything(
    weather: Weather,
    pausing: list[tuple[float, str, float]],
    striking: list[tuple[float, str, str]],
    seed: int,
    rates: tuple[float, ...],
) -> None:
    election = Election(SETTINGS, Random(seed))
    turmoil = Turmoil(election, weather, Random(seed + 1), rates)
    for at, name, length in pausing:
        election.after(at, lambda name=name, length=length: turmoil.now[name].pause(length))  # type: ignore[misc]
    for at, what, name in striking:
        election.after(at, lambda what=what, name=name: turmoil.strike(what, name))  # type: ignore[misc]
    turmoil.restart_losers()
    election.run(STRIKING_S + 160)
    assert election.overlaps() == []
    leading = [contender for contender in turmoil.now.values() if contender.remaining() > 0]
    assert len(leading) == 1, [contender.phase for contender in turmoil.now.values()]
    assert election.spec()["holderIdentity"] == leading[0].name


givens = (weathers, pauses, strikes, seeds, rates_of_clocks)
test_never_two = examples(30, 150)(given(*givens)(everything))
test_never_two_in_thousands = pytest.mark.soak(settings(max_examples=10_000)(given(*givens)(everything)))


@examples(4, 15)
@given(seeds, rates_of_clocks)
def test_in_good_weather_the_first_leads_for_ever(seed: int, rates: tuple[float, ...]) -> None:
    election = Election(SETTINGS, Random(seed))
    turmoil = Turmoil(election, Weather(0, 0, 0, 0, 0), Random(seed), rates)
    election.run(300)
    assert len(election.reigns) == 1
    (leader,) = (contender for contender in turmoil.now.values() if contender.remaining() > 0)
    assert leader.remaining() > SETTINGS.renew_deadline - 1.2 * SETTINGS.retry_period - 0.1
    assert not leader.troubles
    for contender in turmoil.now.values():
        assert len(contender.asked) < 300 / (0.8 * SETTINGS.retry_period) / 0.95 + 10
    assert election.spec()["leaseTransitions"] == 0


@examples(8, 30)
@given(seeds, st.sampled_from([409, 429, 500, 503, None]), st.booleans())
def test_a_server_in_trouble_is_not_stormed(seed: int, code: int | None, reads_too: bool) -> None:
    election = Election(SETTINGS, Random(seed))
    trip = Trip(there=None) if code is None else Trip(0.001, 0.001, code)

    def trips(ask: Ask) -> Trip:
        return trip if election.now > 60 and (reads_too or ask.verb != "get") else SAFE

    contenders = [election.contender(name, trip=trips) for name in NAMES]
    election.run(120)
    for contender in contenders:
        sent = [ask.sent for ask in contender.asked if ask.sent > 60]
        assert len(sent) > 0
        assert max(sum(1 for other in sent if at <= other < at + 10) for at in sent) <= 10
    assert election.overlaps() == []
