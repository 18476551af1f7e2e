"""What `interop/run` is made of. Python's standard library only; `transcript` alone needs the PyPI package jsonschema."""
