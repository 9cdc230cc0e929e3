"""Loops over arrays (`tplimits.program.loops.form`) as compiled code."""
