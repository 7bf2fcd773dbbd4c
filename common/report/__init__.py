"""The report of a run: figures and tables from its metrics and predictions, and the HTML page with them."""
