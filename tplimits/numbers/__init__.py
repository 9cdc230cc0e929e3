"""The number: plans, exact values, quadrature, particles."""
