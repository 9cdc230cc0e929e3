"""Limits of training as text and LaTeX."""
