"""A log in short: what waited and why, what failed and who did it, devices ordered in vain, what it cost, alerts, and what to do
first. `dds incident` prints it; the summary of a page is made of the same sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dds_core.scaler import blame
from dds_core.scaler.blame import WHOSE
from dds_core.scaler.history.claims import ClaimHistory
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.fold import Alert, History
from dds_core.scaler.history.verdicts import never_used, verdict
from dds_core.scaler.history.words import BOTH, DELETED, TOO_LARGE, advice, remedy, waited
from dds_core.scaler.timeline.words import CONDITION, OTHERS
from dds_core.timeline.instants import duration, rfc3339, time_of_day

_ADVISED = 20
"""Advice is looked for in the claims that waited longest, so many of them."""
TOLD = 3
"""Causes, failures, devices, alerts and things to do are told so many each."""
_NAMED = 2
_SECOND = 1_000_000
_LONG = 30 * _SECOND
_AWAY = 10 * _SECOND
"""A new process that starts so soon after the last event has hardly left a claim waiting."""
"""A wait of this length calls for action by itself."""
_OUTCOMES = {
    "bound": "bound",
    "waiting": "still waiting",
    "failed": "given up after a failure",
    "withdrawn": "given up",
    "unused": "never waited for",
    "ended": "ended before the log begins",
}
_OTHER = "moved on"
LOST = {"diverted": "allocated elsewhere after a hand-over", "moved": "allocated anew"}
_WHAT = {"used": "in use", "error": "in error"}
_OF_PRESENT = (blame.GOING, blame.BARRED, blame.NODE)
"""Stages that call for nothing once the wait is over."""
_OF_ONE = ("a shorter idle time", "a longer idle time", "the device given by dds itself")
"""Advice that ends, after its last colon, with details of one claim."""

EVENTS, OPERATOR, STUCK = "events-that-need-action", "the-operator", "stuck-devices"
_QUEUE, _LOOK, _OTHERS = "claims-that-wait-for-a-device", "first-look", "who-set-a-condition"
REFUSED, VAIN, OBSERVED, AWAY = "WriteRefused", "ordered in vain", "another scaler", "restart"
FIRST: Mapping[str, tuple[str, str]] = {
    "DetachedInUse": ("drain the pod that loses its device; find who detached it", EVENTS),
    "WrongVictim": ("find who lowered the request: another device leaves than the marked one", EVENTS),
    "DeviceTwice": ("delete one of the two pods, restart the scheduler", EVENTS),
    "InvariantBroken": ("report it, with dds log export", EVENTS),
    "RuleError": ("report it, with dds log export", EVENTS),
    "ManagerError": ("ask the fabric's team: its manager answers the operator nothing", EVENTS),
    "DeviceLost": ("delete the pod: its node is gone, with its device", EVENTS),
    "PodElsewhere": ("delete the pod: it runs on another node than its device", EVENTS),
    "PodPlaced": ("delete the pod: it was put on its node past the scheduler", EVENTS),
    "NoNode": ("correct the pool's publisher: its devices lack bindsToNode", EVENTS),
    "NoWayToHandOver": ("correct the pool's publisher, or the claim: its text says why nothing can hand over", EVENTS),
    "ConfigMissing": ("create the fabric's ConfigMap again", EVENTS),
    "OrderRefused": ("let the admission policy pass the requests of dds", EVENTS),
    "HoldRefused": ("let the admission policy pass the claims of dds", EVENTS),
    REFUSED: ("see the permission or the admission policy that refuses: dds doctor", EVENTS),
    "LabelFight": ("stop one of the two clients that write the label", EVENTS),
    "ModelDiffers": ("write in device-info what the driver lists", EVENTS),
    "DeviceUnexplained": ("see who attached a device that no resource names", STUCK),
    "DeviceUnlisted": ("see the log of the vendor's driver on the node", EVENTS),
    "DeviceError": ("see the device's error, and its driver's documentation", EVENTS),
    "DeviceTainted": ("see the taint of the device's driver", EVENTS),
    "NoProgress": ("see the operator's log, and the node's driver", STUCK),
    "HeldInVain": ("see the pods that are nominated to the node", EVENTS),
    "ExchangeLeft": ("wait for the scheduler's binding timeout, or delete the pod", EVENTS),
    "Undecided": ("ask for less, or in fewer claims", EVENTS),
    AWAY: ("see why dds ended: kubectl logs --previous", "when-the-process-ends"),
    "AttachFailed": ("ask the fabric's team: it refused the attach", "cool-downs"),
    "AttachTimeout": ("ask the fabric's team: no device came in time", OPERATOR),
    DELETED: ("see who deletes nodes on which claims wait: their attempts fail", EVENTS),
    "NodeLimit": ("see the node's limit of devices, or spread the pods", EVENTS),
    TOO_LARGE: ("ask for no more devices in one claim than a node may have, or raise the limit", EVENTS),
    BOTH: ("ask for one of the two models: no node may have both (device-info)", EVENTS),
    "Coexistence": ("see the models that may not share a node (device-info)", EVENTS),
    "RequestOwnedByOther": ("see the request's owner: dds may not size it", EVENTS),
    "DeviceUnsuitable": ("correct the description, the selector or the taint that the message names", EVENTS),
    "NodeUnschedulable": ("see who cordoned or tainted the node", EVENTS),
    "HandOverInVain": ("see why the scheduler left the device: kubectl describe the pod", EVENTS),
    OTHERS: ("find the client that set the condition: two scalers write the claims", _OTHERS),
    OBSERVED: ("see the log of the scaler that set the conditions: dds only observes", _OTHERS),
    blame.POOL: ("see what the claims wait for: dds claims", _QUEUE),
    blame.FABRIC: ("ask the fabric's team: its attach takes long", OPERATOR),
    blame.OPERATOR: ("see the operator: its queue, and how often it looks at a device", OPERATOR),
    blame.DRIVER: ("see the vendor's driver on the node", OPERATOR),
    blame.ORDER: ("see what keeps dds from ordering: dds timeline of the claim", _LOOK),
    blame.EXCHANGE: ("see what the exchange waits for: dds timeline of the claim", _LOOK),
    blame.PAUSE: ("see why the attempts fail: dds timeline of the claim", _LOOK),
    blame.HAND_OVER: ("see why the scheduler does not take the device: dds timeline of the claim", _LOOK),
    blame.TAKEN: ("see which claim took the device: dds timeline of the claim", _LOOK),
    blame.TURN: ("see what the other claims of the pod wait for: dds status", _LOOK),
    blame.GOING: ("delete the pod: its claim is being deleted, and no scheduler places it", EVENTS),
    blame.BARRED: ("create the class that dds claims names, or delete the pod that has its node from elsewhere", _LOOK),
    blame.NODE: ("wait for the scheduler's binding timeout, or delete the pod: its node was deleted", EVENTS),
    blame.OBSERVE: ("let dds decide (mode attach or detach), or see the other scaler's log", _OTHERS),
    VAIN: ("see who ordered what nobody used: dds devices --never-used", "devices-ordered-in-vain"),
}
"""By the reason of an alert, by what `remedy` gives for a failure, or by the stage of a wait: what to do, and the section of
docs/operations.md. The most urgent first; failures come in the order of how many there are."""


FAULT: Mapping[str, str] = {
    "AttachFailed": "the fabric",
    "AttachTimeout": "the fabric or the operator",
    DELETED: "who deleted the node",
    "NodeLimit": "the node's limit",
    "Coexistence": "models that may not share a node",
    "RequestOwnedByOther": "the request's owner",
    "DeviceUnsuitable": "the claim, or what came",
    "NodeUnschedulable": "who closed the node",
    "HandOverInVain": "the scheduler",
    "OrderRefused": "the API server's admission",
}
"""By what `remedy` gives, or by the reason of a failure: whose fault it is. Of a stage it is its owner's."""


