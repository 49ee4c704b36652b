"""Every metric: its name, kind, labels and help. The instruments and docs/metrics.md are made from this.

Names follow Prometheus: base units (seconds), `_total` for counters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

Kind = Literal["counter", "gauge", "histogram"]


class Named(NamedTuple):
    """One metric. `buckets` are the upper bounds of a histogram, in seconds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_WAITS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_LIVES: Final = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0)

# -- claims -----------------------------------------------------------------------------------------------------------

CLAIMS = Named("dds_claims", "gauge", "Claims by state.", ("state",))
CLAIM_STATE = Named(
    "dds_claim_state_seconds",
    "histogram",
    "Seconds that claims spent in a state, counted when they leave it.",
    ("state",),
    _LIVES,
)
STAGE = Named(
    "dds_claim_stage_seconds",
    "histogram",
    "Seconds of each stage of a claim that waits for a pool device. order: from the allocation until the request; attach: until "
    "the device is ready; signal: until the scheduler is signalled; bind: until the pod is bound; total: from the cycle's first "
    "pool allocation until the pod is bound.",
    ("stage",),
    _WAITS,
)
BOUND = Named(
    "dds_devices_bound_total",
    "counter",
    "Fabric devices that claims had when their pods were bound.",
    ("model",),
)
TRANSITIONS = Named("dds_transitions_total", "counter", "Transitions of claims and devices.", ("life", "trigger"))

# -- devices ----------------------------------------------------------------------------------------------------------

DEVICES = Named("dds_devices", "gauge", "Fabric devices by state.", ("state", "model", "node"))
IDLE = Named(
    "dds_device_idle_seconds_total",
    "counter",
    "Device-seconds on a node without a claim, marked devices included.",
    ("model", "node"),
)
SPENDING = Named(
    "dds_device_seconds_total",
    "counter",
    "Device-seconds by state: used, idle, attaching, detaching, or in error without a user; since the log began, or its first "
    "checkpoint of an older version.",
    ("state", "model"),
)
ATTACHES = Named("dds_device_attaches_total", "counter", "Devices attached to a node.", ("model",))
ATTACH = Named(
    "dds_device_attach_seconds",
    "histogram",
    "Seconds from the ComposableResource until its device is on the node.",
    ("model",),
    _WAITS,
)
DEPARTURES = Named(
    "dds_device_departures_total",
    "counter",
    "Devices that left their node: detached or lost.",
    ("model", "how"),
)

# -- the hand-over ----------------------------------------------------------------------------------------------------

HAND_OVERS = Named("dds_hand_overs_total", "counter", "Hand-overs decided.", ("steering", "mode"))
LANDINGS = Named(
    "dds_hand_over_landings_total",
    "counter",
    "Allocations after a hand-over: here (devices of the node), pool (on the node, from the pool again) or elsewhere. steering "
    '"none": no hand-over of dds preceded it.',
    ("steering", "landing"),
)

# -- what is decided, what comes of it --------------------------------------------------------------------------------

FACTS = Named("dds_facts_total", "counter", "Facts logged.", ("type",))
DECISIONS = Named("dds_decisions_total", "counter", "Decisions logged, by their mode.", ("type", "mode"))
REISSUED = Named("dds_decisions_reissued_total", "counter", "Decisions made again after a start.", ("type",))
WRITES = Named(
    "dds_writes_total",
    "counter",
    "Outcomes of decisions that write: done, refused for good, superseded.",
    ("action", "outcome"),
)
REFUSALS = Named("dds_write_refusals_total", "counter", "Writes refused for good, by HTTP status.", ("action", "code"))
ATTEMPTS = Named(
    "dds_write_attempts_total",
    "counter",
    "Outcomes of write attempts, transient failures (later) included; action is empty for writes without a decision, such as "
    "Events.",
    ("action", "outcome"),
)
REJECTED = Named("dds_rejected_total", "counter", "Objects or fields that are not as expected.", ("resource", "reason"))
ALERTS = Named("dds_alerts_total", "counter", "Alerts for a person.", ("reason",))
BROKEN = Named(
    "dds_invariants_broken_total",
    "counter",
    "Invariants that did not hold, or decisions refused because they would break one: a fault of dds.",
    ("invariant",),
)
ORDERS = Named("dds_orders_in_flight", "gauge", "Ordered request sizes that the cluster does not show yet.")
RESERVATIONS = Named("dds_reservations", "gauge", "Reservations that stand, one for each claim or pod.")
VICTIMS = Named("dds_victims", "gauge", "Devices marked for a detach; a fence keeps claims off them.")
COOLING = Named("dds_cooling_cells", "gauge", "Models on nodes that cool down after a failure.")

