//! MERGE against a model: the meaning of the statement over lists of rows.

use tarndb_sql::{Session, SessionOptions};

use crate::support::*;

/// `id`, `k`, `v`.
type Row = [Option<i64>; 3];

/// A small generator of numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn value(&mut self, sides: u64) -> Option<i64> {
        match self.roll(8) {
            0 => None,
            _ => Some(self.roll(sides) as i64),
        }
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        let at = self.roll(among.len() as u64) as usize;
        *among.get(at).unwrap()
    }
}

type Condition = (&'static str, fn(&Row, &Row) -> bool);
/// What becomes of a row: `None`, it goes.
type Change = (&'static str, fn(&Row, &Row) -> Option<Row>);

fn greater(one: Option<i64>, other: Option<i64>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one > other)
}

fn plus(value: Option<i64>, more: i64) -> Option<i64> {
    value.map(|value| value + more)
}

/// Of `t`, `s`.
const MATCHED_IF: [Condition; 5] = [
    ("", |_, _| true),
    ("AND s.v > t.v", |t, s| greater(s[2], t[2])),
    ("AND t.k = s.k", |t, s| t[1].is_some() && t[1] == s[1]),
    ("AND s.v IS NULL", |_, s| s[2].is_none()),
    ("AND t.id > 3", |t, _| greater(t[0], Some(3))),
];
const MATCHED: [Change; 5] = [
    ("UPDATE SET v = s.v", |t, s| Some([t[0], t[1], s[2]])),
    ("UPDATE SET v = t.v + 1, k = s.k", |t, s| {
        Some([t[0], s[1], plus(t[2], 1)])
    }),
    ("UPDATE SET *", |_, s| Some(*s)),
    ("DELETE", |_, _| None),
    ("DO NOTHING", |t, _| Some(*t)),
];
const MISSING_IF: [Condition; 3] = [
    ("", |_, _| true),
    ("AND s.v > 5", |_, s| greater(s[2], Some(5))),
    ("AND k IS NULL", |_, s| s[1].is_none()),
];
const MISSING: [Change; 3] = [
    ("INSERT *", |_, s| Some(*s)),
    ("INSERT (v, id) VALUES (s.v + 1, id)", |_, s| {
        Some([s[0], None, plus(s[2], 1)])
    }),
    ("DO NOTHING", |_, _| None),
];
const BY_SOURCE_IF: [Condition; 2] = [
    ("", |_, _| true),
    ("AND v > 5", |t, _| greater(t[2], Some(5))),
];
const BY_SOURCE: [Change; 3] = [
    ("UPDATE SET v = 0", |t, _| Some([t[0], t[1], Some(0)])),
    ("DELETE", |_, _| None),
    ("DO NOTHING", |t, _| Some(*t)),
];

/// A clause with its place in the text.
type Clause = (Condition, Change);

#[derive(Default)]
struct Merge {
    matched: Vec<Clause>,
    missing: Vec<Clause>,
    by_source: Vec<Clause>,
}

impl Merge {
    fn random(dice: &mut Dice) -> Self {
        let mut merge = Self::default();
        while merge.text().is_empty() {
            merge.matched = clauses(dice, &MATCHED_IF, &MATCHED);
            merge.missing = clauses(dice, &MISSING_IF, &MISSING);
            merge.by_source = clauses(dice, &BY_SOURCE_IF, &BY_SOURCE);
        }
        merge
    }

    fn text(&self) -> String {
        let kinds = [
            ("MATCHED", &self.matched),
            ("NOT MATCHED", &self.missing),
            ("NOT MATCHED BY SOURCE", &self.by_source),
        ];
        let text = kinds.into_iter().flat_map(|(kind, clauses)| {
            let clauses = clauses.iter();
            clauses.map(move |((condition, _), (change, _))| {
                format!(" WHEN {kind} {condition} THEN {change}")
            })
        });
        text.collect()
    }

    /// The table after the merge, and updated, deleted and inserted rows; `None`: a row would be
    /// changed twice.
    fn run(&self, target: &[Row], source: &[Row]) -> Option<(Vec<Row>, [u64; 3])> {
        let nothing = [None; 3];
        let equal = |t: &Row, s: &Row| t[0].is_some() && t[0] == s[0];
        let (mut after, mut counts) = (Vec::new(), [0; 3]);
        let only_deletes = matches!(self.matched.as_slice(), [(("", _), ("DELETE", _))]);
        for t in target {
            let partners: Vec<&Row> = source.iter().filter(|s| equal(t, s)).collect();
            let mut changes: Vec<(&str, Option<Row>)> = match partners.is_empty() {
                true => first(&self.by_source, t, &nothing).into_iter().collect(),
                false => partners
                    .iter()
                    .filter_map(|s| first(&self.matched, t, s))
                    .collect(),
            };
            changes.retain(|(text, _)| *text != "DO NOTHING");
            if changes.len() > 1 && !only_deletes {
                return None;
            }
            match changes.first() {
                None => after.push(*t),
                Some((_, None)) => counts[1] += 1,
                Some((_, Some(new))) => {
                    counts[0] += 1;
                    after.push(*new);
                }
            }
        }
        for s in source {
            if !target.iter().any(|t| equal(t, s))
                && let Some((_, Some(new))) = first(&self.missing, &nothing, s)
            {
                counts[2] += 1;
                after.push(new);
            }
        }
        Some((after, counts))
    }
}

fn first(clauses: &[Clause], t: &Row, s: &Row) -> Option<(&'static str, Option<Row>)> {
    let mut clauses = clauses.iter();
    let ((_, _), (text, change)) = clauses.find(|((_, condition), _)| condition(t, s))?;
    Some((*text, change(t, s)))
}

/// Up to two; only the last may be without condition.
fn clauses(dice: &mut Dice, conditions: &[Condition], changes: &[Change]) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    for _ in 0..dice.roll(3) {
        if clauses.last().is_some_and(|((text, _), _)| text.is_empty()) {
            break;
        }
        clauses.push((dice.pick(conditions), dice.pick(changes)));
    }
    clauses
}

