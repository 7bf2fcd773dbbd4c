"""The framework: modules that all code may import, and the wings; pyproject.toml lists the allowed imports."""
