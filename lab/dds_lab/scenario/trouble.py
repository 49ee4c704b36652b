"""The faults of a scenario: of the fabric, the scheduler's writes, the manager, clients' connections, and random ones (chaos).
Only fields and bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dds_lab.scenario.values import Delay, DnsName, Duration, Number, Period, Share, Text, Written, fixed


class Window(Written):
    """Something that holds for a while."""

    since: Duration = Field(default=0.0, description="Begin.")
    until: Duration | None = Field(default=None, description="End; by default never.")

    @model_validator(mode="after")
    def _ordered(self) -> Window:
        if self.until is not None and self.until <= self.since:
            raise ValueError("until must come after since")
        return self


REFUSED = "CDI manager: machine update failed, E02XXXX"


class FabricFault(Window):
    """What befalls orders of the operator to the fabric."""

    kind: Literal["refuse", "hang", "lose_answer", "wrong_device", "second_device", "warning", "critical"] = Field(
        description="`refuse`: the fabric refuses; `hang`: never answers; `lose_answer`: executes it, and the answer is lost; "
        "`wrong_device`: gives a wrong device; `second_device`: gives a second one; `warning`, `critical`: gives a device in "
        "this state."
    )
    operation: Literal["attach", "detach", "check", "smi"] = Field(
        default="attach",
        description="Orders affected; or what a real operator asks: `check`: the manager for a device that is Online; `smi`: "
        "nvidia-smi on the node of a new one. These can only fail (`refuse`).",
    )
    nodes: tuple[DnsName, ...] = Field(default=(), max_length=10_000, description="Only on these nodes.")
    models: tuple[Text, ...] = Field(default=(), max_length=1000, description="Only of these models.")
    times: Number = Field(default=0, description="Maximum; 0: no limit.")
    share: Share = Field(default=1.0, description="Share of the matching orders.")
    words: Text = Field(
        default=REFUSED,
        description="Error text; `{order}` is the order's number.",
    )

    @model_validator(mode="after")
    def _applicable(self) -> FabricFault:
        if self.operation in ("check", "smi") and self.kind != "refuse":
            raise ValueError(f"operation {self.operation} only takes kind refuse")
        if self.operation == "detach" and self.kind in ("warning", "critical"):
            raise ValueError(f"kind {self.kind} is for attaches")
        return self


class Stalled(Window):
    """Allocations that the scheduler has decided and that take long to be written."""

    takes: Period = Field(default=60.0, description="Delay of each.")
    times: Number = Field(default=1, description="How many; 0: all.")


class WireFault(Window):
    """What befalls requests and watches of clients that connect to `dds lab up`."""

    action: Literal["status", "slow", "lost", "cut", "half_open", "expired", "duplicate", "delay"] = Field(
        description="`status`: answer with code; `slow`: answer late; `lost`: execute the request and cut the connection; "
        "`cut`: cut watches; `half_open`: let watches go silent; `expired`: end watches with 410; `duplicate`: "
        "send events twice; `delay`: send events late."
    )
    code: Literal[409, 429, 500, 503] = Field(default=503, description="With `status`.")
    wait: Delay = Field(
        default=fixed(1.0),
        description="`slow`, `delay`: lateness; `cut`, `half_open`: age of the watch; `status` 429: Retry-After.",
    )
    mid_line: bool = Field(default=False, description="With `cut`: in the middle of a line.")
    users: tuple[Text, ...] = Field(default=(), max_length=100, description="Only of these users.")
    verbs: tuple[Text, ...] = Field(default=(), max_length=10, description="Only of these verbs.")
    resources: tuple[Text, ...] = Field(default=(), max_length=100, description="Only of these resources.")
    share: Share = Field(default=1.0, description="Share of what matches.")
    times: Number = Field(default=0, description="Maximum; 0: no limit.")


ManagerCall = Literal[
    "token", "machines", "machine", "available", "attach", "detach",
    "node", "resize", "nodegroups", "nodegroup", "resize_group",
    "nodes", "resources", "resource", "apply", "applied",
]  # fmt: skip


class ManagerFault(Window):
    """What befalls calls to the hardware's manager."""

    kind: Literal["away", "busy", "cut", "empty", "error", "expired", "huge", "odd", "other_fabric", "slow"] = Field(
        description="`away`: unreachable; `busy`: 503 with Retry-After wait; `cut`: execute the call and cut the connection; "
        "`empty`: no body; `error`: status code; `expired`: forget every token; `huge`: answer with 10,000 "
        "devices; `odd`: answer in another form; `other_fabric`: answer for another fabric; `slow`: answer late by "
        "wait."
    )
    calls: tuple[ManagerCall, ...] = Field(default=(), max_length=16, description="By default all.")
    nodes: tuple[DnsName, ...] = Field(default=(), max_length=10_000, description="Only through these nodes' machines.")
    models: tuple[Text, ...] = Field(default=(), max_length=1000, description="Only about these models.")
    wait: Duration = Field(default=1.0, description="With `slow` and `busy`.")
    code: Annotated[int, Field(ge=400, le=599)] = Field(default=500, description="With `error`.")
    odd: Literal["types", "missing", "html", "truncated", "null", "list"] = Field(
        default="types",
        description="`types`: a value of another type; `missing`: a missing field; `html`: no JSON; "
        "`truncated`: half; `null`: null; `list`: a list.",
    )
    field: str = Field(default="", max_length=100, description="With `odd`: the field; by default drawn each time.")
    share: Share = Field(default=1.0, description="Share of what matches.")
    times: Number = Field(default=0, description="Maximum; 0: no limit.")


class Chaos(Written):
    """World faults at random instants: each so often in the mean (an exponential distribution)."""

    restart_scheduler: Period | None = Field(default=None, description="The scheduler restarts.")
    restart_operator: Period | None = Field(default=None, description="The operator restarts.")
    restart_vendor: Period | None = Field(default=None, description="A vendor's plugin restarts.")
    lose_node: Period | None = Field(default=None, description="A node is lost for good.")
    drop_out: Period | None = Field(default=None, description="An attached device falls off its bus.")
    drain: Period | None = Field(default=None, description="A node is drained.")
    shrink: Period | None = Field(default=None, description="A pool loses a free device.")
    drained_for: Period = Field(default=600.0, description="A drained node is uncordoned after this.")


class Faults(Written):
    """Everything that goes wrong by plan; single events are steps."""

    fabric: tuple[FabricFault, ...] = Field(
        default=(), max_length=1000, description="The operator's orders to the fabric."
    )
    allocations: tuple[Stalled, ...] = Field(
        default=(), max_length=100, description="Allocations that the scheduler writes late."
    )
    wire: tuple[WireFault, ...] = Field(
        default=(), max_length=1000, description="Requests and watches of clients of `dds lab up`."
    )
    manager: tuple[ManagerFault, ...] = Field(
        default=(), max_length=1000, description="Calls to the hardware's manager."
    )
    chaos: Chaos = Field(
        default=Chaos(),
        description="Random faults: mean time between two (exponential).",
    )
