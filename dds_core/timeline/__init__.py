"""Timelines: in words, what happened to a claim, a device, a node or a pool, when, why, and who did it.

A timeline is made from moments, which `dds_core.replay` makes of a replay (`of_steps`) or of a log (`moments`). Each component
brings its own words (`Component.telling`).
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
