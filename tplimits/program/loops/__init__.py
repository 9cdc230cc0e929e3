"""Programs as loops over arrays: one form for everything that writes code from a program."""
