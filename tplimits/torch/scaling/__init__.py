"""What a training script sets as a model is widened: plans, and checks of coordinates."""
