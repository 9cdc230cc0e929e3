"""Programs as JSON: the only reader of such files."""
