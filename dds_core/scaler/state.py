"""The scaler's state, folded from its log: all that its rules know, questions that several of them ask, dump and load.

One owner holds it, and only `dds_core.scaler.folds.apply` changes it. Rules look only at what `dirty` names: what the current
group touched.
"""

from __future__ import annotations

from dds_core.kit import work
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import Mode
from dds_core.kit.state import Form
from dds_core.model import (
    BEING_ATTACHED,
    BLOCKING,
    ONLINE,
    RESOURCE_ATTACHING,
    Allocation,
    Claim,
    Device,
    DeviceKey,
    FabricResource,
    Model,
    Node,
    Pod,
    Result,
    Taint,
    model_of_device,
)
from dds_core.scaler import wakes
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.hardware import Traits
from dds_core.scaler.indexes import Indexes
from dds_core.scaler.model import CONDEMNED, DEVICE_UNEXPLAINED, DeviceLife
from dds_core.scaler.operator import verdict
from dds_core.scaler.policy import read_policy


class State(Indexes):
    """The tables and indexes, with questions that several rules ask."""

    def __init__(self) -> None:
        super().__init__()
        wakes.watch(self)

    def node(self, name: str) -> Node | None:
        uid = self.node_named.get(name)
        return self.nodes.get(uid) if uid is not None else None

    def model(self, name: str) -> Model | None:
        return self.models.get(name)

    def request_type(self, model: Model) -> str:
        """The type of the ComposabilityRequests for a model: its own, else its driver's."""
        return model.type or self.policy.driver_of(model.driver).request_type

    def device(self, key: DeviceKey) -> Device | None:
        pool = self.pools.get(key[:2])
        return pool.devices.get(key[2]) if pool is not None else None

    def somebody_waits(self, node: str) -> bool:
        """Whether a claim may be waiting for a device on the node."""
        return bool(self.waiting_at[node] or self.claims_on[""])

    def something_may_go(self, node: str) -> bool:
        """Whether anything on the node idles, is held, fenced or marked, fails, or is late. Else there is nothing to unmark, to
        check or to detach, but for what a request asks for in vain: that is looked at in level passes."""
        if self.idle_at[node] or self.holds_at[node] or (self.requests_at[node] and self.now == self.level_at):
            return True
        fences, erring, late, rows = self.fences, self.erring, self.fired_deadlines, self.resources.rows
        return any(
            rows[uid].marked or uid in fences or uid in erring or (DeadlineKind.PROGRESS, uid) in late
            for uid in self.resources_at[node]
        )

    def model_of_result(self, result: Result) -> Model | None:
        """The model of a pool device that the scheduler waits for; None if dds does not manage it."""
        found = self.model_of_pool((result.driver, result.pool))
        if found is None:
            device = self.device(result.key)
            found = model_of_device(self.config, result.driver, device) if device is not None else None
        return found

    def pool_results(self, allocation: Allocation | None) -> list[tuple[int, Result, Model]]:
        """The results on pool devices of dds, which wait for binding conditions: (place in the allocation, result, model)."""
        found = []
        for place, result in enumerate(allocation.results if allocation is not None else ()):
            if result.binding and (model := self.model_of_result(result)) is not None:
                found.append((place, result, model))
        return found

    def wanted_models(self, allocation: Allocation | None) -> list[Model]:
        """The model of each pool device that the allocation waits for, other than to look at it (admin access)."""
        return [model for _, result, model in self.pool_results(allocation) if not result.admin]

    def waits_for_devices(self, claim: Claim) -> bool:
        """Whether the scheduler waits for devices of dds that the claim is allocated."""
        return claim.waits_for(result for _, result, _ in self.pool_results(claim.allocation))

    def local_results(self, allocation: Allocation | None) -> list[Result]:
        """The results on devices of dds's drivers that are on their node already, in use or looked at."""
        return [
            r
            for r in (allocation.results if allocation is not None else ())
            if r.driver in self.drivers and not r.binding and self.model_of_pool((r.driver, r.pool)) is None
        ]

    def scheduler_of(self, claim: Claim) -> str:
        """The schedulerName of the claim's pods, "" without any."""
        pods = self.pods_of(claim)
        return pods[0].scheduler if pods else ""

    def claims_of(self, pod: Pod) -> list[Claim]:
        """The claims of a pod, in pod order, the extended-resource claim last; without those not created yet."""
        names = [name for name in pod.claims if name]
        if pod.extended_claim:
            names.append(pod.extended_claim)
        uids = [uid for name in names if (uid := self.claim_named.get((pod.namespace, name))) is not None]
        return [claim for uid in uids if (claim := self.claims.get(uid)) is not None]

    def resource_of(self, key: DeviceKey) -> FabricResource | None:
        """The resource of a node-local device; None for a fixed one. An empty UUID matches nothing."""
        for uuid in self.face(key).uuids:
            resource = self.resource_with(uuid, self.pools[key[:2]].node)
            if resource is not None:
                return resource
        return None

    def resource_with(self, uuid: str, node: str) -> FabricResource | None:
        """The resource of a device that is on the node. Of several, one of this node counts before one of a node that lost the
        device, and a staying one before one of a device that was detached and attached again."""
        rows = [self.resources.rows[uid] for uid in self.resources_of_uuid[uuid]]
        return min(rows, key=lambda one: (one.node != node, one.leaving, one.uid), default=None)

    def is_taken_off(self, resource: FabricResource) -> bool:
        """Whether another resource of the node names the same device and is leaving: the device was detached and attached again,
        and the operator may detach it once more for the old resource."""
        rows = (self.resources.rows[uid] for uid in self.resources_of_uuid[resource.uuid] if uid != resource.uid)
        return any(one.node == resource.node and one.leaving for one in rows)

    def taints_of(self, resource: FabricResource) -> set[Taint]:
        """Taints that keep the scheduler from the device (from all of it, if that is listed); none if one of its faces has
        none."""
        keys = self.keys_of[resource.uuid] if resource.uuid else frozenset()
        if all(self.pools[key[:2]].free == len(self.pools[key[:2]].devices) for key in keys):
            return set()
        faces = [key for key in keys if not self.face(key).part] or list(keys)
        devices = [device for key in faces if (device := self.device(key)) is not None]
        taints = [{taint for taint in device.taints if taint.effect in BLOCKING} for device in devices]
        return set().union(*taints) if all(taints) else set()

    def names_of(self, resource: FabricResource) -> set[DeviceKey]:
        """The names in slices under which claims can have the device on its node; none while no slice lists it there. While its
        UUID is not listed, those of its hardware in another form, such as one for a virtual machine."""
        keys = self.keys_of[resource.uuid] if resource.uuid else ()
        here = {key for key in keys if self.pools[key[:2]].node in ("", resource.node)}
        return here or self._forms_of(resource)

    def _forms_of(self, resource: FabricResource) -> set[DeviceKey]:
        life = self.devices.get(resource.uid)
        if life is None or not life.hardware or not resource.uuid or resource.leaving:
            return set()
        return {key for key, traits in self.traits_at(resource.node) if self._is_form(key, traits, life, resource)}

    def hidden_forms_of(self, resource: FabricResource) -> set[DeviceKey]:
        """The names under which its hardware was listed and is not now. The driver may list them again at any time, and a claim
        may have one before that is seen."""
        life = self.devices.get(resource.uid)
        return {key for key in life.forms if key not in self.faces} if life is not None else set()

    def _is_form(self, key: DeviceKey, traits: Traits, life: DeviceLife, resource: FabricResource) -> bool:
        others = {uid for uuid in self.face(key).uuids for uid in self.resources_of_uuid[uuid]} - {resource.uid}
        return not traits.tokens.isdisjoint(life.hardware) and not others

    def has_left(self, resource: FabricResource) -> bool:
        """Whether the device of a leaving resource is on another node by now. The operator waits until no slice lists it."""
        return resource.leaving and bool(resource.uuid and self.keys_of[resource.uuid]) and not self.names_of(resource)

    def reserved_devices_of(self, claim: Claim) -> tuple[ReservedDevice, ...]:
        """The devices reserved for the claim; of an extended resource, whose claim is recreated, those reserved for its pod."""
        if not self.live:
            life = self.lives.get(claim.uid)
            return life.promises if life is not None else ()
        row = self.reservations.get(claim.uid)
        if row is None and claim.extended and claim.owner:
            row = self.reservations.get(f"pod:{claim.owner}")
        return row.promises if row is not None else ()

    def promised(self, identity: str) -> frozenset[str] | set[str]:
        """For whom the device is meant: keys of reservations; in mode observe, claims for which it stands ready."""
        return self.reserved_for[identity] if self.live else self.ready_for[identity]

    def is_kept_for_one_cleared(self, resource: FabricResource) -> bool:
        """Whether the device is reserved for a claim that is cleared and about to get it."""
        keys = self.promised(resource.uuid) if resource.uuid else ()
        rows = (self.reservations.get(key) for key in keys)
        claims = (self.claims.get(row.claim if row is not None else key) for key, row in zip(keys, rows, strict=True))
        return any(claim is not None and claim.allocation is None for claim in claims)

    def place(self, node: str, model: str) -> tuple[str, str]:
        """(fabric, model): within it, it makes no difference which idle device is used."""
        return self.fabric_of.get(node, ""), model

    def idle_time(self, node: str, model: str) -> int:
        """Microseconds that a device of the model on the node idles before its detach."""
        row = self.reuse.get(self.place(node, model)) if self.policy.learns_idle else None
        return row.keep if row is not None else self.policy.longest_idle

    def has_true_condition(self, uid: str, condition: str) -> bool:
        """Whether the claim exists and has the condition on one of its devices."""
        claim = self.claims.get(uid)
        return claim is not None and any(one[3] == condition for one in claim.true_conditions)

    def is_listed(self, resource: FabricResource) -> bool:
        """Whether a whole pool of its node lists the device."""
        return any(self.pools[key[:2]].usable for key in self.names_of(resource))

    def place_listed(self, resource: FabricResource) -> tuple[str, str]:
        """Node and driver that list the device, the key of `listings`; no driver for an unknown model."""
        model = self.model(resource.model)
        return resource.node, model.driver if model is not None else ""

    def is_arrived(self, resource: FabricResource) -> bool:
        """Whether the device is attached and its node can use it. The operator says Online up to 30 s after the node's driver has
        listed the device, and looks for nothing else (`device_ready` of the policy)."""
        if resource.state == ONLINE:
            return True
        listed = self.policy.device_ready == "listed" and resource.state == RESOURCE_ATTACHING and not resource.error
        return listed and not resource.leaving and self.is_listed(resource)

    def is_sick(self, resource: FabricResource) -> bool:
        """Whether the device's error is a verdict: the manager says so, or a failed question was repeated in vain, and other
        devices have none."""
        if (CONDEMNED, resource.uid) in self.fired_deadlines:
            return True
        repeated = bool(resource.error) and (DeadlineKind.SICK, resource.uid) in self.fired_deadlines
        return repeated and not self.manager_fails

    def may_serve(self, resource: FabricResource) -> bool:
        """Whether a claim may get the device in spite of its error. With one that may pass, only a reserved device is given."""
        if not resource.error or verdict(resource.error) == "warning":
            return True
        return not self.is_sick(resource) and (self.manager_fails or bool(self.promised(resource.uuid)))

    def model_of_uuid(self, uuid: str) -> Model | None:
        """The model of a device that is listed on a node, by its UUID."""
        found = ((key, device) for key in sorted(self.keys_of[uuid]) if (device := self.device(key)) is not None)
        return next((model_of_device(self.config, key[0], device) for key, device in found), None)

    def unexplained_at(self, node: str, model: str) -> list[str]:
        """The devices (UUIDs) of the model on the node that came after an order and that no resource names. The newest may be
        those of resources whose id the operator has still to write."""
        rows = self.unexplained.rows
        found = [
            uuid for uuid in rows if rows[uuid][0] == node and (one := self.model_of_uuid(uuid)) and one.model == model
        ]
        here = (self.resources.rows[uid] for uid in self.resources_at[node])
        unnamed = sum(one.model == model and not one.uuid and one.state in BEING_ATTACHED for one in here)
        return sorted(found, key=lambda uuid: (rows[uuid][1], uuid))[: max(0, len(found) - unnamed)]

    def explain(self, uuid: str) -> None:
        """The device is named, or gone."""
        if uuid in self.unexplained:
            self.unexplained.drop(uuid)
            self.clear_alert(uuid, DEVICE_UNEXPLAINED)

    @property
    def manager_fails(self) -> bool:
        """Whether all devices have an error that says nothing of them: the operator cannot ask its manager."""
        return len(self.online) > 1 and self.online <= self.sick.rows.keys()

    def is_missed(self, uid: str) -> bool:
        """Whether the node's driver has not listed the attached device for too long."""
        return uid in self.unlisted and (DeadlineKind.UNLISTED, uid) in self.fired_deadlines

    def is_useless(self, uid: str) -> bool:
        """Whether by all that is known the device is gone: not listed for long, or the manager cannot find it."""
        return self.is_missed(uid) or verdict(self.resources.rows[uid].error) == "gone"

    def is_lost(self, uid: str) -> bool:
        """Whether the driver misses the device but lists others: a replacement would be listed."""
        return self.is_missed(uid) and self.lists_others(uid)

    def lists_others(self, uid: str) -> bool:
        """Whether the driver of the device lists any device on the node."""
        resource = self.resources.rows[uid]
        model = self.model(resource.model)
        return any(self.pools[key].devices for key in self.pools_at[resource.node] if model and key[0] == model.driver)

    def claims_naming(self, key: DeviceKey) -> set[str]:
        """The claims that are allocated the device, holds included, those with admin access not."""
        return {*self.having[key], *self.held_by[key]}

    def is_held(self, key: DeviceKey) -> bool:
        """Whether a hold keeps the device, is about to keep it, or is not deleted yet."""
        return bool(self.held_as[key] or self.held_by[key])

    @property
    def undoing_mode(self) -> Mode:
        """The mode of a decision that removes what dds has written: it is carried out even in mode observe."""
        return "attach" if self.mode == "observe" else self.mode

    def touch_device(self, uid: str) -> None:
        self.dirty.devices.add(uid)
        resource = self.resources.get(uid)
        if resource is not None:
            self.dirty.nodes.add(resource.node)

    def touch_target(self, target: str) -> bool:
        """What a refused write was about may be decided again: a claim, pod, device, node, cell or request. False if it is none
        that is known."""
        dirty = self.dirty
        claim, pod = self.claims.get(target), self.pods.get(target)
        request = self.requests.get(self.request_named.get(target, ""))
        if claim is not None:
            dirty.claims.add(target)
            dirty.nodes.add(self.node_of(claim))
        elif self.guarded_for[target]:  # of a claim that is gone
            dirty.claims.add(target)
        elif pod is not None:
            dirty.claims |= {one.uid for one in self.claims_of(pod)}
        elif target in self.resources:
            self.touch_device(target)
        elif request is not None:
            dirty.nodes.add(request.node)
        elif (name := target.partition("/")[0]) in self.node_named:
            dirty.nodes.add(name)
        else:
            return False
        return True

    def touch_everything(self) -> None:
        self.dirty.claims |= self.claims.rows.keys() | self.lives.rows.keys() | self.guarded_for.keys()
        self.dirty.devices |= self.resources.rows.keys() | self.devices.rows.keys()
        self.dirty.nodes |= self.node_named.keys() | {life.node for life in self.lives.rows.values() if life.node}
        self.dirty.nodes |= self.failed_at.keys() | self.holds_at.keys()  # also if there is no such node


PROJECTION = 1

_FORM = Form(State, PROJECTION, read_policy)
dump, same, load = _FORM.dump, _FORM.same, _FORM.load


Work = work.Work[State]
"""One run of the scaler's rules."""
