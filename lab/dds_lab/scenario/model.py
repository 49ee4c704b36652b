"""A whole scenario, as people write it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from dds_lab.scenario.cluster import Cluster
from dds_lab.scenario.forms import Instant, Period, Written
from dds_lab.scenario.parts import Parts
from dds_lab.scenario.trouble import Faults
from dds_lab.scenario.work import Mix, Step

START = 1_795_219_200_000_000  # 2026-11-21T00:00:00Z


class Scenario(Written):
    """A cluster, what happens in it, and what goes wrong."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$", max_length=100)] = Field(
        default="scenario", description="Its name; by default the file's."
    )
    about: Annotated[str, StringConstraints(max_length=500)] = Field(
        default="", description="What it shows, in a sentence."
    )
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(default=1, description="All chance comes from it.")
    start: Instant = Field(default=START, description="The instant at which it begins.")
    duration: Period = Field(
        default=600.0, description="How long it lasts; `dds lab up` goes on after that until it is stopped."
    )
    speed: Annotated[float, Field(ge=0.001, le=10_000)] = Field(
        default=1.0, description="Of `dds lab up`: how many seconds of the lab pass in a second."
    )
    cluster: Cluster = Field(default=Cluster(), description="The cluster before anything happens.")
    parts: Parts = Field(default=Parts(), description="What lives in it.")
    steps: tuple[Step, ...] = Field(default=(), max_length=100_000, description="What happens, in this order.")
    mix: tuple[Mix, ...] = Field(default=(), max_length=100, description="Random pods besides.")
    faults: Faults = Field(default=Faults(), description="What goes wrong.")
