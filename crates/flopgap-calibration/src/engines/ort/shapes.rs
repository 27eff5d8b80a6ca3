//! Sizes that a model leaves open.

use std::collections::BTreeMap;

use crate::engines::error::EngineError;

/// Sizes by name: of one dimension (`batch`: 8), or of all dimensions of an input (`input`: 8, 3,
/// 224, 224).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shapes(pub(super) BTreeMap<String, Vec<u64>>);

impl Shapes {
    /// Names and sizes of single dimensions.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().filter_map(|(name, sizes)| match sizes[..] {
            [size] => Some((name.as_str(), i64::try_from(size).ok()?)),
            _ => None,
        })
    }

    /// The sizes of an input: its own where it is named, else those of the model, and of its open
    /// dimensions those that are named.
    pub(super) fn resolve(
        &self,
        input: &str,
        shape: &[i64],
        symbols: &[String],
    ) -> Result<Vec<i64>, EngineError> {
        let open = |what: String| EngineError::Unsupported {
            engine: super::runtime::NAME,
            what: format!("a model whose input {input:?} has the shape {}", described(shape, symbols)),
            reason: what,
        };
        if let Some(sizes) = self.0.get(input).filter(|sizes| sizes.len() == shape.len()) {
            return sizes
                .iter()
                .map(|&size| i64::try_from(size).map_err(|_| open(format!("{size} is too large"))))
                .collect();
        }
        let mut sizes = Vec::with_capacity(shape.len());
        for (place, &size) in shape.iter().enumerate() {
            let symbol = symbols.get(place).map_or("", String::as_str);
            let given = self.dimensions().find(|(name, _)| *name == symbol && !symbol.is_empty());
            match (size >= 0, given) {
                (true, _) => sizes.push(size),
                (false, Some((_, size))) => sizes.push(size),
                (false, None) if symbol.is_empty() => {
                    return Err(open(format!("a dimension is open; specify `{input}=SIZES`")));
                }
                (false, None) => {
                    return Err(open(format!("dimension {symbol} is open; specify `{symbol}=SIZE`")));
                }
            }
        }
        Ok(sizes)
    }
}

/// `batch x 3 x ? x 224`
fn described(shape: &[i64], symbols: &[String]) -> String {
    let each = shape.iter().enumerate().map(|(place, size)| match (size, symbols.get(place)) {
        (0.., _) => size.to_string(),
        (_, Some(symbol)) if !symbol.is_empty() => symbol.clone(),
        _ => "?".to_owned(),
    });
    each.collect::<Vec<_>>().join(" x ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(all: &[(&str, &[u64])]) -> Shapes {
        Shapes(all.iter().map(|(name, sizes)| ((*name).to_owned(), sizes.to_vec())).collect())
    }

    #[test]
    fn open_dimensions_are_those_that_are_named() {
        let symbols = ["batch".to_owned(), String::new()];
        let of = |given: &Shapes| given.resolve("x", &[-1, 64], &symbols);
        assert_eq!(of(&shapes(&[("batch", &[8])])).unwrap(), [8, 64]);
        assert_eq!(of(&shapes(&[("x", &[4, 64])])).unwrap(), [4, 64]);
        let message = of(&Shapes::default()).unwrap_err().to_string();
        assert_eq!(
            message,
            "ort cannot run a model whose input \"x\" has the shape batch x 64: dimension batch is open; specify `batch=SIZE`"
        );
        let nameless = Shapes::default().resolve("x", &[-1], &[String::new()]).unwrap_err().to_string();
        assert!(nameless.ends_with("specify `x=SIZES`") && nameless.contains("shape ?"), "{nameless}");
    }
}
