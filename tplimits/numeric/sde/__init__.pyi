from . import simulation as simulation
