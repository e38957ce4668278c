"""Help for the tests on cache servers: a stand-in for the server, and a machine to put it on."""
