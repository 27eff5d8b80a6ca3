//! A cache of convolution plans.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use flopgap_gpu::dnn::{Convolution, ConvolutionPlan};
use flopgap_graph::Epilogue;

/// The part of an epilogue that cuDNN computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    All,
    AllButActivation,
    Nothing,
}

/// Plans by what they compute: choosing an engine takes milliseconds, and layers of a network are
/// alike, as are the sessions of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Plans(Mutex<HashMap<(Convolution, Epilogue), (ConvolutionPlan, Share)>>);

impl Plans {
    pub(super) fn get(&self, key: &(Convolution, Epilogue)) -> Option<(ConvolutionPlan, Share)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(super) fn keep(&self, key: (Convolution, Epilogue), plan: (ConvolutionPlan, Share)) {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        plans.insert(key, plan);
    }
}

/// The number of cached plans: more than a network has.
const MOST_PLANS: usize = 256;
