//! Buffers and views of them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use super::allocation::Allocation;

/// Memory on a device with a length and an element type.
///
/// It may be used on any stream of its device, and dropped at any time: streams wait for each other
/// where their uses of a buffer would overlap and one of them writes, and the memory is freed once
/// all work that was queued with it is done and no [`Graph`](crate::Graph) uses it. Only memory
/// that was handed to unsafe launches as a bare address is up to the caller.
///
/// Memory of others (of `cudarc`, say) is no [`DeviceSlice`]: nothing here could know who uses it.
///
/// ```compile_fail,E0277
/// # fn f(stream: flopgap_gpu::Stream, foreign: flopgap_gpu::cudarc::driver::CudaSlice<f32>) {
/// stream.download(&foreign);
/// # }
/// ```
///
/// A buffer cannot be dropped between being given to a launch and the launch:
///
/// ```compile_fail,E0505
/// # use flopgap_gpu::{Buffer, Kernel, Stream, launch::{Arguments, Launch}};
/// # fn f(stream: Stream, kernel: Kernel, x: Buffer<f32>) {
/// let arguments = Arguments::default().read(&x);
/// drop(x);
/// unsafe { Launch::new(1, 32).queue(&stream, &kernel, arguments) };
/// # }
/// ```
pub struct Buffer<T> {
    allocation: Arc<Allocation>,
    len: usize,
    elements: PhantomData<fn(T) -> T>,
}

/// A part of a [`Buffer`], to be read.
pub struct View<'a, T> {
    allocation: &'a Arc<Allocation>,
    address: u64,
    len: usize,
    elements: PhantomData<fn(T) -> T>,
}

/// A part of a [`Buffer`], to be read or written.
pub struct ViewMut<'a, T> {
    view: View<'a, T>,
    /// Nobody else has a view of the part.
    alone: PhantomData<&'a mut ()>,
}

mod sealed {
    use std::sync::Arc;

    use super::Allocation;

    /// Where memory lies.
    pub trait Place {
        #[doc(hidden)]
        fn allocation(&self) -> &Arc<Allocation>;
        #[doc(hidden)]
        fn address(&self) -> u64;
    }
}

use sealed::Place;

/// Memory on a device that can be read: a [`Buffer`], a [`View`] or a [`ViewMut`].
pub trait DeviceSlice<T>: Place {
    /// Elements.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory on a device that can be written: a [`Buffer`] or a [`ViewMut`].
pub trait DeviceSliceMut<T>: DeviceSlice<T> {}

impl<T> Buffer<T> {
    /// `allocation` has room for `len` elements.
    pub(crate) fn new(allocation: Allocation, len: usize) -> Self {
        debug_assert!(allocation.bytes() >= len * size_of::<T>());
        Buffer { allocation: Arc::new(allocation), len, elements: PhantomData }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the elements.
    pub fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// All of it, to be read.
    pub fn as_view(&self) -> View<'_, T> {
        View {
            allocation: &self.allocation,
            address: self.allocation.address(),
            len: self.len,
            elements: PhantomData,
        }
    }

    /// All of it, to be written.
    pub fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut { view: self.as_view(), alone: PhantomData }
    }

    /// A part, to be read.
    ///
    /// # Panics
    /// When it reaches beyond the buffer, like a slice of the host.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        self.as_view().part(range)
    }

    /// A part, to be written.
    ///
    /// # Panics
    /// As [`Buffer::slice`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        ViewMut { view: self.as_view().part(range), alone: PhantomData }
    }

    /// The first `middle` elements and the rest, both to be written.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn split_at_mut(&mut self, middle: usize) -> (ViewMut<'_, T>, ViewMut<'_, T>) {
        let part = |range: Range<usize>| ViewMut { view: self.as_view().part(range), alone: PhantomData };
        (part(0..middle), part(middle..self.len))
    }
}

impl<'a, T> View<'a, T> {
    fn part(&self, range: impl RangeBounds<usize>) -> View<'a, T> {
        let Range { start, end } = bounds(range, self.len);
        View {
            allocation: self.allocation,
            address: self.address + (start * size_of::<T>()) as u64,
            len: end - start,
            elements: PhantomData,
        }
    }
}

impl<T> ViewMut<'_, T> {
    /// A part of the part, to be read.
    ///
    /// # Panics
    /// As [`Buffer::slice`].
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        self.view.part(range)
    }

    /// A part of the part, to be written.
    ///
    /// # Panics
    /// As [`Buffer::slice`].
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        ViewMut { view: self.view.part(range), alone: PhantomData }
    }
}

/// The range within so many elements.
fn bounds(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&start) => start.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.checked_add(1),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => start..end,
        _ => panic!("{:?}..{:?} is not a part of {len} elements", range.start_bound(), range.end_bound()),
    }
}

macro_rules! device_slice {
    ($memory:ty, $self:ident => $allocation:expr, $address:expr, $len:expr) => {
        impl<T> Place for $memory {
            fn allocation(&$self) -> &Arc<Allocation> {
                $allocation
            }

            fn address(&$self) -> u64 {
                $address
            }
        }

        impl<T> DeviceSlice<T> for $memory {
            fn len(&$self) -> usize {
                $len
            }
        }

        impl<T> fmt::Debug for $memory {
            fn fmt(&$self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} elements at {:#x}", $len, $address)
            }
        }
    };
}

device_slice!(Buffer<T>, self => &self.allocation, self.allocation.address(), self.len);
device_slice!(View<'_, T>, self => self.allocation, self.address, self.len);
device_slice!(ViewMut<'_, T>, self => self.view.allocation, self.view.address, self.view.len);

impl<T> DeviceSliceMut<T> for Buffer<T> {}
impl<T> DeviceSliceMut<T> for ViewMut<'_, T> {}

/// Types of which any bits are a value, so that memory may be filled with any byte.
///
/// # Safety
/// It must be so, and there must be no padding.
pub unsafe trait AnyBits: cudarc::driver::DeviceRepr + cudarc::driver::ValidAsZeroBits {}

macro_rules! any_bits {
    ($($number:ty)*) => {
        $(
            // SAFETY: a number, whose bits are all in use.
            unsafe impl AnyBits for $number {}
        )*
    };
}

any_bits!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 half::f16 half::bf16);

#[cfg(test)]
mod tests {
    use super::bounds;

    #[test]
    fn ranges_are_those_of_slices() {
        assert_eq!(bounds(.., 4), 0..4);
        assert_eq!(bounds(1..=2, 4), 1..3);
        assert_eq!(bounds(4.., 4), 4..4);
        for wrong in [(3, 2), (0, 5), (5, 5)] {
            assert!(std::panic::catch_unwind(|| bounds(wrong.0..wrong.1, 4)).is_err(), "{wrong:?}");
        }
        assert!(std::panic::catch_unwind(|| bounds(0..=usize::MAX, 4)).is_err());
    }
}
