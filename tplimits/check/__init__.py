"""Is it true: the program itself at finite widths, and a verdict on its limit."""
