"""Classification of texts and of text pairs into classes, and regression.

Radford et al. 2018, sections 3.2 and 3.3; Devlin et al. 2019, section 4.1.
"""
