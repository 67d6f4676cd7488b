"""The texts and vocabularies that all contenders get."""
