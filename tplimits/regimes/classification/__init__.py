"""Which limit a parametrization has."""
