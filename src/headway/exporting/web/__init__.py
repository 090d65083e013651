"""A model as a web page: one HTML file that computes without a server and without a network."""
