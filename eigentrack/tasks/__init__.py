"""Samplers: every batch is a pure function of (seed, step)."""

from eigentrack.tasks.batch import Batch as Batch
from eigentrack.tasks.parity import Parity as Parity
