//! The JSON Schemas of the journal's documents, generated from the kernel's types.

use anyhow::{Context as _, Result};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use windlass_kernel::artifact::{ActionRequest, SupervisorDecision, ToolCall, ToolEffect};
use windlass_kernel::{
    Entry, ExecutionState, Machine, ReplayPoint, SCHEMA_VERSION, State, is_call_artifact,
};

use crate::output::File;

const FOLDER: &str = "schemas/tga/v1";

/// The schema files, and the description of the dashboard's API.
pub fn files() -> Result<Vec<File>> {
    Ok(vec![
        file::<ExecutionState>("execution_state", ExecutionState::SCHEMA_ID)?,
        file::<Entry>("execution_log_entry", Machine::Call.schema_id())?,
        file::<ReplayPoint>("execution_checkpoint", ReplayPoint::SCHEMA_ID)?,
        file::<ActionRequest>("action_request", ActionRequest::SCHEMA_ID)?,
        file::<SupervisorDecision>("supervisor_decision", SupervisorDecision::SCHEMA_ID)?,
        file::<ToolCall>("tool_call", ToolCall::SCHEMA_ID)?,
        file::<ToolEffect>("tool_effect", ToolEffect::SCHEMA_ID)?,
        File::json("schemas/dashboard/v1/openapi.json", &windlass_dashboard::description())?,
        notification()?,
    ])
}

/// The schema of what receivers get. It is not exact: fields may be added.
fn notification() -> Result<File> {
    let path = "schemas/notify/v1/notification.schema.json";
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<windlass_notify::Body<'static>>();
    schema.insert("$id".to_owned(), json!(format!("https://windlass.dev/{path}")));
    schema.insert("title".to_owned(), json!("Windlass notification"));
    File::json(path, &schema.to_value())
}

fn file<T: JsonSchema>(name: &str, schema_id: &str) -> Result<File> {
    let path = format!("{FOLDER}/{name}.schema.json");
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), json!(format!("https://windlass.dev/{path}")));
    schema.insert("title".to_owned(), json!(title(name)));
    let mut schema = schema.to_value();
    make_exact(&mut schema);
    if schema_id == Machine::Call.schema_id() {
        allow_absent(&mut schema);
    }
    keep_call_names(&mut schema)?;
    for (field, value) in [("schema_id", schema_id), ("schema_version", SCHEMA_VERSION)] {
        let pointer = format!("/properties/{field}");
        let property = schema.pointer_mut(&pointer).and_then(Value::as_object_mut);
        property
            .context("a document has the field of its schema")?
            .insert("const".to_owned(), json!(value));
    }
    File::json(path, &schema)
}

/// `tool_call` as `TGA tool call`.
fn title(name: &str) -> String {
    format!("TGA {}", name.replace('_', " "))
}

/// Makes every object exact: all of its fields are required, nullable ones too, and there are no others.
fn make_exact(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                let required = required_fields(map, properties);
                map.insert("required".to_owned(), Value::Array(required));
                map.insert("additionalProperties".to_owned(), json!(false));
            }
            map.values_mut().for_each(make_exact);
        }
        Value::Array(items) => items.iter_mut().for_each(make_exact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The fields of an entry that may be absent, which means null.
const ABSENT: [&str; 2] = ["idempotency_key", "tool_call_id"];

/// Takes the fields that may be absent out of those that are required.
fn allow_absent(schema: &mut Value) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|field| field.as_str().is_none_or(|field| !ABSENT.contains(&field)));
    }
}

/// All fields: those that are required already, in their order, then the others by name.
fn required_fields(map: &Map<String, Value>, properties: &Map<String, Value>) -> Vec<Value> {
    let mut required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut missing: Vec<Value> =
        properties.keys().map(|key| json!(key)).filter(|key| !required.contains(key)).collect();
    missing.sort_by_key(ToString::to_string);
    required.extend(missing);
    required
}

