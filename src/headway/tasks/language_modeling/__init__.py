"""Language modelling: a decoder (GPT) that predicts every token from the tokens before it."""
