"""Adapters of a parser to vLLM and SGLang. `make plugin` puts their sources into its files."""
