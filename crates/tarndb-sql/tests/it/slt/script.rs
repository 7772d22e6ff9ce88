//! The records of a sqllogictest file.
//!
//! The format is the one of the crate `sqllogictest`, as far as our files and the engine's use
//! it: `statement ok | count N | error TEXT`, `query TYPES [rowsort | valuesort]`, `query error`,
//! `connection NAME` (of the next record), `skipif` / `onlyif`, `include`, `halt`. The crate
//! itself is not used: it turns on features of `md-5` and `getrandom` for the whole build.
//!
//! Does not: run anything.

use std::path::Path;

/// What a statement must do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expect {
    /// Succeed.
    Ok,
    /// Change so many rows.
    Count(u64),
    /// Fail; the text is a SQLSTATE, or a SQLSTATE and a part of the message.
    Error(String),
    /// Give these rows.
    Rows {
        /// One letter a column.
        types: String,
        /// In which order they are compared.
        sort: Sort,
        /// One line a row.
        rows: Vec<String>,
    },
}

/// In which order rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    No,
    Rows,
    Values,
}

/// One statement and what it must do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Line of its head in the file.
    pub(crate) line: usize,
    /// Who says it; the empty name is the session that is there from the beginning.
    pub(crate) connection: String,
    pub(crate) sql: String,
    pub(crate) expect: Expect,
}

/// Reads the records of `text`; files it includes are looked for beside `path`.
pub(crate) fn records(text: &str, path: &Path) -> Result<Vec<Record>, String> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    let (mut connection, mut skip) = (String::new(), false);
    while let Some((number, line)) = lines.next() {
        let words = line.split_whitespace().collect::<Vec<_>>();
        match words.as_slice() {
            [] => {}
            [word, ..] if word.starts_with('#') => {}
            ["skipif", label] => skip |= *label == "DataFusion" || *label == "tarndb",
            ["onlyif", label] => skip |= *label != "DataFusion" && *label != "tarndb",
            ["connection", name] => connection = (*name).to_owned(),
            ["halt"] => break,
            ["control" | "subtest" | "hash-threshold" | "sleep", ..] => {}
            ["include", pattern] => found.extend(included(pattern, path)?),
            ["statement" | "query", ..] => {
                let (mut sql, mut answer) = (Vec::new(), None);
                for (_, line) in lines.by_ref() {
                    match line {
                        _ if line.trim().is_empty() => break,
                        "----" => {
                            answer = Some(Vec::new());
                            break;
                        }
                        _ => sql.push(line),
                    }
                }
                let multiline = words.get(1) == Some(&"error");
                while let Some(answer) = &mut answer {
                    let Some((_, line)) = lines.next() else { break };
                    let mut next_is_blank =
                        || lines.peek().is_none_or(|(_, l)| l.trim().is_empty());
                    match line.trim() {
                        "" if !multiline || next_is_blank() => break,
                        _ => answer.push(line.to_owned()),
                    }
                }
                let record = Record {
                    line: number + 1,
                    connection: std::mem::take(&mut connection),
                    sql: sql.join("\n"),
                    expect: expectation(&words, answer.unwrap_or_default())
                        .ok_or_else(|| format!("line {}: {line:?}", number + 1))?,
                };
                if !std::mem::take(&mut skip) {
                    found.push(record);
                }
            }
            _ => return Err(format!("line {}: {line:?} is not known", number + 1)),
        }
    }
    Ok(found)
}

fn expectation(words: &[&str], answer: Vec<String>) -> Option<Expect> {
    Some(match words {
        [_, "error", text @ ..] => {
            let text = text.join(" ");
            Expect::Error(format!("{text} {}", answer.join(" ")).trim().to_owned())
        }
        ["statement", "ok"] => Expect::Ok,
        ["statement", "count", count] => Expect::Count(count.parse().ok()?),
        ["query", types, rest @ ..] => Expect::Rows {
            types: (*types).to_owned(),
            sort: match rest.first() {
                Some(&"rowsort") => Sort::Rows,
                Some(&"valuesort") => Sort::Values,
                None | Some(_) => Sort::No,
            },
            rows: answer,
        },
        _ => return None,
    })
}

fn included(pattern: &str, path: &Path) -> Result<Vec<Record>, String> {
    let beside = path.parent().unwrap_or(path).join(pattern);
    let mut found = Vec::new();
    let files = glob::glob(&beside.to_string_lossy()).map_err(|error| error.to_string())?;
    for file in files.flatten() {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
        found.extend(records(&text, &file)?);
    }
    Ok(found)
}
