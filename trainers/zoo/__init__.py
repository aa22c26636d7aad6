"""The model zoo: trained policies that come with the library."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.storage.checkpoint import zoo_folder as folder
    from trainers.storage.checkpoint import zoo_names as names
    from trainers.storage.model_zoo import about, load, put

__all__ = ["about", "folder", "load", "names", "put"]

__getattr__, __dir__ = lazy_exports(__name__)
