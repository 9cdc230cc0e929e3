"""Index algebra: sums of products of tensors over tokens, their coefficients, and how they are written."""
