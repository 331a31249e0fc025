//! The in-memory reference answers as the conformance cases say, and the runner notices
//! when a store does not.

use idmatch_testkit::MemoryStore;
use idmatch_testkit::conformance::{self, Ways};
use std::path::Path;
use std::sync::Arc;

fn run(cases: &Path, ways: Ways) -> Result<conformance::Tally, conformance::Failures> {
    let store = Arc::new(MemoryStore::new());
    conformance::run(cases, ways, &|_| Ok(store.clone()))
}

/// The failures of a case file with this one load and question.
fn failures_of(load: &str, question: &str) -> String {
    failures_of_text(&format!(
        r#"{{"theme": "a theme", "cases": [
            {{"name": "a case", "keep": "last", "loads": [{load}], "questions": [{question}]}}]}}"#
    ))
}

fn failures_of_text(cases: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("wrong.json"), cases).unwrap();
    run(directory.path(), Ways::ALL).unwrap_err().to_string()
}

const LOAD: &str = r#"[["a", "p1", "2026-01-01"], ["a", "p2", "2026-01-02"]]"#;

#[test]
fn the_memory_store_conforms() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/cases");
    match run(&cases, Ways::of_environment()) {
        Ok(tally) => {
            println!("{tally}");
            assert_eq!(tally.unsupported, 0);
        }
        Err(failures) => panic!("{failures}"),
    }
}

#[test]
fn a_mismatch_tells_file_case_question_expected_and_got() {
    let wrong = r#"{"ask": "partner_ids", "of": "a", "answer": [["p1", "2026-01-01"]]}"#;
    let text = failures_of(LOAD, wrong);
    let expected = "wrong.json: a case: keep Last, AsWritten, question 1\n  \
                    expected [[\"p1\", 2026-01-01T00:00:00.000Z]]\n  \
                    got      [[\"p2\", 2026-01-02T00:00:00.000Z], [\"p1\", 2026-01-01T00:00:00.000Z]]\n";
    assert!(text.contains(expected), "{text}");
    // Once in each of five ways, and once by a copy.
    assert!(text.starts_with("6 mismatches; 5 questions in 1 cases of 1 files\n"), "{text}");
}

