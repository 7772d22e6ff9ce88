//! The binary `tarndb-bench`: one measurement per call, one line of JSON per figure.
//!
//! ```text
//! tarndb-bench goodput [writers=1,4,16] [latency_ms=0,20,100] [seconds=5] [transactions=2000]
//!                      [mode=real|virtual] [jitter=0] [seed=1]
//! tarndb-bench group   [clients=1,32] [latency_ms=20] [seconds=5] [transactions=1000000]
//!                      [mode=real|virtual] [publish=manual|async|sync] [jitter=0] [seed=1]
//! tarndb-bench reading [files=64] [rows=50000] [latency_ms=50] [mode=real|virtual] [jitter=0]
//!                      [seed=1]
//! tarndb-bench stream  folder=.. [tasks=8] [rows=10] [publish=async|manual|sync]
//!                      [steps=append:30000,publish,query]     steps=- reads them from stdin
//! tarndb-bench open    table=.. [find=-1] [checkpoint=FOLDER]
//! tarndb-bench faults  url=.. step=create|work|read [process=0] [transactions=250]
//!                      [per_handle=25] [seed=1] [option.NAME=VALUE ..]
//! tarndb-bench native  url=.. step=create|work|once|read|convert [once=append|..] [process=0] [commits=50] [vectors=false]
//!                      [partitioned=false]
//! ```
//!
//! `faults` and `native` measure nothing: they tell how each commit ended, for
//! scripts/fault_processes.py and scripts/native_processes.py.

use std::process::ExitCode;
use std::time::Duration;

use tarndb_bench::faults::{Place, Work};
use tarndb_bench::goodput::Goodput;
use tarndb_bench::group::Group;
use tarndb_bench::lab::{Mode, Setting};
use tarndb_bench::native::{self, NativeWork, Once};
use tarndb_bench::open::Opening;
use tarndb_bench::reading::Reading;
use tarndb_bench::stream::{Step, Stream, Streaming};
use tarndb_bench::{Arguments, BenchError, faults, goodput, group, open, reading};
use tarndb_db::PublishMode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            report(&text);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "where a binary says why it ended")]
fn report(text: &str) {
    eprintln!("tarndb-bench: {text}");
}

fn run() -> Result<(), BenchError> {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let arguments = Arguments::parse(words)?;
    match name.as_str() {
        "goodput" => run_goodput(arguments),
        "group" => run_group(arguments),
        "reading" => run_reading(arguments),
        "stream" => run_stream(arguments),
        "open" => run_open(arguments),
        "faults" => run_faults(arguments),
        "native" => run_native(arguments),
        _ => Err(BenchError::Argument {
            key: name,
            reason: "there are goodput, group, reading, stream, open, faults and native".to_owned(),
        }),
    }
}

fn run_goodput(mut arguments: Arguments) -> Result<(), BenchError> {
    let writers: Vec<u64> = arguments.take_list("writers", "1,4,16")?;
    let latencies: Vec<u64> = arguments.take_list("latency_ms", "0,20,100")?;
    let seconds: f64 = arguments.take("seconds", "5")?;
    let transactions = arguments.take("transactions", "2000")?;
    let mode: Mode = arguments.take("mode", "real")?;
    let (jitter, seed) = (arguments.take("jitter", "0")?, arguments.take("seed", "1")?);
    arguments.finish()?;
    for latency_ms in latencies {
        for &writers in &writers {
            let time = duration("seconds", seconds)?;
            let plan = Goodput {
                writers,
                time,
                transactions,
            };
            let setting = Setting {
                latency: Duration::from_millis(latency_ms),
                jitter,
                seed,
            };
            mode.run(setting, |lab| goodput::measure(lab, plan))?
                .with("mode", mode.name())
                .with("latency_ms", latency_ms)
                .with("jitter", jitter)
                .print()?;
        }
    }
    Ok(())
}

fn run_group(mut arguments: Arguments) -> Result<(), BenchError> {
    let clients: Vec<u64> = arguments.take_list("clients", "1,32")?;
    let latencies: Vec<u64> = arguments.take_list("latency_ms", "20")?;
    let seconds: f64 = arguments.take("seconds", "5")?;
    let transactions = arguments.take("transactions", "1000000")?;
    let mode: Mode = arguments.take("mode", "real")?;
    let (publish, publish_name) = publish(&mut arguments, "manual")?;
    let (jitter, seed) = (arguments.take("jitter", "0")?, arguments.take("seed", "1")?);
    arguments.finish()?;
    for latency_ms in latencies {
        for &clients in &clients {
            let time = duration("seconds", seconds)?;
            let plan = Group {
                clients,
                time,
                transactions,
                publish,
            };
            let setting = Setting {
                latency: Duration::from_millis(latency_ms),
                jitter,
                seed,
            };
            mode.run(setting, |lab| group::measure(lab, plan))?
                .with("mode", mode.name())
                .with("latency_ms", latency_ms)
                .with("jitter", jitter)
                .with("publish", publish_name.as_str())
                .print()?;
        }
    }
    Ok(())
}

