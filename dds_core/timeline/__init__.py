"""Timelines: what happened to a claim, a device or a node, when, why, and who did it, in words.

Told from moments, which come from a replay (`of_steps`) or from a log (`moments`). Pure: what is told here changes
nothing, and nothing here decides.
"""

from dds_core.timeline.diagram import path_diagram
from dds_core.timeline.entries import Entry, Note, timeline
from dds_core.timeline.moments import Moment, moments, of_steps
from dds_core.timeline.subjects import NAMING, AmbiguousSubject, Directory, NoSuchSubject, Subject, naming
from dds_core.timeline.text import LEGEND, as_data, render_lines, render_text

__all__ = [
    "LEGEND",
    "NAMING",
    "AmbiguousSubject",
    "Directory",
    "Entry",
    "Moment",
    "NoSuchSubject",
    "Note",
    "Subject",
    "as_data",
    "moments",
    "naming",
    "of_steps",
    "path_diagram",
    "render_lines",
    "render_text",
    "timeline",
]
