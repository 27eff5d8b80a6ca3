//! The networks' kernels, compiled before anything is timed.
//!
//! NVRTC takes seconds for some of them and works on one core: all that will be needed are compiled at once, on all cores.

use std::any::Any;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flopgap_gpu::Context;
use flopgap_mlp::MlpError;
use flopgap_mlp::dense::cuda::{Implementation, Model};
use flopgap_mlp::dense::{Element, Network, Precision};
use half::{bf16, f16};

use crate::options::Bench;

/// Which network, in which precision, by which implementation.
type Key = (usize, Precision, Implementation);
/// A [`Model`] of the key's precision, or why there is none.
type Built = Result<Box<dyn Any + Send>, MlpError>;

/// Models without parameters, each to be taken once.
pub(crate) struct Models(Vec<(Key, Built)>);

impl Models {
    /// Of every network, precision and implementation.
    pub(crate) fn build(
        context: &Context,
        networks: &[(String, Network)],
        precisions: &[Precision],
        bench: &Bench,
    ) -> Self {
        let mut keys: Vec<Key> = Vec::new();
        for network in 0..networks.len() {
            for &precision in precisions {
                keys.extend(bench.implementations().into_iter().map(|by| (network, precision, by)));
            }
        }
        let next = AtomicUsize::new(0);
        let built = Mutex::new(Vec::new());
        let work = || {
            while let Some(&key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (network, precision, implementation) = key;
                let (network, options) = (&networks[network].1, bench.options(implementation));
                let model: Built = match precision {
                    Precision::F32 => Model::<f32>::new(context, network, options).map(boxed),
                    Precision::F16 => Model::<f16>::new(context, network, options).map(boxed),
                    Precision::Bf16 => Model::<bf16>::new(context, network, options).map(boxed),
                };
                if let Ok(mut built) = built.lock() {
                    built.push((key, model));
                }
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(keys.len());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        Models(built.into_inner().unwrap_or_default())
    }

    /// One of them. `None` if it was taken before.
    pub(crate) fn take<T: Element>(
        &mut self,
        network: usize,
        implementation: Implementation,
    ) -> Option<Result<Model<T>, MlpError>> {
        let key = (network, T::PRECISION, implementation);
        let at = self.0.iter().position(|(found, _)| *found == key)?;
        match self.0.swap_remove(at).1 {
            Ok(model) => Some(Ok(*model.downcast().ok()?)),
            Err(error) => Some(Err(error)),
        }
    }
}

fn boxed<T: Element>(model: Model<T>) -> Box<dyn Any + Send> {
    Box::new(model)
}
