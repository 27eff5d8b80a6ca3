//! The networks' kernels, compiled before anything is timed.
//!
//! NVRTC takes seconds for some of them and uses one core, so all required kernels are compiled in
//! parallel on all cores, and slow ones are reported.

use std::any::Any;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use flopgap_cli::Console;
use flopgap_gpu::Context;
use flopgap_mlp::cuda::{Compiled, Implementation, Model, Target, sources};
use flopgap_mlp::{Element, MlpError, Network, Precision};
use half::{bf16, f16};

use crate::options::Bench;

/// Sources that take longer are named.
const LONG: Duration = Duration::from_secs(2);

/// Which network, in which precision, by which implementation.
type Key = (usize, Precision, Implementation);
/// A [`Model`] of the key's precision, or the reason for its absence.
type Built = Result<Box<dyn Any + Send>, MlpError>;

/// Models without parameters, each of which can be taken once.
pub(crate) struct Models(Vec<(Key, Built)>);

impl Models {
    /// Of every network, precision and implementation.
    pub(crate) fn build(
        context: &Context,
        networks: &[(String, Network)],
        precisions: &[Precision],
        bench: &Bench,
        console: Console,
    ) -> Self {
        let mut keys: Vec<Key> = Vec::new();
        for network in 0..networks.len() {
            for &precision in precisions {
                keys.extend(bench.implementations().into_iter().map(|by| (network, precision, by)));
            }
        }
        let target = Target::new(context.device());
        let sources_of = |&(network, precision, implementation): &Key| {
            let network: &Network = &networks[network].1;
            sources(network, precision, bench.options(implementation), target).map_or(0, |all| all.len())
        };
        let total: usize = keys.iter().map(sources_of).sum();
        let progress = console.progress(total as u64, "sources of kernels compiled");
        let next = AtomicUsize::new(0);
        let built = Mutex::new(Vec::new());
        let work = || {
            while let Some(&key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (network, precision, implementation) = key;
                let ((name, network), options) = (&networks[network], bench.options(implementation));
                let observe = |compiled: Compiled<'_>| {
                    let seconds = compiled.elapsed.as_secs_f64();
                    let file = compiled.source.name();
                    let what = format!("{file} of {implementation} {precision} {name}");
                    progress.suspend(|| {
                        if compiled.elapsed > LONG {
                            console.note(format_args!("compiled {what} in {seconds:.1} s"));
                        } else {
                            console.detail(format_args!("{what}: compiled: {seconds:.3} s"));
                        }
                    });
                    progress.advance(1);
                };
                let model: Built = match precision {
                    Precision::F32 => Model::<f32>::observed(context, network, options, &observe).map(boxed),
                    Precision::F16 => Model::<f16>::observed(context, network, options, &observe).map(boxed),
                    Precision::Bf16 => {
                        Model::<bf16>::observed(context, network, options, &observe).map(boxed)
                    }
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
        progress.finish();
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
