"""The command line: `headway VERB THING`."""
