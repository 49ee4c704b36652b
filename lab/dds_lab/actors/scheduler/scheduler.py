"""The scheduler: one loop that takes a pod at a time and finds it a node, and bindings that run beside it. Reimplements
pkg/scheduler/schedule_one.go of Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dds_core.matching.errors import AllocationError
from dds_lab.actors.scheduler.binding import Assigned, Binding, Process, Steps, temporary_uid
from dds_lab.actors.scheduler.claim_cache import is_special
from dds_lab.actors.scheduler.cluster_cache import ClusterCache
from dds_lab.actors.scheduler.dynamic_resources import Availability, PodDevices, before_nodes
from dds_lab.actors.scheduler.feasibility import Diagnosis
from dds_lab.actors.scheduler.finding import Search
from dds_lab.actors.scheduler.node_cache import Node
from dds_lab.actors.scheduler.pods import Object, Pod
from dds_lab.actors.scheduler.preemption import Outcome, Refused, make_room, preempt
from dds_lab.actors.scheduler.queue import SchedulingQueue, Waiting
from dds_lab.actors.scheduler.scheduler_settings import SchedulerSettings
from dds_lab.actors.scheduler.writing import PodWrites
from dds_lab.client import Client
from dds_lab.time import MICROSECONDS, Time, Timer

NO_NODES = "no nodes available to schedule pods"
PANIC = "panic: a ResourceSlice changed while there is a DeviceTaintRule (kubernetes PR 139651, mended in 1.36.3)"


class Scheduler:
    """To restart it, call `stop()` and create another one, which resumes waits according to the claims. `exited(why)`: called
    when the scheduler ended by itself."""

    def __init__(
        self,
        client: Client,
        time: Time,
        settings: SchedulerSettings,
        exited: Callable[[str], None] = lambda why: None,
    ) -> None:
        self.client = client
        self.time = time
        self._settings = settings
        self._random = time.random(settings.seed_name)
        self._bindings: dict[str, Binding] = {}
        self._evictions: list[Process] = []
        self._loop: Process | None = None
        self._offset = round(settings.clock_offset * MICROSECONDS)
        self._exited = exited
        self._panic: Timer | None = None
        self._cluster = ClusterCache(
            client, settings, self._random, self._bindings.__contains__, self._left, self._panics
        )
        self.claims = self._cluster.claims
        self.writes = PodWrites(client, self.clock, self._cluster.wrote, self._random, settings.seed_name)
        self._queue = SchedulingQueue(time, self.clock, self._cluster.gate, self._wake)
        self._search = Search(self._cluster.nodes, self._cluster.nominations, settings, self._random)

    def start(self) -> None:
        self._cluster.open(self._queue)

    def stop(self) -> None:
        """Stop at once, between any two steps, without clean-up."""
        if self._panic is not None:
            self._panic.cancel()
        self._cluster.close()
        self._queue.stop()
        for process in (self._loop, *self._evictions):
            if process is not None:
                process.stop()
        for binding in self._bindings.values():
            binding.stop()

    def cut(self, seconds: float) -> None:
        """Lose all watches for so many seconds, then list everything anew: the API server restarted, or the scheduler was
        frozen."""
        self._cluster.cut(seconds)

    def _panics(self) -> None:
        """Crash at this instant, before anything else is done."""
        if self._panic is None:
            self._panic = self.time.after(0.0, self._exit)

    def _exit(self) -> None:
        self.stop()
        self._exited(PANIC)

    # -- the protocol `Bindings`

    def clock(self) -> int:
        """The clock of the scheduler's host, in microseconds."""
        return self.time.now() + self._offset

    def gate(self, name: str) -> bool:
        return self._settings.gate(name)

    def pause(self) -> float:
        return self._settings.latencies.write.draw(self._random)

    def in_flight(self) -> float:
        return self._settings.allocation_delay.draw(self._random)

    def pod(self, uid: str) -> Pod | None:
        return self._cluster.pods.get(uid)

    def forget(self, pod: Pod) -> None:
        self._bindings.pop(pod.uid, None)
        self._cluster.leave(pod)

    def give_back(self, pod: Pod, message: str) -> Iterator[float]:
        waiting = self._queue.get(pod.uid)
        if waiting is not None:
            yield from self._failed(waiting, message)

    def _wake(self) -> None:
        if self._loop is None:
            self._loop = Process(self.time, self._turns(), self._rest)

    def _rest(self) -> None:
        self._loop = None

    def _turns(self) -> Steps:
        while (waiting := self._queue.pop()) is not None:
            pod = self.pod(waiting.pod.uid)
            if pod is None or pod.node or pod.uid in self._bindings:
                self._queue.done(waiting)
            elif pod.deleting:
                self._queue.done(waiting)
                text = f"skip schedule deleting pod: {pod.key}"
                self.writes.event(pod, "FailedScheduling", text, "Scheduling", "Warning")
            else:
                yield from self._turn(waiting, pod)

    def _turn(self, waiting: Waiting, pod: Pod) -> Steps:
        """One attempt, on the cluster as it is known at its beginning."""
        devices = self._devices(pod)
        took = self._settings.latencies.cycle.draw(self._random)
        try:
            found = self._choose(pod, devices)
        except AllocationError as error:
            yield took
            yield from self._failed(waiting, f'running "DynamicResources" filter plugin: {error}')
            return
        yield took
        if self.pod(pod.uid) is None:
            self._queue.done(waiting)
            return
        if isinstance(found, Node):
            self._queue.done(waiting)
            self._assign(pod, found, devices)
        elif not found.nodes:
            self._queue.failed(waiting)
            yield from self._tell(pod, "Unschedulable", NO_NODES, "")
        else:
            yield from self._refuse(waiting, pod, devices, found)

    def _devices(self, pod: Pod) -> PodDevices:
        settings, cluster = self._settings, self._cluster
        profile = settings.profiles[pod.scheduler]
        claims = [cluster.claims.get(key) for key in pod.claim_keys]
        found: list[Object] = [claim for claim in claims if claim is not None]
        extended = cluster.extended.wanted(pod) if settings.gate("DRAExtendedResource") else ()
        special = self._special_claim(pod) if extended else None
        binding = settings.gate("DRADeviceBindingConditions")
        return PodDevices(
            pod=pod,
            claims=[*found, special] if special is not None else found,
            available=Availability(binding, self.clock(), profile.binding_timeout),
            inventory=cluster.inventory,
            extended=cluster.extended,
            by_claim=extended,
        )

    def _special_claim(self, pod: Pod) -> Object | None:
        """The special claim that an earlier scheduler left behind."""
        status = (pod.obj.get("status") or {}).get("extendedResourceClaimStatus") or {}
        claim = self._cluster.claims.get(f"{pod.namespace}/{status.get('resourceClaimName', '')}")
        return claim if claim is not None and is_special(claim, pod) else None

    def _choose(self, pod: Pod, devices: PodDevices) -> Node | Diagnosis:
        against = before_nodes(pod, devices.claims, self.claims, self._cluster.inventory)
        if against is not None:
            return Diagnosis(len(self._cluster.nodes), before=against)
        return self._search.find(pod, devices)

    def _assign(self, pod: Pod, node: Node, devices: PodDevices) -> None:
        """Reserve: put the allocations in flight, assume the pod on the node, and start its binding."""
        assigned = Assigned(pod, node.name, list(devices.claims))
        chosen = devices.chosen.get(node.name)
        uids = [claim["metadata"]["uid"] for claim in devices.unallocated()]
        if node.name in devices.specials:
            assigned.special, assigned.mappings = devices.specials[node.name]
            uids.append("")
        if chosen is not None:
            for uid, allocation in zip(uids, chosen.allocations, strict=True):
                assigned.allocations[uid] = allocation()
                self.claims.take_off(uid or temporary_uid(pod), assigned.allocations[uid])
        self._cluster.nominations.drop(pod.uid)
        self._cluster.nodes.add_pod(pod, node.name)
        profile = self._settings.profiles[pod.scheduler]
        self._bindings[pod.uid] = Binding(self, assigned, profile, lambda: self._bound(pod.uid))

    def _bound(self, uid: str) -> None:
        self._bindings.pop(uid, None)

    def _refuse(self, waiting: Waiting, pod: Pod, devices: PodDevices, diagnosis: Diagnosis) -> Steps:
        """PostFilter: free a claim and look for pods to preempt; then write the condition."""
        refused = Refused(self, pod, devices, self._random, self._settings.tie)
        said = yield from refused.clear_claim()
        plain = self._search.plain_check(pod, devices)
        check = plain if devices.idle else lambda node: plain(node) or devices.check(node)
        outcome = preempt(pod, diagnosis, self._cluster.nodes, check)
        nomination = outcome.node if outcome.node else "" if outcome.clears else None
        afterwards = "" if outcome.node else f"{said}, preemption: {outcome.message}"
        self._queue.refused(waiting, diagnosis.rejectors)
        if outcome.node:
            self._cluster.nominations.put(pod, outcome.node)
        yield from self._tell(pod, "Unschedulable", diagnosis.message(afterwards), nomination)
        if outcome.node:
            self._evict(pod, outcome)

    def _evict(self, pod: Pod, outcome: Outcome) -> None:
        def ended() -> None:
            self._evictions.remove(process)

        process = Process(self.time, make_room(self, pod, outcome, self._bindings, self._cluster.nominations), ended)
        self._evictions.append(process)

    def _failed(self, waiting: Waiting, message: str) -> Steps:
        """Back off after an error. Every failed attempt removes the pod's nomination."""
        self._queue.failed(waiting)
        pod = self.pod(waiting.pod.uid)
        if pod is not None:
            self._cluster.nominations.put(pod, "")
            yield from self._tell(pod, "SchedulerError", message, "")

    def _tell(self, pod: Pod, reason: str, message: str, nomination: str | None) -> Steps:
        self.writes.event(pod, "FailedScheduling", message, "Scheduling", "Warning")
        yield self.pause()
        newest = self.pod(pod.uid)
        if newest is not None:
            self.writes.refuse(newest, reason, message, nomination)

    def _left(self, uid: str) -> None:
        self.writes.forget(uid)
