"""Autograd wrappers of the Triton kernels; importing a module of this package imports triton."""
