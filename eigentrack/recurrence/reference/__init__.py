"""The definitions: one sequential loop per op, written as its equation. Every other backend must agree with these."""
