"""Evaluation mode, in which layers draw no noise, for the time of a call: afterwards the model is in the mode it was in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from eigentrack.models.sequence_model import SequenceModel

Rest = ParamSpec("Rest")
Found = TypeVar("Found")


def in_evaluation_mode(
    measure: Callable[Concatenate[SequenceModel, Rest], Found],
) -> Callable[Concatenate[SequenceModel, Rest], Found]:
    @wraps(measure)
    def measured(model: SequenceModel, *args: Rest.args, **kwargs: Rest.kwargs) -> Found:
        was_training = model.training
        model.eval()
        try:
            return measure(model, *args, **kwargs)
        finally:
            model.train(was_training)

    return measured
