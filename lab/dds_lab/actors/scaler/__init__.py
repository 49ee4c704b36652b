"""A stand-in for a device scaler, after the reference one and with its faults, so that a cluster runs without the real
thing."""

from dds_lab.actors.scaler.scaler import Scaler as Scaler
from dds_lab.actors.scaler.view import ScalerSettings as ScalerSettings
