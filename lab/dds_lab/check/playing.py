"""Plays a random fleet in three periods: the faults, then until all pods are served, then without pods until it is at rest.

At any time the judges' rules must hold, except the rule about waiting claims, which judges each claim by itself. After the faults
every pod that can be bound must be bound. At the end unneeded devices must be detached, nothing may be left over, the pools must
match the hardware, this state must stay, and the logs must verify and lead to the same decisions again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dds_adapters.fabric.fabric_settings import FabricSettings
from dds_core.component import Component
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.model import MANAGED_BY
from dds_core.scaler.component import SCALER
from dds_lab.actors.objects import claim_names, reservations, results
from dds_lab.check.field import WATCHED, Blow, Program
from dds_lab.check.fleets import PART, REST, SERVED, STAYS, Fleet, fleet_of
from dds_lab.check.oracle import COOLED, SPARE, EndState, differences, something_leaves, state_of
from dds_lab.check.replicas import Replica, ShakyLog, Wire
from dds_lab.check.subjects import CLUSTER, unsound, unsound_with
from dds_lab.client import ApiError, Object
from dds_lab.driver import PUBLISHER_USER, SCALER_USER, OurProcess, OurPublisher, OurScaler, Pace, by_manager
from dds_lab.judge import Finding
from dds_lab.judge import publisher as pools
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import Lab
from dds_lab.manager.frontend import write_credentials
from dds_lab.serving import wire_faults
from dds_lab.setup import install_guard
from dds_lab.time import MICROSECONDS, VirtualTime

LOOK = 30.0
QUIET = 700.0
"""A run is at rest after so many seconds without a change: longer than an operator leaves an unknown device attached."""
UNANSWERED = ("the answer to a dry run is", "the connection was lost", "does not answer")
"""Log messages that are allowed in runs whose requests sometimes fail."""
PACE = Pace(interval=15.0)
SLOWER = pools.Measure(lag=34.0, back=15.0, glance=5.0)
"""Slower than usual, since queries to the manager take most of a run's time. Of two rounds the answer of one may have crossed a
device's arrival, and counts for nothing."""
CALM = Measure(patience=900.0, changes=20, glance=10.0, twice=True)
TROUBLED = replace(CALM, lately=1400.0, kept=60.0, patience=1200.0, beside=1200.0, news=240.0, rounds=6)
"""For processes that may be away for minutes and then go on with earlier decisions, and an operator whose tries are slow: the
scaler calls an order in vain off after 22 min at the latest (docs/rules.md)."""
TOO_MANY = "exceeds the claim limit"
"""What the scheduler says of a claim for more devices than a claim may have."""
ALWAYS = 1e6
"""Seconds, practically for ever: without detaches an order stays, and the operator tries until a device comes."""


def played(seed: int, within: Path | None = None) -> tuple[tuple[str, str], ...]:
    """Play the fleet of a seed; returns the findings as (rule, words). Its temporary files are in a folder below `within`."""
    with fleet_run(fleet_of(seed), within) as run:
        return run.play()


