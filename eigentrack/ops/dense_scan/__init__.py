"""Full matrices."""
