"""What dds writes in several steps: the tables of their stages."""

from __future__ import annotations

from dds_core.kit.stages import Stages
from dds_core.scaler.hold import HOLD

PROTOCOLS: tuple[Stages, ...] = (HOLD,)
