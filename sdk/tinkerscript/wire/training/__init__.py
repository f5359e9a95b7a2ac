"""What the options of a training session mean, shared by server and runtime."""
