"""The pure core of the dynamic device scaler: it decides, and never does I/O, reads a clock or starts a thread.

Facts go in (`Engine.feed`), decisions and transitions come out (`Step`), and both belong into one log (`EventLog`). What is
exported here is the public interface; docs/api.md tells it with examples. The events are in `dds_core.events`, the objects
they speak of in `dds_core.model`, every exception in `dds_core.errors`.
"""

from dds_core import errors, events, model
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.component import Component, component_named, component_of
from dds_core.engine import EngineOf, Step, new_event
from dds_core.events import difference
from dds_core.fingerprint import FINGERPRINT
from dds_core.kit.deadlines import Deadline
from dds_core.lifecycle import (
    CLAIM_STATES,
    CLAIM_TABLE,
    DEVICE_STATES,
    DEVICE_TABLE,
    Edge,
    claim_machine,
    claim_target,
    device_target,
    mermaid,
)
from dds_core.log import Envelope, EventLog, EventSource, Group, Head, MemoryLog, NewEvent, verify_chain
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.policy import PublishPolicy, read_publish_policy
from dds_core.publisher.state import PoolPicture
from dds_core.replay import (
    Difference,
    LoggedGroup,
    Redecided,
    VerifyReport,
    event_of,
    fold_log,
    groups,
    re_decide,
    verify,
)
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.deadlines import Agenda, deadlines
from dds_core.scaler.fold import apply
from dds_core.scaler.policy import Policy, from_reference, read_policy
from dds_core.scaler.rules import decide
from dds_core.scaler.state import PROJECTION, Picture, dump, load

__version__ = "0.1.0.dev0"
"""Of the whole distribution; pyproject.toml reads it here."""

__all__ = [
    "AUTOSCALER",
    "CLAIM_STATES",
    "CLAIM_TABLE",
    "DEVICE_STATES",
    "DEVICE_TABLE",
    "FINGERPRINT",
    "PROJECTION",
    "PUBLISHER",
    "SCALER",
    "Agenda",
    "Component",
    "Deadline",
    "Difference",
    "Edge",
    "Engine",
    "EngineOf",
    "Envelope",
    "EventLog",
    "EventSource",
    "Group",
    "Head",
    "LoggedGroup",
    "MemoryLog",
    "NewEvent",
    "Picture",
    "Policy",
    "PoolPicture",
    "PublishPolicy",
    "Redecided",
    "Step",
    "VerifyReport",
    "apply",
    "claim_machine",
    "claim_target",
    "component_named",
    "component_of",
    "deadlines",
    "decide",
    "device_target",
    "difference",
    "dump",
    "errors",
    "event_of",
    "events",
    "fold_log",
    "from_reference",
    "groups",
    "load",
    "mermaid",
    "model",
    "new_event",
    "re_decide",
    "read_policy",
    "read_publish_policy",
    "verify",
    "verify_chain",
]
