"""Spreading: one factor a token instead of n, by n tokens a letter: the letter, then n - 1 fillers (the paper's E.3)."""

from __future__ import annotations

from dataclasses import replace

from eigentrack.compiler.plan import Block, Channel, Delay, Head, Move, Plan, Products


def spread(plan: Plan) -> Plan:
    """A convolution remembers how long ago the letter was; each token then makes one factor of its move."""
    (block,) = plan.blocks
    if not isinstance(block.mixer, Products) or block.mixer.gated:
        raise ValueError("only one layer of products without a gate can be spread over several tokens")
    factors = block.mixer.householders
    if factors == 1:
        return plan
    channels = plan.channels
    lines: list[tuple[Channel, Channel, int]] = []
    inputs = list(block.mixer.inputs)
    for lag in range(1, factors):
        for letter in block.mixer.inputs:
            lines.append((letter, channels, lag))
            inputs.append(channels)
            channels += 1
    heads = tuple(_one_factor_each(head, factors) for head in block.mixer.heads)
    blocks = (Block(Delay(tuple(lines))), Block(Products(tuple(inputs), heads, gated=False)))
    return replace(
        plan, blocks=blocks, channels=channels, tokens_per_letter=factors, construction=f"{plan.construction}-spread"
    )


def _one_factor_each(head: Head, factors: int) -> Head:
    moves = tuple(Move(move.factors[lag : lag + 1]) for lag in range(factors) for move in head.moves)
    return replace(head, moves=moves)
