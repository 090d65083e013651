"""Image captioning. Xu et al. 2015; Rothe et al. 2020."""
