"""How operations of PyTorch are written in the language of programs."""
