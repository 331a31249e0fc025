//! Stores, tables and files have identities: what is exchanged, or older than it should be, is found before
//! anything is touched. Hashes of identifiers depend on a secret of the store.

use crate::common::{
    Batches, Row, assert_nothing_leaks_for_long, create, damaged_place, files, load, manifest,
    name, table_file, upsert, write_manifest,
};
use idmatch_engine::EngineStore;
use idmatch_engine::disk::OsDisk;
use idmatch_model::{Keep, Pick, Side, Window};
use idmatch_store::{Call, ErrorKind, Finding, MatchQuery, OpenTables};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn rows(prefix: &str) -> Vec<Row> {
    let row = |n: i64| (format!("{n:032x}"), format!("{prefix}{n:04}"), 1_700_000_000_000 + n);
    (0..2_000).map(row).collect()
}

fn segment(root: &Path, table: &str) -> PathBuf {
    let (_, json) = table_file(root, table);
    let mut segments = json["segments"].as_array().unwrap().iter();
    let by_id = segments.find(|segment| segment["side"] == "id").unwrap();
    root.join("segments").join(by_id["file"].as_str().unwrap())
}

#[test]
fn exchanged_segments_of_two_tables_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    for prefix in ["a", "b"] {
        let table = create(&store, prefix, Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows(prefix), 1_000)).unwrap();
    }
    drop(store);
    // The same ids and dates, and partner_ids of the same length: only identities tell them apart.
    let (a, b) = (segment(dir.path(), "a"), segment(dir.path(), "b"));
    let aside = dir.path().join("aside");
    fs::rename(&a, &aside).unwrap();
    fs::rename(&b, &a).unwrap();
    fs::rename(&aside, &b).unwrap();
    let before = files(dir.path());
    let error = EngineStore::open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("another table"), "{error}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_segment_of_the_same_table_in_another_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let roots = ["one", "other"].map(|root| dir.path().join(root));
    for root in &roots {
        let store = EngineStore::open(root).unwrap();
        let table = create(&store, "a", Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows("a"), 1_000)).unwrap();
    }
    let [one, other] = roots.each_ref().map(|root| segment(root, "a"));
    fs::copy(other, one).unwrap();
    assert_eq!(EngineStore::open(&roots[0]).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_journal_of_another_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let roots = ["one", "other"].map(|root| dir.path().join(root));
    for root in &roots {
        let store = EngineStore::open(root).unwrap();
        let table = create(&store, "a", Keep::Last).unwrap();
        upsert(&table, &mut Batches::of_rows(&rows("a"), 1_000)).unwrap();
    }
    let [one, other] = roots.each_ref().map(|root| root.join("journal/0000000000.log"));
    fs::copy(other, one).unwrap();
    let error = EngineStore::open(&roots[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("another store"), "{error}");
}

#[test]
fn an_older_manifest_stops_writers_and_readers_delete_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let open = || EngineStore::open(root).unwrap();
    let more = rows("b");
    {
        let table = create(&open(), "t", Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows("a"), 1_000)).unwrap();
    }
    let old_table = root.join("segments").join(table_file(root, "t").0);
    let old_history = manifest(root).unwrap()["history"][0]["file"].as_str().unwrap().to_owned();
    let old = [root.join("MANIFEST"), old_table, root.join("segments").join(old_history)];
    let old = old.map(|path| (fs::read(&path).unwrap(), path));
    load(&open().table(&name("t")).unwrap(), &mut Batches::of_rows(&more, 1_000)).unwrap();
    for (bytes, path) in old {
        fs::write(path, bytes).unwrap();
    }

    let before = files(root);
    let table = open().table(&name("t")).unwrap();
    assert_eq!(table.verify().unwrap(), []);
    assert_eq!(table.last_seen(&more[0].0, &more[0].1).unwrap(), None);
    let error = load(&table, &mut Batches::of_rows(&more, 1_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("older MANIFEST"), "{error}");
    assert_eq!(damaged_place(&error), (root.join("MANIFEST").to_str().unwrap(), None));
    let recover =
        |accept| EngineStore::recover(Arc::new(OsDisk), root, (false, accept), &Call::default());
    assert_eq!(recover(false).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(files(root), before, "nothing was removed");

    assert_eq!(recover(true).unwrap().len(), 1);
    load(&open().table(&name("t")).unwrap(), &mut Batches::of_rows(&more, 1_000)).unwrap();
    let table = open().table(&name("t")).unwrap();
    assert!(table.last_seen(&more[0].0, &more[0].1).unwrap().is_some());
    assert_nothing_leaks_for_long(root);
}

#[test]
fn without_a_note_in_lock_no_writer_removes_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let write = || {
        let table = create(&EngineStore::open(root).unwrap(), "t", Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows("a"), 1_000)).unwrap();
        table.compact().unwrap();
    };
    let findings = || EngineStore::open(root).unwrap().table(&name("t")).unwrap().verify().unwrap();
    write();
    let unnamed = root.join("segments/0000009999.seg");
    fs::write(&unnamed, "of an unknown time").unwrap();
    assert_eq!(findings(), [], "the next writer removes it");
    fs::write(root.join("LOCK"), "no note").unwrap();
    let of_file = |findings: Vec<Finding>| {
        let places: Vec<String> = findings.into_iter().map(|found| found.place).collect();
        assert_eq!(places, [unnamed.display().to_string()]);
    };
    of_file(findings());
    // Also when writers have left their notes.
    for _ in 0..3 {
        write();
        of_file(findings());
        EngineStore::open(root).unwrap().table(&name("t")).unwrap().repair(false).unwrap();
    }
    // What a writer leaves behind goes all the same.
    let later = root.join("segments/0000019999.seg");
    fs::write(&later, "of a writer that was killed").unwrap();
    of_file(findings());
    write();
    assert!(unnamed.exists() && !later.exists());
    // A person removes it. From then on the next writer removes what is unnamed.
    fs::remove_file(&unnamed).unwrap();
    assert_eq!(findings(), []);
    write();
    fs::write(&unnamed, "of a writer that was killed").unwrap();
    write();
    assert!(!unnamed.exists());
}

