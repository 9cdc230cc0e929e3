"""Functions of the scalars of a block: by their Taylor series, at kinks, and where they fluctuate by order 1."""
