"""What a simulated manager is told at its start: which APIs it has, who may log in, and what bounds it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dds_lab.latency import NONE, Latency

Api = Literal["fm", "cm", "nec"]


@dataclass(frozen=True)
class Login:
    """Who may log in, by the keys of the Secret that a client is given. None of it is shown by `repr`."""

    username: str = field(default="lab", repr=False)
    password: str = field(default="lab-password", repr=False)
    realm: str = field(default="CDI", repr=False)
    client_id: str = field(default="lab-client", repr=False)
    client_secret: str = field(default="lab-secret", repr=False)


@dataclass(frozen=True)
class Limit:
    """How many devices of a model a machine may have; None where nothing says so. No `nodes` means all machines."""

    model: str
    most: int | None = None
    least: int | None = None
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NodeGroup:
    """A node group of the cluster manager, and the nodes whose machines are in it."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ManagerSettings:
    """`api`: fm has the token and FM calls, cm those of CM too, nec those of CDIM alone.

    `token_life` is in seconds. By model: `types` gives the res_type where it is not gpu, `products` the productname where it
    is another word, `quotas` how many devices the tenant may have attached in all. `groups` are the node groups, one of all
    machines by default. `answer` is how long any answer takes. `scheme` stands before the machine's UUID in CDIM's node ids,
    which equal providerIDs.
    """

    api: Api = "fm"
    tenant: str = "3f1a9d52-6f0b-4b52-9a7e-0d6c1b8f2a10"
    cluster: str = "9b0e4c7a-52d1-4f38-8c26-7e5d3a1f6b24"
    login: Login = field(default_factory=Login)
    token_life: float = 300.0
    answer: Latency = NONE
    types: Mapping[str, str] = field(default_factory=dict)
    products: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    scheme: str = ""
