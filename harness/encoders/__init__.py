"""Pretrained encoders and what methods add to them: deep prompts, [CLS] prompts, poolings, heads."""