class Waited(NamedTuple):
    """What claims waited for together (microseconds), `longest` the claim that waited most for it (name and uid)."""

    stage: str
    micros: int
    share: int
    claims: int
    longest: str
    uid: str
    longest_micros: int


class Failure(NamedTuple):
    """Attempts that ended alike. `by`: whose fault it is, or who set the condition; `text`: the most frequent cause, that of
    `alike` of them. `helps`: what it is called in `FIRST`."""

    reason: str
    by: str
    attempts: int
    text: str
    alike: int
    claims: tuple[str, ...]
    helps: str


class Vain(NamedTuple):
    """A device that was ordered in vain, and for how long it was there (microseconds); if none `came`, how long that took."""

    device: str
    node: str
    model: str
    micros: int
    verdict: str
    came: bool


class Todo(NamedTuple):
    """What to do, why, and the section of docs/operations.md."""

    do: str
    why: str
    section: str

    @property
    def words(self) -> str:
        return f"{self.do} ({self.why}; operations.md#{self.section})"


class Incident:
    """What happened from the instant `since` on: waits and device-time count from then on, of attempts those that ended later, of
    devices in vain those that were ordered later. `claims`, `devices`: that existed then or later; `waiting`: the claims that
    waited. `whys`: what claims that wait at the end wait for, by uid. `spent`, `by_model`: microseconds of the devices."""

    def __init__(self, history: History, since: int = 0) -> None:
        self.history, self.now = history, history.now
        self.since = max(history.first, since)
        self.claims, resources = ranked(history, self.since), devices_since(history, self.since)
        self.devices = [one for one in resources if one.came]
        self.whys: Mapping[str, str] = {}
        self.alerts = [one for one in history.alerts if one.at >= self.since]
        refused = (one for one in history.refused if one.at >= self.since)
        gaps = ((max(since, self.since), until, many) for since, until, many in history.away)
        self.away = [gap for gap in gaps if gap[1] - gap[0] >= _AWAY]
        self.refused = Counter((one.write, one.text) for one in refused)
        self.waiting = [one for one in self.claims if one.waits or self.waited(one)]
        self.attempts = [(one, claim) for claim in self.waiting for one in claim.attempts_since(self.since)]
        self.waits = list(self._waits())
        self.failures = list(self._failures())
        self.spent, self.by_model = Counter[str](), Counter[str]()
        self.vain: list[Vain] = []
        for one in resources:
            spent = one.spent(self.now, self.since)
            micros = sum(spent.values())
            if one.came:
                self.spent.update(spent)
                self.by_model[one.model] += micros
            if one.first >= self.since and never_used(one, history):
                self.vain.append(Vain(one.name, one.node, one.model, micros, verdict(one, history), one.came))
        self.vain.sort(key=lambda one: (not one.came, -one.micros, one.device))

    def waited(self, claim: ClaimHistory) -> int:
        """Microseconds for which it waited."""
        return claim.waited_since(self.since, self.now)

    # -- what was found --------------------------------------------------------------------------------------------------

    def _waits(self) -> Iterator[Waited]:
        total: Counter[str] = Counter()
        most: dict[str, tuple[int, str, str]] = {}
        many: Counter[str] = Counter()
        for claim in self.waiting:
            for stage, micros in claim.stages(self.now, self.since).items():
                total[stage] += micros
                many[stage] += 1
                most[stage] = max(most.get(stage, (0, "", "")), (micros, claim.name, claim.uid))
        whole = sum(total.values())
        for stage, micros in total.most_common():
            longest, name, uid = most[stage]
            yield Waited(stage, micros, round(100 * micros / whole), many[stage], name, uid, longest)

    def _failures(self) -> Iterator[Failure]:
        found: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
        for one, claim in self.attempts:
            if one.outcome in LOST:
                found[LOST[one.outcome], one.by, ""].append(("", claim.name))
            elif one.outcome == "failed" and one.cause.startswith(CONDITION):
                found[one.cause.removeprefix(CONDITION).split(" ")[0], one.by, ""].append(("", claim.name))
            elif one.outcome == "failed":
                helps = remedy(claim, one)
                by = (
                    WHOSE[helps].partition(":")[0]
                    if helps in WHOSE
                    else FAULT.get(helps, FAULT.get(one.reason, one.by))
                )
                found[one.reason, by, helps].append((one.cause, claim.name))
        for (reason, by, helps), rows in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            [(cause, alike)] = Counter(cause for cause, _ in rows).most_common(1)
            names = tuple(dict.fromkeys(name for _, name in rows))
            yield Failure(reason, by, len(rows), cause, alike, names, helps or reason)

    def todo(self) -> list[Todo]:
        """What to do first, the most urgent first: alerts and refused writes, failures, what waits or waited long, devices."""
        urgent = Counter(one.reason for one in self.alerts) + Counter({REFUSED: self.refused.total()})
        urgent += Counter({AWAY: len(self.away)})
        why = {reason: f"{number} × {reason}" for reason, number in urgent.items()}
        order = [one for one in FIRST if one in urgent]
        others = OBSERVED if self.history.observes else OTHERS
        for one in self.failures:
            key = others if one.by == OTHERS else one.helps
            order.append(key)
            why.setdefault(key, f"{one.attempts} × {one.reason}")
        observes = self.history.observes or any(one.stage == blame.OBSERVE for one in self.waiting)
        for claim in self.waiting:
            stages = claim.stages(self.now, self.since)
            if stages and (claim.waits or self.waited(claim) >= _LONG):
                key = claim.stage if claim.waits else max(stages, key=lambda one: stages[one])
                if (key == blame.OBSERVE and not observes) or (key in _OF_PRESENT and not claim.waits):
                    continue  # the mode is another since, or there is nothing left to do
                order.append(key)
                verb = "waits" if claim.waits else "waited"
                why.setdefault(key, f"{claim.name} {verb} {self._took(claim)}")
        if self.vain:
            order.append(VAIN)
            came = sum(one.came for one in self.vain)
            told = {"never used": _many(came, "device"), "that brought none": _many(len(self.vain) - came, "order")}
            why[VAIN] = ", ".join(f"{many} {what}" for what, many in told.items() if not many.startswith("0 "))
        return [Todo(FIRST[one][0], why[one], FIRST[one][1]) for one in dict.fromkeys(order) if one in FIRST]

    def advice(self) -> list[str]:
        """What would have helped most of the claims that waited longest."""
        longest = self.waiting[:_ADVISED]
        told = (dict.fromkeys(advice(one, self.history, self.since)) for one in longest)
        found = Counter(_without_times(text) for texts in told for text in texts)
        return [text for text, _ in found.most_common(TOLD)]

    # -- in words --------------------------------------------------------------------------------------------------------

    def head(self) -> list[str]:
        """When it was, what became of the claims, and how long they waited."""
        first, day = rfc3339(self.since), rfc3339(self.now)[:10]
        until = (f"{day} " if first[:10] != day else "") + time_of_day(self.now)[:8]
        when = f"{first[:10]} {first[11:19]} to {until} UTC ({duration(self.now - self.since)})"
        if not self.claims:
            return [f"no claim was seen, {when}"]
        return [f"{_many(len(self.claims), 'claim')}, {when}: {self.outcomes()}", *self._away_lines()]

    def _away_lines(self) -> Iterator[str]:
        if self.away:
            since, until, many = max(self.away, key=lambda gap: gap[1] - gap[0])
            took = f"for {duration(until - since)} until it started anew at {time_of_day(until)[:8]}"
            rest = f" ({len(self.away)} times in all)" if len(self.away) > 1 else ""
            whom = f"{_many(many, 'claim')} waited meanwhile"
            yield f"dds wrote nothing {took}{rest}: {whom}, and whose time that was was not seen"

    def outcomes(self) -> str:
        """How many claims ended how."""
        found = Counter(_OUTCOMES.get(one.outcome, _OTHER) for one in self.claims)
        return ", ".join(f"{found[words]} {words}" for words in (*_OUTCOMES.values(), _OTHER) if found[words])

    def times(self) -> list[int]:
        """How long claims waited (microseconds), shortest first."""
        return sorted(map(self.waited, self.waiting))

    def half_and_most(self) -> tuple[str, str]:
        """How long half of the claims waited at most, and 95 % of them."""
        times = self.times()
        half, most = (duration(times[-(-len(times) * percent // 100) - 1]) for percent in (50, 95))
        return half, most

    def sections(self, cost: str = "") -> dict[str, list[str]]:
        """The lines by their title. `cost`: the price of the devices' time, if there is one."""
        return {
            "waited": list(self._wait_lines()) or ["nothing"],
            "failed": list(self.failure_lines()) or ["nothing"],
            "in vain": list(self._vain_lines()) or (["no device"] if self.devices else ["no device was attached"]),
            "cost": list(self._cost_lines(cost)),
            "alerts": list(self._alert_lines()) or ["none"],
            "first": list(self._first_lines()) or ["nothing to do: nothing waits, failed or was ordered in vain"],
        }

    def _wait_lines(self) -> Iterator[str]:
        if not self.waiting:
            return
        times = self.times()
        if len(times) > 1:
            half, most = self.half_and_most()
            whole = duration(sum(times))
            yield f"{whole} together; half of them {half} or less, 95 % {most} or less"
        still = [one for one in self.waiting if one.waits]
        told = [*self.waiting[:1], *[one for one in still[:1] if one is not self.waiting[0]]]
        yield from (self._longest(one) for one in told)
        for wait in self.waits[:TOLD] if len(times) > 1 else ():
            whom = f"{_many(wait.claims, 'claim')}, {duration(wait.micros)}"
            yield f"{wait.share} % {wait.stage} ({whom}): {WHOSE[wait.stage]}"

    def _longest(self, claim: ClaimHistory) -> str:
        """The wait of one claim: how long, how it ended, which stages took it, and who spends the time of the longest one."""
        stages = sorted(claim.stages(self.now, self.since).items(), key=lambda pair: -pair[1])
        told = ", ".join(f"{stage} {duration(micros)}" for stage, micros in stages[:TOLD])
        node = f" on {claim.node}" if claim.outcome == "bound" and claim.node else ""
        attempts = len(claim.attempts_since(self.since))
        many = f" in {_many(attempts, 'attempt')}" if attempts > 1 else ""
        words = self.whys.get(claim.uid, "") or (WHOSE[stages[0][0]] if stages else "")
        how = _OUTCOMES.get(claim.outcome, _OTHER)
        return f"{claim.name} {self._took(claim)}, {how}{node}{many}: {told}" + f"; {words}" * bool(words)

    def _took(self, claim: ClaimHistory) -> str:
        """How long it waited, and how long in all if it began to wait before the period."""
        here, whole = self.waited(claim), waited(claim, self.now)
        return whole if here == claim.waited(self.now) else f"{duration(here)} of {whole}"

    def failure_lines(self) -> Iterator[str]:
        """What failed, the most frequent first."""
        for one in self.failures[:TOLD]:
            by = f", by {one.by}" if one.by else ""
            rest = f" and {len(one.claims) - _NAMED} more" if len(one.claims) > _NAMED else ""
            some = f"; {one.alike} of them" if one.alike < one.attempts else ""
            why = f"{some}: {one.text}" if one.text else ""
            yield f"{one.attempts} × {one.reason}{by}: {', '.join(one.claims[:_NAMED])}{rest}{why}"
        yield from _more(self.failures, "dds claims --all")

    def _vain_lines(self) -> Iterator[str]:
        for one in self.vain[:TOLD]:
            name = "-".join(one.device.split("-")[:2])  # the beginning, which every command takes for the name
            yield f"{name} on {one.node}, {one.model}, {duration(one.micros)}: {one.verdict}"
        yield from _more(self.vain, "dds devices --never-used")

    def _cost_lines(self, cost: str) -> Iterator[str]:
        whole = sum(self.spent.values())
        if not whole:
            yield "no device-time"
            return
        shares = ((state, round(100 * micros / whole)) for state, micros in self.spent.most_common() if micros)
        told = ", ".join(f"{_WHAT.get(state, state)} {share} %" for state, share in shares if share)
        there = f"{_many(len(self.devices), 'device')} on {_many(len({one.node for one in self.devices}), 'node')}"
        needless = sum(one.micros for one in self.vain if one.came)
        vain = f"; {duration(needless)} of it never used" if needless else ""
        yield f"{duration(whole)} of device-time, {there}: {told}{vain}" + (f"; {cost}" if cost else "")

    def _alert_lines(self) -> Iterator[str]:
        found: dict[str, list[Alert]] = defaultdict(list)
        for one in self.alerts:
            found[one.reason].append(one)
        rows = sorted(found.items(), key=lambda pair: (list(FIRST).index(pair[0]) if pair[0] in FIRST else 0, pair[0]))
        for reason, alerts in rows[:TOLD]:
            yield f"{len(alerts)} × {reason}: {alerts[-1].of}: {alerts[-1].text}"
        yield from _more(rows, "dds log tail --type Alerted")
        for (action, text), number in self.refused.most_common(1):
            rest = len(self.refused) - 1
            yield f"{number} × {action} refused: {text}" + (f", and {rest} more kinds" if rest else "")

    def _first_lines(self) -> Iterator[str]:
        todo = self.todo()
        for place, one in enumerate(todo[:TOLD], start=1):
            yield f"{place}. {one.words}"
        known = tuple(f"({one.reason})" for one in self.failures)
        helpful = [text for text in self.advice() if not text.endswith(known)]
        yield from (f"would have helped: {text}" for text in helpful[: max(1, TOLD - len(todo))])

    # -- as data ---------------------------------------------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        """All of it, in the units of the forms for programs: seconds, RFC 3339."""
        worst = self.waiting[0] if self.waiting else None
        return {
            "from": rfc3339(self.since),
            "to": rfc3339(self.now),
            "claims": dict(Counter(one.outcome for one in self.claims)),
            "waited_seconds": sum(self.times()) / _SECOND,
            "longest": None
            if worst is None
            else {
                "claim": worst.name,
                "uid": worst.uid,
                "waited_seconds": self.waited(worst) / _SECOND,
                "stage_seconds": {
                    stage: micros / _SECOND for stage, micros in worst.stages(self.now, self.since).items()
                },
                "outcome": worst.outcome,
                "why": self.whys.get(worst.uid, ""),
            },
            "waits": [_seconds({**one._asdict(), "whose": WHOSE[one.stage]}) for one in self.waits],
            "failures": [one._asdict() for one in self.failures],
            "never_used": [_seconds(one._asdict()) for one in self.vain],
            "devices": len(self.devices),
            "device_seconds": {state: micros / _SECOND for state, micros in self.spent.items()},
            "alerts": [{**one._asdict(), "at": rfc3339(one.at)} for one in self.alerts],
            "refused": [
                {"write": action, "text": text, "count": number}
                for (action, text), number in self.refused.most_common()
            ],
            "away": [{"from": rfc3339(a), "to": rfc3339(b), "claims": many} for a, b, many in self.away],
            "first": [one._asdict() for one in self.todo()],
            "would_have_helped": self.advice(),
        }


def ranked(history: History, since: int = 0) -> list[ClaimHistory]:
    """The claims that existed at an instant or later, those that waited longest from then on first."""
    found = [one for one in history.claims.values() if _ended(one, history.now) >= since]
    return sorted(found, key=lambda one: (-one.waited_since(since, history.now), one.name, one.uid))


def devices_since(history: History, since: int = 0) -> list[DeviceHistory]:
    """The devices that existed at an instant or later, by node, model and name."""
    found = [one for one in history.devices.values() if (one.gone or history.now) >= since]
    return sorted(found, key=lambda one: (one.node, one.model, one.name, one.first, one.uid))


def _ended(claim: ClaimHistory, now: int) -> int:
    last = claim.spans[-1].until or now if claim.spans else 0
    return max(last, claim.gone or now)


def _without_times(text: str) -> str:
    """Without the details of one claim, so that the same advice counts as the same."""
    return text.rpartition(": ")[0] if text.startswith(_OF_ONE) else text


def _more(rows: Sequence[object], where: str) -> Iterator[str]:
    if len(rows) > TOLD:
        yield f"and {len(rows) - TOLD} more: {where}"


def _seconds(row: dict[str, Any]) -> dict[str, Any]:
    """The fields with times in seconds."""
    return {key.replace("micros", "seconds"): v / _SECOND if "micros" in key else v for key, v in row.items()}


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
