"""Parametrizations of networks: powers of the width on parameters, their starts, rates and gradients."""