#[test]
fn every_kind_of_expectation_is_checked() {
    let matching = |counts: &str, rows: &str| {
        format!(
            r#"{{"ask": "match", "population": ["a", "b"], "by": "id", "pick": "all",
                "counts": {{{counts}}}, "rows": [{rows}]}}"#
        )
    };
    let counts = r#""population": 2, "matched": 1, "rows": 2"#;
    let wrong_questions = [
        r#"{"ask": "ids", "of": "p1", "answer": []}"#.to_owned(),
        r#"{"ask": "ids", "of": "p1", "error": "invalid-argument"}"#.to_owned(),
        r#"{"ask": "ids", "of": "", "error": "corrupt"}"#.to_owned(),
        r#"{"ask": "partner_ids", "of": "a", "limit": 1, "answer": [["p1", "2026-01-01"]]}"#
            .to_owned(),
        r#"{"ask": "last_seen", "id": "a", "partner_id": "p1", "answer": ["2026-01-02"]}"#
            .to_owned(),
        r#"{"ask": "history", "id": "a", "partner_id": "p1", "answer": []}"#.to_owned(),
        matching(
            r#""population": 2, "matched": 2, "rows": 2"#,
            r#"["a", "p2", "2026-01-02"], ["a", "p1", "2026-01-01"]"#,
        ),
        matching(counts, r#"["a", "p2", "2026-01-02"], ["a", "p1", "2026-01-02"]"#),
        matching(counts, r#"["a", "p1", "2026-01-01"], ["a", "p2", "2026-01-02"]"#),
    ];
    for question in wrong_questions {
        assert!(failures_of(LOAD, &question).contains("question 1"), "{question}");
    }
    let right = matching(counts, r#"["a", "p2", "2026-01-02"], ["a", "p1", "2026-01-01"]"#);
    let wrong_loads = [
        r#"{"rows": [["", "p1", "2026-01-01"]], "rejected": []}"#,
        r#"{"rows": [["", "p1", "2026-01-01"]], "rejected": [[2, "id", "is empty"]]}"#,
        r#"{"rows": [["", "p1", "2026-01-01"]], "rejected": [[1, "id", "is missing"]]}"#,
        r#"{"rows": [["", "p1", "2026-01-01"]], "rejected": [[1, "seen_at", "is empty"]]}"#,
        r#"{"rows": [["a", "p1", "2026-01-01"]], "strict": true, "error": "bad-input"}"#,
        r#"{"rows": [["", "p1", "2026-01-01"]], "strict": true, "error": "busy"}"#,
        r#"[["", "p1", "2026-01-01"]]"#,
    ];
    for load in wrong_loads {
        assert!(failures_of(&format!("{LOAD}, {load}"), &right).contains("load 2"), "{load}");
    }
}

#[test]
fn a_file_that_says_something_unknown_is_an_error() {
    for question in [
        r#"{"ask": "partner_ids", "of": "a", "anwser": []}"#,
        r#"{"ask": "partner_ids", "of": "a"}"#,
        r#"{"ask": "partner_ids", "of": "a", "answer": [], "error": "corrupt"}"#,
        r#"{"ask": "everything", "of": "a", "answer": []}"#,
        r#"{"ask": "partner_ids", "of": "a", "answer": [["p1", "soon"]]}"#,
        r#"{"ask": "partner_ids", "of": "a", "since": "2026-01-02", "until": "2026-01-01", "answer": []}"#,
    ] {
        assert!(failures_of(LOAD, question).contains("expected no error"), "{question}");
    }
    assert!(failures_of_text("no JSON").contains("reading it"));
}

#[test]
fn a_run_without_questions_fails() {
    let empty = tempfile::tempdir().unwrap();
    let text = run(empty.path(), Ways::ALL).unwrap_err().to_string();
    assert!(text.contains("0 questions in 0 cases of 0 files"), "{text}");
    assert!(run(&empty.path().join("absent"), Ways::ALL).is_err());
}

#[test]
fn every_kind_of_step_is_checked() {
    let of_steps = |steps: &str| {
        failures_of_text(&format!(
            r#"{{"theme": "a theme", "cases": [
                {{"name": "a case", "keep": "last", "steps": [{{"do": "create", "table": "t"}}, {steps}]}}]}}"#
        ))
    };
    let asked = r#""questions": [{"ask": "ids", "of": "p1", "answer": []}]"#;
    let load = format!(r#"{{"do": "load", "table": "t", "rows": {LOAD}}}"#);
    let wrong = [
        format!(r#"{load}, {{"do": "ask", "table": "t", {asked}}}"#),
        format!(
            r#"{{"do": "replace", "table": "t", "rows": {LOAD}}}, {{"do": "ask", "table": "t", {asked}}}"#
        ),
        format!(
            r#"{{"do": "replace", "table": "t", "rows": [], "meanwhile": [{load}, {{"do": "ask", "table": "t", {asked}}}]}}"#
        ),
        r#"{"do": "missing", "table": "t"}"#.to_owned(),
        r#"{"do": "drop", "table": "t", "error": "busy"}"#.to_owned(),
        r#"{"do": "drop", "table": "other"}"#.to_owned(),
        r#"{"do": "rename", "table": "t", "to": "t"}"#.to_owned(),
        r#"{"do": "swap", "table": "t", "with": "other"}"#.to_owned(),
        r#"{"do": "alter", "table": "t", "retention": "23h"}"#.to_owned(),
        r#"{"do": "create", "table": "t", "keep": "all"}"#.to_owned(),
        r#"{"do": "no-such-step", "table": "t"}"#.to_owned(),
        r#"{"do": "drop", "table": "t", "unknown": 1}"#.to_owned(),
    ];
    for steps in wrong {
        let text = of_steps(&steps);
        assert!(text.contains("wrong.json"), "{steps}: {text}");
        assert!(text.contains(" mismatches; "), "{steps}: {text}");
        assert!(!text.contains("0 mismatches"), "{steps}: {text}");
    }
}
