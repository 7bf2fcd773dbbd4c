"""The report of a run, and the comparison of several: figures and tables from their metrics and predictions, and HTML pages."""
