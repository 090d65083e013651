"""What a person sees in a terminal: messages, results and the progress of a run."""
