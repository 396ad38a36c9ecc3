"""What bench/instructions consists of."""
