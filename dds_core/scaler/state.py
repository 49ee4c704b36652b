"""The scaler's state, folded from its log: all that its rules know, questions that several of them ask, dump and load.

One owner holds it, and only `dds_core.scaler.folds.apply` changes it. Rules look only at what `dirty` names: what the current
group touched.
"""

from __future__ import annotations

from functools import partial

from dds_core.kit import work
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import logged
from dds_core.kit.state import Form
from dds_core.model import (
    BEING_ATTACHED,
    ONLINE,
    RESOURCE_ATTACHING,
    AttachRequest,
    Claim,
    DeviceKey,
    FabricResource,
)
from dds_core.scaler import wakes
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.hardware import Traits
from dds_core.scaler.keys import UNMADE
from dds_core.scaler.model import CONDEMNED, DEVICE_UNEXPLAINED, DeviceLife
from dds_core.scaler.operator import verdict
from dds_core.scaler.policy import Policy
from dds_core.scaler.rooms import Rooms


class State(Rooms):
    """The rooms, with questions over several of them."""

    def __init__(self) -> None:
        super().__init__()
        wakes.watch(self)

    def somebody_waits(self, node: str) -> bool:
        """Whether a claim may be waiting for a device on the node."""
        return node in self.lifecycle.waiting_at or "" in self.demand.claims_on

    def something_may_go(self, node: str) -> bool:
        """Whether anything on the node idles, is held, fenced or marked, fails, is late, or is not made. Else there is nothing to
        unmark, to check or to detach, but for what else a request asks for in vain: that is looked at in level passes."""
        if node in self.lifecycle.idle_at or node in self.give_back.holds_at:
            return True
        if node in self.fleet.requests_at and self.process.now == self.process.level_at:
            return True
        if any(self.is_unmade(self.fleet.requests.rows[uid]) for uid in self.fleet.requests_at[node]):
            return True
        here = self.fleet.resources_at[node]
        if not (self.fleet.marked.isdisjoint(here) and self.health.late.isdisjoint(here)):
            return True
        return not (self.give_back.fences.keys().isdisjoint(here) and self.health.erring.keys().isdisjoint(here))

    def is_unmade(self, request: AttachRequest) -> bool:
        """Whether the request has fewer resources than its size, and the operator will make none for the rest."""
        return (UNMADE, request.name) in self.notes.fired_deadlines

    def resource_of(self, key: DeviceKey) -> FabricResource | None:
        """The resource of a node-local device; None for a fixed one. An empty UUID matches nothing."""
        for uuid in self.inventory.face(key).uuids:
            resource = self.fleet.resource_with(uuid, self.inventory.pools[key[:2]].node)
            if resource is not None:
                return resource
        return None

    def names_of(self, resource: FabricResource) -> set[DeviceKey]:
        """The names in slices under which claims can have the device on its node; none while no slice lists it there. While its
        UUID is not listed, those of its hardware in another form, such as one for a virtual machine."""
        here = self.inventory.keys_at.get((resource.node, resource.uuid), ()) if resource.uuid else ()
        return set(here) or self._forms_of(resource)

    def _forms_of(self, resource: FabricResource) -> set[DeviceKey]:
        life = self.lifecycle.devices.get(resource.uid)
        if life is None or not life.hardware or not resource.uuid or resource.leaving:
            return set()
        return {
            key for key, traits in self.inventory.traits_at(resource.node) if self._is_form(key, traits, life, resource)
        }

    def hidden_forms_of(self, resource: FabricResource) -> set[DeviceKey]:
        """The names under which its hardware was listed and is not now. The driver may list them again at any time, and a claim
        may have one before that is seen."""
        life = self.lifecycle.devices.get(resource.uid)
        return {key for key in life.forms if key not in self.inventory.faces} if life is not None else set()

    def _is_form(self, key: DeviceKey, traits: Traits, life: DeviceLife, resource: FabricResource) -> bool:
        others = {uid for uuid in self.inventory.face(key).uuids for uid in self.fleet.resources_of_uuid[uuid]} - {
            resource.uid
        }
        return not traits.tokens.isdisjoint(life.hardware) and not others

    def has_left(self, resource: FabricResource) -> bool:
        """Whether the device of a leaving resource is on another node by now. The operator waits until no slice lists it."""
        return (
            resource.leaving
            and bool(resource.uuid and self.inventory.keys_of[resource.uuid])
            and not self.names_of(resource)
        )

    def reserved_devices_of(self, claim: Claim) -> tuple[ReservedDevice, ...]:
        """The devices reserved for the claim; of an extended resource, whose claim is recreated, those reserved for its pod."""
        if not self.live:
            life = self.lifecycle.lives.get(claim.uid)
            return life.promises if life is not None else ()
        row = self.hand_over.reservations.get(claim.uid)
        if row is None and claim.extended and claim.owner:
            row = self.hand_over.reservations.get(f"pod:{claim.owner}")
        return row.promises if row is not None else ()

    def promised(self, identity: str) -> frozenset[str] | set[str]:
        """For whom the device is meant: keys of reservations; in mode observe, claims for which it stands ready."""
        return self.hand_over.reserved_for[identity] if self.live else self.lifecycle.ready_for[identity]

    def is_kept_for_one_cleared(self, resource: FabricResource) -> bool:
        """Whether the device is reserved for a claim that is cleared and about to get it."""
        keys = self.promised(resource.uuid) if resource.uuid else ()
        rows = (self.hand_over.reservations.get(key) for key in keys)
        claims = (
            self.demand.claims.get(row.claim if row is not None else key) for key, row in zip(keys, rows, strict=True)
        )
        return any(claim is not None and claim.allocation is None for claim in claims)

    def idle_time(self, node: str, model: str) -> int:
        """Microseconds that a device of the model on the node idles before its detach."""
        row = self.lifecycle.reuse.get(self.failing.place(node, model)) if self.policy.learns_idle else None
        return row.keep if row is not None else self.policy.longest_idle

    def is_listed(self, resource: FabricResource) -> bool:
        """Whether a whole pool of its node lists the device."""
        return any(self.inventory.pools[key[:2]].usable for key in self.names_of(resource))

    def place_listed(self, resource: FabricResource) -> tuple[str, str]:
        """Node and driver that list the device, the key of `listings`; no driver for an unknown model."""
        model = self.settings.model(resource.model)
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
        if (CONDEMNED, resource.uid) in self.notes.fired_deadlines:
            return True
        repeated = bool(resource.error) and (DeadlineKind.SICK, resource.uid) in self.notes.fired_deadlines
        return repeated and not self.manager_fails

    def may_serve(self, resource: FabricResource) -> bool:
        """Whether a claim may get the device in spite of its error. With one that may pass, only a reserved device is given."""
        if not resource.error or verdict(resource.error) == "warning":
            return True
        return not self.is_sick(resource) and (self.manager_fails or bool(self.promised(resource.uuid)))

    def unexplained_at(self, node: str, model: str) -> list[str]:
        """The devices (UUIDs) of the model on the node that came after an order and that no resource names. The newest may be
        those of resources whose id the operator has still to write."""
        rows = self.health.unexplained.rows
        found = [
            uuid
            for uuid in rows
            if rows[uuid][0] == node and (one := self.inventory.model_of_uuid(uuid)) and one.model == model
        ]
        here = (self.fleet.resources.rows[uid] for uid in self.fleet.resources_at[node])
        unnamed = sum(one.model == model and not one.uuid and one.state in BEING_ATTACHED for one in here)
        return sorted(found, key=lambda uuid: (rows[uuid][1], uuid))[: max(0, len(found) - unnamed)]

    def explain(self, uuid: str) -> None:
        """The device is named, or gone."""
        if uuid in self.health.unexplained:
            self.health.unexplained.drop(uuid)
            self.notes.clear_alert(uuid, DEVICE_UNEXPLAINED)

    @property
    def manager_fails(self) -> bool:
        """Whether all devices have an error that says nothing of them: the operator cannot ask its manager."""
        return len(self.fleet.online) > 1 and self.fleet.online <= self.health.sick.rows.keys()

    def is_missed(self, uid: str) -> bool:
        """Whether the node's driver has not listed the attached device for too long."""
        return uid in self.health.unlisted and (DeadlineKind.UNLISTED, uid) in self.notes.fired_deadlines

    def is_useless(self, uid: str) -> bool:
        """Whether by all that is known the device is gone: not listed for long, or the manager cannot find it."""
        return self.is_missed(uid) or verdict(self.fleet.resources.rows[uid].error) == "gone"

    def is_lost(self, uid: str) -> bool:
        """Whether the driver misses the device but lists others: a replacement would be listed."""
        return self.is_missed(uid) and self.lists_others(uid)

    def lists_others(self, uid: str) -> bool:
        """Whether the driver of the device lists any device on the node."""
        resource = self.fleet.resources.rows[uid]
        model = self.settings.model(resource.model)
        return any(
            self.inventory.pools[key].devices
            for key in self.inventory.pools_at[resource.node]
            if model and key[0] == model.driver
        )

    def is_held(self, key: DeviceKey) -> bool:
        """Whether a hold keeps the device, is about to keep it, or is not deleted yet."""
        return bool(self.give_back.held_as[key] or self.demand.held_by[key])

    def touch_device(self, uid: str) -> None:
        self.dirty.devices.add(uid)
        resource = self.fleet.resources.get(uid)
        if resource is not None:
            self.dirty.nodes.add(resource.node)

    def touch_target(self, target: str) -> bool:
        """What a refused write was about may be decided again: a claim, pod, device, node, cell or request. False if it is none
        that is known."""
        dirty = self.dirty
        claim, pod = self.demand.claims.get(target), self.demand.pods.get(target)
        request = self.fleet.request(target)
        if claim is not None:
            dirty.claims.add(target)
            dirty.nodes.add(self.demand.node_of(claim))
        elif self.hand_over.guarded_for[target]:  # of a claim that is gone
            dirty.claims.add(target)
        elif pod is not None:
            dirty.claims |= {one.uid for one in self.demand.claims_of(pod)}
        elif target in self.fleet.resources:
            self.touch_device(target)
        elif request is not None:
            dirty.nodes.add(request.node)
        elif self.fleet.node(name := target.partition("/")[0]) is not None:
            dirty.nodes.add(name)
        else:
            return False
        return True

    def touch_everything(self) -> None:
        self.dirty.claims |= (
            self.demand.claims.rows.keys() | self.lifecycle.lives.rows.keys() | self.hand_over.guarded_for.keys()
        )
        self.dirty.devices |= self.fleet.resources.rows.keys() | self.lifecycle.devices.rows.keys()
        self.dirty.nodes |= self.fleet.node_names() | {
            life.node for life in self.lifecycle.lives.rows.values() if life.node
        }
        self.dirty.nodes |= (
            self.failing.failed_at.keys() | self.give_back.holds_at.keys()
        )  # also if there is no such node


PROJECTION = 1

# fmt: off
ORDER = (
    "labelled", "left_labels", "refusals", "last_emitted", "fired_deadlines", "reissue", "rejections",
    "configs", "slices", "classes", "taint_rules", "nodes", "requests", "resources", "claims", "pods", "lives",
    "devices", "reservations", "orders", "hand_overs", "exchanges", "guarded", "failures", "cooling",
    "cooled", "holds", "fences", "timeouts", "unmarked", "marks", "erring", "sick", "unlisted", "looks",
    "listings", "paces", "fixed", "unexplained", "counters", "rates", "reuse", "spending",
)
# fmt: on
"""The tables in the order in which a load fills them: what a row refers to comes before it, as a rule."""

_FORM = Form(State, PROJECTION, partial(logged, Policy), ORDER)
dump, same, load = _FORM.dump, _FORM.same, _FORM.load


Work = work.Work[State]
"""One run of the scaler's rules."""
