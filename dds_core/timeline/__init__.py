"""Timelines: what happened to a claim, a device, a node or a pool, when, why, and who did it, in words.

Told from moments, which come from a replay (`of_steps`) or from a log (`moments`), by what the component brings
(`Component.told`).
"""

from dds_core.timeline.telling import AmbiguousSubject, Directory, Entry, Moment, NoSuchSubject, Note, Subject, Telling
from dds_core.timeline.text import LEGEND, as_data, path_diagram, render_lines, render_text

__all__ = [
    "LEGEND",
    "AmbiguousSubject",
    "Directory",
    "Entry",
    "Moment",
    "NoSuchSubject",
    "Note",
    "Subject",
    "Telling",
    "as_data",
    "path_diagram",
    "render_lines",
    "render_text",
]
