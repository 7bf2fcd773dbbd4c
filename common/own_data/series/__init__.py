"""Series of numbers in tables: rows in the order of time, and windows of them."""
