"""mini_vllm: a small, real engine for the text path of LLM serving."""

__version__ = "0.1.0"
