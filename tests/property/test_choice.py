"""The choice of devices for the claims that wait on a node, against a judge that tries everything (`satisfying`): whatever is
given satisfies the rules of Kubernetes and ours, everything is given when that can be, and what was promised stays where it
fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random, SystemRandom

import pytest
from msgspec.structs import replace

from dds_core.model import Claim, DeviceKey, Result
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.model import Reservation
from dds_core.scaler.rules import assignment
from tests.property.fleets import NODE, Case, case_of, smaller
from tests.property.satisfying import Judge, Pick, Usage, Wanted, Way, numbers
from tests.support.drawn import LARGE

CASES, MANY, SOAK = 2_000, 20_000, 200_000
"""Seeds; of every second one there is a second case, some time later."""
CHUNKS = 4

Chosen = tuple[list[Claim], assignment.Choice]
_chosen: list[Chosen] = []


class Watched(assignment.FreeOnNode):
    """A stock that tells what it was asked and what it gave."""

    def choose(self, claims: Sequence[Claim]) -> assignment.Choice:
        found = super().choose(claims)
        _chosen.append((list(claims), found))
        return found


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "FreeOnNode", Watched)


def chosen(case: Case) -> list[Chosen]:
    """What the rules choose to be used, group by group. What is only looked at must be there, once in a claim."""
    _chosen.clear()
    covers = assignment.assign(case.state(), NODE)
    for cover in covers:
        looked = [promise.key for promise, _ in cover.ready if promise.admin]
        mine = {one.key for one in _results(cover.claim)} | {one.key for one, _ in cover.ready if not one.admin}
        assert len(set(looked)) == len(looked) and mine.isdisjoint(looked), cover
        assert all(key in Judge(case).usable for key in looked), cover
    if not _chosen:  # nothing is free
        return [([cover.claim], assignment.NOTHING) for cover in covers if not cover.looks]
    for claims, found in _chosen:
        for cover in covers:
            used = [one for one in cover.ready if not one[0].admin]
            assert cover.claim not in claims or used == found.given.get(cover.claim.uid, [])
    return list(_chosen)


def _results(claim: Claim) -> tuple[Result, ...]:
    return claim.allocation.results if claim.allocation is not None else ()


# -- what must hold ---------------------------------------------------------------------------------------------------


def fault_of(case: Case) -> str:
    """What is wrong with what is chosen; "" when nothing is."""
    try:
        rows = chosen(case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    judge = Judge(case)
    return next((fault for claims, found in rows if (fault := _fault(judge, claims, found))), "")


def _fault(judge: Judge, claims: list[Claim], found: assignment.Choice) -> str:
    """What is wrong with what one group gets. It is taken from what there is for the next."""
    group = {claim.uid for claim in claims} | {f"pod:{claim.owner}" for claim in claims if claim.owner}
    free, usage = judge.free(group), judge.in_use(group)
    wishes = [judge.wanted(claim) for claim in claims]
    known = [wish for wish in wishes if wish is not None]
    picks: list[Pick] = []
    for claim, wish in zip(claims, wishes, strict=True):
        given = [promise for promise, _ in found.given.get(claim.uid, [])]
        if given and wish is None:
            return f"{claim.name} gets something, and nobody knows what it asks for"
        ways = _ways(wish, given, whole=found.whole) if wish is not None else []
        if ways is None:
            return f"{claim.name} did not ask so: {given}"
        picks += [Pick(way, promise.key) for way, promise in zip(ways, given, strict=True)]
    promises = [promise for claim in claims for promise, _ in found.given.get(claim.uid, [])]
    faults = _each(judge, free, group, picks, promises) or list(judge.faults(picks, known, usage))
    if faults:
        return str(faults)
    possible = len(known) == len(wishes) and judge.solvable(known, free, usage)
    if possible != found.whole and not (possible and _may_end(known)):
        return f"possible: {possible}, chosen: {found.given}"
    standing = _standing(judge, known) if len(known) == len(wishes) else None
    if standing is not None and _still_fits(judge, standing, known, free, usage):
        before, now = ([pick.key for pick in some] for some in (standing, picks))
        if (
            not found.whole
            or not set(now) <= set(before)
            or (_has_one_way(known, judge, free) and len(now) < len(before))
        ):
            return f"promised was {before}, and chosen is {found.given}"
    for pick in picks:
        amounts = judge.takes(pick.way.asked, pick.key)
        judge.given.append((pick.key, amounts if judge.usable[pick.key].shared else None))
    judge.served |= group
    return ""


def _each(
    judge: Judge, free: list[DeviceKey], group: set[str], picks: list[Pick], promises: list[ReservedDevice]
) -> list[str]:
    """What is wrong with single devices that are given."""
    faults = []
    for pick, promise in zip(picks, promises, strict=True):
        asked, key = pick.way.asked, pick.key
        if key not in free:
            why = judge.why_not(key, judge.held(), judge.promised(but=group), set()) if key in judge.usable else ""
            faults.append(f"{key} is not free: {why or 'not listed, or handed over in vain'}")
        elif not judge.accepts(asked, key):
            faults.append(f"{key} is not what is asked for")
        elif bool(promise.share) != judge.usable[key].shared:
            faults.append(f"{key} is promised as {promise}")
        elif promise.share and numbers(promise.consumed) != judge.takes(asked, key):
            faults.append(f"of {key} {judge.takes(asked, key)} is to be taken, and promised was {promise}")
    shares = Counter(promise.share for promise in promises if promise.share)
    return [*faults, *(f"share {share} twice" for share, times in shares.items() if times > 1)]


def _ways(wish: Wanted, given: list[ReservedDevice], *, whole: bool) -> list[Way] | None:
    """By device the way of its request that it is for; None when the claim did not ask so: two alternatives of one request, too
    many or too few devices, a place twice."""
    names = Counter(promise.request for promise in given)
    options = {way.name: way for ways in wish.ways.values() for way in ways}
    options |= {way.name: way for way in wish.now.values()} if not whole else {}
    if not names.keys() <= options.keys() or len({promise.result for promise in given}) < len(given):
        return None
    served = Counter(options[name].request for name in names)
    if any(times > 1 for times in served.values()) or (whole and served.keys() != wish.ways.keys()):
        return None
    if any(times != options[name].count for name, times in names.items() if whole and not options[name].everything):
        return None
    if any(times > options[name].count for name, times in names.items() if not whole):
        return None
    for promise in given:
        mine = wish.places[options[promise.request].request]
        last = len(wish.claim.allocation.results) if wish.claim.allocation is not None else 0
        if promise.result < last and promise.result not in mine:
            return None
    return [options[promise.request] for promise in given]


def _may_end(known: list[Wanted]) -> bool:
    """All devices of a kind are asked for, and must satisfy a constraint: where not, a scheduler gives the pod up, whatever else
    would do."""
    return any(
        wish.claim.constraints and way.everything for wish in known for ways in wish.ways.values() for way in ways
    )


# -- promises that stand ------------------------------------------------------------------------------------------------


def _standing(judge: Judge, known: list[Wanted]) -> list[Pick] | None:
    """What was promised to these claims, when that is everything."""
    picks: list[Pick] = []
    for wish in known:
        uid, owner = wish.claim.uid, wish.claim.owner
        rows = judge.case.rows("reservations")
        if judge.case.live:
            row = rows.get(f"pod:{owner}" if owner else uid)
            promises = row.promises if row is not None else ()
        else:
            promises = judge.case.rows("lives")[uid].promises
        ways = _ways(wish, list(promises), whole=True) if promises else None
        if ways is None:
            return None
        picks += [Pick(way, promise.key) for way, promise in zip(ways, promises, strict=True)]
    return picks


def _still_fits(judge: Judge, picks: list[Pick], known: list[Wanted], free: list[DeviceKey], usage: Usage) -> bool:
    if any(way.everything for wish in known for ways in wish.ways.values() for way in ways):
        return False  # what all devices are may have changed
    if not all(pick.key in free and judge.accepts(pick.way.asked, pick.key) for pick in picks):
        return False
    return not list(judge.faults(picks, known, usage))


def _has_one_way(known: list[Wanted], judge: Judge, free: list[DeviceKey]) -> bool:
    """Whether nothing could be had with fewer devices: with shares, or with another alternative."""
    shared = any(judge.usable[key].shared for key in free)
    return not shared and all(len(ways) == 1 for wish in known for ways in wish.ways.values())


def later(case: Case, random: Random) -> Case:
    """The case when what was chosen while there were fewer devices is promised."""
    before = case.copy()
    for uid, one in case.rows("slices").items():
        shown = {name: device for name, device in one.devices.items() if random.random() < 0.7}
        before.tables["slices"][uid] = replace(one, devices=shown)
    after = case.copy()
    for claims, found in chosen(before):
        for claim in claims if found.whole else ():
            promises = tuple(sorted((one for one, _ in found.given[claim.uid]), key=lambda one: one.result))
            if case.live:
                key = f"pod:{claim.owner}" if claim.owner else claim.uid
                after.put("reservations", key, Reservation(claim.uid, NODE, 1, promises, 1))
            else:
                life = after.rows("lives")[claim.uid]
                after.put("lives", claim.uid, replace(life, promises=promises))
    return after


# -- the cases ----------------------------------------------------------------------------------------------------------


def check(seed: int) -> None:
    case = case_of(seed)
    _check(seed, case)
    if seed % 8 >= 4:
        _check(seed, later(case, Random(seed)))


def _check(seed: int, case: Case) -> None:
    fault = fault_of(case)
    if fault:
        case = reduced(case)
        pytest.fail(f"seed {seed}: {fault}\nand in short: {fault_of(case)}\n{case}", pytrace=False)


def reduced(case: Case) -> Case:
    """The same fault, or another, with as little as possible."""
    less = next((one for one in smaller(case) if fault_of(one)), None)
    return case if less is None else reduced(less)


@pytest.mark.drawn
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_chosen_satisfies_the_rules_and_all_is_given_when_it_can_be(chunk: int) -> None:
    for seed in range(chunk, MANY if LARGE else CASES, CHUNKS):
        check(seed)


@pytest.mark.soak
def test_many_more() -> None:
    first = SystemRandom().randrange(1 << 40)
    for seed in range(first, first + SOAK):
        check(seed)
