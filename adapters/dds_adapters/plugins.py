"""Additions of other packages, by entry points: fabrics, providers of machines and components. See docs/extending.md.

An entry point's name is what people write in settings. It cannot replace a name of dds, which is looked up first.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dds_core import component
from dds_core.component import Component
from dds_core.errors import InputError

FABRICS, MACHINES, COMPONENTS = "dds.fabrics", "dds.machines", "dds.components"
"""Groups of entry points."""


def names(group: str) -> list[str]:
    """The names that other packages add to a group."""
    return sorted({one.name for one in entry_points(group=group)})


def load(group: str, name: str) -> Any:
    """The object of the entry point of that name, None without one. Raises InputError if it cannot be imported, or if two
    packages have that name."""
    found = list(entry_points(group=group, name=name))
    if not found:
        return None
    if len(found) > 1:
        whose = " and ".join(sorted(map(_whose, found)))
        raise InputError(f"{name!r} is of {whose}", where=group, fix="remove one of them")
    try:
        return found[0].load()
    except Exception as error:
        what = f"{name!r} of {_whose(found[0])} cannot be loaded: {type(error).__name__}: {error}"
        raise InputError(what, where=group, fix="mend or remove that package") from error


def component_of(log: str) -> Component[Any]:
    """As `dds_core.component_of`, also for the component of another package. Raises InputError if that cannot be loaded."""
    name, known = log.rpartition("/")[2], dict(component.COMPONENTS)
    if name not in known:
        found = load(COMPONENTS, name)
        taken = any(component.COMPONENTS[one] is not known[one] for one in known)
        if found is not None and (taken or not isinstance(found, Component) or found.name != name or found.usual):
            component.COMPONENTS.clear()
            component.COMPONENTS.update(known)
            what = f"{name!r} is no Component of that name"
            raise InputError(what, where=COMPONENTS, fix="mend or remove that package")
    return component.component_of(log)


def _whose(one: EntryPoint) -> str:
    return f"the package {one.dist.name} {one.dist.version}" if one.dist is not None else one.value
