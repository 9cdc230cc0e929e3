"""How far networks of finite width are from their limit: bias and covariances to order 1/n."""
