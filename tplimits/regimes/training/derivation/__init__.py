"""Recursions of networks in training, and the operator of an optimizer."""
