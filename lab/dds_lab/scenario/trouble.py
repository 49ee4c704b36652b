"""What goes wrong in a scenario: on the fabric, in the cluster, with clocks, and on the wire of those who connect.

Forms and bounds only.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dds_lab.scenario.forms import Delay, DnsName, Duration, Number, Period, Share, Text, Written, fixed


class Window(Written):
    """Something that holds for a while."""

    since: Duration = Field(default=0.0, description="From so long after the start.")
    until: Duration | None = Field(default=None, description="Until so long after the start; by default to the end.")

    @model_validator(mode="after")
    def _ordered(self) -> Window:
        if self.until is not None and self.until <= self.since:
            raise ValueError("until must come after since")
        return self


class FabricFault(Window):
    """What befalls orders of the operator to the fabric."""

    kind: Literal["refuse", "hang", "lose_answer", "wrong_device", "second_device"] = Field(
        description="The fabric says no; never answers; does it and the answer is lost; gives a wrong or a second device."
    )
    operation: Literal["attach", "detach"] = Field(default="attach", description="Which orders.")
    nodes: tuple[DnsName, ...] = Field(default=(), max_length=10_000, description="On these nodes; by default on all.")
    models: tuple[Text, ...] = Field(default=(), max_length=1000, description="Of these models; by default of all.")
    times: Number = Field(default=0, description="So many orders; 0: any number.")
    share: Share = Field(default=1.0, description="Of the orders that it could befall, this share.")
    words: Text = Field(default="CDI manager: machine update failed, E02XXXX", description="What the fabric says.")


class Stalled(Window):
    """Allocations that the scheduler has decided and that take long to be written."""

    takes: Period = Field(default=60.0, description="Each takes so long.")
    times: Number = Field(default=1, description="So many; 0: all.")


class WireFault(Window):
    """What befalls requests and watches of clients that connect to `dds lab up`."""

    action: Literal["status", "slow", "lost", "cut", "half_open", "expired", "duplicate", "delay"] = Field(
        description="Answer with `code`; answer late; do it and cut the connection; cut watches; let them go silent; "
        "tell them 410; send events twice; send them late."
    )
    code: Literal[409, 429, 500, 503] = Field(default=503, description="With `status`: the code.")
    wait: Delay = Field(
        default=fixed(1.0),
        description="With `slow` and `delay`: how late; with `cut` and `half_open`: so long after the watch began; "
        "with `status` 429: Retry-After.",
    )
    mid_line: bool = Field(default=False, description="With `cut`: in the middle of a line.")
    users: tuple[Text, ...] = Field(default=(), max_length=100, description="Of these users; by default of all.")
    verbs: tuple[Text, ...] = Field(default=(), max_length=10, description="Of these verbs; by default of all.")
    resources: tuple[Text, ...] = Field(
        default=(), max_length=100, description="Of these resources; by default of all."
    )
    share: Share = Field(default=1.0, description="Of what it could befall, this share.")
    times: Number = Field(default=0, description="So many; 0: any number.")


ManagerCall = Literal[
    "token", "machines", "machine", "available", "attach", "detach",
    "node", "resize", "nodegroups", "nodegroup",
    "nodes", "resources", "resource", "apply", "applied",
]  # fmt: skip


class ManagerFault(Window):
    """What befalls calls to the hardware's manager."""

    kind: Literal["away", "busy", "cut", "empty", "error", "expired", "huge", "odd", "other_fabric", "slow"] = Field(
        description="It cannot be reached; says 503 with Retry-After `wait`; does it and cuts the connection; answers with no "
        "body; with `code`; forgets every token; answers with 10,000 devices; in another form; for another fabric; "
        "`wait` late."
    )
    calls: tuple[ManagerCall, ...] = Field(default=(), max_length=15, description="Which calls; by default all.")
    nodes: tuple[DnsName, ...] = Field(
        default=(), max_length=10_000, description="By way of these nodes' machines; by default of any, or none."
    )
    models: tuple[Text, ...] = Field(
        default=(), max_length=1000, description="About these models; by default about any, or none."
    )
    wait: Duration = Field(default=1.0, description="With `slow` and `busy`: how long.")
    code: Annotated[int, Field(ge=400, le=599)] = Field(default=500, description="With `error`: the status.")
    odd: Literal["types", "missing", "html", "truncated", "null", "list"] = Field(
        default="types",
        description="With `odd`: a value of another type; a field that is missing; no JSON; half of it; null; a list.",
    )
    field: str = Field(
        default="", max_length=100, description="With `odd`: which field; by default one that is drawn each time."
    )
    share: Share = Field(default=1.0, description="Of what it could befall, this share.")
    times: Number = Field(default=0, description="So many; 0: any number.")


class Chaos(Written):
    """World faults at random instants: each so often in the mean (an exponential distribution)."""

    restart_scheduler: Period | None = Field(default=None, description="The scheduler restarts.")
    restart_operator: Period | None = Field(default=None, description="The operator restarts.")
    restart_vendor: Period | None = Field(default=None, description="The vendor's plugin of some node restarts.")
    lose_node: Period | None = Field(default=None, description="Some node is lost for good.")
    drop_out: Period | None = Field(default=None, description="Some attached device falls off its bus.")
    drain: Period | None = Field(default=None, description="Some node is drained, and uncordoned a while later.")
    shrink: Period | None = Field(default=None, description="Some pool loses a free device.")
    drained_for: Period = Field(default=600.0, description="A drained node comes back after so long.")


class Faults(Written):
    """Everything that goes wrong by plan; single events are steps."""

    fabric: tuple[FabricFault, ...] = Field(default=(), max_length=1000, description="On the fabric.")
    allocations: tuple[Stalled, ...] = Field(default=(), max_length=100, description="In the scheduler's writes.")
    wire: tuple[WireFault, ...] = Field(default=(), max_length=1000, description="On the wire.")
    manager: tuple[ManagerFault, ...] = Field(
        default=(), max_length=1000, description="On the way to the hardware's manager."
    )
    chaos: Chaos = Field(default=Chaos(), description="At random instants.")
