"""The stores. Each knows the seam; none knows another, the board, or what is above."""
