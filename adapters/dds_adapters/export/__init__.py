"""The histories of claims and devices in the forms of other tools: Perfetto's traces, OTLP, CSV."""

from dds_adapters.export.otlp import otlp
from dds_adapters.export.perfetto import perfetto
from dds_adapters.export.story import Story
from dds_adapters.export.tables import TABLES, csv_table

__all__ = ["TABLES", "Story", "csv_table", "otlp", "perfetto"]