/// Every publication writes the files of the tables that it changes, and no others.
#[test]
fn a_publication_writes_only_the_tables_that_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    for number in 0..1_000 {
        create(&store, &format!("t{number}"), Keep::Last).unwrap();
    }
    let named = || -> BTreeMap<String, String> {
        let tables = manifest(dir.path()).unwrap()["tables"].as_object().unwrap().clone();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        tables.values().map(|table| (text(&table["name"]), text(&table["file"]))).collect()
    };
    let stored = |file: &String| {
        let path = dir.path().join("segments").join(file);
        let metadata = fs::metadata(&path).unwrap();
        (metadata.ino(), metadata.modified().unwrap(), fs::read(path).unwrap())
    };
    let before = named();
    let files: BTreeMap<&String, _> = before.values().map(|file| (file, stored(file))).collect();
    let table = store.table(&name("t77")).unwrap();
    load(&table, &mut Batches::of_rows(&rows("a"), 1_000)).unwrap();
    let after = named();
    let (same, changed): (Vec<_>, Vec<_>) =
        after.iter().partition(|(name, file)| before[*name] == **file);
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].0, "t77");
    for (name, file) in same {
        assert!(stored(file) == files[file], "{name}: {file} was written again");
    }
}

/// Decimal numbers whose hashes with the seed 3, which is that of numbers where a store's seed is 0, share
/// their first 48 bits. XXH3 of 8 bytes is a bijection: here is its inverse.
fn crafted(count: u64) -> Vec<u64> {
    const PRIME: u64 = 0x9fb2_1c65_1e98_df25;
    // By Newton's iteration.
    let inverse =
        (0..6).fold(1u64, |x, _| x.wrapping_mul(2u64.wrapping_sub(PRIME.wrapping_mul(x))));
    let mix = |h: u64| h ^ h.rotate_left(49) ^ h.rotate_left(24);
    let unmixed = |hash: u64| {
        let h = hash ^ (hash >> 28) ^ (hash >> 56);
        let h = h.wrapping_mul(inverse);
        let h = (h ^ ((h >> 35) + 8)).wrapping_mul(inverse);
        // The 64th power of this mix is the identity.
        (0..63).fold(h, |h, _| mix(h))
    };
    let hash = |number: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_be_bytes(), 3);
    // What is xored into the number before it is mixed, from one known hash.
    let keyed = |number: u64| number.swap_bytes().rotate_left(32);
    let flip = unmixed(hash(0)) ^ keyed(0);
    let number = |hash: u64| (unmixed(hash) ^ flip).rotate_left(32).swap_bytes();
    let numbers: Vec<u64> = (0..count).map(|n| number(0xabcd_ef01_2345 << 16 | n)).collect();
    for (n, number) in (0..).zip(&numbers) {
        assert_eq!(hash(*number), 0xabcd_ef01_2345 << 16 | n, "the inverse is wrong");
    }
    numbers
}

