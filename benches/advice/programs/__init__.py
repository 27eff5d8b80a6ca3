"""The programs, by what limits them. Importing this package registers all experiments."""

from . import device, healthy, host, inputs, jobs  # noqa: F401
