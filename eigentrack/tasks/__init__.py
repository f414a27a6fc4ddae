"""Tasks to train and test models on; every batch that a task draws is a pure function of (seed, step)."""

from eigentrack.tasks.task import Batch as Batch
from eigentrack.tasks.task import Task as Task
from eigentrack.tasks.tracking import TrackingTask as TrackingTask
