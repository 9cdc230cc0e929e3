"""What a user types: values, tracing a Python function, names, refusals, programs inside programs."""
