"""What the server and its runtimes share as processes; a client needs none of it."""
