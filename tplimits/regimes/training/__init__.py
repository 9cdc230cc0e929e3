"""Training at infinite width: feature learning, and the operator regime."""