fn literal(row: &Row) -> String {
    let values = row.map(|value| value.map_or_else(|| "NULL".to_owned(), |v| v.to_string()));
    format!("({})", values.join(", "))
}

fn shown(rows: &[Row]) -> Vec<String> {
    let row = |row: &Row| {
        let values = row.map(|value| value.map_or_else(|| "NULL".to_owned(), |v| v.to_string()));
        values.join("|")
    };
    let mut shown: Vec<String> = rows.iter().map(row).collect();
    shown.sort();
    shown
}

async fn fill(session: &mut Session, table: &str, rows: &[Row]) {
    ok(session, &format!("TRUNCATE {table}")).await;
    // Several files.
    for rows in rows.chunks(5) {
        let values = rows.iter().map(literal).collect::<Vec<_>>().join(", ");
        ok(session, &format!("INSERT INTO {table} VALUES {values}")).await;
    }
}

async fn table(session: &mut Session) -> Vec<String> {
    let all = rows(session, "SELECT id, k, v FROM t").await;
    let rows = all.split("; ").filter(|row| !row.is_empty());
    let mut rows: Vec<String> = rows.map(str::to_owned).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn merges_do_what_they_mean() {
    let db = database().await;
    let options = SessionOptions {
        memory_limit: Some(32 << 20),
        ..SessionOptions::default()
    };
    let mut session = Session::new(db, options).unwrap();
    ok(
        &mut session,
        "CREATE TABLE s (id INT, k INT, v INT);
         CREATE TABLE vectors (id INT, k INT, v INT);
         CREATE TABLE copies (id INT, k INT, v INT) WITH (deletion_vectors = 'off');
         CREATE TABLE parts (id INT, k INT, v INT) PARTITIONED BY (k)",
    )
    .await;
    let mut dice = Dice(20_261_130);
    let mut twice = 0;
    for case in 0..36 {
        let row = |dice: &mut Dice| [dice.value(6), dice.value(3), dice.value(10)];
        let target: Vec<Row> = (0..dice.roll(9)).map(|_| row(&mut dice)).collect();
        let source: Vec<Row> = (0..dice.roll(6)).map(|_| row(&mut dice)).collect();
        let merge = Merge::random(&mut dice);
        let t = ["vectors", "copies", "parts"][case % 3];
        // Wide rows are too many to hold: both sides are sorted.
        let s = match case % 2 {
            0 => "s".to_owned(),
            _ => "(SELECT *, repeat('x', 3000000) AS wide FROM s) AS s".to_owned(),
        };
        ok(&mut session, &format!("ALTER TABLE {t} RENAME TO t")).await;
        fill(&mut session, "t", &target).await;
        fill(&mut session, "s", &source).await;
        let text = format!("MERGE INTO t USING {s} ON t.id = s.id{}", merge.text());
        let told = format!("case {case}: {text}\nt = {target:?}\ns = {source:?}");
        match merge.run(&target, &source) {
            None => {
                twice += 1;
                assert_eq!(err(&mut session, &text).await.sqlstate(), "21000", "{told}");
                assert_eq!(table(&mut session).await, shown(&target), "{told}");
            }
            Some((after, [updated, deleted, inserted])) => {
                let figures = rows(&mut session, &text).await;
                let all = updated + deleted + inserted;
                let expected = format!("{all}|{updated}|{deleted}|{inserted}|");
                assert!(
                    figures.starts_with(&expected),
                    "{expected} {figures} {told}"
                );
                assert_eq!(table(&mut session).await, shown(&after), "{told}");
            }
        }
        ok(&mut session, &format!("ALTER TABLE t RENAME TO {t}")).await;
    }
    assert!(twice > 0, "no row was matched twice");
}
