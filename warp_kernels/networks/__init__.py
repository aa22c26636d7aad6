"""Dense networks as Warp functions: forward and backward passes, heads, losses, advantages and Adam."""
