"""What the kinds of the apps and batch groups have in common: a pod template, a label selector, counts."""

from collections.abc import Iterable, Iterator
from typing import Any

from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, meta, parts, pods
from dds_lab.api.selectors import selects
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

AT = "spec.template"


def filled(given: Object, **defaults: Any) -> Object:
    """The object with a default for each field that it does not set."""
    return {**given, **{key: value for key, value in defaults.items() if given.get(key) is None}}


def labels_of(spec: Object) -> dict[str, str]:
    """The labels of the template's pods."""
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}


def check(template: Object) -> Iterator[Cause]:
    """Causes against a pod template."""
    yield from check_metadata(template)
    # Admission adds the preemption policy to pods, not to templates.
    for cause in pods.check_spec(filled(template.get("spec") or {}, preemptionPolicy=pods.PREEMPTION[0])):
        yield Cause(cause.reason, cause.message, f"{AT}.{cause.field}")


def check_metadata(template: Object) -> Iterator[Cause]:
    # The paths of a real server leave out "metadata".
    told = template.get("metadata") or {}
    yield from meta.labels(told.get("labels") or {}, f"{AT}.labels")
    yield from meta.annotations(told.get("annotations") or {}, f"{AT}.annotations")


def check_always(template: Object, kind: str) -> Iterator[Cause]:
    """Pods of kinds that keep their pods running."""
    spec = template.get("spec") or {}
    if spec.get("restartPolicy") != "Always":
        yield causes.not_supported(f"{AT}.spec.restartPolicy", spec.get("restartPolicy") or "", ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        yield causes.forbidden(f"{AT}.spec.activeDeadlineSeconds", why)


def check_selector(spec: Object, kind: str = "") -> Iterator[Cause]:
    """The selector of a spec, which must match the labels of its template. An empty one is refused in the name of `kind`."""
    selector, at = spec.get("selector"), "spec.selector"
    if selector is None:
        yield causes.required(at)
        return
    problems = list(parts.label_selector(selector, at))
    yield from problems
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        if kind:
            yield causes.invalid(at, selector, f"empty selector is invalid for {kind}")
    elif not problems and not selects(selector, labels_of(spec)):
        why = "`selector` does not match template `labels`"
        yield causes.invalid(f"{AT}.metadata.labels", labels_of(spec), why)


def counts(spec: Object, *fields: str) -> Iterator[Cause]:
    """Numbers that must not be negative."""
    for field in fields:
        if (spec.get(field) or 0) < 0:
            yield causes.invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")


class Templated(BuiltIn):
    """A kind whose spec has a pod template. `filled` sets the defaults of the rest of its spec."""

    counted = True

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec") or {}
        if old is not None and spec is old.get("spec"):
            return obj
        template = spec.get("template") or {}
        before = ((old or {}).get("spec") or {}).get("template")
        if template is not before:
            template = {**template, "spec": pods.defaulted(template.get("spec") or {})}
        return {**obj, "spec": {**self.filled(spec), "template": template}}

    def filled(self, spec: Object) -> Object:
        return spec

    def check(self, obj: Object) -> Iterable[Cause]:
        return self.check_spec(obj.get("spec") or {})

    def check_spec(self, spec: Object) -> Iterable[Cause]:
        return []

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        if subresource or new.get("spec") is old.get("spec"):
            return []
        return [*self.check(new), *self.check_spec_change(new.get("spec") or {}, old.get("spec") or {}, old)]

    def check_spec_change(self, spec: Object, before: Object, old: Object) -> Iterable[Cause]:
        """Causes against a change of the stored object's spec."""
        return [] if spec.get("selector") == before.get("selector") else [_fixed(spec, "selector")]


def _fixed(spec: Object, field: str) -> Cause:
    return causes.immutable(f"spec.{field}", spec.get(field))


def fixed(spec: Object, before: Object, *fields: str) -> Iterator[Cause]:
    """Fields that no update may change."""
    return (_fixed(spec, field) for field in fields if spec.get(field) != before.get(field))
