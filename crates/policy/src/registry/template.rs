//! Templates for the arguments of a probe or a compensation.

use serde_json::Value;
use thiserror::Error;

/// Why a template cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The call has no key.
    #[error("the template uses `$key`, but the call has no idempotency key")]
    KeyMissing,
    /// The call has no such argument.
    #[error("the template uses `$args{pointer}`, but the call has no such argument")]
    ArgumentMissing {
        /// The pointer.
        pointer: String,
    },
    /// The template has an unknown variable.
    #[error("the template uses `{text}`, which is none of `$key`, `$call`, `$args/…`, `$$…`")]
    Unknown {
        /// The text.
        text: String,
    },
}

/// Fills a template: a whole string `$key`, `$call` or `$args/POINTER` is replaced, and `$$…` gives `$…`.
///
/// # Errors
/// [`TemplateError`] when the call lacks a value that the template uses.
pub fn fill_template(
    template: &Value,
    key: Option<&str>,
    call_id: &str,
    args: &Value,
) -> Result<Value, TemplateError> {
    Ok(match template {
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
        Value::String(text) => fill_text(text, key, call_id, args)?,
        Value::Array(list) => Value::Array(
            list.iter()
                .map(|value| fill_template(value, key, call_id, args))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| Ok((name.clone(), fill_template(value, key, call_id, args)?)))
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn fill_text(
    text: &str,
    key: Option<&str>,
    call_id: &str,
    args: &Value,
) -> Result<Value, TemplateError> {
    let Some(rest) = text.strip_prefix('$') else { return Ok(text.into()) };
    match rest {
        "key" => key.map(Value::from).ok_or(TemplateError::KeyMissing),
        "call" => Ok(call_id.into()),
        _ if rest.starts_with('$') => Ok(rest.into()),
        _ => {
            let unknown = || TemplateError::Unknown { text: text.to_owned() };
            let pointer = rest.strip_prefix("args").ok_or_else(unknown)?;
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(unknown());
            }
            let missing = || TemplateError::ArgumentMissing { pointer: pointer.to_owned() };
            args.pointer(pointer).cloned().ok_or_else(missing)
        }
    }
}

/// Checks that a template uses only known variables.
pub(super) fn check(template: &Value) -> Result<(), TemplateError> {
    match template {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => match fill_text(text, Some(""), "", &Value::Null) {
            Err(error @ TemplateError::Unknown { .. }) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        },
        Value::Array(list) => list.iter().try_for_each(check),
        Value::Object(map) => map.values().try_for_each(check),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_strings_are_replaced() {
        let template = json!({ "k": "$key", "c": ["$call"], "a": "$args/x/0", "e": "$$key", "t": "a $key", "n": 1 });
        let filled = fill_template(&template, Some("K"), "C", &json!({ "x": [{ "y": 2 }] }));
        assert_eq!(
            filled,
            Ok(
                json!({ "k": "K", "c": ["C"], "a": { "y": 2 }, "e": "$key", "t": "a $key", "n": 1 })
            )
        );
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let fill = |template| fill_template(&template, None, "C", &json!({}));
        assert_eq!(fill(json!("$key")), Err(TemplateError::KeyMissing));
        assert_eq!(
            fill(json!("$args/x")),
            Err(TemplateError::ArgumentMissing { pointer: "/x".into() })
        );
        assert_eq!(fill(json!("$other")), Err(TemplateError::Unknown { text: "$other".into() }));
        assert!(check(&json!({ "a": ["$argsx"] })).is_err());
        assert!(check(&json!({ "a": ["$args/x", "$key", "$call"] })).is_ok());
    }
}
