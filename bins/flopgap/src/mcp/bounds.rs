//! Bounds of answers: a model reads all of them.

use serde_json::{Map, Value, json};

/// Bytes of a text at most.
const BYTES: usize = 24_000;

/// The text, cut after a line, with how much is left out.
pub(super) fn text(mut text: String) -> String {
    if text.len() <= BYTES {
        return text;
    }
    let end = text.floor_char_boundary(BYTES);
    let end = text[..end].rfind('\n').unwrap_or(end);
    let (lines, bytes) = (text[end..].trim().lines().count(), text.len() - end);
    text.truncate(end);
    text + &format!(
        "\n… cut: {lines} more lines ({bytes} bytes); use a smaller limit or part, or the command line"
    )
}

/// JSON whose lists have at most `limit` entries, and fewer if it is too long otherwise. `cut` has
/// the lengths of those that are cut.
pub(super) fn json(answer: &Value, limit: usize) -> String {
    let mut limit = limit;
    loop {
        let mut cut = Map::new();
        let kept = shortened(answer, limit, "", &mut cut);
        let kept = match kept {
            Value::Object(mut fields) if !cut.is_empty() => {
                fields.insert("cut".to_owned(), Value::Object(cut));
                Value::Object(fields)
            }
            rows if !cut.is_empty() => json!({"rows": rows, "cut": cut}),
            whole => whole,
        };
        let text = kept.to_string();
        if text.len() <= BYTES || limit <= 1 {
            return text;
        }
        limit /= 2;
    }
}

/// `path` is where the value is; its lists that are cut are entered with their lengths.
fn shortened(value: &Value, limit: usize, path: &str, cut: &mut Map<String, Value>) -> Value {
    match value {
        Value::Array(items) => {
            if items.len() > limit {
                cut.insert(
                    if path.is_empty() { "/".to_owned() } else { path.to_owned() },
                    items.len().into(),
                );
            }
            let items = items.iter().take(limit).enumerate();
            Value::Array(
                items.map(|(at, item)| shortened(item, limit, &format!("{path}/{at}"), cut)).collect(),
            )
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let of = |(key, value): (&String, &Value)| {
                (key.clone(), shortened(value, limit, &format!("{path}/{key}"), cut))
            };
            Value::Object(fields.map(of).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_after_a_line_and_says_so() {
        assert_eq!(text("a\nb".to_owned()), "a\nb");
        let long = "0123456789é\n".repeat(3_000);
        let cut = text(long.clone());
        let (kept, note) = cut.split_once("\n… cut: ").unwrap();
        assert!(kept.len() <= BYTES && long.starts_with(kept) && kept.ends_with('é'));
        let lines = 3_000 - kept.lines().count();
        assert!(note.starts_with(&format!("{lines} more lines")), "{note}");
        // One long line.
        assert!(text("é".repeat(BYTES)).len() < BYTES + 200);
    }

    #[test]
    fn lists_are_cut_and_their_lengths_said() {
        let value = json!({"a": [1, 2, 3], "b": {"c": [[1, 2, 3]]}, "d": [1]});
        let cut: Value = serde_json::from_str(&json(&value, 2)).unwrap();
        assert_eq!(cut, json!({"a": [1, 2], "b": {"c": [[1, 2]]}, "d": [1], "cut": {"/a": 3, "/b/c/0": 3}}));
        assert_eq!(json(&json!([1, 2]), 1), r#"{"cut":{"/":2},"rows":[1]}"#);
        assert_eq!(json(&json!([1, 2]), 2), "[1,2]");
        let names: Vec<String> = (0..100).map(|at| format!("{at:01000}")).collect();
        let cut: Value = serde_json::from_str(&json(&names.into(), 100)).unwrap();
        assert_eq!((cut["rows"].as_array().unwrap().len(), &cut["cut"]["/"]), (12, &json!(100)));
    }
}
