"""Samplers: every batch is a pure function of (seed, step)."""

from eigentrack.tasks.task import Batch as Batch
from eigentrack.tasks.task import Task as Task
from eigentrack.tasks.tracking import TrackingTask as TrackingTask
