"""Which limit a parametrization has: inequalities between exponents, and powers of n counted on the program."""
