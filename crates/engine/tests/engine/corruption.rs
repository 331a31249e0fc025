//! Files whose bytes are not what was written: the answer is right or it is an error that
//! names file and offset, never a wrong answer and never a panic.

use crate::common::{
    Batches, HarmedDisk, Question, Random, Row, ask, create, damaged_place, erase, few_places,
    files, is_long, load, manifest, name, places, questions, report, rows_of_all_kinds, runs, seed,
    table_file, write_table,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Pick, SeenAt, Target, Window};
use idmatch_store::{Admin, Call, Error, ErrorKind, OpenTables};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bits that are flipped in a byte: single ones at both ends, and all.
const PATTERNS: [u8; 3] = [0x01, 0x80, 0xff];
const TABLES: [(&str, Keep); 2] = [("newest", Keep::Last), ("history", Keep::All)];

/// A store and its right answers.
struct Original {
    _dir: tempfile::TempDir,
    root: PathBuf,
    asked: Vec<(&'static str, Question, Vec<Row>)>,
}

impl Original {
    /// Both tables hold all rows; the questions are about some of them.
    fn new(loads: &[&[Row]], asked: &[Row]) -> Original {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let store = EngineStore::open(&root).unwrap();
        let instant = |ms| SeenAt::from_millis(ms).ok();
        let window = Window::new(instant(1_700_020_000_000), instant(1_700_100_000_000)).unwrap();
        let mut right = Vec::new();
        for (table_name, keep) in TABLES {
            let table = create(&store, table_name, keep).unwrap();
            for rows in loads {
                load(&table, &mut Batches::of_rows(rows, 1_000)).unwrap();
            }
            // Another one in each table, so that their files differ.
            let (id, partner_id, at) = asked[0].clone();
            let target = match keep {
                Keep::Last => Target::Id(id),
                Keep::All => Target::PartnerId(partner_id),
            };
            assert!(erase(&table, &[target], at).unwrap().by_id > 0);
            let all = questions(asked, &[Window::ALL, window]);
            // A match is slow to ask; of its forms two see all that the others see.
            let is_asked = |question: &Question| match question {
                Question::Match(_, query) => query.window.is_all() == (query.pick == Pick::All),
                _ => true,
            };
            for question in all.into_iter().filter(is_asked) {
                let answer = ask(&table, &question).unwrap();
                right.push((table_name, question, answer));
            }
        }
        assert!(right.iter().any(|(_, _, answer)| !answer.is_empty()));
        Original { _dir: dir, root, asked: right }
    }

    /// Asks everything of the store with one file harmed. Says whether the harm was found
    /// by opening the store or verifying it.
    fn judge(&self, file: &Path, bytes: Vec<u8>, harm: &str) -> bool {
        let check = |error: &Error| self.check_error(file, error, harm);
        let disk = Arc::new(HarmedDisk::new(file, bytes));
        let store = match EngineStore::open_on(disk, &self.root) {
            Ok(store) => store,
            Err(error) => {
                check(&error);
                return true;
            }
        };
        for (table, question, right) in &self.asked {
            match ask(&store.table(&name(table)).unwrap(), question) {
                Ok(answer) => assert_eq!(answer, *right, "{harm}: {question:?}"),
                Err(error) => check(&error),
            }
        }
        let findings = TABLES.map(|(table, _)| {
            let findings = store.table(&name(table)).unwrap().verify().unwrap();
            for finding in &findings {
                assert_eq!(Path::new(&finding.place), file, "{harm}: {finding:?}");
                let says = |word: &str| finding.problem.contains(word);
                assert!(says("offset") || says("this version reads format"), "{harm}: {finding:?}");
            }
            findings.len()
        });
        findings.iter().sum::<usize>() > 0
    }

    fn check_error(&self, file: &Path, error: &Error, harm: &str) {
        let words = error.chain();
        assert!(words.contains(file.to_str().unwrap()), "{harm}: no file in {words:?}");
        match error.kind() {
            ErrorKind::Corrupt => {
                let (named, offset) = damaged_place(error);
                assert_eq!(Path::new(named), file, "{harm}");
                let place = format!("{named}, offset {}: ", offset.unwrap());
                assert!(words.contains(&place), "{harm}: no {place:?} in {words:?}");
            }
            ErrorKind::UnsupportedFormat => assert!(words.contains("format"), "{harm}: {words:?}"),
            kind => panic!("{harm}: {kind:?} {words:?}"),
        }
    }

