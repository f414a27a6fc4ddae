"""eigentrack: linear RNNs that can track state.

    from eigentrack import EigenRange, ModelConfig, SequenceModel

The public names are imported on first use, so that `import eigentrack` itself is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigentrack.lm.hugging_face import EigentrackConfig as EigentrackConfig
    from eigentrack.lm.hugging_face import EigentrackForCausalLM as EigentrackForCausalLM
    from eigentrack.models import ModelConfig as ModelConfig
    from eigentrack.models import SequenceModel as SequenceModel
    from eigentrack.models import load_model as load_model
    from eigentrack.models import save_model as save_model
    from eigentrack.ops import batch_invariant as batch_invariant
    from eigentrack.spectrum import EigenDisk as EigenDisk
    from eigentrack.spectrum import EigenPolygon as EigenPolygon
    from eigentrack.spectrum import EigenRange as EigenRange

__version__ = "0.1.0"

_HOMES = {
    "EigenDisk": "eigentrack.spectrum",
    "EigenPolygon": "eigentrack.spectrum",
    "EigenRange": "eigentrack.spectrum",
    "EigentrackConfig": "eigentrack.lm.hugging_face",
    "EigentrackForCausalLM": "eigentrack.lm.hugging_face",
    "ModelConfig": "eigentrack.models",
    "SequenceModel": "eigentrack.models",
    "batch_invariant": "eigentrack.ops",
    "load_model": "eigentrack.models",
    "save_model": "eigentrack.models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eigentrack' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
