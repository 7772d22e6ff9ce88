//! The table of properties and the forms of their values.

use super::*;

#[test]
fn every_property_stands_once_in_order_and_its_default_is_well_formed() {
    for (before, after) in PROPERTIES.iter().zip(PROPERTIES.iter().skip(1)) {
        assert!(before.key < after.key, "{} {}", before.key, after.key);
    }
    for property in PROPERTIES {
        let key = property.key;
        assert!(key.starts_with("delta."), "{key}");
        assert!(
            property
                .default
                .is_none_or(|value| property.form.accepts(value)),
            "{key}"
        );
        if let Duty::Only(value, _) = property.duty {
            assert!(property.form.accepts(value), "{key}");
        }
    }
}

#[test]
fn forms_accept_what_they_say() {
    let cases: &[(Form, &[&str], &[&str])] = &[
        (
            Form::Boolean,
            &["true", "FALSE", " true "],
            &["", "1", "yes"],
        ),
        (Form::Count(-1), &["-1", "0", "32"], &["-2", "x", "1.5", ""]),
        (Form::Count(1), &["1"], &["0"]),
        (
            Form::Duration,
            &["interval 1 week", "2 days 3 hours"],
            &["interval 1 month", "1", "week"],
        ),
        (Form::Word(&["classic", "v2"]), &["V2"], &["v3", ""]),
        (Form::Text, &["", "x"], &[]),
    ];
    for (form, good, bad) in cases {
        for value in *good {
            assert!(form.accepts(value), "{form:?} {value:?}");
        }
        for value in *bad {
            assert!(!form.accepts(value), "{form:?} {value:?}");
        }
    }
}

#[test]
fn foreign_value_that_is_malformed_counts_as_the_default() {
    let key = "delta.appendOnly";
    let with = |value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    assert!(is_on(&with("TRUE"), key));
    assert!(!is_on(&with("yes"), key));
    assert!(!is_on(&BTreeMap::new(), key));
}

#[test]
fn family_of_keys_is_one_row() {
    assert!(find("delta.constraints.positive").is_some());
    assert!(find("delta.inCommitTimestampEnablementVersion").is_some());
    assert!(find("delta.appendOnlyX").is_none());
    assert!(find("delta.something.new").is_none());
}
