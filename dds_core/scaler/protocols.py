"""What dds writes in several steps: the tables of their stages."""

from __future__ import annotations

from dds_core.kit.stages import Stages
from dds_core.scaler.exchange import EXCHANGE, GUARD
from dds_core.scaler.fence import FENCE
from dds_core.scaler.hold import HOLD

PROTOCOLS: tuple[Stages, ...] = (EXCHANGE, GUARD, HOLD, FENCE)
