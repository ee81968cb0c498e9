"""What an encoder is worth: one function a task family."""
