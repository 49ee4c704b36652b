"""Feature gates and served API versions of Kubernetes 1.34 to 1.37.

If a gate is off, the API server silently drops the gate's fields (`facts`: gate_fields), unless the stored object already has
one of them. Whether the scheduler obeys the fields depends on the scheduler's own gates.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from dds_core.errors import InputError

VERSIONS = ("1.34", "1.35", "1.36", "1.37")
DEFAULT: Final = "1.37"

PATCHES: Mapping[str, str] = {"1.36.3": "1.36", "1.37.1": "1.37"}
"""Patch releases that differ from the default one of their release (`discovery.RELEASES`), and the release whose gates they
have."""


def known_as(version: str) -> str:
    """The release that does as a server of this version ("1.36.4": "1.36.3"); DEFAULT for one that is not known."""
    major, minor, patch = [*version.split("."), "", ""][:3]
    release = f"{major}.{minor}"
    newest = [
        one
        for one, of in PATCHES.items()
        if of == release and patch.isdecimal() and int(one.split(".")[2]) <= int(patch)
    ]
    return newest[-1] if newest else release if release in VERSIONS else DEFAULT


OFF, ON, LOCKED = "off", "on", "locked"

GATES: Mapping[str, tuple[str | None, str | None, str | None, str | None]] = {
    "DynamicResourceAllocation": (ON, LOCKED, LOCKED, LOCKED),
    "DRAAdminAccess": (ON, ON, LOCKED, LOCKED),
    "DRAConsumableCapacity": (OFF, OFF, ON, ON),
    "DRADeviceBindingConditions": (OFF, OFF, ON, ON),
    "DRADeviceCompatibilityGroups": (None, None, None, OFF),
    "DRADeviceTaintRules": (None, OFF, OFF, ON),
    "DRADeviceTaints": (OFF, OFF, ON, ON),
    "DRAExtendedResource": (OFF, OFF, ON, LOCKED),
    "DRAListTypeAttributes": (None, None, OFF, OFF),
    "DRANodeAllocatableResources": (None, None, OFF, OFF),
    "DRAOptionalNodeOperations": (None, None, None, OFF),
    "DRAPartitionableDevices": (OFF, OFF, ON, ON),
    "DRAPartitionableDevicesType": (None, None, None, OFF),
    "DRAPrioritizedList": (ON, ON, ON, LOCKED),
    "DRAResourceClaimDeviceStatus": (ON, ON, ON, LOCKED),
    "DRAResourceClaimGranularStatusAuthorization": (None, None, ON, ON),
    "DRASchedulerFilterTimeout": (ON, ON, ON, ON),
    "NominatedNodeNameForExpectation": (OFF, ON, ON, ON),
    "SchedulerQueueingHints": (LOCKED, LOCKED, LOCKED, LOCKED),
}
"""By gate: its default in each of VERSIONS, None if the release does not know it. LOCKED is on and cannot be changed."""

NEEDS: Mapping[str, str] = {
    "DRADeviceBindingConditions": "DRAResourceClaimDeviceStatus",
    "DRADeviceTaintRules": "DRADeviceTaints",
}

OPTIONAL_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "resource.k8s.io/v1beta2": ("1.36", "1.37"),
    "resource.k8s.io/v1alpha3": VERSIONS,
}
"""API versions that are served only on request, and the releases in which they hold a kind of the lab."""


@dataclass(frozen=True)
class Gates:
    """The gates of one component of one release. Make one with `for_version`."""

    version: str
    enabled: Mapping[str, bool]
    served: frozenset[str] = field(default_factory=frozenset)
    """Optional API versions (`resource.k8s.io/v1beta2`) and resources of them (`…/devicetaintrules`) that are served."""

    @classmethod
    def for_version(
        cls,
        version: str = DEFAULT,
        overrides: Mapping[str, bool] | None = None,
        served: Collection[str] = (),
    ) -> "Gates":
        """The defaults of a release, changed by `overrides`, with these optional APIs (`group/version`, or a resource of one:
        `group/version/resource`). InputError for unknown names and locked gates."""
        release = PATCHES.get(version, version)
        if release not in VERSIONS:
            raise InputError(
                f"no release {version!r}", where="gates", fix=f"take one of {', '.join((*VERSIONS, *PATCHES))}"
            )
        known = {gate: default for gate, defaults in GATES.items() if (default := defaults[VERSIONS.index(release)])}
        enabled = {gate: default != OFF for gate, default in known.items()}
        for gate, on in (overrides or {}).items():
            enabled[_changeable(gate, on, known, release)] = on
        for gate, need in NEEDS.items():
            if enabled.get(gate) and not enabled.get(need):
                raise InputError(f"{gate} is on and {need} is off", where="gates", fix=f"switch {need} on too")
        return cls(version, enabled, _served(release, served))

    def on(self, gate: str) -> bool:
        """Whether the gate is on. A gate that this release does not know is off; InputError if no release knows it."""
        if gate not in GATES:
            raise InputError(f"no gate {gate!r}", where="gates", fix=f"known are {', '.join(GATES)}")
        return self.enabled.get(gate, False)

    @property
    def release(self) -> str:
        """The release without its patch, one of VERSIONS."""
        return PATCHES.get(self.version, self.version)

    def since(self, release: str) -> bool:
        """Whether this release is `release` (one of VERSIONS) or a later one."""
        return VERSIONS.index(self.release) >= VERSIONS.index(release)

    def serves(self, group: str, version: str, plural: str) -> bool:
        """Whether an API version is served for this resource. Only optional versions can be off."""
        name = f"{group}/{version}"
        return name not in OPTIONAL_VERSIONS or bool({name, f"{name}/{plural}"} & self.served)


def _changeable(gate: str, on: bool, known: Mapping[str, str], version: str) -> str:
    if gate not in known:
        raise InputError(f"{version} has no gate {gate!r}", where="gates", fix=f"known are {', '.join(sorted(known))}")
    if known[gate] == LOCKED and not on:
        raise InputError(f"{gate} is locked on in {version}", where="gates", fix="leave it out")
    return gate


def _served(version: str, names: Collection[str]) -> frozenset[str]:
    for name in names:
        if name.removesuffix("/devicetaintrules") not in OPTIONAL_VERSIONS:
            known = ", ".join(OPTIONAL_VERSIONS)
            raise InputError(f"no optional API version {name!r}", where="runtime-config", fix=f"known are {known}")
    return frozenset(name for name in names if version in OPTIONAL_VERSIONS[name.removesuffix("/devicetaintrules")])
