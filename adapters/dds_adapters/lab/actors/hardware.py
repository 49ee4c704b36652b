"""What a fabric is made of: machines, devices, what its pools have to begin with, and how long moving one takes.

Words only; what moves them is `fabric`. Nothing here knows an API, neither Kubernetes' nor a manager's.
"""

from dataclasses import dataclass, field

from dds_adapters.lab.latency import Fixed, Latency, Uniform


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


@dataclass(frozen=True)
class FabricSettings:
    """Latencies are in seconds. `in_flight` and `in_flight_per_machine` are how many orders run at once, 0 for any
    number; further ones wait in line. `timeout` is how long a caller waits for an answer that does not come."""

    pools: tuple[Pool, ...] = ()
    attach: Latency = field(default=Uniform(1.0, 6.0))
    detach: Latency = field(default=Uniform(0.4, 0.6))
    refusal: Latency = field(default=Fixed(0.01))
    in_flight: int = 0
    in_flight_per_machine: int = 0
    timeout: float = 180.0
