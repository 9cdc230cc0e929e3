"""Optimizers as exact update functions Q_t(g_0, …, g_t) that act entry by entry."""
