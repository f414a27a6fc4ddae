"""Mamba's selective scan."""
