"""A log, or a part of it, as a file of JSON lines, plain or gzipped: export, archive and reading.

Files are written whole or not at all, and read line by line. The format is `dds_core.log.codec`'s.
"""

from dds_adapters.jsonl.reading import JsonlLog, is_log_file
from dds_adapters.jsonl.writing import archive, export, redact_file

__all__ = ["JsonlLog", "archive", "export", "is_log_file", "redact_file"]
