"""Kernels as text, LaTeX, and an outline that repeats layers once."""
