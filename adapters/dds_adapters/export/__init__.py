"""The histories of claims and devices in the forms of other tools: Perfetto's traces, OTLP, CSV.

`otlp` and `perfetto` are imported from their modules: these need the extra `export`.
"""

from dds_adapters.export.story import Story
from dds_adapters.export.tables import TABLES, csv_table

__all__ = ["TABLES", "Story", "csv_table"]
