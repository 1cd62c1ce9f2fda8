"""First in, first out, without exception: a head that does not fit blocks all behind it.

General knowledge; against `fifo` under the greedy discipline it shows what head-of-line blocking costs.
"""

from simulator.policy import Ranking

policy = Ranking("submit", discipline="strict")
