"""Self-distillation: an image encoder that learns without labels. Caron et al. 2021 (DINO)."""