    /// Flips bits in these bytes of a file; none may go unnoticed.
    fn flip(&self, file: &Path, offsets: impl Iterator<Item = usize>, patterns: &[u8]) {
        let bytes = std::fs::read(file).unwrap();
        for offset in offsets {
            for pattern in patterns {
                let mut harmed = bytes.clone();
                harmed[offset] ^= pattern;
                let harm = format!("{} ^ {pattern:#04x} at {offset}", file.display());
                assert!(self.judge(file, harmed, &harm), "{harm} was not noticed");
            }
        }
    }
}

fn small() -> Original {
    let rows = rows_of_all_kinds(80);
    let asked: Vec<Row> = rows.iter().step_by(13).cloned().collect();
    Original::new(&[&rows], &asked)
}

#[test]
fn every_byte_flipped() {
    let original = small();
    let files = files(&original.root);
    assert_eq!(
        files.len(),
        10,
        "a manifest, a history, and of each table a file, two segments and erasures"
    );
    for file in files {
        let len = std::fs::read(&file).unwrap().len();
        // What leads to everything else in every way, the rest in one way each.
        original.flip(&file, 0..len.min(200), &PATTERNS);
        let rest = places().map(|at| 200 + at as usize).take_while(|at| *at < len);
        for (turn, at) in rest.enumerate() {
            original.flip(&file, at..at + 1, &[PATTERNS[turn % PATTERNS.len()]]);
        }
    }
}

#[test]
fn every_length_cut() {
    let original = small();
    for file in files(&original.root) {
        let bytes = std::fs::read(&file).unwrap();
        for len in places().map(|place| place as usize).take_while(|len| *len < bytes.len()) {
            let harm = format!("{} cut to {len}", file.display());
            assert!(original.judge(&file, bytes[..len].to_vec(), &harm), "{harm} was not noticed");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(original.judge(&file, longer, "one byte more"), "one byte more was not noticed");
    }
}

/// Damage as disks do it: sectors that are lost, or come from elsewhere, and single bytes.
#[test]
fn random_harm() {
    let original = small();
    let files = files(&original.root);
    let (count, mut random) = (runs(300), Random::new(seed(), 0));
    let mut harmed = 0;
    for number in 0..count {
        let file = &files[random.below(files.len())];
        let bytes = std::fs::read(file).unwrap();
        let mut bad = bytes.clone();
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(512)).min(bytes.len());
        match random.below(4) {
            0 => bad[at..end].fill(0),
            1 => {
                let from = random.below(bytes.len() - (end - at) + 1);
                bad.copy_within(from..from + (end - at), at);
            }
            2 => bad[at..end].iter_mut().for_each(|byte| *byte = random.below(256) as u8),
            _ => (0..1 + random.below(4)).for_each(|_| {
                bad[random.below(bytes.len())] ^= 1 << random.below(8);
            }),
        }
        if bad != bytes {
            harmed += 1;
            let harm = format!("{}, harm {number}, seed {}", file.display(), seed());
            assert!(original.judge(file, bad, &harm), "{harm} was not noticed");
        }
    }
    report(&format!("corruption: {harmed} files harmed, 0 not noticed, seed {}", seed()));
    assert!(harmed > count / 2);
}

/// A key with several pages of rows, in two loads: bytes of what leads to the pages, in a long run each,
/// and some of the pages themselves.
#[test]
fn bytes_of_a_large_store_flipped() {
    let hot =
        (0..2_600).map(|n| (format!("{n:032x}"), "hot".to_owned(), 1_700_000_000_000 + n % 977));
    let rows: Vec<Row> = hot.chain(rows_of_all_kinds(400)).collect();
    let asked: Vec<Row> = rows.iter().skip(5).step_by(600).cloned().collect();
    let original = Original::new(&[&rows[..2_000], &rows[1_500..]], &asked);
    for file in files(&original.root).into_iter().skip(1) {
        let bytes = std::fs::read(&file).unwrap();
        let places_below =
            |end: usize| few_places().map(|at| at as usize).take_while(move |at| *at < end);
        if file.extension().is_some_and(|extension| extension != "seg") {
            original.flip(&file, places_below(bytes.len()), &[0x20]);
            continue;
        }
        let end_of = |region: usize| {
            let at = 56 + region * 8;
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
        };
        let first_head = (end_of(0) + 60).min(end_of(1));
        original.flip(&file, places_below(first_head), &[0x20]);
        let (first, step) = if is_long() { (0, 1) } else { (seed() as usize % 3, 3) };
        let of_pages = (first_head..bytes.len()).step_by(997).skip(first).step_by(step);
        original.flip(&file, of_pages, &[0x04]);
    }
}

/// Damage that comes while the store is open is found as well.
#[test]
fn harm_after_opening_is_found_by_verify() {
    let original = small();
    let store = EngineStore::open(&original.root).unwrap();
    for file in files(&original.root).into_iter().skip(1) {
        let bytes = std::fs::read(&file).unwrap();
        // In place: the file is mapped, and must not be shorter for a moment.
        let in_place = File::options().write(true).open(&file).unwrap();
        for offset in [0, 8, 30, 100, 112, 116, bytes.len() / 2, bytes.len() - 1] {
            let offset = offset.min(bytes.len() - 1);
            in_place.write_all_at(&[bytes[offset] ^ 0x10], offset as u64).unwrap();
            let findings: usize = TABLES
                .map(|(table, _)| store.table(&name(table)).unwrap().verify().unwrap().len())
                .iter()
                .sum();
            assert!(findings > 0, "{}, offset {offset}", file.display());
            in_place.write_all_at(&bytes[offset..=offset], offset as u64).unwrap();
        }
    }
}

/// Right files in the wrong places are found out, too.
#[test]
fn exchanged_files_are_refused() {
    let original = small();
    // The load history is read by writers and by `verify`.
    let is_opened = |file: &PathBuf| file.extension().is_some_and(|e| e != "his");
    let segments: Vec<PathBuf> = files(&original.root).into_iter().filter(is_opened).collect();
    for file in &segments {
        for other in segments.iter().filter(|other| *other != file) {
            let disk = Arc::new(HarmedDisk::new(file, std::fs::read(other).unwrap()));
            let error = EngineStore::open_on(disk, &original.root).unwrap_err();
            original.check_error(file, &error, "exchanged");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
}

#[test]
fn a_manifest_that_names_a_file_elsewhere_or_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let rows = rows_of_all_kinds(2_000);
    {
        let store = EngineStore::open(&root).unwrap();
        let table = create(&store, "t", Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows, 1_000)).unwrap();
    }
    let outside = dir.path().join("0000000000.seg");
    std::fs::write(&outside, "of somebody else").unwrap();
    let (_, json) = table_file(&root, "t");
    let there = |at: usize| json["segments"][at]["file"].as_str().unwrap().to_owned();
    let next_file = manifest(&root).unwrap()["next_file"].as_u64().unwrap();
    let absolute = outside.to_str().unwrap().to_owned();
    let elsewhere = "../../0000000000.seg".to_owned();
    let unmade = format!("{next_file:010}.seg");
    for name in [elsewhere, absolute, there(1), unmade, there(0).replace(".seg", ".era")] {
        let mut json = json.clone();
        json["segments"][0]["file"] = name.clone().into();
        write_table(&root, "t", &json);
        let before = files(&root);
        let copy = dir.path().join("copy");
        for refused in [
            EngineStore::open(&root).map(drop),
            EngineStore::restore(&root, &copy, true, &Call::default()).map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
            assert!(error.to_string().contains(&name), "{error}");
        }
        assert!(!copy.join("MANIFEST").exists());
        assert_eq!(files(&root), before);
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "of somebody else");
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let original = small();
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup");
    EngineStore::open(&original.root).unwrap().backup(&backup, &Call::default()).unwrap();
    EngineStore::restore(&backup, &dir.path().join("whole"), true, &Call::default()).unwrap();
    for (at, file) in files(&backup).into_iter().skip(1).enumerate() {
        // Not in place: the file may be a hard link to one of the store.
        let whole = std::fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        let last = bytes.len() - 1;
        bytes[last] ^= 0x10;
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let again = dir.path().join(format!("again-{at}"));
        let error = EngineStore::restore(&backup, &again, true, &Call::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{}: {error}", file.display());
        assert_eq!(Path::new(damaged_place(&error).0), file);
        assert!(!again.exists(), "{}", file.display());
        std::fs::write(&file, whole).unwrap();
    }
    EngineStore::restore(&backup, &dir.path().join("repaired"), true, &Call::default()).unwrap();
}
