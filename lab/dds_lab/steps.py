"""Carries out the steps of a scenario: each when the one before is done and its own time has come.

A step that cannot be carried out is added to `failures`, and the next step follows; a run with failures has failed. While the API
server of a joined cluster is away or busy, the step is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dds_core.errors import DdsError, InputError
from dds_lab import setup
from dds_lab.actors.fabric import Answer
from dds_lab.actors.objects import claim_statuses, extended_claim
from dds_lab.actors.workloads import RETRY
from dds_lab.api.kinds import Object
from dds_lab.client import ApiError, Client, Mirror
from dds_lab.faults.world import World
from dds_lab.scenario.scenario import DropOut, Move, NodeOf, NodeRef, Partition, Step, WaitFor
from dds_lab.time import MICROSECONDS, Time, Timer

AWAY = (429, 500, 503)


class StepFailed(InputError):
    """A step names an object that does not exist at that time."""


class Steps:
    """Carries out the steps in order. `done`: number of completed steps; `failures`: messages of those that failed."""

    def __init__(self, world: World, steps: Sequence[Step]) -> None:
        self.done = 0
        self.failures: list[str] = []
        self._world = world
        self._steps = steps
        self._client = world.client("story")
        self._began = 0
        self._timer: Timer | None = None
        self._wait: _Wait | None = None
        self._actions: dict[str, Callable[[Any], None]] = {
            "run": lambda it: world.workloads.run(it),
            "withdraw": lambda it: world.workloads.withdraw(*reversed(_namespaced(it))),
            "apply": self._apply,
            "delete": self._delete,
            "cordon": lambda it: world.workloads.cordon(self._node(it)),
            "uncordon": lambda it: world.workloads.cordon(self._node(it), on=False),
            "drain": lambda it: world.workloads.drain(self._node(it)),
            "lose_node": lambda it: world.lose_node(self._node(it)),
            "silence": lambda it: world.silence(self._node(it.node), it.lasts),
            "condition": self._condition,
            "attach": self._attach,
            "detach": self._detach,
            "resize": lambda it: self._resize(str(it.fabric), it.model, it.by),
            "drop_out": self._drop_out,
            "partition": self._partition,
            "restart": lambda it: world.restart(it.part, it.down, self._node(it.node) if it.node else ""),
            "relist": lambda it: world.relist(it.part, it.lasts),
        }

    @property
    def finished(self) -> bool:
        return self.done == len(self._steps)

    def start(self) -> None:
        self._began = self._world.time.now()
        self._next()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._wait is not None:
            self._wait.close()

    # -- order

    def _next(self) -> None:
        self._timer = None
        if self.finished:
            return
        step, passed = self._steps[self.done], (self._world.time.now() - self._began) / MICROSECONDS
        wait = step.after or 0.0 if step.at is None else max(0.0, step.at - passed)
        self._timer = self._world.time.after(wait, lambda: self._do(step))

    def _do(self, step: Step) -> None:
        try:
            if step.wait_for is not None:
                self._wait = _Wait(self._world.time, self._client, step.wait_for, self._waited)
                return
            self._actions[step.action](getattr(step, step.action))
        except ApiError as error:
            if error.code in AWAY:
                self._timer = self._world.time.after(RETRY, lambda: self._do(step))
                return
            self._fail(f"{error.code} {error.reason}: {error.what}")
        except DdsError as error:
            self._fail(str(error))
        self._over()

    def _waited(self, fulfilled: bool) -> None:
        self._wait = None
        if not fulfilled:
            step = self._steps[self.done]
            assert step.wait_for is not None
            self._fail(f"{_sentence(step.wait_for)} did not come about within {step.wait_for.within:g} s")
        self._over()

    def _over(self) -> None:
        self.done += 1
        self._next()

    def _fail(self, what: str) -> None:
        self.failures.append(f"steps[{self.done}] ({self._steps[self.done].action}): {what}")

    # -- actions

    def _apply(self, manifest: Object) -> None:
        resource = setup.resource_of(self._client, manifest, "the manifest")
        metadata = manifest.get("metadata") or {}
        namespace = metadata.get("namespace") or ("default" if resource.namespaced else "")
        named = {**manifest, "metadata": {**metadata, "namespace": namespace}} if namespace else manifest
        self._world.workloads.apply(setup.reference(resource), named)

    def _delete(self, name: str) -> None:
        resource, namespace, found = _object_name(self._client, name)
        self._world.workloads.delete(resource, found, namespace)

    def _condition(self, it: Any) -> None:
        namespace, claim = _namespaced(it.claim if it.claim is not None else self._made_for(it.pod))
        self._world.workloads.condition(
            claim, namespace, it.type, it.status, reason=it.reason, message=it.message, device=it.device or ""
        )

    def _made_for(self, pod: str) -> str:
        """The claim that was created for a pod. Raises StepFailed."""
        namespace, name = _namespaced(pod)
        found = self._client.find("pods", name, namespace) or {}
        made = [one.get("resourceClaimName") for one in claim_statuses(found)]
        claim = next((one for one in (extended_claim(found), *made) if one), "")
        if not claim:
            raise StepFailed("no claim was made for the pod", where=f"{namespace}/{name}", fix="name the claim itself")
        return f"{namespace}/{claim}"

    def _attach(self, it: Move) -> None:
        node = self._node(it.node)

        def attached(answer: Answer) -> None:
            if answer.error:
                self.failures.append(f"attach of {it.model} to {node}: {answer.error}")
            self._world.restart_plugin(node)

        self._world.fabric.attach(node, it.model, attached)

    def _detach(self, it: Move) -> None:
        node = self._node(it.node)
        for one in self._world.fabric.attached(node):
            if one.device.model == it.model and not one.fixed:
                self._world.fabric.detach(node, one.device.resource, lambda answer: self._world.restart_plugin(node))
                return
        raise StepFailed(f"no device of model {it.model} is attached", where=node, fix="attach one before")

    def _resize(self, fabric: str, model: str, by: int) -> None:
        moved = self._world.fabric.resize(fabric, model, by)
        if moved != by:
            raise StepFailed(f"only {-moved} devices of {model} were free", where=f"fabric {fabric}", fix="take fewer")

    def _drop_out(self, it: DropOut) -> None:
        serial = self._first(self._node(it.node), it.model)
        self._world.fabric.drop(serial)
        if it.lasts is not None:
            self._world.time.after(it.lasts, lambda: self._world.fabric.restore(serial))

    def _partition(self, it: Partition) -> None:
        node = self._node(it.node)
        self._world.partition(node, self._first(node, it.model), it.profiles)

    def _first(self, node: str, model: str | None) -> str:
        """The serial of the first attached device, of the model if one is given. Raises StepFailed."""
        attached = self._world.fabric.attached(node)
        serial = next((one.device.serial for one in attached if model in (None, one.device.model)), "")
        if not serial:
            raise StepFailed("no such device is attached", where=node, fix="attach one before")
        return serial

    def _node(self, ref: NodeRef) -> str:
        """The node's name, at this time. Raises StepFailed."""
        if not isinstance(ref, NodeOf):
            return ref
        what = ref.claim if ref.claim is not None else ref.pod
        assert what is not None
        namespace, name = _namespaced(what)
        ask = self._world.workloads.node_of_claim if ref.claim is not None else self._world.workloads.node_of_pod
        node = ask(name, namespace)
        if not node:
            kind = "claim is allocated to no" if ref.claim is not None else "pod is bound to no"
            raise StepFailed(f"the {kind} node now", where=f"{namespace}/{name}", fix="let a wait_for come before")
        return node


