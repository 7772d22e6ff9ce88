//! What the fuzz targets share: a table in memory of which one file is the fuzzer's.
//!
//! Invariant: no input makes the code under test panic, run away or ask for memory without
//! bound; what it answers is not judged.

use std::cell::RefCell;
use std::sync::Once;

use tarndb_delta::{NativeTarget, open_native};
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tokio::runtime::Runtime;

/// Protocol and metadata of a small table.
pub const HEAD: &str = concat!(
    r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#,
    "\n",
    r#"{"metaData":{"id":"f","format":{"provider":"parquet","options":{}},"#,
    r#""schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}","#,
    r#""partitionColumns":[],"configuration":{}}}"#,
    "\n",
);

/// Runs `work` to its end on this thread. Only a panic that leaves it ends the run: those inside
/// the Parquet library are caught, and are errors.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    static QUIET: Once = Once::new();
    // The fuzzer's own hook ends the process at every panic, caught or not.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    thread_local! {
        static RUNTIME: RefCell<Runtime> = RefCell::new(
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        );
    }
    RUNTIME.with_borrow(|runtime| runtime.block_on(work))
}

/// Opens a table whose log holds `files`, and looks at every file of it.
pub fn open(files: &[(&str, &[u8])]) {
    run(async {
        let store = Store::memory(Context::seeded(1));
        for (name, bytes) in files {
            let key = Path::from(format!("_delta_log/{name}"));
            store.put(&key, bytes.to_vec().into()).await.unwrap();
        }
        if let Ok(state) = open_native(&store, NativeTarget::Latest).await {
            let _ = state.live_rows();
            for file in state.files.values() {
                let _ = file.live_rows();
            }
        }
    });
}
