//! Descriptors of cuDNN's graph API: objects with attributes, of fixed value once they are
//! finalized.

use std::ffi::c_void;
use std::ptr;

use cudarc::cudnn::sys;
use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendAttributeType_t as Type;
use sys::cudnnBackendDescriptorType_t as Kind;

use super::api::{Api, Object};
use crate::error::GpuError;

/// A descriptor, destroyed when dropped.
#[derive(Debug)]
pub(super) struct Descriptor {
    api: &'static Api,
    object: Object,
}

// SAFETY: a descriptor belongs to no thread, and nothing changes it once it is finalized.
unsafe impl Send for Descriptor {}
// SAFETY: as above; before that, it is changed through `&mut` alone.
unsafe impl Sync for Descriptor {}

/// A value that an attribute may have: its type in the library.
pub(super) trait Value: Copy {
    const TYPE: Type;
}

/// Numbers of enumerations, as the library takes them; read back, they may be ones that the
/// bindings do not know.
macro_rules! enumeration {
    ($($name:ident $kind:ident: $what:literal)*) => {
        $(
            #[doc = $what]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
            #[repr(transparent)]
            pub(super) struct $name(pub(super) u32);

            impl Value for $name {
                const TYPE: Type = Type::$kind;
            }

            impl Readable for $name {}
        )*
    };
}

enumeration! {
    DataType CUDNN_TYPE_DATA_TYPE: "How elements are stored or computed with."
    ConvolutionMode CUDNN_TYPE_CONVOLUTION_MODE: "Whether the kernel is mirrored."
    PointwiseMode CUDNN_TYPE_POINTWISE_MODE: "A function of each element."
    HeuristicMode CUDNN_TYPE_HEUR_MODE: "Which heuristic ranks the engines."
    KnobType CUDNN_TYPE_KNOB_TYPE: "What a knob of an engine sets."
    NumericalNote CUDNN_TYPE_NUMERICAL_NOTE: "What an engine does to numbers."
    BehaviorNote CUDNN_TYPE_BEHAVIOR_NOTE: "What else an engine does."
}

/// Values that may be read back: any bits are one.
pub(super) trait Readable: Value + Default {}
impl Readable for i64 {}

impl Value for i64 {
    const TYPE: Type = Type::CUDNN_TYPE_INT64;
}
impl Value for f32 {
    const TYPE: Type = Type::CUDNN_TYPE_FLOAT;
}
impl Value for f64 {
    const TYPE: Type = Type::CUDNN_TYPE_DOUBLE;
}
impl Value for bool {
    const TYPE: Type = Type::CUDNN_TYPE_BOOLEAN;
}

/// An address on the device or null.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Address(pub(super) u64);

impl Value for Address {
    const TYPE: Type = Type::CUDNN_TYPE_VOID_PTR;
}

impl Descriptor {
    pub(super) fn new(api: &'static Api, kind: Kind) -> Result<Self, GpuError> {
        let mut object = ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        let status = unsafe { (api.create_descriptor)(kind as u32, &raw mut object) };
        api.check("create a descriptor of cuDNN", status)?;
        Ok(Descriptor { api, object })
    }

    pub(super) fn object(&self) -> Object {
        self.object
    }

    /// Sets an attribute to one or more values.
    pub(super) fn set<T: Value>(&mut self, name: Name, values: &[T]) -> Result<&mut Self, GpuError> {
        // SAFETY: so many values of the type lie there.
        unsafe { self.set_raw(name, T::TYPE, values.len(), values.as_ptr().cast()) }
    }

    /// Sets an attribute to other descriptors. The library keeps what it needs of them.
    pub(super) fn set_descriptors(
        &mut self,
        name: Name,
        values: &[&Descriptor],
    ) -> Result<&mut Self, GpuError> {
        let objects: Vec<Object> = values.iter().map(|value| value.object).collect();
        let kind = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        // SAFETY: so many descriptors, which are alive.
        unsafe { self.set_raw(name, kind, objects.len(), objects.as_ptr().cast()) }
    }

