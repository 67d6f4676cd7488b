"""Real engines and tokenizers to compare with, where `make oracles` has installed them."""
