"""From one layer to drift, diffusion and a root of it."""
