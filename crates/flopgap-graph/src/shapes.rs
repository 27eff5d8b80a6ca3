//! Sizes that a caller specifies because a file leaves them open.

use std::str::FromStr;

use crate::error::GraphError;

/// One stated shape or size: `input=8x3x224x224`, `batch=8`.
///
/// ```
/// use flopgap_graph::StatedShape;
///
/// let stated: StatedShape = "input=8x3x224x224".parse()?;
/// assert_eq!(stated.sizes, [8, 3, 224, 224]);
/// assert!("input".parse::<StatedShape>().is_err());
/// # Ok::<(), flopgap_graph::GraphError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedShape {
    /// An input or a dimension of the model.
    pub name: String,
    /// Its sizes; one for a dimension, none for a scalar.
    pub sizes: Vec<u64>,
}

impl FromStr for StatedShape {
    type Err = GraphError;

    fn from_str(text: &str) -> Result<Self, GraphError> {
        let wrong = |reason| GraphError::Shape { text: text.to_owned(), reason };
        let (name, sizes) = text.rsplit_once('=').ok_or_else(|| wrong("`=` is missing"))?;
        if name.is_empty() {
            return Err(wrong("the name before `=` is missing"));
        }
        let sizes = sizes
            .split(['x', ','])
            .filter(|size| !(sizes.is_empty() && size.is_empty()))
            .map(|size| size.trim().parse().map_err(|_| wrong("sizes are whole numbers separated by `x`")))
            .collect::<Result<Vec<u64>, _>>()?;
        Ok(StatedShape { name: name.to_owned(), sizes })
    }
}

/// All sizes that a caller specifies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shapes {
    stated: Vec<StatedShape>,
}

impl Shapes {
    /// The shape of an input or another value of this name.
    pub(crate) fn of(&self, name: &str) -> Option<&[u64]> {
        self.stated.iter().find(|stated| stated.name == name).map(|stated| stated.sizes.as_slice())
    }

    /// The size of a dimension of this name.
    pub(crate) fn dimension(&self, name: &str) -> Option<u64> {
        match self.of(name)? {
            [size] => Some(*size),
            _ => None,
        }
    }

    /// Whether the caller specifies nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.stated.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.stated.iter().map(|stated| stated.name.as_str())
    }
}

impl FromIterator<StatedShape> for Shapes {
    fn from_iter<I: IntoIterator<Item = StatedShape>>(stated: I) -> Self {
        Shapes { stated: stated.into_iter().collect() }
    }
}

/// Sizes in the form of an option.
pub(crate) fn written(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_or_refused_with_the_reason() {
        let read = |text: &str| text.parse::<StatedShape>();
        assert_eq!(read("batch=8").unwrap().sizes, [8]);
        assert_eq!(read("x=8,3").unwrap().sizes, [8, 3]);
        assert_eq!(read("a=b=2").unwrap(), StatedShape { name: "a=b".to_owned(), sizes: vec![2] });
        assert!(read("scalar=").unwrap().sizes.is_empty());
        for (text, message) in [
            ("x", "invalid shape `x`: `=` is missing"),
            ("=3", "invalid shape `=3`: the name before `=` is missing"),
            ("x=3x-1", "invalid shape `x=3x-1`: sizes are whole numbers separated by `x`"),
            ("x=3xx4", "invalid shape `x=3xx4`: sizes are whole numbers separated by `x`"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
        let shapes: Shapes = [read("x=2x3").unwrap(), read("n=4").unwrap()].into_iter().collect();
        assert_eq!(
            (shapes.of("x"), shapes.dimension("x"), shapes.dimension("n")),
            (Some(&[2, 3][..]), None, Some(4))
        );
    }
}
