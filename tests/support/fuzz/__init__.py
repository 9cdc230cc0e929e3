"""Random programs, networks, blocks and training runs, made adversarial on purpose, and judged at finite width."""
