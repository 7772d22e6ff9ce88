//! Rules over small batches.

use std::sync::Arc;

use arrow_array::{Float64Array, Int32Array, StringArray, new_null_array};
use serde_json::json;

use super::*;
use crate::schema::{DataType, Field};

fn with(mut field: Field, metadata: &[(&str, serde_json::Value)]) -> Field {
    for (key, value) in metadata {
        field.metadata.insert((*key).to_owned(), value.clone());
    }
    field
}

/// id IDENTITY, n INT NOT NULL DEFAULT 5, twice GENERATED AS (n * 2), s VARCHAR(3).
fn schema() -> Schema {
    let identity = Identity {
        start: 10,
        step: 10,
        mark: None,
        explicit: false,
    };
    let mut id = Field::new("id", DataType::Long, true);
    id.metadata = identity.metadata();
    Schema::new(vec![
        id,
        with(
            Field::new("n", DataType::Integer, false),
            &[(CURRENT_DEFAULT, json!("5"))],
        ),
        with(
            Field::new("twice", DataType::Integer, true),
            &[(GENERATION_EXPRESSION, json!("N * 2"))],
        ),
        with(
            Field::new("s", DataType::String, true),
            &[(CHAR_VARCHAR, json!("varchar(3)"))],
        ),
    ])
}

fn rules_of(schema: Schema, constraints: &[(&str, &str)]) -> Result<RowRules, TableError> {
    let properties = constraints
        .iter()
        .map(|(name, text)| (format!("{CONSTRAINT_PREFIX}{name}"), (*text).to_owned()))
        .collect();
    RowRules::new(Arc::new(schema), &properties, 0)
}

fn rules(constraints: &[(&str, &str)]) -> RowRules {
    rules_of(schema(), constraints).unwrap()
}

fn batch(n: Vec<Option<i32>>, twice: Vec<Option<i32>>, s: Vec<Option<&str>>) -> RecordBatch {
    let rows = n.len();
    let schema = Supplied::new(vec![Supply::Omitted; 4]).input_schema(&schema());
    let columns: Vec<ArrayRef> = vec![
        new_null_array(&DataType::Long.to_arrow(), rows),
        Arc::new(Int32Array::from(n)),
        Arc::new(Int32Array::from(twice)),
        Arc::new(StringArray::from(s)),
    ];
    RecordBatch::try_new(schema.to_arrow(), columns).unwrap()
}

fn supplied(names: &[&str]) -> Supplied {
    Supplied::only(&schema(), names).unwrap()
}

fn shown(batch: &RecordBatch) -> Vec<String> {
    (0..batch.num_rows())
        .map(|row| row_text(batch, row, &schema()))
        .collect()
}