#[test]
fn identifiers_that_were_made_to_share_a_hash_are_spread_by_the_secret_seed() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Vec<Row> =
        crafted(50_000).iter().map(|n| (n.to_string(), "p".to_owned(), 1_000)).collect();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&rows, 5_000)).unwrap();
    let file = fs::read(segment(dir.path(), "t")).unwrap();
    let end = u64::from_le_bytes(file[56..64].try_into().unwrap()) as usize;
    let starts: Vec<&[u8]> = file[152..end].chunks(4).collect();
    let filled = starts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(filled > 100, "{filled} blocks have keys");
}

/// Where the seed is known all the same, answers are right, and keys are found by halves.
#[test]
fn identifiers_that_share_a_hash_are_found() {
    let dir = tempfile::tempdir().unwrap();
    create(&EngineStore::open(dir.path()).unwrap(), "t", Keep::Last).unwrap();
    let mut json = manifest(dir.path()).unwrap();
    json["seed"] = "0000000000000000".into();
    write_manifest(dir.path(), &json);
    let store = EngineStore::open(dir.path()).unwrap();
    let table = store.table(&name("t")).unwrap();
    let numbers = crafted(3_000);
    let row = |n: &u64| (n.to_string(), format!("p{n}"), 1_000);
    let (there, missing) = numbers.split_at(2_000);
    let rows: Vec<Row> = there.iter().map(row).collect();
    load(&table, &mut Batches::of_rows(&rows, 5_000)).unwrap();
    for (number, row) in there.iter().zip(&rows) {
        assert!(table.last_seen(&row.0, &row.1).unwrap().is_some(), "{number}");
    }
    for number in missing {
        let (id, partner_id, _) = row(number);
        assert_eq!(table.last_seen(&id, &partner_id).unwrap(), None, "{number}");
    }
    let asked: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let query = MatchQuery { by: Side::Id, window: Window::ALL, pick: Pick::All, positions: false };
    let matched = table.match_population(&mut Batches::of_population(&asked), query).unwrap();
    assert_eq!(matched.counts().matched, 2_000);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn an_older_manifest_under_a_writer_is_not_published_over() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let store = EngineStore::open(root).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&rows("a"), 1_000)).unwrap();
    // From now on this process holds the lock.
    upsert(&table, &mut Batches::of_rows(&rows("b")[..5], 1_000)).unwrap();
    let old = fs::read(root.join("MANIFEST")).unwrap();
    load(&table, &mut Batches::of_rows(&rows("c"), 1_000)).unwrap();
    let new = fs::read(root.join("MANIFEST")).unwrap();
    let old_table = root.join("segments").join("0000009990.tab");
    fs::write(&old_table, "kept").unwrap();
    fs::write(root.join("MANIFEST"), &old).unwrap();
    let before = files(root);
    let error = table.compact().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(before.iter().all(|file| file.exists()));
    fs::write(root.join("MANIFEST"), &new).unwrap();
    drop((table, store));
    let table = EngineStore::open(root).unwrap().table(&name("t")).unwrap();
    assert_eq!(table.verify().unwrap(), []);
    for prefix in ["a", "c"] {
        let (id, partner_id, _) = &rows(prefix)[7];
        assert!(table.last_seen(id, partner_id).unwrap().is_some(), "{prefix}");
    }
    let (id, partner_id, _) = &rows("b")[2];
    assert!(table.last_seen(id, partner_id).unwrap().is_some());
}

/// Accepting an older manifest removes nothing where it cannot be opened without loss.
#[test]
fn an_older_manifest_that_needs_lost_segments_is_refused_with_all_files_kept() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let store = EngineStore::open(root).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&rows("a"), 1_000)).unwrap();
    let old_table = root.join("segments").join(table_file(root, "t").0);
    let [old_manifest, old_bytes] =
        [&root.join("MANIFEST"), &old_table].map(|path| fs::read(path).unwrap());
    load(&table, &mut Batches::of_rows(&rows("b"), 1_000)).unwrap();
    table.compact().unwrap();
    drop((table, store));
    let new = fs::read(root.join("MANIFEST")).unwrap();
    fs::write(root.join("MANIFEST"), &old_manifest).unwrap();
    fs::write(&old_table, &old_bytes).unwrap();
    let before = files(root);
    let refused =
        EngineStore::recover(Arc::new(OsDisk), root, (false, true), &Call::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert_eq!(files(root), before);
    fs::write(root.join("MANIFEST"), &new).unwrap();
    let table = EngineStore::open(root).unwrap().table(&name("t")).unwrap();
    assert_eq!(table.verify().unwrap(), []);
}