    /// Sets the handle.
    pub(super) fn set_handle(&mut self, name: Name, handle: Object) -> Result<&mut Self, GpuError> {
        // SAFETY: one handle; it is alive.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_HANDLE, 1, (&raw const handle).cast()) }
    }

    /// # Safety
    /// `count` values of this type lie at `values`.
    unsafe fn set_raw(
        &mut self,
        name: Name,
        kind: Type,
        count: usize,
        values: *const c_void,
    ) -> Result<&mut Self, GpuError> {
        let count = signed(count)?;
        // SAFETY: the caller's promise; the library copies the values.
        let status =
            unsafe { (self.api.set_attribute)(self.object, name as u32, kind as u32, count, values) };
        self.api.check("describe an operation to cuDNN", status)?;
        Ok(self)
    }

    /// Checks the attributes; they cannot be changed afterwards.
    pub(super) fn finalize(self) -> Result<Self, GpuError> {
        // SAFETY: the descriptor is alive.
        let status = unsafe { (self.api.finalize)(self.object) };
        self.api.check("prepare an operation of cuDNN", status)?;
        Ok(self)
    }

    /// The values of an attribute, at most `most`.
    pub(super) fn get<T: Readable>(&self, name: Name, most: usize) -> Result<Vec<T>, GpuError> {
        let mut values = vec![T::default(); most];
        // SAFETY: the library writes at most so many values, of a type that any bits are a value
        // of.
        let count = unsafe { self.get_raw(name, T::TYPE, values.len(), values.as_mut_ptr().cast()) }?;
        values.truncate(count);
        Ok(values)
    }

    /// How many values an attribute has.
    pub(super) fn count(&self, name: Name, kind: Type) -> Result<usize, GpuError> {
        // SAFETY: none are requested.
        unsafe { self.get_raw(name, kind, 0, ptr::null_mut()) }
    }

    /// The descriptors of an attribute, at most `most`.
    pub(super) fn descriptors(&self, name: Name, kind: Kind, most: usize) -> Result<Vec<Self>, GpuError> {
        let made: Result<Vec<Self>, GpuError> = (0..most).map(|_| Descriptor::new(self.api, kind)).collect();
        let mut made = made?;
        let mut objects: Vec<Object> = made.iter().map(|one| one.object).collect();
        let kind = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        // SAFETY: the library fills at most so many descriptors, which exist.
        let count = unsafe { self.get_raw(name, kind, objects.len(), objects.as_mut_ptr().cast()) }?;
        made.truncate(count);
        Ok(made)
    }

    /// # Safety
    /// There is room for `count` values of this type at `values`.
    unsafe fn get_raw(
        &self,
        name: Name,
        kind: Type,
        count: usize,
        values: *mut c_void,
    ) -> Result<usize, GpuError> {
        let (mut found, requested) = (0_i64, signed(count)?);
        // SAFETY: the caller's promise; the other pointer is valid for the call.
        let status = unsafe {
            (self.api.get_attribute)(self.object, name as u32, kind as u32, requested, &raw mut found, values)
        };
        self.api.check("ask cuDNN for an attribute", status)?;
        let found = usize::try_from(found).unwrap_or(0);
        // Some attributes count all values, also where fewer were requested.
        Ok(if values.is_null() { found } else { found.min(count) })
    }
}

impl Descriptor {
    /// Never destroys it, because something on the device may still need it.
    pub(super) fn leak(&mut self) {
        self.object = ptr::null_mut();
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if !self.object.is_null() {
            // SAFETY: it was created by the library and is destroyed once. Nothing can be done
            // about an error here.
            unsafe { (self.api.destroy_descriptor)(self.object) };
        }
    }
}

fn signed(count: usize) -> Result<i64, GpuError> {
    i64::try_from(count).map_err(|_| GpuError::TooLarge { what: "values of an attribute", value: count })
}
