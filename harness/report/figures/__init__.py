"""Figures of a store: of sweeps, of papers, and of embeddings."""
