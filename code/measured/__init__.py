"""The subject of the book: every part of a Transformer that its chapters measure."""