# -- how the scaler fares ---------------------------------------------------------------------------------------------

BUILD = Named(
    "dds_build_info", "gauge", "Always 1: version of the code, fingerprint of the rules.", ("version", "fingerprint")
)
MODE = Named("dds_mode", "gauge", "1 for the effective mode, ConfigMap included.", ("mode",))
LEADER = Named("leader_election_master_status", "gauge", "1 while this process leads; name of the Lease.", ("name",))
EPOCH = Named("dds_epoch", "gauge", "The epoch of this process.")
SYNCED = Named("dds_synced", "gauge", "1 once all resources were listed and decisions are taken.")
STALE = Named("dds_stale_resources", "gauge", "Resources with a stale view; deadlines wait.")
WATCH_AGE = Named(
    "dds_watch_age_seconds",
    "gauge",
    "Seconds since the API server last sent something about a resource.",
    ("resource",),
)
QUEUE = Named("dds_queue_objects", "gauge", "Objects from the API server that wait to be processed.")
OUTBOX = Named("dds_outbox_tasks", "gauge", "Writes that wait or are being carried out.", ("state",))
POSITION = Named("dds_log_position", "gauge", "Position of the last appended event.")
BEHIND = Named("dds_log_groups_behind", "gauge", "Decided groups not in the log yet.")
LAG = Named("dds_log_lag_seconds", "gauge", "Age of the oldest fact not in the log yet, or 0.")
AVAILABLE = Named("dds_log_available", "gauge", "0 while the log cannot be written.")
COMMIT = Named(
    "dds_commit_delay_seconds", "histogram", "Seconds from a fact's arrival until it is in the log.", (), _QUICK
)
LATENESS = Named(
    "dds_deadline_lateness_seconds", "histogram", "Seconds from a deadline until it is in the log.", ("kind",), _QUICK
)
REQUESTS = Named(
    "rest_client_requests_total", "counter", "Requests to the API server; code 0: no answer.", ("method", "code")
)
REQUEST = Named(
    "rest_client_request_duration_seconds", "histogram", "Seconds of requests to the API server.", ("verb",), _QUICK
)
SCRAPE_ERRORS = Named(
    "dds_scrape_errors_total", "counter", "Gauges that could not be read; others are not affected.", ("metric",)
)
UNCOUNTED = Named(
    "dds_uncounted_groups_total",
    "counter",
    "Logged groups that could not be counted: a fault of dds.",
)

CATALOGUE: Final[tuple[Named, ...]] = tuple(one for one in list(globals().values()) if isinstance(one, Named))
"""The scaler's metrics and those of the program, in the order of this file: all that are defined above."""


_CALLS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# -- the fabric -------------------------------------------------------------------------------------------------------

FREE = Named(
    "dds_publisher_free_devices",
    "gauge",
    "Healthy devices that a fabric last reported free; of an inventory, all.",
    ("fabric", "model"),
)
MACHINES = Named("dds_publisher_machines", "gauge", "Machines by the fabric that reaches them.", ("fabric",))
ANSWER_AGE = Named(
    "dds_publisher_answer_age_seconds",
    "gauge",
    "Seconds since the last good answer: machines, stock (free devices of a model), limits (the oldest).",
    ("question", "fabric", "model"),
)
FAILING = Named(
    "dds_publisher_failing_questions",
    "gauge",
    "Unanswered questions to the fabric: machines, stock, limits; entries: 1 while entries of answers cannot be read.",
    ("question",),
)
ROUNDS = Named("dds_publisher_rounds_total", "counter", "Completed rounds of questions to the fabric.")
ROUND = Named("dds_publisher_round_seconds", "gauge", "Seconds of the last round.")
CALLS = Named(
    "dds_publisher_fabric_calls_total",
    "counter",
    "Tries of calls of the fabric's API; im.token is a login. outcome is the HTTP status, or the reason for none.",
    ("call", "outcome"),
)
CALL = Named("dds_publisher_fabric_call_duration_seconds", "histogram", "Seconds of a call.", ("call",), _CALLS)

# -- the pools --------------------------------------------------------------------------------------------------------

POOL_SLICES = Named("dds_publisher_pool_slices", "gauge", "The publisher's slices of a pool.", ("driver", "pool"))
POOL_DEVICES = Named("dds_publisher_pool_devices", "gauge", "Listed devices of a pool.", ("driver", "pool"))
POOL_HELD = Named("dds_publisher_pool_devices_held", "gauge", "Listed devices that claims hold.", ("driver", "pool"))
POOL_TAINTED = Named(
    "dds_publisher_pool_tainted", "gauge", "1 while taints keep the scheduler from a pool.", ("driver", "pool")
)
KEPT = Named(
    "dds_publisher_api_keeps",
    "gauge",
    "1 if the API server keeps a field of slices: binding_conditions (else nothing is published), device_taints, shared_devices.",
    ("field",),
)

