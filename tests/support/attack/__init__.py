"""Hostile cases at every way into the package: files, names, arguments, command lines; each a seed and nothing else."""
