"""Distillation: a small student is trained to reproduce the outputs and hidden states of a teacher.

Jiao et al. 2020 (TinyBERT). The teacher's task reads the examples and evaluates the students.
"""
