"""The recurrences H_t = A(x_t) H_{t-1} + B(x_t): one op each, several backends, one layout [B, T, H, ·]."""

from eigentrack.recurrence.ops import delta_rule as delta_rule
from eigentrack.recurrence.ops import dense_scan as dense_scan
from eigentrack.recurrence.ops import gated_linear as gated_linear
from eigentrack.recurrence.ops import low_rank as low_rank
from eigentrack.recurrence.ops import lstm as lstm
from eigentrack.recurrence.ops import mlstm as mlstm
from eigentrack.recurrence.ops import s4d as s4d
from eigentrack.recurrence.ops import selective_scan as selective_scan
from eigentrack.recurrence.ops import slstm as slstm
