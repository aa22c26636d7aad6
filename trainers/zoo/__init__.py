"""The model zoo: trained policies that come with the library."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.storage.model_zoo import about, load, put
    from trainers.storage.zoo_entries import folder, names

__all__ = ["about", "folder", "load", "names", "put"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        **dict.fromkeys(("about", "load", "put"), "trainers.storage.model_zoo"),
        **dict.fromkeys(("folder", "names"), "trainers.storage.zoo_entries"),
    },
)
