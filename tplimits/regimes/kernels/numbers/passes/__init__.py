"""A tape as compiled passes over the entries of tables: planned once, run for pairs of inputs."""
