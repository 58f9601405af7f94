"""How fast it is: traces of requests in, measurements with their n and conditions out."""
