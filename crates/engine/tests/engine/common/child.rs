//! This test program, started again as another process.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

const STORE: &str = "IDMATCH_TEST_STORE";
/// The harness prints lines of its own; these are ours.
const PREFIX: &str = "child: ";

/// A running process. Killed when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    /// `None` when there is no more to ask.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// The role that this process was started for: a role is an ignored test. Panics when a person runs the
/// ignored tests.
pub(crate) fn role() -> Role {
    let store = std::env::var_os(STORE).expect("a test of this file starts this with a role");
    Role { store: store.into() }
}

/// What a child knows of its task.
pub(crate) struct Role {
    pub(crate) store: PathBuf,
}

impl Role {
    /// Tells the parent something.
    pub(crate) fn tell(&self, words: &str) {
        println!("\n{PREFIX}{words}");
    }

    /// What the parent asks next; `None` when it has no more to ask.
    pub(crate) fn hear(&self) -> Option<String> {
        std::io::stdin().lines().next().map(Result::unwrap)
    }
}

impl Child {
    /// Starts the ignored test of this name with a store.
    pub(crate) fn start(role: &str, store: &Path) -> Child {
        Child::start_within(&[], role, store)
    }

    /// The same through another program, which is given the command as its arguments.
    pub(crate) fn start_within(program: &[&str], role: &str, store: &Path) -> Child {
        let mut command: Vec<OsString> = program.iter().map(OsString::from).collect();
        command.push(std::env::current_exe().unwrap().into());
        let mut process = Command::new(&command[0])
            .args(&command[1..])
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
            .env(STORE, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Child { process, input, output }
    }

    /// What the child tells next; `None` when it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let lines = self.output.by_ref().lines().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix(PREFIX).map(str::to_owned)).next()
    }

    /// Tells the child something.
    pub(crate) fn tell(&mut self, words: &str) {
        writeln!(self.input.as_ref().unwrap(), "{words}").unwrap();
    }

    /// Asks the child something, and waits for its answer.
    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.tell(words);
        self.hear().expect("the other process has ended")
    }

    /// Ends the child as the power does: without a warning. What it told before can still
    /// be heard.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until the child has ended, which is asked no more; it must have passed.
    pub(crate) fn finish(mut self) {
        self.input = None;
        while self.hear().is_some() {}
        let status = self.process.wait().unwrap();
        assert!(status.success(), "the other process failed: {status}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Already ended, mostly.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
