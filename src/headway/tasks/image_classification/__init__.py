"""Classification of images and sounds. Dosovitskiy et al. 2021."""
