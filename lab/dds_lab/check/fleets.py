"""Random fleets: a seed draws a cluster, its pods, policies and faults, and the time at which the faults end.

A `Fleet` is a scenario plus the blows to the processes of dds, which a scenario cannot express.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import LimitPolicy, Policy, SchedulerPolicy
from dds_lab.check.draw import Draw
from dds_lab.check.field import FIELD_FROM, KINDS, Blow, BlowKind, Ground, Program
from dds_lab.driver import PUBLISHER_USER, SCALER_USER
from dds_lab.scenario import Scenario

SERVED = 2_700.0
"""Seconds after the last fault within which every pod must be bound that can be bound."""
REST = 1_500.0
"""Seconds after the last pod is removed within which everything must be at rest."""
ROUND = 300.0
"""Seconds after which a pod that no node can serve is withdrawn."""
LEARNS_FROM = 50_000
"""Only seeds from here on may draw a policy with an adaptive idle time: lower seeds keep the fleets that they had before it."""
NEWER_FROM = 90_000
"""Only seeds from here on may draw Kubernetes 1.37."""
STAYS = 120.0
"""Seconds for which the state must then stay unchanged."""

_MODELS: tuple[dict[str, Any], ...] = (
    {"model": "A100 40G", "device": "nvidia-a100-40", "product": "NVIDIA A100 40GB PCIe"},
    {"model": "H100 80G", "device": "nvidia-h100-80", "product": "NVIDIA H100 80GB PCIe", "memory": "80Gi"},
    {"model": "L40S", "device": "nvidia-l40s", "product": "NVIDIA L40S", "memory": "48Gi"},
    {"model": "T4", "device": "tesla-t4", "product": "Tesla T4", "memory": "16Gi", "driver": "gpu.other.example"},
)
_PROFILES = (("1g.10gb", "3g.40gb"), ("3g.40gb",))
PART = "part"
"""The DeviceClass of partitions. No pool offers partitions, so no scaler attaches a device for one."""


@dataclass(frozen=True)
class Fleet:
    """A drawn fleet. `trouble`: seconds until the last fault is over. `unservable`: pods that no scaler can ever serve.
    `another`: the policy of a `policy` blow. `kinds`: what of the field it has. `calm`: without faults and blows."""

    seed: int
    scenario: Scenario
    trouble: float
    policy: Policy
    another: Policy
    publish: PublishPolicy | None
    replicas: int
    blows: tuple[Blow, ...]
    unservable: frozenset[str] = field(default_factory=frozenset)
    kinds: tuple[str, ...] = ()
    calm: bool = False

    @property
    def serves(self) -> bool:
        """Whether the dds scaler attaches devices."""
        return self.policy.mode != "observe"

    @property
    def gives_back(self) -> bool:
        """Whether the dds scaler detaches idle devices."""
        return self.policy.mode == "detach"

    @property
    def exchanges(self) -> bool:
        """Whether the dds scaler may exchange the claims of the default scheduler."""
        return self.policy.hand_over_of("default-scheduler") != "clear"

    def __str__(self) -> str:
        cluster = self.scenario.cluster
        kinds = sorted({one.kind for one in self.blows})
        return (
            f"seed {self.seed}: {len(cluster.node_names())} nodes, {len(cluster.fabrics)} fabrics, {len(cluster.models)} models, "
            f"{self.trouble / 60:.0f} min of trouble, {self.replicas} replicas, publisher "
            f"{'ours' if self.publish else 'simulated'}, mode {self.policy.mode}, blows: {' '.join(kinds) or 'none'}"
            f"{', with ' + ', '.join(self.kinds) if self.kinds else ''}"
        )


def _sees_exchanges(step: dict[str, Any]) -> None:
    """Remove the pause from a scheduler's relist: a scheduler that misses an exchange of a claim and lists anew keeps a wrong
    record of devices from then on."""
    if step.get("relist", {}).get("part") == "scheduler":
        step["relist"]["lasts"] = 0.0


def _names(group: dict[str, Any]) -> list[str]:
    return [f"node{number:04}" for number in range(group["first"], group["first"] + group["count"])]


def fleet_of(seed: int, only: Collection[str] = KINDS) -> Fleet:
    """The fleet of a seed; of the field with these kinds alone."""
    return Maker(seed, only).made()


class Maker(Ground):
    """Draws the fleet of a seed. Kinds of the field add to it."""

    def __init__(self, seed: int, only: Collection[str]) -> None:
        super().__init__()
        self.seed = seed
        self._only = only
        self.draw = Draw(seed)
        self.field = seed >= FIELD_FROM
        self.trouble = self.draw.between(300, 900) if self.field else self.draw.between(600, 3600)
        self.calm = self.draw.chance(0.5 if self.field else 0.1)
        self.twos: dict[str, str] = {}
        """Device by pod, for pods that request two of it."""
        self.kinds: list[str] = []

    def made(self) -> Fleet:
        draw = self.draw
        cluster = self._cluster()
        timeouts = {"default-scheduler": draw.one((60, 120, 180, 600))}
        if draw.chance(0.25):
            timeouts["second"] = draw.one((45, 300))
        ours = draw.chance(0.75)
        parts = self._parts(timeouts, ours)
        mixes = [self._mix(number) for number in range(draw.whole(1, 2))]
        self._pods(sorted(timeouts))
        self._befall()
        limited = self._limited()
        self.unservable |= limited
        self._withdraw(limited)
        for fabric in self.fabrics:
            for model in self.models:
                self.steps.append((self.trouble, {"resize": {"fabric": fabric, "model": model["model"], "by": 24}}))
                self._last(fabric, model)
        written: dict[str, Any] = {
            "name": f"fleet-{self.seed}",
            "seed": self.seed,
            "duration": self.trouble + 60,
            "cluster": cluster,
            "parts": parts,
            "mix": mixes,
            "faults": {
                "fabric": list(self._fabric_faults()),
                "manager": list(self._manager_faults()) if ours else [],
                "wire": list(self._wire()),
                "allocations": self._stalls(),
            },
        }
        self.written = written
        for name, (likely, kind) in KINDS.items() if self.field else ():
            own = Draw(f"{self.seed} {name}")  # a stream of its own: another kind changes no fleet of this one
            if own.chance(likely) and name in self._only:
                kind(self, own)
                self.kinds.append(name)
        policy = self._policy(timeouts)
        if policy.mode != "detach" and any("drop_out" in step for _, step in self.steps):
            # Nothing that dds may do has a device listed that came back; a person restarts the driver.
            self.steps.append((self.trouble, {"restart": {"part": "vendor"}}))
        if "placed" in self.kinds and policy.hand_over_of("default-scheduler") != "exchange":
            self.steps.append((self.trouble, {"delete": "pods/placed-1"}))  # as the alert about it says
        steps = [{"at": at, **step} for at, step in sorted(self.steps, key=lambda one: one[0])]
        written["steps"] = steps
        another = policy.model_copy(
            update={
                "mode": draw.one(("observe", "attach", "detach")),
                "hand_over": draw.one(("clear", "exchange")),
                "no_removal_seconds": draw.one((0, 30, 600)),
            }
        )
        if any('"exchange"' in one.model_dump_json() for one in (policy, another)):  # of any scheduler
            for step in steps:
                _sees_exchanges(step)
        scenario = Scenario.model_validate_json(json.dumps(written))
        publish = self._publish() if ours else None
        replicas = draw.one((1, 1, 2, 3))
        blows = (*(() if self.calm else self._blows(ours)), *self.blows)
        return Fleet(
            self.seed, scenario, self.trouble, policy, another, publish, replicas, blows, frozenset(self.unservable),
            tuple(self.kinds), self.calm,
        )  # fmt: skip

    # -- the cluster

    def _cluster(self) -> dict[str, Any]:
        draw = self.draw
        self.models = [dict(one) for one in draw.some(_MODELS, 4)]
        self.fabrics = list(range(1, draw.one((1, 1, 2, 3)) + 1))
        self.rivals = len(self.models) > 1 and draw.chance(0.35)
        if self.rivals:
            self.models[0]["not_with"] = [self.models[1]["model"]]
        cut = draw.one(self.models) if draw.chance(0.25) else None
        if cut is not None:
            # A partitioned device serves no request for a whole one.
            cut["partitions"] = {"profiles": draw.one(_PROFILES)}
            cut["memory"] = cut.get("memory", "40Gi").replace("16Gi", "40Gi")  # no partition is larger than its device
        self.partitioned = cut
        self.extended = draw.chance(0.15)
        nodes = list[dict[str, Any]]()
        first = 0
        most = draw.one((1, 2, 4, 8)) if self.field else draw.one((1, 2, 4, 8, 30))
        rivals = self.models[:2] if self.rivals else []
        for fabric in self.fabrics:
            for _ in range(draw.whole(1, 2)):
                count = draw.whole(1, max(1, most // len(self.fabrics) // 2))
                limits = {}
                for model in self.models:
                    if draw.chance(0.35) or model is cut:  # the vendor lists at most eight devices with partitions
                        least = int(draw.chance(0.2) and model not in rivals)  # a device that stays keeps its rival out
                        limits[model["model"]] = {"max": draw.whole(1, 4), "min": least}
                fixed = {self.models[-1]["model"]: draw.whole(1, 2)} if not self.rivals and draw.chance(0.15) else {}
                group = {"first": first, "count": count, "fabric": fabric, "limits": limits, "fixed": fixed}
                nodes.append({**group, "labels": self._sizes(limits)})
                first += count
        self.groups = nodes
        self.left = {
            one: {name for group in nodes if group["fabric"] == one for name in _names(group)} for one in self.fabrics
        }
        self.nodes = sorted(name for names in self.left.values() for name in names)
        pools = [
            {"id": one, "devices": {model["model"]: draw.one((0, 1, 2, 4, 8, 16)) for model in self.models}}
            for one in self.fabrics
        ]
        return {
            "version": draw.one(("1.36", "1.36.3", *(("1.37", "1.37.1") if self.seed >= NEWER_FROM else ()))),
            "models": self.models,
            "classes": [*self._classes()],
            "fabrics": pools,
            "nodes": nodes,
        }

    def _sizes(self, limits: dict[str, dict[str, int]]) -> dict[str, str]:
        """The limits as node labels."""
        devices = {one["model"]: one["device"] for one in self.models}
        return {
            f"cohdi.io/{devices[model]}-size-{which}": str(size)
            for model, limit in limits.items()
            for which, size in limit.items()
        }

    def _classes(self) -> Iterator[dict[str, Any]]:
        for model in self.models:
            driver = model.get("driver", "gpu.nvidia.com")
            selector = (
                f'device.driver == "{driver}" && device.attributes["{driver}"].productName == "{model["product"]}"'
            )
            if model is self.partitioned:
                selector += f' && !("profile" in device.attributes["{driver}"])'
            extended = {"extended_resource": "example.com/gpu"} if self.extended and model is self.models[0] else {}
            yield {"name": model["device"], "selectors": [selector], **extended}
        if self.partitioned is not None:
            driver = self.partitioned.get("driver", "gpu.nvidia.com")
            mig = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "mig"'
            yield {"name": PART, "selectors": [mig]}

    def _parts(self, timeouts: dict[str, int], ours: bool) -> dict[str, Any]:
        draw = self.draw
        api = draw.one(("fm", "cm", "nec") if len(self.fabrics) == 1 else ("fm", "cm"))
        return {
            "scheduler": {
                "profiles": {name: {"binding_timeout": seconds} for name, seconds in timeouts.items()},
                "clock": draw.one((0.0, 0.0, 0.0, -600.0, 600.0)),
            },
            "fabric": {
                "attach": draw.one(
                    ({"between": [0.5, 3]}, {"between": [1, 12]}, {"median": 8, "spread": 0.5, "most": 60})
                ),
                "detach": draw.one(({"between": [0.3, 2]}, {"between": [1, 10]})),
                "timeout": 40,
                "in_flight_per_machine": draw.one((0, 0, 1)),
                "in_flight": draw.one((0, 0, 2)),
            },
            "operator": self._operator(),
            "vendor": {"start": {"between": [0.5, 4]}},
            "publisher": False if ours else {"interval": draw.one((0, 2, 5)), "stable_names": True},
            "manager": {"api": api} if ours else False,
            "scaler": False,
        }

    def _operator(self) -> dict[str, Any]:
        draw = self.draw
        kind, poll = "real" if draw.chance(0.8) else "ideal", draw.one((10, 30))
        return {
            "kind": kind,
            "api": draw.one(("fm", "fm", "fm", "cm")),
            "poll": 30 if kind == "real" else poll,
            "sync": 60,
            "orphan": draw.one((300, 600)),
        }

    # -- pods

    def _asks(self) -> list[dict[str, Any]]:
        """Requests that a node of any group can serve at once."""
        most = {
            model["device"]: min(group["limits"].get(model["model"], {"max": 4})["max"] for group in self.groups)
            for model in self.models
        }
        asks = []
        for device, limit in most.items():
            asks.append({"devices": {device: 1}, "weight": 4.0})
            if limit > 1:
                asks.append({"devices": {device: self.draw.whole(2, limit)}, "weight": 1.0})
        names = [model["device"] for model in self.models]
        if len(names) > 1 and not self.rivals:
            asks.append({"devices": {names[0]: 1, names[1]: 1}, "weight": 1.0})
        if self.partitioned is not None and self.partitioned["device"] in names:
            asks.append({"devices": {PART: 1}, "weight": 0.3})
        return asks

    def _mix(self, number: int) -> dict[str, Any]:
        draw = self.draw
        start = draw.between(0, self.trouble / 3)
        mix: dict[str, Any] = {
            "name": f"mix{number}",
            "pods": draw.whole(3, 20 + len(self.nodes)),
            "start": start,
            "over": draw.one((60.0, self.trouble - start - 60)),
            "lasts": {"between": draw.one(([5, 60], [30, 300], [60, 600]))},
            "asks": draw.some(self._asks(), 3),
            "templates": draw.one((0.0, 0.5, 1.0)),
            "withdrawn": draw.one((0.0, 0.1, 0.3)),
            "patience": {"between": draw.one(([0, 5], [0, 60]))},
            "ends": draw.one(("deleted", "finished")),
            **({"node_selector": {"cohdi.io/fabric": str(draw.one(self.fabrics))}} if draw.chance(0.25) else {}),
        }
        longest = max(20.0, SERVED / 3 * self._at_once(mix) / mix["pods"])
        shortest = mix["lasts"]["between"][0]
        if mix["lasts"]["between"][1] > longest:  # all pods may have to run after the faults
            mix["lasts"] = {"between": [min(shortest, longest / 2), longest]}
        return mix

    def _at_once(self, mix: dict[str, Any]) -> int:
        """How many pods of a mix fit at the same time if all have the largest request."""
        fabric = mix.get("node_selector", {}).get("cohdi.io/fabric")
        groups = [one for one in self.groups if fabric in (None, str(one["fabric"]))]
        models = {one["device"]: one["model"] for one in self.models}
        asks = [
            {models[device]: count for device, count in ask["devices"].items() if device in models}
            for ask in mix["asks"]
        ]
        room = [
            sum(
                group["count"]
                * min(group["limits"].get(model, {"max": 24})["max"] // count for model, count in ask.items())
                for group in groups
            )
            for ask in asks
            if ask
        ]
        return max(1, min(room, default=24) // (1 + self.rivals))

    def _pods(self, schedulers: list[str]) -> None:
        """Add pods with unusual claims."""
        draw = self.draw
        for number in range(draw.whole(0, 6)):
            at, name, device = draw.between(0, self.trouble), f"odd{number}", draw.one(self.models)["device"]
            scheduler, lasts = draw.one(schedulers), draw.between(20, 400)
            kind = draw.one(("two claims", "shared", "choice", "match", "too many", "extended", "rivals"))
            one = {"name": "r0", "exactly": {"deviceClassName": device}}
            if kind == "two claims":
                self.claim(at, f"{name}-a", [one])
                self.claim(at, f"{name}-b", [one])
                self.twos[name] = device
                self.pod(at, name, scheduler, lasts, [f"{name}-a", f"{name}-b"])
            elif kind == "shared":
                self.claim(at, name, [one])
                for pod in range(draw.whole(2, 3)):
                    self.pod(at + draw.between(0, 90) * (pod > 0), f"{name}-{pod}", scheduler, lasts, [name])
            elif kind == "choice":
                chosen = [
                    {"name": f"c{place}", "deviceClassName": model["device"]} for place, model in enumerate(self.models)
                ]
                self.claim(at, name, [{"name": "r0", "firstAvailable": chosen}])
                self.pod(at, name, scheduler, lasts, [name])
            elif kind == "match":
                driver = next(model for model in self.models if model["device"] == device).get(
                    "driver", "gpu.nvidia.com"
                )
                two = {"name": "r0", "exactly": {"deviceClassName": device, "count": 2}}
                self.claim(at, name, [two], [{"requests": ["r0"], "matchAttribute": f"{driver}/productName"}])
                self.twos[name] = device
                self.pod(at, name, scheduler, lasts, [name])
            elif kind == "too many" and draw.chance(0.4):
                self.claim(at, name, [{"name": "r0", "exactly": {"deviceClassName": device, "count": 30}}])
                self.unservable.add(name)
                self.pod(at, name, scheduler, lasts, [name])
            elif kind == "rivals" and self.rivals and draw.chance(0.4):
                both = [{"name": f"r{i}", "exactly": {"deviceClassName": self.models[i]["device"]}} for i in (0, 1)]
                self.claim(at, name, both)
                self.unservable.add(name)
                self.pod(at, name, scheduler, lasts, [name])
            elif kind == "extended" and self.extended:
                self.pod(at, name, scheduler, lasts, [], {"example.com/gpu": "1"})
            if draw.chance(0.15):
                self.steps.append((min(at + draw.between(0, 60), self.trouble), {"withdraw": name}))

    def _withdraw(self, limited: set[str]) -> None:
        """Withdraw pods that fit nowhere after `ROUND` seconds, each with all its claims, which would keep devices."""
        made = {step["apply"]["metadata"]["name"]: at for at, step in self.steps if "apply" in step}
        going = {step["withdraw"]: at for at, step in self.steps if "withdraw" in step}
        for name in sorted(limited - going.keys()):
            going[name] = min(made[name] + ROUND, self.trouble)
            self.steps.append((going[name], {"withdraw": name}))
        for name, at in going.items():
            claims = (one for one in (f"{name}-a", f"{name}-b") if one in made)
            self.steps += [(at, {"delete": f"resourceclaims/{one}"}) for one in claims]

    def _limited(self) -> set[str]:
        """Pods that request two of a device, if each remaining node may have only one."""
        left = set().union(*self.left.values())
        groups = [group for group in self.groups if not left.isdisjoint(_names(group))]
        models = {one["device"]: one["model"] for one in self.models}
        return {
            name
            for name, device in self.twos.items()
            if all(group["limits"].get(models[device], {"max": 2})["max"] < 2 for group in groups)
        }

    def _last(self, fabric: int, model: dict[str, Any]) -> None:
        """Add one pod for each pool after the last fault."""
        at, name = self.trouble + self.draw.between(1, 50), f"last-{fabric}-{model['device']}"
        self.run(at, name, model["device"], 30.0, fabric)

    # -- faults

    def _befall(self) -> None:
        """Add faults of nodes, devices and components as steps."""
        draw, until = self.draw, self.trouble
        for _ in range(0 if self.calm else draw.whole(0, 8)):
            at, node = draw.between(10, until - 5), draw.one(self.nodes)
            lasts = min(draw.between(5, 400), until - at)
            kind = draw.one(("cordon", "drain", "silence", "drop", "shrink", "part", "part", "relist", "lose"))
            if kind in ("cordon", "drain"):
                self.steps += [(at, {kind: node}), (at + lasts, {"uncordon": node})]
            elif kind == "silence":
                self.steps.append((at, {"silence": {"node": node, "lasts": lasts}}))
            elif kind == "drop":
                # If it never came back it would keep rivals out, and its whole request stuck if the operator had not seen it yet.
                off = lasts if draw.chance(0.7) else until - at
                self.steps.append((at, {"drop_out": {"node": node, "lasts": off}}))
            elif kind == "shrink":
                resize = {"fabric": draw.one(self.fabrics), "model": draw.one(self.models)["model"]}
                self.steps.append((at, {"resize": {**resize, "by": draw.whole(-3, 3) or 1}}))
            elif kind == "part":
                part = draw.one(("scheduler", "operator", "vendor", "claims", "kubelet"))
                self.steps.append((at, {"restart": {"part": part, "down": min(lasts, 60.0)}}))
            elif kind == "relist":
                self.steps.append(
                    (at, {"relist": {"part": draw.one(("scheduler", "operator")), "lasts": min(lasts, 20.0)}})
                )
            elif kind == "lose" and any(node in left and len(left) > 1 for left in self.left.values()):
                self.steps.append((at, {"lose_node": node}))
                for left in self.left.values():
                    left.discard(node)

    def _fabric_faults(self) -> Iterator[dict[str, Any]]:
        draw = self.draw
        for _ in range(0 if self.calm else draw.whole(0, 3)):
            since = draw.between(0, self.trouble - 60)
            kind = draw.one(("refuse", "refuse", "refuse", "hang", "lose_answer"))
            window = {"since": since, "until": min(since + draw.between(30, 1200), self.trouble)}
            only = {"models": [draw.one(self.models)["model"]]} if draw.chance(0.4) else {}
            yield {"kind": kind, "share": draw.one((0.1, 0.3, 1.0)), **window, **only}
            if draw.chance(0.3):
                words = "CDI manager: the resource is busy"
                yield {"kind": "refuse", "operation": "detach", "share": 0.3, "words": words, **window}

    def _manager_faults(self) -> Iterator[dict[str, Any]]:
        draw = self.draw
        for _ in range(0 if self.calm else draw.whole(0, 3)):
            since = draw.between(0, self.trouble - 60)
            kind = draw.one(("away", "busy", "cut", "empty", "error", "expired", "odd", "slow"))
            wait = {"wait": 20.0} if kind == "slow" else {}
            window = {"since": since, "until": min(since + draw.between(20, 400), self.trouble)}
            yield {"kind": kind, "share": draw.one((0.3, 0.6, 1.0)), **wait, **window}

    def _wire(self) -> Iterator[dict[str, Any]]:
        draw = self.draw
        for _ in range(0 if self.calm else draw.whole(0, 3)):
            since = draw.between(0, self.trouble - 60)
            window = {"since": since, "until": min(since + draw.between(20, 900), self.trouble)}
            codes = ({"action": "status", "code": code} for code in (409, 429, 500, 503))
            actions: list[dict[str, Any]] = [{"action": "lost"}, *codes]
            what = draw.one(actions)
            verbs = ["create", "update", "patch", "delete"]
            yield {
                "share": draw.one((0.05, 0.2, 0.6)),
                "users": [SCALER_USER, PUBLISHER_USER],
                "verbs": verbs,
                **what,
                **window,
            }

    def _stalls(self) -> list[dict[str, Any]]:
        """Delays of the scheduler's allocation writes, all shorter than the shortest guard."""
        if self.calm or self.draw.chance(0.7):
            return []
        since = self.draw.between(0, self.trouble - 60)
        return [
            {"since": since, "until": since + 60, "takes": self.draw.one((2.0, 15.0)), "times": self.draw.whole(1, 5)}
        ]

    def _blows(self, publisher: bool) -> Iterator[Blow]:
        draw = self.draw
        kinds: tuple[BlowKind, ...] = (
            "kill", "kill", "stop", "pause", "pause", "cut", "cut", "cut", "log", "log-answer", "api", "policy",
        )  # fmt: skip
        for _ in range(draw.whole(0, 10)):
            kind, at = draw.one(kinds), draw.between(1, self.trouble - 5)
            program: Program = "publisher" if publisher and kind != "policy" and draw.chance(0.3) else "scaler"
            longest = {"pause": 90.0, "cut": 200.0, "log": 120.0, "log-answer": 60.0, "api": 120.0}.get(kind, 60.0)
            lasts = draw.between(0.05, longest) if draw.chance(0.6) else draw.between(0.05, 5.0)
            yield Blow(at, kind, program, min(lasts, self.trouble - at), draw.whole(0, 20))

    # -- policies

    def _policy(self, timeouts: dict[str, int]) -> Policy:
        draw = self.draw
        limits = {
            f"{node}/{model}": LimitPolicy(**bounds)
            for group in self.groups
            for model, bounds in group["limits"].items()
            for node in _names(group)
        }
        schedulers = {
            name: SchedulerPolicy(
                binding_timeout_seconds=seconds if draw.chance(0.85) else 600,
                hand_over=draw.one((None, None, "exchange", "clear")),
            )
            for name, seconds in timeouts.items()
        }
        policy = Policy(
            mode="detach" if self.rivals or draw.chance(0.9) else draw.one(("attach", "observe")),
            scan_interval_seconds=draw.one((0, 60, 60)),
            no_removal_seconds=draw.one((0, 15, 60, 180)),
            no_allocation_seconds=draw.one((5, 15, 60)),
            schedulers=schedulers,
            cool_down_seconds=draw.after(1).one((20, 120)),
            detaches_per_hour=draw.after(2).one((600, 10_000)),
            rebalance=draw.chance(0.7),
            hand_over=draw.after(1).one(("exchange", "exchange", "clear")),
            guard_seconds=draw.one((20, 60)),
            adoption=draw.after(1).one(("none", "reference", "all")),
            prewarm=draw.chance(0.15),
            limits=limits,
        )
        learns = self.seed >= LEARNS_FROM and draw.chance(0.3)
        costs = {"attach_cost": draw.one((5.0, 15.0, 60.0, 180.0)), "idle_hour_cost": 3600.0} if learns else {}
        return policy.model_copy(update={"idle": "adaptive", **costs}) if learns else policy

    def _publish(self) -> PublishPolicy:
        draw = self.draw
        return PublishPolicy(
            mode="publish",
            gone_seconds=draw.one((5, 60)),
            while_cooling=draw.one(("taint", "withdraw")),
            read_back_seconds=draw.one((5, 30)),
            scan_interval_seconds=draw.one((0, 300)),
        )
