"""Job: defaults, the selector that the server generates, checks, and what an update may change."""

from collections.abc import Iterator

from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, templates
from dds_lab.api.rules.templates import AT, Templated, filled
from dds_lab.api.status import Cause

UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
OLD_UID_LABEL, OLD_NAME_LABEL = "controller-uid", "job-name"
MODES = ("NonIndexed", "Indexed")
REPLACEMENTS = ("TerminatingOrFailed", "Failed")
RETRIES = 6
FIXED = (
    "completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy",
    "successPolicy",
)  # fmt: skip
"""Fields of the spec that no update may change."""
NUMBERS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
"""Fields of the template's spec that may change while a Job waits suspended."""


class Jobs(Templated):
    selectable_names = ("status.successful",)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}

    def filled(self, spec: Object) -> Object:
        both = spec.get("completions") is None and spec.get("parallelism") is None
        made = filled(
            spec, parallelism=1, backoffLimit=RETRIES if spec.get("backoffLimitPerIndex") is None else 2**31 - 1,
            completionMode=MODES[0], suspend=False, manualSelector=False,
            podReplacementPolicy=REPLACEMENTS[spec.get("podFailurePolicy") is not None],
        )  # fmt: skip
        return filled(made, completions=1) if both else made

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        if old is not None:
            return new
        spec, metadata = new["spec"], new["metadata"]
        if not spec["manualSelector"]:
            spec = _with_selector(spec, metadata)
        if not metadata.get("labels"):
            metadata = {**metadata, "labels": templates.labels_of(spec)}
        return {**new, "metadata": metadata, "spec": spec}

    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj["spec"]
        if not spec["manualSelector"] and (spec.get("selector") or {}) != _generated(obj["metadata"]):
            yield causes.invalid("spec.selector", spec.get("selector"), "`selector` not auto-generated")
        yield from templates.counts(spec, *NUMBERS)
        if spec["completionMode"] not in MODES:
            yield causes.not_supported("spec.completionMode", spec["completionMode"], sorted(MODES))
        elif spec["completionMode"] == "Indexed" and spec.get("completions") is None:
            yield causes.required("spec.completions", "when completion mode is Indexed")
        if spec["podReplacementPolicy"] not in REPLACEMENTS:
            yield causes.not_supported("spec.podReplacementPolicy", spec["podReplacementPolicy"], sorted(REPLACEMENTS))
        yield from templates.check_selector(spec)
        yield from templates.check(spec["template"])
        if (spec["template"]["spec"] or {}).get("restartPolicy") == "Always":
            yield causes.required(f"{AT}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')

    def check_spec_change(self, spec: Object, before: Object, old: Object) -> Iterator[Cause]:
        if before["suspend"] and not (old.get("status") or {}).get("startTime"):
            spec, before = _without_directives(spec), _without_directives(before)
        fields: tuple[str, ...] = FIXED
        if spec["completionMode"] == "Indexed" and spec.get("completions") == spec["parallelism"]:
            fields = FIXED[1:]  # an indexed Job is scaled by both numbers at once
        yield from templates.fixed(spec, before, *fields)


def _generated(metadata: Object) -> Object:
    return {"matchLabels": {UID_LABEL: metadata.get("uid", "")}}


def _with_selector(spec: Object, metadata: Object) -> Object:
    """The spec with the labels and the selector that a server makes. What a client sent in their place stays, and is refused."""
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    made = {OLD_NAME_LABEL: name, NAME_LABEL: name, OLD_UID_LABEL: uid, UID_LABEL: uid}
    template = spec["template"]
    labelled = {**made, **templates.labels_of(spec)}
    template = {**template, "metadata": {**(template.get("metadata") or {}), "labels": labelled}}
    selector = spec.get("selector") or {}
    wanted = {**_generated(metadata)["matchLabels"], **(selector.get("matchLabels") or {})}
    return {**spec, "template": template, "selector": {**selector, "matchLabels": wanted}}


def _without_directives(spec: Object) -> Object:
    """The spec without what steers where its pods go."""
    template = spec["template"]
    kept = {key: value for key, value in template["spec"].items() if key not in DIRECTIVES}
    return {**spec, "template": {"spec": kept}}
