"""Powers of n counted through a network, and what they decide."""
