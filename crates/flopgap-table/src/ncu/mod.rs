//! Tables of Nsight Compute reports.

mod columns;
mod counters;
mod launches;
mod views;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flopgap_kernels::Classifier;

use self::columns::Metrics;
use self::views::Views;
use crate::finding::Finding;
use crate::info::Named;
use crate::table::Rows;
use crate::{Error, Table};

pub(crate) const TABLES: [Named; 2] = [
    Named { name: "launches", about: "Kernel launches, each with all its metrics." },
    Named { name: "counters", about: "Metrics of launches, one a row." },
];

/// A report.
#[derive(Debug, Default)]
pub(crate) struct Ncu {
    classifier: Arc<Classifier>,
    /// Its metrics, known once all of it has been read.
    metrics: OnceLock<Arc<Metrics>>,
    warnings: Arc<Mutex<Vec<flopgap_ncu::Warning>>>,
}

impl Ncu {
    pub(crate) fn findings(&self, path: &Path) -> Vec<Finding> {
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let finding = |warning: &flopgap_ncu::Warning| Finding {
            text: warning.of_file(path),
            is_loss: warning.kind.is_loss(),
        };
        warnings.iter().map(finding).collect()
    }

    fn metrics(&self, path: &Path) -> Result<Arc<Metrics>, Error> {
        if let Some(metrics) = self.metrics.get() {
            return Ok(metrics.clone());
        }
        let mut views = Views::open(path, false, self.warnings.clone())?;
        let metrics = Metrics::new(&mut views)?;
        Ok(self.metrics.get_or_init(|| Arc::new(metrics)).clone())
    }

    pub(crate) fn table(&self, path: &Arc<Path>, name: &str) -> Result<Option<Table>, Error> {
        let Some(info) = TABLES.into_iter().find(|table| table.name == name) else { return Ok(None) };
        let it = (info.name, info.about);
        let (file, warnings) = (path.clone(), self.warnings.clone());
        if name == "counters" {
            let columns = counters::columns(&self.classifier);
            return Ok(Some(Table::new(path, it, columns, move || {
                let views = Views::open(&file, false, warnings.clone())?;
                Ok(Box::new(counters::Counters::new(views)) as Rows<counters::Counter>)
            })));
        }
        let metrics = self.metrics(path)?;
        let columns = launches::columns(&metrics, &self.classifier);
        let classifier = self.classifier.clone();
        Ok(Some(Table::new(path, it, columns, move || {
            let views = Views::open(&file, metrics.apart, warnings.clone())?;
            let launches = launches::Launches::new(views, metrics.clone(), classifier.clone());
            Ok(Box::new(launches) as Rows<launches::Row>)
        })))
    }
}
