"""Functions of scalars that vary within the errors of the means over particles that they are made of."""
