"""PyTorch modules as programs: export, axes, exactness."""
