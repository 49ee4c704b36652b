"""The pure core of the dynamic device scaler: it decides. It does no I/O, reads no clock and starts no thread.

Facts go in (`Engine.feed`); decisions and transitions come out (`Step`); all belong into one log (`EventLog`). docs/api.md says
what is public and has examples.
"""

from dds_core import errors, events, lifecycle, log, model, replay
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.component import Component, component_of
from dds_core.engine import Step
from dds_core.events import difference
from dds_core.fingerprint import FINGERPRINT
from dds_core.log import EventLog, MemoryLog, verify_chain
from dds_core.publisher.component import PUBLISHER
from dds_core.replay import fold_log, re_decide, verify
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.policy import Policy, from_reference, read_policy
from dds_core.scaler.state import State

__version__ = "0.1.0"
"""Version of the whole distribution; pyproject.toml reads it here."""

__all__ = [
    "AUTOSCALER",
    "FINGERPRINT",
    "PUBLISHER",
    "SCALER",
    "Component",
    "Engine",
    "EventLog",
    "MemoryLog",
    "Policy",
    "State",
    "Step",
    "component_of",
    "difference",
    "errors",
    "events",
    "fold_log",
    "from_reference",
    "lifecycle",
    "log",
    "model",
    "re_decide",
    "read_policy",
    "replay",
    "verify",
    "verify_chain",
]
