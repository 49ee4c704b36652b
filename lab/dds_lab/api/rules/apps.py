"""ControllerRevision, Deployment, ReplicaSet, StatefulSet: defaults, checks, and what an update may change."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, templates
from dds_lab.api.rules.templates import Templated, filled
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn, differs, raised_generation

QUARTER = "25%"
REVISIONS_KEPT = 10
PROGRESS_SECONDS = 600
RECREATE, ROLLING = "Recreate", "RollingUpdate"
ON_DELETE = "OnDelete"
POLICIES = ("OrderedReady", "Parallel")
STAYS: Object = {"whenDeleted": "Retain", "whenScaled": "Retain"}
CHANGEABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
"""Fields of a StatefulSet's spec that an update may change."""
FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_IS_PERCENT = re.compile("[0-9]+%")
NO_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


class ControllerRevisions(BuiltIn):
    """What a StatefulSet's template was. Its data never changes."""

    def check(self, obj: Object) -> Iterator[Cause]:
        if obj.get("data") is None:
            yield causes.required("data", "data is mandatory")
        if obj.get("revision", 0) < 0:
            yield causes.invalid("revision", obj["revision"], "must be greater than or equal to 0")

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterator[Cause]:
        yield from self.check(new)
        if new.get("data") != old.get("data"):
            yield causes.immutable("data", new.get("data"))


class ReplicaSets(Templated):
    selectable_names = ("status.replicas",)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}

    def filled(self, spec: Object) -> Object:
        return filled(spec, replicas=1)

    def check_spec(self, spec: Object) -> Iterator[Cause]:
        yield from templates.counts(spec, "replicas", "minReadySeconds")
        yield from _check_pods(spec)


def _check_pods(spec: Object) -> Iterator[Cause]:
    yield from templates.check_selector(spec, "deployment")  # a real server says so of ReplicaSets, too
    yield from templates.check(spec["template"])
    yield from templates.check_always(spec["template"], "ReplicaSet")


class Deployments(Templated):
    def filled(self, spec: Object) -> Object:
        made = filled(
            spec, replicas=1, revisionHistoryLimit=REVISIONS_KEPT, progressDeadlineSeconds=PROGRESS_SECONDS, strategy={}
        )
        strategy = filled(made["strategy"], type=ROLLING)
        if strategy["type"] == ROLLING:
            rolling = filled(strategy.get("rollingUpdate") or {}, maxSurge=QUARTER, maxUnavailable=QUARTER)
            strategy = {**strategy, "rollingUpdate": rolling}
        return {**made, "strategy": strategy}

    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        """A changed annotation raises the generation, too: the controller copies annotations to ReplicaSets. A write of the
        status may change annotations: so the controller tells the revision."""
        made = super().for_update(new, old, subresource)
        if subresource == "status" and new["metadata"].get("annotations"):
            return {**made, "metadata": {**made["metadata"], "annotations": new["metadata"]["annotations"]}}
        told, before = (one["metadata"].get("annotations") or {} for one in (made, old))
        return made if subresource or told == before or differs(made, old) else raised_generation(made, old)

    def check_spec(self, spec: Object) -> Iterator[Cause]:
        yield from templates.counts(spec, "replicas")
        yield from _check_pods(spec)
        yield from _check_strategy(spec["strategy"])
        yield from templates.counts(spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
        if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
            why = "must be greater than minReadySeconds"
            yield causes.invalid("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], why)


def _check_strategy(strategy: Object) -> Iterator[Cause]:
    at = "spec.strategy"
    if strategy["type"] == RECREATE:
        if strategy.get("rollingUpdate") is not None:
            why = f"may not be specified when strategy `type` is '{RECREATE}'"
            yield causes.forbidden(f"{at}.rollingUpdate", why)
    elif strategy["type"] == ROLLING:
        rolling = strategy["rollingUpdate"]
        yield from _check_share(rolling["maxUnavailable"], f"{at}.rollingUpdate.maxUnavailable")
        yield from _check_share(rolling["maxSurge"], f"{at}.rollingUpdate.maxSurge")
        if _is_zero(rolling["maxUnavailable"]) and _is_zero(rolling["maxSurge"]):
            why = "may not be 0 when `maxSurge` is 0"
            yield causes.invalid(f"{at}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"], why)
        if _percent(rolling["maxUnavailable"]) > 100:
            why = "must not exceed 100%"
            yield causes.invalid(f"{at}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"], why)
    else:
        yield causes.not_supported(at, strategy, (RECREATE, ROLLING))


def _check_share(value: Any, at: str) -> Iterator[Cause]:
    """A number of pods, or a share in percent."""
    if isinstance(value, str):
        if not _IS_PERCENT.fullmatch(value):
            yield causes.invalid(at, value, NO_PERCENT)
    elif value < 0:
        yield causes.invalid(at, value, "must be greater than or equal to 0")


def _percent(value: Any) -> int:
    """A share in percent; 0 for a number of pods, and for text that is no share."""
    return int(value[:-1]) if isinstance(value, str) and _IS_PERCENT.fullmatch(value) else 0


def _is_zero(value: Any) -> bool:
    return not (_percent(value) if isinstance(value, str) else value)


class StatefulSets(Templated):
    def filled(self, spec: Object) -> Object:
        made = filled(
            spec, replicas=1, revisionHistoryLimit=REVISIONS_KEPT, podManagementPolicy=POLICIES[0], updateStrategy={},
            persistentVolumeClaimRetentionPolicy={},
        )  # fmt: skip
        strategy = filled(made["updateStrategy"], type=ROLLING)
        if strategy["type"] == ROLLING:
            strategy = {**strategy, "rollingUpdate": filled(strategy.get("rollingUpdate") or {}, partition=0)}
        kept = filled(made["persistentVolumeClaimRetentionPolicy"], **STAYS)
        return {**made, "updateStrategy": strategy, "persistentVolumeClaimRetentionPolicy": kept}

    def check_spec(self, spec: Object) -> Iterator[Cause]:
        if spec["podManagementPolicy"] not in POLICIES:
            why = f"must be '{POLICIES[0]}' or '{POLICIES[1]}'"
            yield causes.invalid("spec.podManagementPolicy", spec["podManagementPolicy"], why)
        strategy, at = spec["updateStrategy"], "spec.updateStrategy"
        if strategy["type"] == ON_DELETE:
            if strategy.get("rollingUpdate") is not None:
                why = f"only allowed for updateStrategy '{ROLLING}'"
                yield causes.invalid(f"{at}.rollingUpdate", strategy["rollingUpdate"], why)
        elif strategy["type"] != ROLLING:
            yield causes.invalid(at, strategy, f"must be '{ROLLING}' or '{ON_DELETE}'")
        elif strategy["rollingUpdate"]["partition"] < 0:
            why = "must be greater than or equal to 0"
            yield causes.invalid(f"{at}.rollingUpdate.partition", strategy["rollingUpdate"]["partition"], why)
        yield from templates.counts(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
        if ((spec.get("ordinals") or {}).get("start") or 0) < 0:
            yield causes.invalid("spec.ordinals.start", spec["ordinals"]["start"], "must be greater than or equal to 0")
        yield from templates.check_selector(spec, "statefulset")
        yield from templates.check_metadata(spec["template"])  # the volumes of its spec are not there yet
        yield from templates.check_always(spec["template"], "StatefulSet")

    def check_spec_change(self, spec: Object, before: Object, old: Object) -> Iterable[Cause]:
        fixed = {*spec, *before} - {*CHANGEABLE}
        return [causes.forbidden("spec", FIXED)] if any(spec.get(key) != before.get(key) for key in fixed) else []
