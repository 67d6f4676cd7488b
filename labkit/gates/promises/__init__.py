"""Gate: what documents promise is run, in clones of both editions, to the result promised."""
