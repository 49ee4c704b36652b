"""The simulated reference scaler, faults included, for labs that run without dds."""

from dds_lab.actors.scaler.scaler import ReferenceScaler as ReferenceScaler
