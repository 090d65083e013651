"""How fast Headway is, beside other libraries: one file a claim, `make bench` prints the table."""
