"""Word vectors (word2vec), trained by predicting neighbouring words. Mikolov et al. 2013."""
