//! docs/conflicts.md is what the code does.
//!
//! Invariant: the blocks between `generated` marks equal what is derived from the matrix here.
//! `UPDATE_EXPECT=1` rewrites them.

use std::fs;
use std::path::Path;

use tarndb_txn::Operation;
use tarndb_txn::aspect::{Aspect, CatalogAspect};
use tarndb_txn::matrix::{ASYMMETRIES, MANAGED};
use tarndb_txn::property::{
    COPY_ON_WRITE, ENABLE_DELETION_VECTORS, HARMLESS_FEATURES, HARMLESS_KEYS, SWITCHES,
};
use tarndb_txn::rule::Rule;
use tarndb_txn::strict;

#[test]
fn page_equals_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conflicts.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut expected = page.clone();
    let blocks = [
        ("operations", operations()),
        ("aspects", aspects()),
        ("tables", tables()),
        ("catalog", catalog()),
        ("rules", rules()),
        ("asymmetries", asymmetries()),
        ("properties", properties()),
        ("strict-matrix", strict_matrix()),
        ("strict-operations", strict_operations()),
        ("strict-rules", strict_rules()),
        ("strict-asymmetries", strict_asymmetries()),
    ];
    for (name, text) in blocks {
        let mark = format!("<!-- generated: {name} -->\n");
        let start = expected.find(&mark).expect(name) + mark.len();
        let end = start + expected[start..].find("<!-- end -->").expect(name);
        expected.replace_range(start..end, &text);
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() && page != expected {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/conflicts.md differs from the code; run UPDATE_EXPECT=1 cargo test -p tarndb-txn"
    );
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    format!(
        "| {} |\n",
        cells.into_iter().collect::<Vec<_>>().join(" | ")
    )
}

fn table(head: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    rows.into_iter()
        .fold(row(head) + &rule, |text, cells| text + &row(cells))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn operations() -> String {
    let names: Vec<_> = Operation::ALL
        .iter()
        .map(|operation| code(operation.name()))
        .collect();
    format!("{}.\n", names.join(", "))
}

fn aspects() -> String {
    let numbered = (1..).zip(Aspect::ALL.iter());
    numbered
        .map(|(number, aspect)| format!("{number}. {}\n", aspect.name()))
        .collect()
}

fn tables() -> String {
    let mut head = vec!["ours \\ theirs".to_owned()];
    head.extend((1..=Aspect::committed().count()).map(|number| number.to_string()));
    let rows = (1..).zip(Aspect::ALL.iter()).map(|(number, ours)| {
        let mut cells = vec![format!("{number} {}", ours.name())];
        let rules = Aspect::committed().map(|theirs| MANAGED.rule(*ours, theirs).unwrap());
        cells.extend(rules.map(|rule| rule.code().to_owned()));
        cells
    });
    table(head, rows)
}

fn catalog() -> String {
    let mut head = vec!["ours \\ theirs".to_owned()];
    head.extend(CatalogAspect::committed().map(|theirs| theirs.name().to_owned()));
    let rows = CatalogAspect::ALL.iter().map(|ours| {
        let mut cells = vec![ours.name().to_owned()];
        let rules =
            CatalogAspect::committed().map(|theirs| MANAGED.catalog_rule(*ours, theirs).unwrap());
        cells.extend(rules.map(|rule| rule.code().to_owned()));
        cells
    });
    table(head, rows)
}

fn rules() -> String {
    let rows = Rule::ALL
        .iter()
        .map(|rule| vec![code(rule.code()), rule.text().to_owned()]);
    table(vec!["rule".to_owned(), "outcome".to_owned()], rows)
}

fn asymmetries() -> String {
    let rows = ASYMMETRIES.iter().map(|asymmetry| {
        let pair = format!("{} / {}", asymmetry.first.name(), asymmetry.second.name());
        vec![pair, asymmetry.why.to_owned()]
    });
    table(
        vec!["pair".to_owned(), "why the order matters".to_owned()],
        rows,
    )
}

fn properties() -> String {
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|name| code(name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let rows = [
        (
            "properties that no writer obeys, besides all without `delta.`",
            list(HARMLESS_KEYS),
        ),
        (
            "features that may be raised beside any data",
            list(HARMLESS_FEATURES),
        ),
        (
            "properties that writers that delete rows obey",
            list(&[ENABLE_DELETION_VECTORS, COPY_ON_WRITE]),
        ),
        ("properties that bind later writers only", list(SWITCHES)),
    ];
    let rows = rows.map(|(what, names)| vec![what.to_owned(), names]);
    table(vec!["kind".to_owned(), "names".to_owned()], rows)
}

fn strict_matrix() -> String {
    let mut head = vec!["ours \\ theirs".to_owned()];
    head.extend(
        strict::LanceKind::ALL
            .iter()
            .map(|kind| kind.short().to_owned()),
    );
    let rows = strict::LanceKind::ALL.iter().map(|ours| {
        let cells = strict::LanceKind::ALL.iter().map(|theirs| {
            let rules = strict::matrix::STRICT.rules(*ours, *theirs).iter();
            rules.map(|rule| rule.code()).collect::<Vec<_>>().join(" ")
        });
        std::iter::once(ours.short().to_owned())
            .chain(cells)
            .collect()
    });
    table(head, rows)
}

fn strict_operations() -> String {
    let rows = strict::LanceKind::ALL.iter().map(|kind| {
        let name = kind.name().to_owned();
        vec![kind.short().to_owned(), name, kind.text().to_owned()]
    });
    let head = ["short", "operation", "what it does"];
    table(head.map(str::to_owned).to_vec(), rows)
}

fn strict_rules() -> String {
    let rows = strict::Rule::ALL
        .iter()
        .map(|rule| vec![code(rule.code()), rule.text().to_owned()]);
    table(vec!["rule".to_owned(), "outcome".to_owned()], rows)
}

fn strict_asymmetries() -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for pair in strict::matrix::ASYMMETRIES {
        let names = format!("{} / {}", pair.first, pair.second);
        match rows.iter_mut().find(|row| row[1] == pair.why) {
            Some(row) => row[0] += &format!(", {names}"),
            None => rows.push(vec![names, pair.why.to_owned()]),
        }
    }
    table(
        vec!["pairs".to_owned(), "why the order matters".to_owned()],
        rows,
    )
}