/// Keeps only the states and artifact types that a call's documents may have.
fn keep_call_names(schema: &mut Value) -> Result<()> {
    let states: Vec<&str> = State::ALL
        .iter()
        .filter(|state| state.machine() == Machine::Call)
        .map(|state| state.as_str())
        .collect();
    let artifacts: Vec<&str> = windlass_kernel::ArtifactType::ALL
        .iter()
        .filter(|artifact| is_call_artifact(**artifact))
        .map(|artifact| artifact.as_str())
        .collect();
    for (definition, names) in [("State", states), ("ArtifactType", artifacts)] {
        if schema.pointer(&format!("/$defs/{definition}")).is_none() {
            continue;
        }
        let choices = schema.pointer_mut(&format!("/$defs/{definition}/oneOf"));
        let choices =
            choices.and_then(Value::as_array_mut).context("a list of names is a `oneOf`")?;
        choices.retain(|choice| {
            choice.get("const").and_then(Value::as_str).is_some_and(|name| names.contains(&name))
        });
        anyhow::ensure!(choices.len() == names.len(), "`{definition}` lacks a name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jsonschema::Validator;

    use super::*;
    use crate::output::{Mode, write_or_check};
    use crate::vectors;

    fn validator(name: &str) -> Validator {
        let files = files().unwrap();
        let file = files
            .iter()
            .find(|file| file.path == Path::new(FOLDER).join(format!("{name}.schema.json")))
            .unwrap();
        let schema: Value = serde_json::from_str(&file.text).unwrap();
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        jsonschema::draft202012::new(&schema).unwrap()
    }

    fn machine() -> Value {
        let files = vectors::files().unwrap();
        serde_json::from_str(&files.first().unwrap().text).unwrap()
    }

    fn rows<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
        let rows = value.get(field).unwrap().as_array().unwrap();
        assert!(!rows.is_empty() || field != "valid_chains");
        rows.iter()
    }

    #[test]
    fn the_committed_schemas_and_vectors_are_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        write_or_check(root, &files().unwrap(), Mode::Check, "schemas").unwrap();
        write_or_check(root, &vectors::files().unwrap(), Mode::Check, "vectors").unwrap();
    }

    #[test]
    fn every_object_is_exact() {
        fn check(schema: &Value) {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
                let required = schema.get("required").unwrap().as_array().unwrap();
                let absent = properties.keys().filter(|key| !required.contains(&json!(key)));
                let absent: Vec<&str> = absent.map(String::as_str).collect();
                assert!(absent.is_empty() || absent == ABSENT, "{absent:?}");
            }
            match schema {
                Value::Object(map) => map.values().for_each(check),
                Value::Array(items) => items.iter().for_each(check),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        for file in files().unwrap().iter().filter(|file| file.path.starts_with(FOLDER)) {
            check(&serde_json::from_str(&file.text).unwrap());
        }
    }

    #[test]
    fn the_schema_accepts_exactly_the_entries_that_the_vectors_say() {
        let (entry, machine) = (validator("execution_log_entry"), machine());
        for chain in rows(&machine, "valid_chains") {
            rows(chain, "entries").for_each(|value| entry.validate(value).unwrap());
        }
        let mut refused = 0;
        for chain in rows(&machine, "invalid_chains") {
            let bad = chain.get("schema_invalid_at").unwrap().as_u64();
            for (place, value) in (1..).zip(rows(chain, "entries")) {
                let name = chain.get("name").unwrap();
                assert_eq!(entry.is_valid(value), bad != Some(place), "{name} at {place}");
            }
            refused += u32::from(bad.is_some());
        }
        assert!(refused > 20);
    }

    #[test]
    fn artifacts_are_valid_only_with_all_fields_and_no_others() {
        let machine = machine();
        for chain in rows(&machine, "valid_chains") {
            for artifact in rows(chain, "artifacts") {
                let name = artifact.get("artifact_type").unwrap().as_str().unwrap();
                let validator = validator(name);
                let body = artifact.get("body").unwrap();
                validator.validate(body).unwrap();
                for field in body.as_object().unwrap().keys() {
                    let mut less = body.clone();
                    less.as_object_mut().unwrap().remove(field);
                    assert!(!validator.is_valid(&less), "{name} without {field}");
                }
                let mut more = body.clone();
                more.as_object_mut().unwrap().insert("note".to_owned(), Value::Null);
                assert!(!validator.is_valid(&more), "{name} with a note");
            }
        }
    }

    #[test]
    fn checkpoints_and_states_are_valid() {
        let machine = machine();
        let (state, checkpoint) = (validator("execution_state"), validator("execution_checkpoint"));
        rows(&machine, "states").for_each(|row| state.validate(row.get("state").unwrap()).unwrap());
        // What a schema can detect; the digests detect the rest.
        let malformed = [
            "schema-version",
            "schema-id",
            "upper-case-digest",
            "timestamp",
            "unknown-field",
            "unknown-field-in-the-state",
            "forged-state-of-a-run",
        ];
        for row in rows(&machine, "checkpoints") {
            let name = row.get("name").unwrap().as_str().unwrap();
            let valid = checkpoint.is_valid(row.get("checkpoint").unwrap());
            assert_eq!(valid, !malformed.contains(&name), "{name}");
        }
    }
}
