"""What Quarto runs before and after it renders the book. Standard library only."""
