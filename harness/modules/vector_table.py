"""A table of vectors that were made beforehand, on the GPU or in memory-mapped files."""

import numpy as np
import torch
from torch import Tensor

SHARE_OF_MEMORY = 0.5
"""The most that a table may take of a GPU's free memory"""


class VectorTable:
    """Vectors that are looked up by number, on the GPU where they fit, else on disk."""

    def __init__(self, vectors: np.ndarray, device: torch.device) -> None:
        """vectors: (rows, ..., width), memory-mapped. device: where the results go."""
        self.device = device
        self.on_disk = vectors
        self.on_device: Tensor | None = None
        # A share of the free memory: method, optimiser and activations need the rest.
        if device.type == "cuda" and vectors.nbytes < SHARE_OF_MEMORY * _free_memory(device):
            self.on_device = torch.tensor(vectors, device=device)

    def __call__(self, rows: Tensor) -> Tensor:
        """Numbers of any shape -> their vectors, (*shape, ..., width), on the device."""
        if self.on_device is not None:
            return self.on_device[rows]
        return torch.from_numpy(self.on_disk[rows.cpu().numpy()]).to(self.device)


def _free_memory(device: torch.device) -> float:
    """The bytes of a GPU that this process may still take; a share of a GPU has a cap."""
    free, total = torch.cuda.mem_get_info(device)
    cap = torch.cuda.get_per_process_memory_fraction(device) * total
    return min(free, cap - torch.cuda.memory_reserved(device))
