"""Gate: the promises of documents are run in clones of both editions, and must hold."""
