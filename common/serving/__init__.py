"""A run behind HTTP: TensorFlow Serving's REST API, with batches of concurrent requests, and a page to try the model."""
