"""A log, or a part of it, as a file of JSON lines, plain or gzipped: export, archive and reading.

A file is written completely or not at all, and read line by line. `dds_core.log.codec` defines the format.
"""

from dds_adapters.jsonl.reading import JsonlLog, is_log_file
from dds_adapters.jsonl.writing import archive, export, redact_file

__all__ = ["JsonlLog", "archive", "export", "is_log_file", "redact_file"]
