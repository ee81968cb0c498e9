"""Trained encoders on their way out: folders of sentence-transformers, ONNX, the Hub."""