fn error(result: Result<RecordBatch, TableError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn omitted_columns_get_identity_default_and_generated_values() {
    let mut rules = rules(&[]);
    let rows = batch(vec![None, None], vec![None, None], vec![Some("a"), None]);
    let filled = rules.apply(&rows, &supplied(&["S"])).unwrap();
    assert_eq!(
        shown(&filled),
        [
            "id = 10, n = 5, twice = 10, s = \"a\"",
            "id = 20, n = 5, twice = 10, s = NULL"
        ]
    );
    let more = rules.apply(&rows.slice(0, 1), &supplied(&["s"])).unwrap();
    assert_eq!(shown(&more), ["id = 30, n = 5, twice = 10, s = \"a\""]);
    let used = rules.identities_used();
    assert_eq!((used[0].before, used[0].after), (None, 30));
    // Filling again what is filled changes nothing.
    let again = rules.fill(&filled, &supplied(&["s"])).unwrap();
    assert_eq!(again, filled);
}

#[test]
fn an_explicit_null_is_not_the_default() {
    let rows = batch(vec![None], vec![None], vec![None]);
    let text = error(rules(&[]).apply(&rows, &supplied(&["n"])));
    assert!(
        text.contains("NULL in a NOT NULL column: column=n"),
        "{text}"
    );
}

#[test]
fn a_generated_column_that_is_given_must_agree() {
    let names = supplied(&["n", "twice", "s"]);
    let right = batch(
        vec![Some(2), Some(3)],
        vec![Some(4), Some(6)],
        vec![None; 2],
    );
    assert!(rules(&[]).apply(&right, &names).is_ok());
    let wrong = batch(vec![Some(2), Some(3)], vec![Some(4), None], vec![None; 2]);
    let text = error(rules(&[]).apply(&wrong, &names));
    assert!(
        text.contains("column twice is generated and 1 row(s)") && text.contains("N * 2"),
        "{text}"
    );
}

#[test]
fn a_condition_that_is_null_is_broken() {
    let rows = batch(
        vec![Some(1), Some(2), Some(3)],
        vec![None; 3],
        vec![Some("a"), None, Some("b")],
    );
    let names = supplied(&["n", "s"]);
    let text = error(rules(&[("named", "s <> 'b'")]).apply(&rows, &names));
    assert!(
        text.contains("CHECK constraint named is not true for 2 row(s)")
            && text.contains("id = 20, n = 2, twice = 4, s = NULL"),
        "{text}"
    );
    assert!(rules(&[("named", "n > 0")]).apply(&rows, &names).is_ok());
}

#[test]
fn invariants_are_conditions_also_of_nested_fields() {
    let inner = with(
        Field::new("b", DataType::Integer, true),
        &[(
            INVARIANTS,
            json!(r#"{"expression":{"expression":"a.b > 3"}}"#),
        )],
    );
    let schema = Schema::new(vec![Field::new("a", DataType::Struct(vec![inner]), true)]);
    let rules = rules_of(schema, &[]).unwrap();
    assert_eq!(rules.conditions.len(), 1);
    let broken = with(
        Field::new("x", DataType::Integer, true),
        &[(INVARIANTS, json!("x > 3"))],
    );
    let text = rules_of(Schema::new(vec![broken]), &[]).unwrap_err();
    assert!(text.to_string().contains("invariant of column x"), "{text}");
}

#[test]
fn lengths_are_kept_and_blanks_beyond_them_cut() {
    let names = supplied(&["n", "s"]);
    let rows = batch(vec![Some(1)], vec![None], vec![Some("abc  ")]);
    let filled = rules(&[]).apply(&rows, &names).unwrap();
    assert!(shown(&filled)[0].ends_with("s = \"abc\""));
    let rows = batch(vec![Some(1)], vec![None], vec![Some("abcd")]);
    let text = error(rules(&[]).apply(&rows, &names));
    assert!(text.contains("column s holds varchar(3)"), "{text}");
}

#[test]
fn values_for_a_column_that_is_always_numbered_are_refused_but_may_be_kept() {
    let rows = batch(vec![Some(1)], vec![None], vec![None]);
    let text = error(rules(&[]).apply(&rows, &supplied(&["id", "n"])));
    assert!(text.contains("GENERATED ALWAYS AS IDENTITY"), "{text}");
    let kept = Supplied::new(vec![
        Supply::Kept,
        Supply::Given,
        Supply::Omitted,
        Supply::Kept,
    ]);
    assert!(rules(&[]).apply(&rows, &kept).is_ok());
}

#[test]
fn an_update_computes_generated_columns_whose_inputs_change() {
    let rules = rules(&[]);
    let change = |place: usize| rules.supplied_by_update(|at| at == place);
    assert_eq!(change(1).of(2), Supply::Omitted);
    assert_eq!(change(3).of(2), Supply::Kept);
    assert_eq!(change(2).of(2), Supply::Given);
}

#[test]
fn identity_values_go_on_beyond_the_mark_in_either_direction() {
    let next = |start, step, mark| {
        let identity = Identity {
            start,
            step,
            mark,
            explicit: true,
        };
        identity.next()
    };
    for (start, step, mark, expected) in [
        (1, 1, None, Some(1)),
        (1, 1, Some(7), Some(8)),
        (1, 10, Some(15), Some(21)),
        (1, 10, Some(-15), Some(1)),
        (0, -3, Some(-4), Some(-6)),
        (0, -3, Some(4), Some(0)),
        (i64::MAX - 1, 1, Some(i64::MAX - 1), Some(i64::MAX)),
        (i64::MAX - 1, 1, Some(i64::MAX), None),
        (i64::MIN + 1, -2, Some(i64::MIN + 1), None),
    ] {
        assert_eq!(next(start, step, mark), expected, "{start} {step} {mark:?}");
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_stops_writing_by_name() {
    for (text, expected) in [
        ("rlike(s, 'x')", "the function rlike()"),
        ("nope > 1", "column=nope"),
    ] {
        let error = rules_of(schema(), &[("c", text)]).unwrap_err().to_string();
        assert!(
            error.contains("CHECK constraint c") && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn rules_that_other_engines_refuse_are_not_made() {
    let check = |schema: &Schema, constraint: &str| {
        let properties = [(format!("{CONSTRAINT_PREFIX}c"), constraint.to_owned())].into();
        RowRules::check_new(schema, &properties).map_err(|error| error.to_string())
    };
    assert!(check(&schema(), "n > 0").is_ok());
    assert!(check(&schema(), "now() IS NOT NULL").is_err());
    assert!(check(&schema(), "n + 1").is_err());
    let generated = |text: &str| {
        let mut schema = schema();
        let field = Field::new("g", DataType::Integer, true);
        let field = with(field, &[(GENERATION_EXPRESSION, json!(text))]);
        schema.fields.push(field);
        check(&schema, "true").unwrap_err()
    };
    assert!(generated("twice + 1").contains("it uses the generated column twice"));
    assert!(generated("g + 1").contains("it uses the generated column g"));
    assert!(generated("year(now())").contains("time of the statement"));
    let both = with(
        Field::new("x", DataType::Long, true),
        &[
            (CURRENT_DEFAULT, json!("1")),
            (IDENTITY_START, json!(1)),
            (IDENTITY_STEP, json!(1)),
        ],
    );
    let error = check(&Schema::new(vec![both]), "true").unwrap_err();
    assert!(error.contains("only one of"), "{error}");
}

#[test]
fn fingerprints_tell_rules_apart_and_ignore_marks() {
    let base = rules(&[]);
    let mut moved = schema();
    moved.fields[0]
        .metadata
        .insert(IDENTITY_MARK.to_owned(), json!(70));
    let moved = rules_of(moved, &[]).unwrap();
    assert_eq!(base.fingerprint(), moved.fingerprint());
    assert_ne!(base.fingerprint(), rules(&[("a", "n > 0")]).fingerprint());
    let plain = Schema::new(vec![Field::new("x", DataType::Long, false)]);
    assert!(rules_of(plain, &[]).unwrap().fingerprint().is_empty());
}

#[test]
fn negative_zero_and_nan_agree_with_what_is_generated() {
    let schema = Schema::new(vec![
        Field::new("x", DataType::Double, true),
        with(
            Field::new("y", DataType::Double, true),
            &[(GENERATION_EXPRESSION, json!("-x"))],
        ),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(vec![0.0, f64::NAN])),
        Arc::new(Float64Array::from(vec![0.0, f64::NAN])),
    ];
    let rows = RecordBatch::try_new(schema.to_arrow(), columns).unwrap();
    let all = Supplied::all(&schema);
    assert!(rules_of(schema, &[]).unwrap().apply(&rows, &all).is_ok());
}
