"""A mirror without the objects that nobody can act on, such as a custom resource without its spec: to an actor they are
not there."""

from collections.abc import Callable, Iterator

from dds_lab.client import Mirror, Object, OnChange


class Formed:
    """What a mirror has, as far as `formed` says yes. An object that becomes so is new, one that no longer is has
    gone."""

    def __init__(self, mirror: Mirror, formed: Callable[[Object], bool]) -> None:
        self._mirror = mirror
        self._formed = formed

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._kept(self._mirror.get(name, namespace))

    def values(self) -> Iterator[Object]:
        return (one for one in self._mirror.values() if self._formed(one))

    def on_change(self, call: OnChange) -> None:
        def told(old: Object | None, new: Object | None) -> None:
            old, new = self._kept(old), self._kept(new)
            if old is not None or new is not None:
                call(old, new)

        self._mirror.on_change(told)

    def close(self) -> None:
        self._mirror.close()

    def _kept(self, obj: Object | None) -> Object | None:
        return obj if obj is not None and self._formed(obj) else None


def has_spec(obj: Object) -> bool:
    """A ComposableResource that says what it is."""
    return bool(obj.get("spec"))


def has_resource(obj: Object) -> bool:
    """A ComposabilityRequest that says what it wants."""
    return bool((obj.get("spec") or {}).get("resource"))
