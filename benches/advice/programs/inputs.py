"""Programs that their input limits: a loader without workers, and copies to the GPU."""

import numpy
import torch
from experiment import experiment
from networks import Convolutions, Perceptron
from torch.utils.data import DataLoader, Dataset

from .training import adam, training


class Augmented(Dataset):
    """Images that the host crops, flips, brightens and smooths: some milliseconds a sample."""

    def __init__(self, source, size):
        self.size = size
        self.images = numpy.random.default_rng(0).integers(0, 256, (64, source, source, 3), dtype=numpy.uint8)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        random = numpy.random.default_rng(index)
        image = self.images[index % len(self.images)]
        top, left = random.integers(0, image.shape[0] - self.size, 2)
        image = image[top : top + self.size, left : left + self.size].astype(numpy.float32)
        if random.random() < 0.5:
            image = image[:, ::-1]
        image = image * random.uniform(0.8, 1.2) + random.uniform(-16, 16)
        for axis in (0, 1):
            image = 0.25 * numpy.roll(image, 1, axis) + 0.5 * image + 0.25 * numpy.roll(image, -1, axis)
        return torch.from_numpy(image.clip(0, 255).astype(numpy.uint8)), index % 64


@experiment(
    "loader-without-workers",
    cause="a DataLoader without workers augments each batch while the GPU waits",
    change="workers, prefetching and pinned memory",
    limit="input",
    advice="input-pipeline",
    also=("fuse-elementwise", "pageable-copies"),
)
def loader_without_workers(setup, after):
    samples, size = setup.size(64, 4), setup.size(160, 16)
    options = {"num_workers": setup.size(12, 1), "prefetch_factor": 4, "persistent_workers": True}
    loader = DataLoader(
        Augmented(size + size // 4, size), batch_size=samples, pin_memory=after and setup.gpu, **(options if after else {})
    )
    batches = iter(loader)
    model = Convolutions(setup.size(64, 8), 4).to(setup.device, memory_format=torch.channels_last)
    model = model.to(torch.bfloat16)

    def batch():
        image, label = next(batches)
        image = image.to(setup.device, non_blocking=after).permute(0, 3, 1, 2).to(torch.bfloat16) / 255
        return image, label.to(setup.device, non_blocking=after)

    return training(model, adam(model.parameters(), fused=True), batch)


class Prefetched:
    """Copies the next batch on a stream of its own while the GPU computes on this one."""

    def __init__(self, setup, batches):
        self.setup, self.batches, self.next = setup, batches, 0
        self.stream = setup.stream()
        self.copy()

    def copy(self):
        with self.setup.on(self.stream):
            batch = self.batches[self.next % len(self.batches)]
            self.ahead = [tensor.to(self.setup.device, non_blocking=True) for tensor in batch]
        self.next += 1

    def __call__(self):
        batch = self.ahead
        if self.setup.gpu:
            torch.cuda.current_stream().wait_stream(self.stream)
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
        self.copy()
        return batch


class Copied:
    """Copies each batch when it is needed, on the stream that computes."""

    def __init__(self, setup, batches):
        self.setup, self.batches, self.next = setup, batches, 0

    def __call__(self):
        batch = self.batches[self.next % len(self.batches)]
        self.next += 1
        return [tensor.to(self.setup.device, non_blocking=True) for tensor in batch]


def features(setup, samples, width, pinned):
    """Batches of features on the host, computed beforehand."""
    batches = [(torch.randn(samples, width), torch.randint(64, (samples,))) for _ in range(3)]
    return [tuple(setup.pinned(tensor) for tensor in batch) for batch in batches] if pinned else batches


def copying(setup, width, depth, batch):
    model = Perceptron(width, depth).to(setup.device, torch.bfloat16)
    step = training(model, adam(model.parameters(), fused=True), lambda: narrow(batch()))
    return step


def narrow(batch):
    x, target = batch
    return x.to(torch.bfloat16), target


@experiment(
    "pageable-copies",
    cause="large batches in pageable memory are copied to the GPU in every step",
    change="pinned memory, and the next batch is copied on a stream of its own",
    limit="copies",
    advice="pageable-copies",
    also=("blocking-call",),
)
def pageable_copies(setup, after):
    samples, width = setup.size(16384, 8), setup.size(2048, 16)
    batches = features(setup, samples, width, pinned=after)
    return copying(setup, width, setup.size(10, 2), (Prefetched if after else Copied)(setup, batches))


@experiment(
    "unoverlapped-copies",
    cause="large pinned batches are copied on the stream that computes, so that kernels wait for them",
    change="the next batch is copied on a stream of its own",
    limit="copies",
    limit_after="copies",
    advice="unoverlapped-copies",
)
def unoverlapped_copies(setup, after):
    samples, width = setup.size(32768, 8), setup.size(2048, 16)
    batches = features(setup, samples, width, pinned=True)
    return copying(setup, width, 2, (Prefetched if after else Copied)(setup, batches))


def images(setup, samples, size):
    """Pinned batches of images in 8 bits, with their channels last."""
    batches = []
    for _ in range(3):
        image = torch.randint(256, (samples, size, size, 3), dtype=torch.uint8)
        batches.append((setup.pinned(image), setup.pinned(torch.randint(64, (samples,)))))
    return batches


def normalized(batch):
    image, target = batch
    return image.permute(0, 3, 1, 2).to(torch.bfloat16) / 255, target
