"""What a fabric is made of: machines, devices, and what its pools have to begin with.

Words only; what moves them is `fabric`. Nothing here knows an API, neither Kubernetes' nor a manager's.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """A physical device. `serial` is what its vendor calls it (a GPU UUID), `resource` what the fabric calls it."""

    serial: str
    resource: str
    model: str
    fabric: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A server that is cabled to one fabric (none: it has only what is built in), and the node that runs on it."""

    uuid: str
    node: str
    fabric: str


@dataclass(frozen=True, slots=True)
class Attached:
    """A device in a machine. The minor number is the lowest that was free when it came (`since`, an instant); `fixed`
    ones are built in."""

    device: Device
    minor: int
    since: int
    fixed: bool = False


@dataclass(frozen=True)
class Pool:
    """How many devices of a model a fabric has to begin with."""

    fabric: str
    model: str
    count: int
