"""Conformance: questions that a real API server has answered, asked of any server, and what differs.

The questions and answers are data (`data/`, of kube-apiserver 1.36.2). Nothing here knows how the lab's server works: it
is asked over HTTP like every other, through a kubeconfig.
"""

from dds_lab.conform.asking import Report, run
from dds_lab.conform.questions import KNOWN, REWORDED, Known, Question, questions, questions_after_restart, table
from dds_lab.conform.transport import Answer, Ask, CouldNotAsk, Transport

__all__ = [
    "KNOWN",
    "REWORDED",
    "Answer",
    "Ask",
    "CouldNotAsk",
    "Known",
    "Question",
    "Report",
    "Transport",
    "questions",
    "questions_after_restart",
    "run",
    "table",
]
