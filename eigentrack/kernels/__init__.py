"""GPU kernels: only `@triton.jit` functions and their launches. Importing a module of this package imports triton."""
