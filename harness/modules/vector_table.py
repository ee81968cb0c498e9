"""Sentence vectors of an encoder that never changes, for a whole corpus at once."""

import numpy as np
import torch
from torch import Tensor

SHARE_OF_MEMORY = 0.5
"""Of a GPU's free memory, what a table of vectors may take."""


class VectorTable:
    """Vectors made beforehand, looked up by number: on the GPU where they fit, else read from the disk's cache."""

    def __init__(self, vectors: np.ndarray, device: torch.device) -> None:
        """`vectors`: (rows, ..., width), memory-mapped."""
        self.device = device
        self.on_disk = vectors
        self.on_device: Tensor | None = None
        if (
            device.type == "cuda"
            and vectors.nbytes < SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]
        ):
            self.on_device = torch.tensor(vectors, device=device)

    def __call__(self, rows: Tensor) -> Tensor:
        """rows: any shape -> (*rows, ..., width) on the device."""
        if self.on_device is not None:
            return self.on_device[rows]
        return torch.from_numpy(self.on_disk[rows.cpu().numpy()]).to(self.device)
