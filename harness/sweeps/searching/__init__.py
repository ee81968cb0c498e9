"""The searches while they run: samplers, studies, scores, and the course of each."""