class _Wait:
    """Waits until an object has the wanted content, or until a timeout."""

    def __init__(self, time: Time, client: Client, wanted: WaitFor, done: Callable[[bool], None]) -> None:
        resource, self._namespace, self._name = _object_name(client, wanted.object)
        self._wanted = wanted
        self._done = done
        self._mirror: Mirror = client.mirror(resource, fields=f"metadata.name={self._name}", namespace=self._namespace)
        self._mirror.on_change(lambda old, new: self._look(new))
        self._timer = time.after(wanted.within, lambda: self._end(False))
        self._soon = time.after(0.0, lambda: self._look(self._mirror.get(self._name, self._namespace)))

    def close(self) -> None:
        self._mirror.close()
        self._timer.cancel()
        self._soon.cancel()

    def _look(self, obj: Object | None) -> None:
        if _shows(obj, self._wanted):
            self._end(True)

    def _end(self, fulfilled: bool) -> None:
        self.close()
        self._done(fulfilled)


def _shows(obj: Object | None, wanted: WaitFor) -> bool:
    if wanted.gone or obj is None:
        return wanted.gone and obj is None
    found = _at(obj, wanted.has if wanted.has is not None else wanted.lacks or "")
    if wanted.has is None:
        return not found
    return found == wanted.equals if wanted.equals is not None else bool(found)


def _at(obj: Any, path: str) -> Any:
    """The value at a path such as `status.conditions[0].type`; None if there is none."""
    for part in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(obj, list):
            obj = obj[int(part)] if part.isdigit() and int(part) < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _sentence(wanted: WaitFor) -> str:
    if wanted.gone:
        return f"{wanted.object} is gone"
    if wanted.lacks is not None:
        return f"{wanted.object} lacks {wanted.lacks}"
    return f"{wanted.object} has {wanted.has}" + (f" = {wanted.equals}" if wanted.equals is not None else "")


def _namespaced(name: str) -> tuple[str, str]:
    namespace, slash, rest = name.partition("/")
    return (namespace, rest) if slash else ("default", name)


def _object_name(client: Client, text: str) -> tuple[str, str, str]:
    """Resource, namespace and name of `resource/name` or `resource/namespace/name`. Raises ApiError 404."""
    resource, *rest = text.split("/")
    namespaced = client.resource(resource).namespaced
    if len(rest) == 2:
        return resource, rest[0], rest[1]
    return resource, "default" if namespaced else "", rest[0]
