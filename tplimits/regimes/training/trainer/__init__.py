"""Networks in training as generated loops: finite widths, and limits of means over neurons."""