_OF_A_LOG: Final = (
    FACTS, DECISIONS, REISSUED, WRITES, REFUSALS, ATTEMPTS, REJECTED, ALERTS, BROKEN, BUILD, MODE, EPOCH, SYNCED,
    STALE, WATCH_AGE, QUEUE, OUTBOX, POSITION, BEHIND, LAG, AVAILABLE, COMMIT, LATENESS, SCRAPE_ERRORS,
    UNCOUNTED,
)  # fmt: skip


def named_for(component: str) -> Callable[[Named], Named]:
    """A function that puts the component into the name of a metric, so that several components of one program can be scraped
    together. Metrics of the whole program (requests, leadership) and of the component alone keep their names."""
    own = f"dds_{component}_"
    return lambda one: one._replace(name=one.name.replace("dds_", own, 1)) if one in _OF_A_LOG else one


POOL_CATALOGUE: Final[tuple[Named, ...]] = (
    *(one for one in list(globals().values()) if isinstance(one, Named) and one not in CATALOGUE),
    *map(named_for("publisher"), _OF_A_LOG),
)
"""The publisher's metrics in the order of this file, then those of its log."""

# -- the autoscaler ---------------------------------------------------------------------------------------------------

GROUP_TARGET = Named(
    "dds_autoscaler_group_target",
    "gauge",
    "Servers that a group has and gets, as shown to Cluster Autoscaler.",
    ("group",),
)
GROUP_MAXIMUM = Named("dds_autoscaler_group_maximum", "gauge", "Maximum size of a group, as shown.", ("group",))
GROUP_MEMBERS = Named("dds_autoscaler_group_members", "gauge", "Nodes of a group, as shown.", ("group",))
GROUP_CLOSED = Named(
    "dds_autoscaler_group_closed", "gauge", "1 while a group takes fewer servers because a device will do.", ("group",)
)
GROUP_SERVERS = Named(
    "dds_autoscaler_servers",
    "gauge",
    "Servers reported by their provider: creating, running, deleting, failed.",
    ("group", "state"),
)
GROUP_ORDERS = Named(
    "dds_autoscaler_orders",
    "gauge",
    "Ordered servers without a node: creating, failed, returned.",
    ("group", "state"),
)
PODS_WAITING = Named(
    "dds_autoscaler_waiting_pods",
    "gauge",
    "Waiting pods by what would let them run: device, server, nothing.",
    ("case",),
)
SERVERS_AGE = Named(
    "dds_autoscaler_servers_answer_age_seconds", "gauge", "Seconds since the provider's last complete answer."
)
RPCS = Named(
    "dds_autoscaler_rpcs_total",
    "counter",
    "Calls of Cluster Autoscaler by gRPC code.",
    ("method", "code"),
)
RPC = Named(
    "dds_autoscaler_rpc_duration_seconds",
    "histogram",
    "Seconds to answer a call of Cluster Autoscaler.",
    ("method",),
    _CALLS,
)

GROUP_CATALOGUE: Final[tuple[Named, ...]] = (
    *(one for one in list(globals().values()) if isinstance(one, Named) and one not in (*CATALOGUE, *POOL_CATALOGUE)),
    *map(named_for("autoscaler"), _OF_A_LOG),
)
"""The autoscaler's metrics in the order of this file, then those of its log."""


# -- instruments ---------------------------------------------------------------------------------------------------------

_I = TypeVar("_I", bound=MetricWrapperBase)


class Labelled(Generic[_I]):
    """Caches an instrument's children by label values. The client's own look-up takes a lock, which slows the deciding thread."""

    __slots__ = ("_children", "_instrument")

    def __init__(self, instrument: _I) -> None:
        self._instrument = instrument
        self._children: dict[tuple[Hashable, ...], _I] = {}

    def __getitem__(self, values: tuple[str, ...]) -> _I:
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._instrument.labels(*values)
        return child


def counter(named: Named, registry: CollectorRegistry) -> Counter:
    return Counter(named.name, named.help, named.labels, registry=registry)


def counters(named: Named, registry: CollectorRegistry) -> Labelled[Counter]:
    return Labelled(counter(named, registry))


def gauge(named: Named, registry: CollectorRegistry) -> Gauge:
    return Gauge(named.name, named.help, named.labels, registry=registry)


def histogram(named: Named, registry: CollectorRegistry) -> Histogram:
    return Histogram(named.name, named.help, named.labels, buckets=named.buckets, registry=registry)


def histograms(named: Named, registry: CollectorRegistry) -> Labelled[Histogram]:
    return Labelled(histogram(named, registry))