class FleetRun:
    """A fleet in a lab with the processes of dds, played and judged."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self.lab = Lab(fleet.scenario, VirtualTime(fleet.seed, fleet.scenario.start))
        self.logs = {one: self._log(one) for one in ("scaler", "publisher")}
        self.processes: dict[Program, list[OurProcess[Any]]] = {"scaler": [], "publisher": []}
        self.replicas: dict[Program, list[Replica]] = {}
        self._folder = folder
        self._policy = fleet.policy
        self.lab.start()
        install_guard(self.lab.client("installer"), SCALER_USER)
        self._troubled = bool(fleet.blows or fleet.scenario.faults.wire)
        self.judge = Judge(
            self.lab, _measure(fleet, TROUBLED if self._troubled else CALM), heard=lambda: self._heard("scaler", "pods")
        )  # fmt: skip
        named = fleet.scenario.parts.manager is not None and fleet.scenario.parts.manager.api == "nec"
        self.pools = pools.PoolsJudge(
            self.lab, PUBLISHER_USER, SLOWER, mark=MANAGED_BY, blind=self._is_blind, names_devices=named,
            heard=lambda: self._heard("publisher", "resourceclaims"),
        )  # fmt: skip
        self.wire = Wire(self.lab, wire_faults(fleet.scenario, self.lab.time))
        self._stand_by("scaler", self._scaler)
        if fleet.publish is not None:
            self._stand_by("publisher", self._publisher)
        for one in fleet.blows:
            self.lab.time.after(one.at, partial(self._strike, one))

    def _log(self, program: str) -> ShakyLog:
        return ShakyLog(f"lab/{program}", cluster=CLUSTER, recorded_at=self.fleet.scenario.start)

    def _stand_by(self, program: Program, make: Callable[[], OurProcess[Any]]) -> None:
        def another() -> OurProcess[Any]:
            process = make()
            self.processes[program].append(process)
            return process

        numbers = range(self.fleet.replicas)
        self.replicas[program] = [Replica(self.lab, program, number, self.wire, another) for number in numbers]

    def _scaler(self) -> OurScaler:
        return OurScaler(self.lab, self.logs["scaler"], self._policy)

    def _publisher(self) -> OurPublisher:
        manager, policy = self.lab.manager, self.fleet.publish
        assert manager is not None and policy is not None
        write_credentials(self._folder, manager.settings.login, None)
        settings = FabricSettings(
            api=manager.settings.api,
            endpoint="https://manager.lab",
            tenant=manager.settings.tenant,
            cluster=manager.settings.cluster,
            credentials=self._folder,
            fabric=str(self.fleet.scenario.cluster.fabrics[0].id),
        )
        return OurPublisher(self.lab, self.logs["publisher"], policy, by_manager(manager, settings), pace=PACE)

    def end(self) -> None:
        for processes in self.processes.values():
            for one in processes:
                one.kill()
        self.lab.stop()

    # -- blows to the processes

    def _strike(self, blow: Blow) -> None:
        replicas = self.replicas[blow.program]
        one = next((one for one in replicas if one.process is not None), replicas[blow.which % len(replicas)])
        log = self.logs[blow.program]
        match blow.kind:
            case "kill":
                one.kill(blow.lasts)
            case "stop":
                one.stop(blow.lasts)
            case "pause":
                one.pause(blow.lasts)
            case "cut":
                self._cut(one, blow)
            case "log":
                self._for(blow, lambda on: setattr(log, "away", on))
            case "log-answer":
                self._for(blow, lambda on: setattr(log, "unheard", on))
            case "api":
                self._for(blow, lambda on: setattr(self.wire, "away", on))
                for process in [each.process for replicas in self.replicas.values() for each in replicas]:
                    for resource in process.followed if process is not None else ():
                        assert process is not None
                        process.cut(resource, blow.lasts)
            case "clock":
                if one.process is not None:
                    one.process.step_clock(blow.which)
            case "policy":
                self._for(blow, self._change_policy)

    def _cut(self, one: Replica, blow: Blow) -> None:
        followed = one.process.followed if one.process is not None else ()
        if one.process is not None and followed:
            one.process.cut(followed[blow.which % len(followed)], blow.lasts)

    def _change_policy(self, on: bool) -> None:
        self._policy = self.fleet.another if on else self.fleet.policy
        for one in self.replicas["scaler"]:
            if one.process is not None:
                one.process.change_policy(self._policy)

    def _for(self, blow: Blow, switch: Callable[[bool], None]) -> None:
        switch(True)
        self.lab.time.after(blow.lasts, lambda: switch(False))

    def _heard(self, program: Program, resource: str) -> int:
        """The instant up to which a program knows the changes of a resource."""
        one = next((one.process for one in self.replicas.get(program, ()) if one.process is not None), None)
        return one.heard_until(resource) if one is not None and one.followed else self.lab.time.now()

    def _is_blind(self) -> bool:
        """Whether the publisher cannot know the hardware's state or cannot write."""
        manager = self.lab.manager
        one = next((one.process for one in self.replicas.get("publisher", ()) if one.process is not None), None)
        if manager is None or one is None or manager.faults.waiting() or not one.alive:
            return True
        passed = (self.lab.time.now() - self.fleet.scenario.start) / MICROSECONDS
        sound = self.fleet.trouble + PACE.interval  # until its next query it believes the last answer
        return passed < sound or one.controller.away or not one.controller.synced

    # -- the three periods

    def play(self) -> tuple[tuple[str, str], ...]:
        fleet, found = self.fleet, list[tuple[str, str]]()
        self.lab.run(fleet.trouble + 60.0)
        waiting = self._waiting()
        for _ in range(round(SERVED / LOOK)):
            if not waiting or self._idle():
                break
            self.lab.run(LOOK)
            waiting = self._waiting()
        found += [] if self._idle() else [("not served", one) for one in waiting]
        found += [] if self._idle() else [("waits in silence", one) for one in self._silent()]
        self._nothing_is_wanted()
        state = self._at_rest()
        self.lab.run(STAYS)
        later = state_of(self.judge.view)
        found += [("restless", one) for one in differences(state, later)]
        # A scaler in mode observe removes nothing.
        excused = {SPARE: not fleet.gives_back, COOLED: not fleet.serves}
        found += [("left over", one) for one in later.left if not excused.get(one)]
        found += self._findings(one for one in self.judge.findings if not self._is_excused(one))
        found += self._unsound("scaler", SCALER)
        found += [("steps", one) for one in self.lab.steps.failures if "422 Invalid" in one]
        if fleet.publish is not None:
            found += [("pools", one) for one in self.pools.differences()]
            found += self._findings(self.pools.findings)
            found += self._unsound("publisher", PUBLISHER)
        return tuple(found)

    def _at_rest(self) -> EndState:
        """The state after `QUIET` seconds without a change and with nothing left over, or after `REST` seconds. The operator
        retries a detach that a claim prevented only after minutes."""
        state = state_of(self.judge.view)
        for _ in range(ceil(REST / QUIET)):
            before = state
            self.lab.run(QUIET)
            state = state_of(self.judge.view)
            if state == before and not state.left and not something_leaves(self.lab):
                break
        return state

    def _unsound(self, program: Program, component: Component[Any]) -> list[tuple[str, str]]:
        excused = UNANSWERED if self._troubled else ()
        told = unsound(self.processes[program], self.logs[program], component, excused=excused)
        if any(one.kind == "clock" for one in self.fleet.blows):
            told += unsound_with(self._clock, self.logs[program], component)
        return [("unsound", one) for one in told]

    def _clock(self, instant: int) -> int:
        """What a clock shows that steps every 7 s, in turn by the seconds of each `clock` blow."""
        steps = [one.which for one in self.fleet.blows if one.kind == "clock"]
        return instant + steps[instant // (7 * MICROSECONDS) % len(steps)] * MICROSECONDS

    def _findings(self, found: Iterable[Finding]) -> list[tuple[str, str]]:
        return [
            (one.rule, f"at {(one.at - self.fleet.scenario.start) / MICROSECONDS:.3f} s {one.of}: {one.text}")
            for one in found
        ]

    def _idle(self) -> bool:
        return not self.fleet.serves

    def _waiting(self) -> list[str]:
        """Pods that still wait although they can be served. One that is being deleted, or whose claim is, cannot: no scheduler
        takes it."""
        client = self.lab.client("looking")
        return [_words(pod) for pod in client.list("pods") if self._waits(pod)]

    def _is_excused(self, finding: Finding) -> bool:
        """Waiting claims are judged here, not each by itself."""
        beside = finding.rule == "left beside its devices"
        return self._is_only_told(finding.of.removeprefix("default/")) if beside else finding.rule == "waits for ever"

    def _is_only_told(self, pod: str) -> bool:
        """A policy without exchanges has nothing for claims of pods past the scheduler but the alert (`_silent`)."""
        return not self.fleet.exchanges and pod.startswith("placed-")

    def _silent(self) -> Iterator[str]:
        """Pods that have their node, keep a claim that waits for devices of a pool, and that no alert names."""
        client = self.lab.client("looking")
        told = [(row.data or b"").decode() for row in self.logs["scaler"].read(types={"Alerted"})]
        pods = {
            pod["metadata"]["uid"]: pod for pod in client.list("pods") if not pod["metadata"].get("deletionTimestamp")
        }
        for claim in client.list("resourceclaims"):
            waits = any(one.get("bindingConditions") for one in results(claim))
            for pod in [pods[one["uid"]] for one in reservations(claim) if waits and one["uid"] in pods]:
                name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                if pod["spec"].get("nodeName") and not any(f"pod {name} " in text for text in told):
                    yield f"{name} has a node and does not run, and no alert names it"

    def _waits(self, pod: Object) -> bool:
        client, meta = self.lab.client("looking"), pod["metadata"]
        over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or meta.get("deletionTimestamp")
        if over or pod["spec"].get("nodeName"):
            return False
        claims = [client.find("resourceclaims", one, meta["namespace"]) for one in claim_names(pod)]
        known = all(
            one is not None
            and not one["metadata"].get("deletionTimestamp")
            and not _is_of_parts(one)
            and not _is_stuck(one, pod)
            for one in claims
        )
        return (
            known
            and meta["name"] not in self.fleet.unservable
            and not self._is_only_told(meta["name"])
            and (not any(map(_only_looks, claims)) or self._is_there_to_see(pod, claims))
            and self._is_enough({f"{meta['namespace']}/{one}" for one in claim_names(pod)})
        )

    def _is_there_to_see(self, pod: Object, claims: Iterable[Object | None]) -> bool:
        """Whether the node of a pod that only looks lists a device of its driver, which an exchange can give it. The scheduler
        gives up where there are more, with those of the pool, than a claim may have, and where the claim wants all of them and
        they consume counters: these are checked for a claim that only looks too, and two forms of one device share them."""
        node = (pod["spec"].get("nodeSelector") or {}).get("kubernetes.io/hostname")
        (sought,) = [one.selectors[0] for one in self.fleet.scenario.cluster.classes or () if one.name == WATCHED]
        slices = [one["spec"] for one in self.lab.client("looking").list("resourceslices")]
        here = [one for one in slices if one.get("nodeName") == node and one["driver"] in sought]
        devices = [device for one in here for device in one.get("devices") or ()]
        counted = any(map(_wants_all, claims)) and any(one.get("consumesCounters") for one in devices)
        return bool(devices) and not counted and self.fleet.exchanges and TOO_MANY not in _words(pod)

    def _is_enough(self, claims: set[str]) -> bool:
        """Whether a node has or can get all devices that the claims need, beside those of other claims. Devices in the machine of
        a lost node do not count. A model cannot come to a node where other claims hold a rival of it, nor if an unservable pod
        attaches a rival again and again."""
        view, fabric = self.judge.view, self.lab.fabric
        in_vain = {model for pod in self.fleet.unservable for model in self._wanted_by(pod)}
        needs: Counter[str] = Counter()
        having: Counter[tuple[str, str]] = Counter()
        taken: set[tuple[str, str]] = set()
        for one in view.claims.values():
            needs += one.needs if one.name in claims else Counter()
            having += one.cells - one.waits
            taken |= set() if one.name in claims else (one.cells - one.waits).keys()
        for node in view.nodes:
            beside = [other for other in view.nodes if view.fabric_of(other) == view.fabric_of(node)]
            if all(
                not any((node, rival) in taken or rival in in_vain for rival in view.rivals(model))
                and having[node, model] + count <= view.limit((node, model))
                and fabric.free(view.fabric_of(node), model)
                + sum(len(view.attached((one, model))) - having[one, model] for one in beside)
                >= count
                for model, count in needs.items()
            ):
                return True
        return False

    def _wanted_by(self, name: str) -> Iterator[str]:
        """The models that a scaler attaches for the pod's claims: those without a rival in the same claim."""
        view, pod = self.judge.view, self.lab.client("looking").find("pods", name, "default")
        names = {f"default/{one}" for one in claim_names(pod)} if pod is not None else set[str]()
        for one in view.claims.values():
            if one.name in names:
                yield from (model for model in one.needs if not view.rivals(model) & one.needs.keys())

    def _nothing_is_wanted(self) -> None:
        client = self.lab.client("looking")
        for resource in ("pods", "resourceclaimtemplates", "resourceclaims"):
            for one in client.list(resource, "default"):
                with suppress(ApiError):
                    if resource == "pods" and one["metadata"].get("finalizers"):
                        client.patch(resource, one["metadata"]["name"], {"metadata": {"finalizers": None}}, "default")
                    client.delete(resource, one["metadata"]["name"], "default")


def _measure(fleet: Fleet, measure: Measure) -> Measure:
    """Adapt the judge's tolerances to a fleet. `rounds`: a claim that fails on one node after the other may come back to a node
    when that has cooled down. `lately`: an operator with one worker carries orders out minutes late; in a fleet that detaches
    nothing an order stays for ever."""
    nodes = min(4, len(fleet.scenario.cluster.node_names()))
    rounds = max(measure.rounds, 1 + nodes * 60 // fleet.policy.cool_down_seconds)
    operator = fleet.scenario.parts.operator
    late = TROUBLED.lately if operator is not None and operator.kind == "real" else measure.lately
    lately = late if fleet.gives_back else ALWAYS
    beside = measure.beside if fleet.serves else ALWAYS
    idle = 0.0 if fleet.blows or fleet.policy.idle != "fixed" else float(fleet.policy.no_removal_seconds)
    promised = fleet.policy.no_allocation_seconds
    waste = 0.0 if fleet.policy.prewarm or fleet.another.prewarm else 2.0
    return replace(measure, rounds=rounds, lately=lately, beside=beside, idle=idle, promised=promised, waste=waste)


def _only_looks(claim: Object | None) -> bool:
    return any(one.get("adminAccess") for one in _exactly(claim))


def _wants_all(claim: Object | None) -> bool:
    return any(one.get("allocationMode") == "All" for one in _exactly(claim))


def _exactly(claim: Object | None) -> list[Object]:
    asked = claim["spec"].get("devices", {}).get("requests") or () if claim is not None else ()
    return [one.get("exactly") or {} for one in asked]


def _is_of_parts(claim: Object) -> bool:
    requests = claim["spec"]["devices"]["requests"]
    return any((one.get("exactly") or {}).get("deviceClassName") == PART for one in requests)


def _is_stuck(claim: Object, pod: Object) -> bool:
    """Whether the claim was told something and stays reserved for another pod: a scheduler clears a claim that is reserved for
    nobody else."""
    status = claim.get("status") or {}
    others = [one for one in status.get("reservedFor") or () if one["uid"] != pod["metadata"]["uid"]]
    return bool(others and status.get("devices"))


def _words(pod: Object) -> str:
    conditions: list[Object] = (pod.get("status") or {}).get("conditions") or []
    told = next((one for one in conditions if one["type"] == "PodScheduled"), {"reason": "Pending"})
    return f"{pod['metadata']['name']}: {told.get('reason', '')} {told.get('message', '')}"


@contextmanager
def fleet_run(fleet: Fleet, within: Path | None = None) -> Iterator[FleetRun]:
    """A fleet's lab with all processes started."""
    with TemporaryDirectory(dir=within) as folder:
        run = FleetRun(fleet, Path(folder))
        try:
            yield run
        finally:
            run.end()
