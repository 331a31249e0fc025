//! A wall clock that is ahead, for processes of their own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the system's clock is asked through.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real(clock, at);
    if (clock == CLOCK_REALTIME) at->tv_sec += SECONDS;
    return outcome;
}
"#;

/// Makes a library in a folder, and returns the program and arguments that start a process whose wall clock is
/// ahead by so many hours.
pub(crate) fn hours_later(folder: &Path, hours: u64) -> [String; 2] {
    let library = folder.join(format!("later-{hours}.so"));
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-x", "c", "-", "-ldl", "-o"])
        .arg(&library)
        .arg(format!("-DSECONDS={}", hours * 3_600))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(SOURCE.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    ["env".to_owned(), format!("LD_PRELOAD={}", library.display())]
}
