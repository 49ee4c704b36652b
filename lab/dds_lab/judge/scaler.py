"""Judges a scaler in a whole run: the rules that it must never break.

The terms: a device is *announced* to a claim when the claim's binding conditions say that it is there; until another claim takes
it or it expires, it is *meant* for that claim.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from dds_core.timeline.instants import duration
from dds_lab.actors.ledger import Entry
from dds_lab.actors.objects import Key, claim_names
from dds_lab.client import Object
from dds_lab.judge.cluster_view import WRITTEN, Cell, ClusterView, Finding, Held
from dds_lab.lab import SCHEDULER_USER, Lab
from dds_lab.time import MICROSECONDS

Rule = Literal[
    "beyond need",
    "attached in vain",
    "promised twice",
    "given twice",
    "given unexplained",
    "detached in use",
    "detached in vain",
    "over the limit",
    "coexistence",
    "waits for ever",
    "left beside its devices",
    "failed without cause",
    "goes round",
    "flapping",
]


_IN_VAIN = 165 * MICROSECONDS
"""Time for which an order that the fabric refuses may stand without need (microseconds): until the second pause of the operator's
retries in which none can be under way, 41 s and 30 s to 82 s, or 82 s and 30 s to 164 s after its first error."""
_ON_ITS_WAY = 10.0
"""Most seconds from a scaler's decision to the operator's order at the fabric."""


@dataclass(frozen=True)
class Measure:
    """Tolerances of the judge, in seconds and counts.

    - `lately`: an attach is justified by a need at most so long ago (the claim may be withdrawn while its order is under way).
    - `kept`: a device that was announced to a claim counts as needed for so long.
    - `promised`: after so long an announced device may be announced to another claim.
    - `patience`: a claim may wait so long although it could be served (a node cools down for two minutes after a failure).
    - `beside`: a pod may wait so long while devices for all its claims are on their node, for no other claim.
    - `young`: an allocation may fail so soon only for a cause (see `_given_up`).
    - `rounds`: a claim may be allocated so often within a minute. Thefts do not count, nor the first refusal on each node of the
      claim or of another claim of its pod.
    - `changes`: a label may change so often within a minute.
    - `news`: the scaler may not know yet about events at most so long ago.
    - `idle`: a device that was free for a shorter time may go only if a claim of its fabric wanted one lately; 0: at any time.
    - `glance`: interval of the check for waiting claims.
    - `waste`: so many devices may come for each one that an allocation waited for on the node: itself and a replacement; 0: any
      number. A minimum that is kept ahead of demand comes besides.
    - `twice`: the operator may order a device twice if it ends, or gets no answer, in between; the scaler is not blamed for a
      device without a resource.
    """

    lately: float = 60.0
    kept: float = 5.0
    promised: float = 5.0
    patience: float = 150.0
    beside: float = 120.0
    young: float = 20.0
    rounds: int = 4
    changes: int = 6
    news: float = 0.25
    idle: float = 0.0
    glance: float = 1.0
    waste: float = 0.0
    twice: bool = False


@dataclass(frozen=True)
class Announcement:
    """An announcement of devices to a claim: when (`told`), since when the claim can take them (`at`), and the serials of all
    devices that can be meant (`open_to`). `claim` is without stolen devices; `needs` still has them."""

    claim: Held
    told: int
    at: int
    open_to: frozenset[str]
    needs: Counter[Cell]


class Judge:
    """Judges a scaler; to be created at the start of the run. `findings` are in order of time. `thefts`: announced devices that
    another claim took first (B10: demand moved to another claim, which is not the scaler's fault)."""

    def __init__(self, lab: Lab, measure: Measure = Measure(), heard: Callable[[], int] | None = None) -> None:
        """`heard` gives the instant up to which the scaler knows the pods; by default it always knows all."""
        self._heard = heard or lab.time.now
        self.view = ClusterView(lab, forgives=measure.twice)
        self.measure = measure
        self.findings: list[Finding] = []
        self.thefts: list[Finding] = []
        self._demand: Counter[Cell] = Counter()
        self._asked: Counter[Cell] = Counter()  # how many devices allocations waited for, in all, or lost to others
        self._waited: set[str] = set()  # claims (uids) whose allocations have waited
        self._peaks: defaultdict[Cell, deque[tuple[int, int]]] = defaultdict(deque)
        self._promised: dict[str, Announcement] = {}  # by claim uid
        self._served_since: dict[str, int] = {}  # claim uid → since when it waits although it could be served
        self._used_at: dict[str, int] = {}  # serial → when a claim had it last
        self._wanted_at: dict[tuple[str, str], int] = {}  # (fabric, model) → when a claim last waited there
        self._beside_since: dict[str, int] = {}  # pod uid → since when it waits beside its devices
        self._rounds: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
        self._unnamed: set[int] = set()  # detach orders of hidden devices (`is_hidden`)
        # Attach orders beyond need: words, may be a retry of the operator.
        self._excess: dict[int, tuple[str, bool]] = {}
        self._said: set[tuple[Rule, str]] = set()
        # Claims that waited for devices when they were cleared, and when.
        self._cleared: dict[str, tuple[Held, int]] = {}
        self._robbed_at: dict[Cell, int] = {}
        self._resized: dict[str, int] = {}  # node → when one of its limits last changed
        self._refused_at = defaultdict[str, dict[Cell, int]](dict)  # claim name → cells that refused it, and when
        self._takers: defaultdict[Cell, deque[tuple[int, str]]] = defaultdict(lambda: deque(maxlen=32))
        self._counted: dict[str, Counter[Cell]] = {}  # claim uid → its part of `_demand`
        self._having: defaultdict[Key, dict[str, str]] = defaultdict(dict)  # device → owners (uid → name)
        self.view.on_claim.append(self._claim)
        self.view.on_move.append(self._move)
        self.view.on_label.append(self._label)
        for held in list(self.view.claims.values()):
            self._claim(None, held)
        self._look()

    def of(self, rule: Rule) -> list[Finding]:
        return [one for one in self.findings if one.rule == rule]

    @property
    def rules(self) -> Counter[str]:
        """Number of findings by rule."""
        return Counter(one.rule for one in self.findings)

    def _find(self, rule: Rule, of: str, text: str, *, once: bool = False) -> None:
        if once and (rule, of) in self._said:
            return
        self._said.add((rule, of))
        self.findings.append(Finding(self.view.now, rule, of, text))

    # -- claims and demand

    def _claim(self, old: Held | None, new: Held | None) -> None:
        uid = (new or old or _NOBODY).uid
        self._used_at |= dict.fromkeys(old.serials if old is not None else (), self.view.now)
        for node, model in chain(*(one.waits for one in (old, new) if one is not None)):
            self._wanted_at[self.view.fabric_of(node), model] = self.view.now
        if new is not None and new.failed and not (old and old.failed):
            self._promised.pop(uid, None)  # the failure withdraws the announcement
        if new is None:
            self._promised.pop(uid, None)
            self._served_since.pop(uid, None)
            self._cleared.pop(uid, None)
        elif new.allocated and (old is None or new.allocated != old.allocated):
            self._promised.pop(uid, None)
            if uid in self._cleared:
                self._exchanged(self._cleared.pop(uid)[0], new)
            self._taken(new)
            self._asked += new.waits
            self._waited |= {new.uid} if new.waits else set()
            self._round("goes round", new.name, "was allocated", self.measure.rounds)
        elif uid in self._promised and old is not None and old.allocated and not new.allocated:
            self._promised[uid] = replace(self._promised[uid], at=self.view.now)  # it can take its devices only now
        if new is not None and not new.allocated and old is not None and old.waits:
            self._cleared[uid] = old, self.view.now
        self._count(old, new)
        self._have(old, new)
        if new is not None and new.waits and new.told and not (old and old.told and old.allocated == new.allocated):
            self._announced(new)
        if new is not None and new.failed and not (old and old.failed and old.allocated == new.allocated):
            self._given_up(new)

    def _exchanged(self, old: Held, new: Held) -> None:
        """A scaler that adds devices to those that the scheduler chose knows which ones stay; the scheduler may choose any."""
        added = new.serials - old.serials if self.view.chooser[new.uid] != SCHEDULER_USER else ()
        for serial in sorted(filter(self.view.is_unexplained, added)):
            self._find("given unexplained", serial, f"{new.name} got it, and no resource names it")

    def _have(self, old: Held | None, new: Held | None) -> None:
        """At most one claim may have a whole device, unless the device is shared."""
        for key in old.whole if old is not None else ():
            self._having[key].pop((old or _NOBODY).uid, None)
        for key in new.whole if new is not None else ():
            who = self._having[key]
            who[(new or _NOBODY).uid] = (new or _NOBODY).name
            if len(who) > 1 and (old is None or key not in old.whole):
                self._find("given twice", "/".join(key), f"{' and '.join(sorted(who.values()))} have it")

    def _count(self, old: Held | None, new: Held | None) -> None:
        """Update the demand of each cell: allocated devices, those of a claim that was cleared a moment ago, as in an exchange,
        and announced devices that are not allocated yet."""
        kept = None
        if new and not new.allocated and new.uid in self._promised:
            kept = self._promised[new.uid].needs
        elif new and not new.allocated and new.uid in self._cleared:
            kept = self._cleared[new.uid][0].cells
        before = self._counted.pop((new or old or _NOBODY).uid, Counter())
        after = Counter() if new is None else kept if kept is not None else new.cells
        if new is not None:
            self._counted[new.uid] = after
        for cell in before.keys() | after.keys():
            if before[cell] != after[cell]:
                self._demand[cell] += after[cell] - before[cell]
                self._peaks[cell].append((self.view.now, self._demand[cell]))

    def _peak(self, cell: Cell) -> int:
        """The most devices that were needed in the cell at an instant within `lately`. The time is longer if the operator has an
        older order without an outcome: it may be busy, and it tries again by itself."""
        lately, refused = self.view.now - round(self.measure.lately * MICROSECONDS), self.view.refused_at
        silent, vain = self.view.silent.items(), min(lately, self.view.now - _IN_VAIN)
        waits = [since for uid, (where, since) in silent if where == cell and refused.get(uid, vain) >= vain]
        began = min([lately, *waits])
        peaks = self._peaks[cell]
        while len(peaks) > 1 and peaks[1][0] <= began:
            peaks.popleft()
        return max((count for _, count in peaks), default=0)

    def _needed(self, cell: Cell) -> int:
        """Number of devices that are justified in the cell. If a claim has a device only by its name (`namesakes`), no other
        claim can use that device: what the claim has beyond its need is added."""
        having = Counter(one.uid for one in self.view.namesakes(cell).values())
        here = set(self.view.attached(cell)) if having else set[str]()
        taken = 0
        for uid, count in having.items():
            one = self.view.claims[uid]
            taken += max(0, count + len(here & one.serials) + one.waits[cell] - one.cells[cell])
        return max(self._peak(cell) + len(self.view.in_parts(cell)) + taken, self.view.least(cell))

    # -- announcements

    def _announced(self, claim: Held) -> None:
        """The claim's devices are announced: there must be as many that no other claim has or was announced."""
        self._expire()
        open_to = frozenset().union(claim.serials, *(self.view.on_offer(cell) for cell in claim.waits))
        self._promised.pop(claim.uid, None)
        self._promised[claim.uid] = Announcement(claim, self.view.now, self.view.now, open_to, claim.cells)
        for cell, count in claim.waits.items():
            lately = self.view.now - round(self.measure.news * MICROSECONDS)
            free = len(self.view.on_offer(cell)) + self.view.parted(self.view.in_parts(cell), lately)
            free += self.view.dropped(cell, lately) + self.view.not_offered(cell, lately)
            meant = self._meant(cell)
            told = min(lately, *self._told(cell))
            just = [who for at, who in self._takers[cell] if at >= told]
            if free < meant <= free + len(just):
                for thief in just[free - meant :]:
                    self._robbed(claim.uid, cell, thief)
            elif meant > free and not self._has_a_better_choice(claim):
                others = sorted(
                    one.claim.name
                    for one in self._promised.values()
                    if cell in one.claim.cells and one.claim is not claim
                )
                text = f"{count} of {cell} announced to {claim.name}; {free} there and announced to {others} as well"
                self._find("promised twice", claim.name, text)

    def _told(self, cell: Cell) -> Iterator[int]:
        """Instants of the cell's announcements whose devices are not taken yet. An announcement does not name devices: any device
        taken since then may be one of them."""
        return (one.told for one in self._promised.values() if one.needs[cell])

    def _has_a_better_choice(self, claim: Held) -> bool:
        """Whether devices that are free, or were until lately, serve a better choice of the claim than the one for which it
        waits."""
        lately = self.view.now - round(self.measure.news * MICROSECONDS)
        for choice in claim.choices:
            wanted = {(claim.node, model): count for model, count in choice.items()}
            if not wanted or not wanted.keys().isdisjoint(claim.waits):
                return False
            taken = {cell: sum(at >= lately for at, _ in self._takers[cell]) for cell in wanted}
            if all(len(self.view.unheld(cell)) + taken[cell] >= count for cell, count in wanted.items()):
                return True
        return False

    def _meant(self, cell: Cell) -> int:
        """Number of the cell's devices that must not be announced to another claim."""
        over = self.view.now - round(self.measure.promised * MICROSECONDS)
        claims = self.view.claims
        binding = (one for one in self._promised.values() if claims[one.claim.uid].allocated or one.at > over)
        return sum(self._owed(one.claim, cell) for one in binding)

    def _owed(self, claim: Held, cell: Cell) -> int:
        """Number of the cell's devices that are meant for the claim and that it does not have. A cleared claim has none."""
        known = self.view.claims.get(claim.uid)
        return claim.waits[cell] if known is not None and known.allocated == claim.allocated else claim.cells[cell]

    def _expire(self) -> None:
        """Drop announcements that were not taken within `kept`, and those of cleared claims for which no pod waits: no scheduler
        allocates such a claim, and the device may be announced to another before this claim is deleted."""
        heard = self._heard()
        due = self.view.now - round(self.measure.kept * MICROSECONDS)
        for uid, promise in list(self._promised.items()):
            claim = self.view.claims.get(uid)
            if claim is None or (not claim.allocated and (promise.at <= due or not self.view.pod_waits(claim, heard))):
                del self._promised[uid]
                self._count(claim, claim)
        for uid in [uid for uid, (_, at) in self._cleared.items() if at <= due]:
            del self._cleared[uid]
            self._count(self.view.claims[uid], self.view.claims[uid])

    def _taken(self, claim: Held) -> None:
        """A claim has taken devices; claims to which these were announced may have lost them."""
        self._expire()
        for cell, count in (claim.cells - claim.waits).items():
            self._takers[cell].extend([(self.view.now, claim.name)] * count)
            if claim.uid not in self._waited and any(one.waits[cell] for one in self.view.claims.values()):
                self._asked[cell] += count  # who waits needs another one
            while loser := self._loser(cell):
                self._robbed(loser, cell, claim.name)

    def _loser(self, cell: Cell) -> str:
        """A claim that cannot get its announced device of the cell any more, because too few of the devices are left that were
        there at the announcements; "" if all can. An announcement does not name devices, so the loser is a claim that is still
        allocated and waits, else the one with the earliest announcement."""
        unheld, open_to, owed, due = set(self.view.on_offer(cell)), set[str](), list[str](), 0
        for uid, promise in self._promised.items():
            number = self._owed(promise.claim, cell)
            if number:
                owed.append(uid)
                open_to |= promise.open_to
                due += number
            if due > len(unheld & open_to):
                return next((uid for uid in owed if self.view.claims[uid].allocated), owed[0])
        return ""

    def _robbed(self, uid: str, cell: Cell, thief: str) -> None:
        """Record a theft: one device less is meant for the claim. If the node's limit allows no replacement, the claim cannot be
        served there, and none is meant for it."""
        promise = self._promised[uid]
        claim, lost = promise.claim, Counter([cell])
        if self.view.movable(cell) >= self.view.limit(cell):
            lost = claim.cells
        self._robbed_at[cell] = self.view.now
        text = f"{thief} took a device of {cell} that was announced to {claim.name}"
        self.thefts.append(Finding(self.view.now, "promised twice", claim.name, text))
        left = replace(claim, cells=claim.cells - lost, waits=claim.waits - lost)
        self._promised[uid] = replace(promise, claim=left)

    def _given_up(self, claim: Held) -> None:
        """A claim that could be served may fail only for a cause: the fabric or the operator reported an error, its device was
        taken or is partitioned, the node was full, closed or resized shortly before, or it took too long."""
        young = self.view.now - claim.since < self.measure.young * MICROSECONDS
        refused = any(
            (one.node, one.model) in claim.cells and one.at >= claim.since - MICROSECONDS for one in self.view.refused
        )
        could = self._could_have(claim, claim.node) and not claim.selective
        if refused or not could:
            self._refused(claim)
        since, lately = claim.since - MICROSECONDS, self.view.now - round(self.measure.news * MICROSECONDS)
        complained = (cell for cell, at in self.view.complaints.items() if at >= min(since, lately))
        refused = refused or any(cell in claim.cells for cell in complained)
        in_the_way = (*self.view.erring.values(), *self.view.leaving.values())
        refused = refused or any(cell in claim.cells for cell in in_the_way)
        refused = refused or any(self._robbed_at.get(cell, 0) >= since for cell in claim.cells)
        refused = refused or any(self._was_had(cell, since) or self._was_full(cell, since) for cell in claim.waits)
        refused = refused or any(self.view.parted(self.view.attached(cell), since) for cell in claim.cells)
        closed = self.view.closed.get(claim.node, 0) >= lately or not self.view.is_open(claim.node)
        closed = closed or self.view.is_ruled(claim.node, lately)
        closed = closed or self._resized.get(claim.node, 0) >= lately
        if young and not refused and not closed and could:
            took = duration(self.view.now - claim.since)
            text = f"failed after {took} ({claim.words!r}) although {claim.node} could have its devices"
            self._find("failed without cause", claim.name, text)

    def _refused(self, claim: Held) -> None:
        """Count the refusal for all claims of the pod: the scheduler moves the pod with all of them, although only one may show
        the failure."""
        beside = [one for one in self.view.of_pods(claim) if one.node == claim.node]
        for one in (claim, *beside):
            self._refused_at[one.name].update(dict.fromkeys(one.cells, self.view.now))

    def _was_had(self, cell: Cell, since: int) -> bool:
        """Whether a claim took a device of the cell since then and has released it again: the scaler decides a failure before it
        writes it, so it may have been right at that time."""
        having = {one.name for one in self.view.claims.values() if one.cells[cell] > one.waits[cell]}
        return any(at >= since and who not in having for at, who in self._takers[cell])

    def _was_full(self, cell: Cell, since: int) -> bool:
        """Whether the demand of the cell was above the node's limit since then; see `_was_had`."""
        return any(at >= since and demand > self.view.limit(cell) for at, demand in self._peaks[cell])

    # -- attaches and detaches

    def _move(self, entry: Entry) -> None:
        cell = (entry.node, entry.model)
        if entry.operation == "attach" and entry.outcome == "done":
            made, asked = self.view.ever_made[cell], self._asked[cell]
            if self.measure.waste and made > self.measure.waste * asked:
                text = f"{made} devices were made for the requests, and allocations waited for {asked} in all"
                self._find("attached in vain", str(cell), text, once=True)
        if entry.operation == "attach" and entry.outcome == "ordered":
            there, needed = self.view.movable(cell), self._needed(cell)
            if there - self.view.unfit(cell) > needed:
                words = f"{there} devices with this order, {needed} were needed at most"
                self._excess[entry.order] = words, cell in self.view.erring.values()
            again = self.measure.twice and self.view.made(cell) <= self.view.limit(cell)  # a repeated order
            lately = self.view.now - round(min(self.measure.news, _ON_ITS_WAY) * MICROSECONDS)
            if there - self.view.about_to_go(cell, lately) > self.view.limit(cell) and not again:
                self._find("over the limit", str(cell), f"{there} devices with this order")
            for rival in sorted(self.view.rivals(entry.model)):
                known = set(self.view.attached((entry.node, rival))) - self.view.unheard
                if self.view.movable((entry.node, rival)) or known:
                    self._find("coexistence", str(cell), f"{rival} is there, or comes")
        elif entry.operation == "attach" and entry.outcome == "done" and entry.order in self._excess:
            words, by_itself = self._excess.pop(entry.order)
            taken_back = list(self.view.leaving.values()).count(cell) if by_itself else 0
            # Checked again: other orders that were under way then may have failed.
            if self.view.movable(cell) - taken_back > self._needed(cell):
                self._beyond(cell, entry.serial, words)
        elif entry.operation == "detach" and entry.outcome != "failed":
            holders = [one.name for one in self.view.holders(entry.serial, entry.node)]
            users = list(self.view.lab.fabric.users(entry.serial))
            excused = self.view.unheard | self.view.too_late | self.view.orphans
            if entry.outcome == "ordered" and self.view.is_hidden(entry.serial):
                self._unnamed.add(entry.order)  # a scaler cannot hold a device without a name
            excused |= {entry.serial} if entry.outcome == "done" and entry.order in self._unnamed else set()
            if (holders or users) and entry.serial not in excused:
                text = f"detach {entry.outcome} at {cell} while {holders} hold it and {users} use it"
                self._find("detached in use", entry.serial, text)
            elif entry.outcome == "ordered" and entry.serial not in excused:
                self._in_vain(cell, entry.serial)

    def _in_vain(self, cell: Cell, serial: str) -> None:
        """A device that goes before it has idled for long goes to a claim of its own fabric, where a pool lacked one."""
        since = max(self._used_at.get(serial, 0), self.view.came_at(serial))
        fabric, model = self.view.fabric_of(cell[0]), cell[1]
        waits = any(
            model == m and self.view.fabric_of(n) == fabric for one in self.view.claims.values() for n, m in one.waits
        )
        wanted = waits or self._wanted_at.get((fabric, model), 0) >= max(since, self.view.now - 60 * MICROSECONDS)
        if self.view.now - since < self.measure.idle * MICROSECONDS and not wanted and not self.view.unfit(cell):
            idle = duration(self.view.now - since)
            text = f"{cell} gave it back {idle} after it was free, and nobody of fabric {fabric} waited"
            self._find("detached in vain", serial, text)

    def _beyond(self, cell: Cell, serial: str, words: str) -> None:
        """Report a device beyond need; with `twice` only if a resource names it, which is known after `WRITTEN`."""

        def find() -> None:
            if not self.view.is_nameless(serial):
                self._find("beyond need", str(cell), words)

        if self.measure.twice:
            self.view.lab.time.after(WRITTEN / MICROSECONDS, find)
        else:
            find()

    # -- waiting claims

    def _look(self) -> None:
        """Every `glance` seconds: check how long claims wait that could be served."""
        self._expire()
        now = self.view.now
        for claim in list(self.view.claims.values()):
            if not self._waits(claim) or not self._somewhere(claim):
                self._served_since.pop(claim.uid, None)
                continue
            since = self._served_since.setdefault(claim.uid, now)
            if now - since > self.measure.patience * MICROSECONDS:
                text = f"waits although a device could be had since {duration(now - since)}"
                self._find("waits for ever", claim.name, text, once=True)
        left = {pod["metadata"]["uid"]: pod for pod in self.view.pods.values() if self._is_beside(pod)}
        self._beside_since = {uid: self._beside_since.get(uid, now) for uid in left}
        for uid, since in self._beside_since.items():
            if now - since > self.measure.beside * MICROSECONDS:
                meta = left[uid]["metadata"]
                text = f"waits beside its devices since {duration(now - since)}"
                self._find("left beside its devices", f"{meta['namespace']}/{meta['name']}", text, once=True)
        self.view.lab.time.after(self.measure.glance, self._look)

    def _is_beside(self, pod: Object) -> bool:
        """Whether the pod waits, with a node or without, for devices on its claims' node that fit and are for nobody else."""
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if phase != "Pending" or pod["metadata"].get("deletionTimestamp"):
            return False
        names = {f"{pod['metadata']['namespace']}/{one}" for one in claim_names(pod)}
        claims = [one for one in self.view.claims.values() if one.name in names]
        waits = sum((one.waits for one in claims), Counter[Cell]())
        if not waits or any(
            not one.allocated or one.deleting or one.told or one.failed or one.selective for one in claims
        ):
            return False
        others = [one for one in self.view.claims.values() if one.name not in names]
        return all(self.view.is_open(cell[0]) and self._at_hand(cell, others) >= count for cell, count in waits.items())

    def _at_hand(self, cell: Cell, others: list[Held]) -> int:
        """Number of the cell's devices that fit and that none of the other claims waits for or was announced."""
        known = {one.uid for one in others}
        meant = sum(self._owed(one.claim, cell) for uid, one in self._promised.items() if uid in known)
        waiting = sum(one.waits[cell] for one in others if not one.told)
        there = [one for one in self.view.on_offer(cell) if not self.view.is_unexplained(one)]
        return len(there) - self.view.unfit(cell) - meant - waiting

    def _waits(self, claim: Held) -> bool:
        waiting = not claim.allocated or (bool(claim.waits) and not claim.told)
        return waiting and bool(claim.needs) and not claim.deleting and self.view.pod_waits(claim)

    def _somewhere(self, claim: Held) -> bool:
        nodes = [claim.node] if claim.allocated else [one for one in self.view.nodes if self.view.may_go_to(claim, one)]
        return any(self.view.is_open(name) and self._could_have(claim, name) for name in nodes)

    def _could_have(self, claim: Held, node: str) -> bool:
        """Whether the node has or can get all devices that the claim needs, in the present state."""
        wanted = (
            claim.waits if claim.allocated else Counter({(node, model): count for model, count in claim.needs.items()})
        )
        if any(rival in self.view.together(claim) for _, model in wanted for rival in self.view.rivals(model)):
            return False
        return bool(node) and all(self._could_get(cell, count, claim) for cell, count in wanted.items())

    def _could_get(self, cell: Cell, count: int, claim: Held) -> bool:
        node, model = cell
        meant = sum(self._owed(one.claim, cell) for one in self._promised.values() if one.claim.uid != claim.uid)
        others = [one for one in self.view.claims.values() if one.waits and not one.told and one.uid != claim.uid]
        waiting = sum(one.waits[cell] for one in others)
        unheld = (one for one in self.view.unheld(cell) if one not in self.view.unheard)
        known = [one for one in unheld if not self.view.is_hidden(one)]
        short = count + meant + waiting - len(known)
        if short <= 0:
            return True
        room = self.view.limit(cell) - self.view.movable(cell)
        rivals = any(
            self.view.attached((node, rival)) or self._demand[node, rival] for rival in self.view.rivals(model)
        )
        return not rivals and min(room, self.view.lab.fabric.free(self.view.fabric_of(node), model)) >= short

    # -- repetitions

    def _label(self, node: str, label: str) -> None:
        if label.startswith(f"{self.view.lab.scenario.cluster.prefix}/"):
            self._round("flapping", f"{node} {label}", "changed", self.measure.changes)
        if label.endswith("-size-max"):
            self._resized[node] = self.view.now

    def _round(self, rule: Rule, of: str, what: str, most: int) -> None:
        times, now = self._rounds[rule, of], self.view.now
        times.append(now)
        while times[0] < now - 60 * MICROSECONDS:
            times.popleft()
        stolen = sum(one.of == of and one.at >= times[0] for one in self.thefts)
        refused = sum(at >= times[0] for at in self._refused_at[of].values())
        if len(times) > most + stolen + refused:
            self._find(rule, of, f"{what} {len(times)} times within a minute", once=True)


_NOBODY = Held("", "", 0)
