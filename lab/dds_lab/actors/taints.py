"""Device taint eviction: it deletes pods whose devices have a NoExecute taint that their claim does not tolerate.

Taints come from slices and, where served, from DeviceTaintRules. A toleration with seconds delays the deletion. The effects
NoSchedule and None are ignored. Source: pkg/controller/devicetainteviction.
"""

from collections.abc import Iterator
from random import Random

from dds_lab.actors.objects import Key, Teller, condition, covers, key_of, reservations, results
from dds_lab.client import ApiError, Client, Mirror, Object, instants
from dds_lab.latency import Latency, Uniform
from dds_lab.time import Time, Timer

NO_EXECUTE = "NoExecute"
REACTION = Uniform(0.01, 0.05)


class TaintEviction:
    def __init__(self, client: Client, time: Time, *, rules: bool = False, reaction: Latency = REACTION) -> None:
        """`rules`: obey DeviceTaintRules (the controller's feature gate). `reaction`: seconds from a taint to the deletion."""
        self._client = client
        self._time = time
        self._obeys_rules = rules
        self._reaction = reaction
        self._random: Random = time.random("taints")
        self._events = Teller(client, time, "device-taint-eviction")
        self._tainted: dict[Key, list[Object]] = {}  # NoExecute taints that slices contain
        self._in_slice: dict[str, tuple[Key, ...]] = {}
        self._holders: dict[Key, dict[tuple[str, str], None]] = {}  # device → claims
        self._rules: Mirror | None = None
        self._due: dict[tuple[str, str], dict[str, Timer]] = {}  # claim → pod uid → timer of its deletion

    def start(self) -> None:
        self._claims = self._client.mirror("resourceclaims")
        self._slices = self._client.mirror("resourceslices")
        self._mirrors = [self._claims, self._slices]
        if self._obeys_rules:
            try:
                self._rules = self._client.mirror("devicetaintrules")
            except ApiError:
                self._rules = None  # not served
        self._claims.follow(self._claim_changed)
        self._slices.follow(self._slice_changed)
        if self._rules is not None:
            self._mirrors.append(self._rules)
            self._rules.follow(self._rule_changed)

    def stop(self) -> None:
        for mirror in self._mirrors:
            mirror.close()
        for place in tuple(self._due):
            self._call_off(place)

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        for obj, add in ((old, False), (new, True)):
            for result in results(obj):
                place = (obj["metadata"]["namespace"], obj["metadata"]["name"]) if obj else ("", "")
                holders = self._holders.setdefault(key_of(result), {})
                if add:
                    holders[place] = None
                else:
                    holders.pop(place, None)
                if not holders:
                    del self._holders[key_of(result)]
        claim = new or old
        if claim is not None and (self._tainted or self._rules or self._due):
            self._judge(claim, gone=new is None)

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        before = self._in_slice.pop(obj["metadata"]["name"], ())
        for key in before:
            self._tainted.pop(key, None)
        found: dict[Key, list[Object]] = {}
        for device in (new or {"spec": {}})["spec"].get("devices") or ():
            taints = [one for one in device.get("taints") or () if one.get("effect") == NO_EXECUTE]
            if taints:
                found[(obj["spec"]["driver"], obj["spec"]["pool"]["name"], device["name"])] = taints
        if found:
            self._tainted.update(found)
            self._in_slice[obj["metadata"]["name"]] = tuple(found)
        for key in dict.fromkeys((*before, *found)):
            self._judge_holders(key)

    def _rule_changed(self, old: Object | None, new: Object | None) -> None:
        for rule in (old, new):
            if rule is not None and rule["spec"]["taint"].get("effect") == NO_EXECUTE:
                for key in [one for one in self._holders if _selects(rule, one)]:
                    self._judge_holders(key)

    def _judge_holders(self, key: Key) -> None:
        for namespace, name in tuple(self._holders.get(key, ())):
            claim = self._claims.get(name, namespace)
            if claim is not None:
                self._judge(claim)

    def _judge(self, claim: Object, *, gone: bool = False) -> None:
        """Plan the deletion of the claim's pods anew: cancel planned deletions, and plan those that are due. Each claim decides
        for itself: other claims of a pod have no influence, and neither has a claim that a pod no longer holds."""
        place = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        self._call_off(place)
        left = None if gone else self._seconds_left(claim)
        if left is None:
            return
        for consumer in reservations(claim):
            if consumer["resource"] == "pods":
                wait = left + self._reaction.draw(self._random)
                timer = self._time.after(wait, self._eviction(claim, consumer))
                self._due.setdefault(place, {})[consumer["uid"]] = timer

    def _call_off(self, place: tuple[str, str]) -> None:
        for timer in self._due.pop(place, {}).values():
            timer.cancel()

    def _seconds_left(self, claim: Object) -> float | None:
        """The seconds that the claim's pods may stay, None for no limit."""
        found: list[float] = []
        for result in results(claim):
            for taint in self._taints(key_of(result)):
                seconds = _tolerated(taint, result.get("tolerations") or ())
                if seconds is not None:
                    added = instants.read(taint["timeAdded"]) if taint.get("timeAdded") else self._time.now()
                    found.append(max(0.0, seconds - (self._time.now() - added) / 1_000_000))
        return min(found, default=None)

    def _taints(self, key: Key) -> Iterator[Object]:
        yield from self._tainted.get(key, ())
        for rule in self._rules.values() if self._rules is not None else ():
            taint = rule["spec"]["taint"]
            if taint.get("effect") == NO_EXECUTE and _selects(rule, key):
                yield taint

    def _eviction(self, claim: Object, consumer: Object) -> "_Eviction":
        return _Eviction(self._client, self._time, self._events, claim["metadata"]["namespace"], consumer)


class _Eviction:
    def __init__(self, client: Client, time: Time, events: Teller, namespace: str, consumer: Object) -> None:
        self._client = client
        self._time = time
        self._events = events
        self._namespace = namespace
        self._consumer = consumer

    def __call__(self) -> None:
        name, uid = self._consumer["name"], self._consumer["uid"]
        try:
            pod = self._client.find("pods", name, self._namespace)
            if pod is None or pod["metadata"]["uid"] != uid or pod["metadata"].get("deletionTimestamp"):
                return
            message = "Device Taint manager: deleting due to NoExecute taint"
            target = condition("DisruptionTarget", "True", "DeletionByDeviceTaintManager", message, self._time.now())
            patch = {"status": {"conditions": [target]}}
            self._client.patch("pods", name, patch, self._namespace, how="strategic", subresource="status")
            self._client.delete("pods", name, self._namespace, uid=uid)
        except ApiError as error:
            if error.code not in (404, 409):
                self._time.after(1.0, self)
            return
        self._events.say(pod, "DeviceTaintManagerEviction", "Marking for deletion")


def _selects(rule: Object, key: Key) -> bool:
    selector = rule["spec"].get("deviceSelector")
    if selector is None:
        return False
    wanted = (selector.get("driver"), selector.get("pool"), selector.get("device"))
    return all(one in (None, found) for one, found in zip(wanted, key, strict=True))


def _tolerated(taint: Object, tolerations: "list[Object] | tuple[Object, ...]") -> float | None:
    """The seconds for which the taint is tolerated (0: not at all), None for no limit."""
    seconds: list[float] = []
    for one in tolerations:
        if not covers(one, taint):
            continue
        if one.get("tolerationSeconds") is None:
            return None
        seconds.append(max(0.0, float(one["tolerationSeconds"])))
    return min(seconds, default=0.0)
