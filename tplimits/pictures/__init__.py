"""Pictures of results, drawn by Matplotlib, which is an extra: drawn from arrays, knowing nothing of what made them."""
