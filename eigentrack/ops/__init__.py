"""The recurrences H_t = A(x_t) H_{t-1} + B(x_t): one folder per op, several backends, one layout [B, T, H, ·]."""

from eigentrack.ops.delta_rule.op import delta_rule as delta_rule
from eigentrack.ops.dense_scan.op import dense_scan as dense_scan
from eigentrack.ops.gated_linear.op import gated_linear as gated_linear
from eigentrack.ops.low_rank.op import low_rank as low_rank
from eigentrack.ops.lstm.op import lstm as lstm
from eigentrack.ops.mlstm.op import mlstm as mlstm
from eigentrack.ops.one_hot_scan.op import one_hot_scan as one_hot_scan
from eigentrack.ops.s4d.op import s4d as s4d
from eigentrack.ops.selective_scan.op import selective_scan as selective_scan
from eigentrack.ops.shared.batch_invariance import batch_invariant as batch_invariant
from eigentrack.ops.slstm.op import slstm as slstm
