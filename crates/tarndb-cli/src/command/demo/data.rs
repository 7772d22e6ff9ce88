//! The flight data: the full set when it is given, else the slice in `examples/data`.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The five tables and their files, in the order in which they are loaded.
pub(super) const TABLES: [(&str, &str); 5] = [
    ("airlines", "airlines.csv"),
    ("airports", "airports.csv"),
    ("planes", "planes.csv"),
    ("weather", "weather.csv.gz"),
    ("flights", "flights.csv.gz"),
];

/// Names the folder of the full data.
const VARIABLE: &str = "TARNDB_DEMO_DATA";

/// A folder that holds all five files.
pub(super) struct Data {
    pub(super) folder: PathBuf,
}

/// Looks for the data: what the variable names, beside the checkout, in the checkout.
pub(super) fn find() -> Result<Data, Failure> {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let folder = PathBuf::from(folder);
        return match missing(&folder) {
            None => Ok(Data { folder }),
            Some(file) => Err(Failure::usage(
                format!("{VARIABLE} names a folder that lacks {file}"),
                "name a folder with the five files of nycflights13, or unset the variable",
            )
            .at(folder.display().to_string())),
        };
    }
    // The working folder first; a binary started elsewhere still finds its own checkout.
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let roots = [PathBuf::from("."), checkout];
    for below in ["../shared/data/nycflights13", "examples/data"] {
        for root in &roots {
            let folder = root.join(below);
            if missing(&folder).is_none() {
                let folder = folder.canonicalize().unwrap_or(folder);
                return Ok(Data { folder });
            }
        }
    }
    Err(Failure::usage(
        "the example data was not found",
        format!("run the demo in the checkout, or set {VARIABLE} to a folder with the data"),
    ))
}

/// The first of the five files that is not in `folder`.
fn missing(folder: &Path) -> Option<&'static str> {
    TABLES
        .iter()
        .map(|(_, file)| *file)
        .find(|file| !folder.join(file).is_file())
}
