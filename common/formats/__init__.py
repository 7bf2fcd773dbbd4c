"""The files that users have: tables, lines of text, images, downloads; what is in them."""
