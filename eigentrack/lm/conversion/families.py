"""The foreign checkpoints that are ours under other names, by the model_type of their config.json."""

from __future__ import annotations

from eigentrack.lm.conversion.flash_linear_attention import DELTA_NET, GATED_DELTA_NET, GATED_DELTA_PRODUCT
from eigentrack.lm.conversion.mamba import MAMBA, MAMBA2
from eigentrack.lm.conversion.olmo_hybrid import OLMO_HYBRID

FAMILIES = {family.name: family for family in (MAMBA, MAMBA2, OLMO_HYBRID, DELTA_NET, GATED_DELTA_NET, GATED_DELTA_PRODUCT)}