fn run_reading(mut arguments: Arguments) -> Result<(), BenchError> {
    let files: Vec<u64> = arguments.take_list("files", "64")?;
    let rows = arguments.take("rows", "50000")?;
    let latencies: Vec<u64> = arguments.take_list("latency_ms", "50")?;
    let mode: Mode = arguments.take("mode", "real")?;
    let (jitter, seed) = (arguments.take("jitter", "0")?, arguments.take("seed", "1")?);
    arguments.finish()?;
    for latency_ms in latencies {
        for &files in &files {
            let setting = Setting {
                latency: Duration::from_millis(latency_ms),
                jitter,
                seed,
            };
            let plan = Reading { files, rows };
            mode.run(setting, |lab| reading::measure(lab, plan))?
                .with("mode", mode.name())
                .with("latency_ms", latency_ms)
                .with("jitter", jitter)
                .print()?;
        }
    }
    Ok(())
}

fn run_stream(mut arguments: Arguments) -> Result<(), BenchError> {
    let folder = arguments.take("folder", "")?;
    let tasks = arguments.take("tasks", "8")?;
    let rows = arguments.take("rows", "10")?;
    let steps: String = arguments.take("steps", "append:30000,publish,query")?;
    let (publish, publish_name) = publish(&mut arguments, "async")?;
    arguments.finish()?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build()?;
    let plan = Stream {
        folder,
        tasks,
        rows,
        publish,
    };
    let mut streaming = runtime.block_on(Streaming::start(plan))?;
    let mut run = |text: &str| -> Result<(), BenchError> {
        let step: Step = text.trim().parse().map_err(|()| BenchError::Argument {
            key: "steps".to_owned(),
            reason: format!("there is no step {text:?}"),
        })?;
        let report = runtime.block_on(streaming.step(step))?;
        report.with("publish", publish_name.as_str()).print()
    };
    if steps == "-" {
        for line in std::io::stdin().lines() {
            run(&line?)?;
        }
    } else {
        steps.split(',').try_for_each(&mut run)?;
    }
    runtime.block_on(streaming.close())
}

fn run_open(mut arguments: Arguments) -> Result<(), BenchError> {
    let plan = Opening {
        table: arguments.take("table", "")?,
        find: arguments.take("find", "-1")?,
        checkpoint: arguments.take("checkpoint", "")?,
    };
    arguments.finish()?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(open::measure(plan))?.print()
}

fn run_faults(mut arguments: Arguments) -> Result<(), BenchError> {
    let url = arguments.take("url", "")?;
    let step: String = arguments.take("step", "")?;
    let work = Work {
        process: arguments.take("process", "0")?,
        transactions: arguments.take("transactions", "250")?,
        per_handle: arguments.take("per_handle", "25")?,
        seed: arguments.take("seed", "1")?,
    };
    let place = Place::new(url, arguments.take_prefixed("option."));
    arguments.finish()?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build()?;
    match step.as_str() {
        "create" => runtime.block_on(faults::create(&place)),
        "work" => runtime.block_on(faults::work(&place, work)),
        "read" => runtime.block_on(faults::read(&place)),
        _ => Err(BenchError::Argument {
            key: "step".to_owned(),
            reason: "write create, work or read".to_owned(),
        }),
    }
}

fn run_native(mut arguments: Arguments) -> Result<(), BenchError> {
    let url: String = arguments.take("url", "")?;
    let step: String = arguments.take("step", "")?;
    let vectors = arguments.take("vectors", "false")?;
    let partitioned = arguments.take("partitioned", "false")?;
    let work = NativeWork {
        process: arguments.take("process", "0")?,
        commits: arguments.take("commits", "50")?,
    };
    let retention = Duration::from_millis(arguments.take("retention_ms", "1000")?);
    let once: String = arguments.take("once", "")?;
    arguments.finish()?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build()?;
    match step.as_str() {
        "once" => {
            let what = match once.as_str() {
                "append" => Once::Append,
                "delete" => Once::Delete,
                "compact" => Once::Compact,
                "vacuum" => Once::Vacuum,
                "cleanup" => Once::Cleanup,
                "convert" => Once::Convert,
                _ => {
                    return Err(BenchError::Argument {
                        key: "once".to_owned(),
                        reason: "write append, delete, compact, vacuum, cleanup or convert"
                            .to_owned(),
                    });
                }
            };
            runtime.block_on(native::once(&url, what, work.process, retention))
        }
        "create" => runtime.block_on(native::create(&url, vectors)),
        "work" => runtime.block_on(native::work(&url, work)),
        "read" => runtime.block_on(native::read(&url)),
        "convert" => runtime.block_on(native::convert(&url, partitioned)),
        _ => Err(BenchError::Argument {
            key: "step".to_owned(),
            reason: "write create, work, once, read or convert".to_owned(),
        }),
    }
}

fn publish(arguments: &mut Arguments, default: &str) -> Result<(PublishMode, String), BenchError> {
    let name: String = arguments.take("publish", default)?;
    let mode = match name.as_str() {
        "manual" => PublishMode::Manual,
        "async" => PublishMode::Async,
        "sync" => PublishMode::Sync,
        _ => {
            return Err(BenchError::Argument {
                key: "publish".to_owned(),
                reason: "write manual, async or sync".to_owned(),
            });
        }
    };
    Ok((mode, name))
}

fn duration(key: &str, seconds: f64) -> Result<Duration, BenchError> {
    Duration::try_from_secs_f64(seconds).map_err(|error| BenchError::Argument {
        key: key.to_owned(),
        reason: error.to_string(),
    })
}
