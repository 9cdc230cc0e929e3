"""Training that is recorded and watched: finite widths beside their limit."""
