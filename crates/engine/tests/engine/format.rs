//! `spec/format/` is what is written: segments, journals, erasures and staged parts are read here by the offsets
//! of the pages' own tables, with nothing of the engine's, and must hold the rows that came in.

use crate::common::{
    Batches, Layout, Row, create, erase, files, journal_row, listed, load, number, observations,
    rows_of_all_kinds, sealed_json, unpacked, upsert,
};
use idmatch_engine::EngineStore;
use idmatch_model::{ErasureKey, Keep, Target};
use idmatch_store::{NewWrite, Sharing};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The checksum of a part: its first eight bytes, over the rest, seeded with its place.
fn assert_sealed(region: u64, offset: usize, part: &[u8]) {
    let sum = xxh3_64_with_seed(&part[8..], region << 56 | offset as u64);
    assert_eq!(number(&part[..8]), sum, "region {region}, offset {offset}");
}

/// The identifiers of a page with their hashes.
fn ids(page: &[u8], seed: u64) -> Vec<(String, u64)> {
    let layout = Layout::named("ids");
    let (kind, width) = (layout.read("kind", page) as u8, layout.read("width", page) as usize);
    let count = layout.read("count", page) as usize;
    let body = &page[layout.len()..];
    let (kinds, body) = match kind {
        255 => (body[..count].to_vec(), &body[count..]),
        kind => (vec![kind; count], body),
    };
    let (ends, payloads): (Vec<usize>, &[u8]) = match width {
        0 => {
            let (ends, payloads) = body.split_at(count * 4);
            (ends.chunks(4).map(|end| number(end) as usize).collect(), payloads)
        }
        width => ((1..=count).map(|n| n * width).collect(), body),
    };
    assert_eq!(ends.last(), Some(&payloads.len()), "payloads end with the page");
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let places = kinds.iter().zip(starts.zip(&ends));
    places.map(|(kind, (start, end))| unpacked(*kind, &payloads[start..*end], seed)).collect()
}

fn dates(page: &[u8]) -> Vec<i64> {
    let layout = Layout::named("dates");
    let field = |name| layout.read(name, page);
    let width = field("width") as usize;
    let body = &page[layout.len()..];
    assert_eq!(body.len(), width * field("count") as usize);
    let date = |n: usize| field("base") + field("unit") * number(&body[n * width..(n + 1) * width]);
    (0..field("count") as usize).map(|n| date(n) as i64).collect()
}

/// A segment file, by the book.
struct Segment<'a> {
    header: Layout,
    file: &'a [u8],
    seed: u64,
}

impl<'a> Segment<'a> {
    fn field(&self, name: &str) -> u64 {
        self.header.read(name, self.file)
    }

    fn bytes(&self, name: &str) -> &'a [u8] {
        self.header.bytes(name, self.file)
    }

    fn region(&self, number: usize) -> &'a [u8] {
        let ends = [
            "end of the directory",
            "end of the block headers",
            "end of the key pages",
            "end of the value pages",
            "end of the date pages",
        ];
        let start = match number {
            1 => self.header.len(),
            number => self.field(ends[number - 2]) as usize,
        };
        &self.file[start..self.field(ends[number - 1]) as usize]
    }

    /// A page, verified.
    fn page(&self, region: usize, offset: usize, len: usize) -> &'a [u8] {
        let page = &self.region(region)[offset..offset + len];
        assert_sealed(region as u64, offset, page);
        page
    }

    /// All rows: key, value, date.
    fn rows(&self) -> Vec<Row> {
        let directory: Vec<usize> =
            self.region(1).chunks(4).map(|start| number(start) as usize).collect();
        assert_eq!(directory.len(), (1 << self.field("block bits")) + 1);
        assert_eq!(
            self.field("checksum of the directory"),
            xxh3_64_with_seed(self.region(1), 1 << 56)
        );
        let mut rows = Vec::new();
        for (block, range) in directory.windows(2).enumerate() {
            if range[0] < range[1] {
                let head = &self.region(2)[range[0]..range[1]];
                assert_sealed(2, range[0], head);
                rows.extend(self.block(block as u64, head));
            }
        }
        rows
    }

    fn block(&self, block: u64, head: &[u8]) -> Vec<Row> {
        let layout = Layout::named("head");
        let field = |name| layout.read(name, head) as usize;
        let (keys, rows) = (field("keys"), field("rows"));
        let (pages, rest) = head[layout.len()..].split_at(rows.div_ceil(1_024) * 16);
        let (fingerprints, deltas) = rest.split_at(keys * 2);
        let width = match rows - keys {
            0 => 0,
            1..=255 => 1,
            256..=65_535 => 2,
            _ => 4,
        };
        assert_eq!(deltas.len(), keys * width);
        let key_page = self.page(3, field("offset of the page of keys"), field("its length"));
        assert_eq!(field("kind"), usize::from(key_page[8]));
        let (mut values, mut seen) = (Vec::new(), Vec::new());
        for page in pages.chunks(16) {
            let at = |n: usize| number(&page[n * 4..n * 4 + 4]) as usize;
            values.extend(ids(self.page(4, at(0), at(1)), self.seed));
            seen.extend(dates(self.page(5, at(2), at(3))));
        }
        assert_eq!((values.len(), seen.len()), (rows, rows));
        let mut found = Vec::new();
        for (key, (text, hash)) in ids(key_page, self.seed).into_iter().enumerate() {
            let shift = self.field("prefix bits") + self.field("block bits");
            assert_eq!(number(&fingerprints[key * 2..key * 2 + 2]), (hash << shift) >> 48);
            if self.field("block bits") > 0 {
                let after_prefix = hash << self.field("prefix bits");
                assert_eq!(after_prefix >> (64 - self.field("block bits")), block);
            }
            let end = key + 1 + number(&deltas[key * width..(key + 1) * width]) as usize;
            for row in found.len()..end {
                found.push((text.clone(), values[row].0.clone(), seen[row]));
            }
        }
        assert_eq!(found.len(), rows);
        found
    }
}

#[test]
fn segments_are_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let mut rows = rows_of_all_kinds(700);
    // A key with three pages of rows, and blocks with every width of a row count delta.
    rows.extend((0..2_500).map(|n| (format!("{n:032x}"), "hot".to_owned(), n)));
    let table = create(&store, "t", Keep::All).unwrap();
    load(&table, &mut Batches::of_rows(&rows, 100)).unwrap();
    let files = files(dir.path());
    assert_eq!(files.len(), 5);
    let expected: BTreeSet<Row> = rows.into_iter().collect();
    let mut randoms = BTreeSet::new();
    let manifest = sealed_json("manifest", &files[0]);
    let (id, table) = table_of(dir.path(), &manifest);
    let segments = files.iter().filter(|file| file.extension().is_some_and(|e| e == "seg"));
    for (info, path) in table["segments"].as_array().unwrap().iter().zip(segments) {
        let file = std::fs::read(path).unwrap();
        let segment =
            Segment { header: Layout::named("header"), file: &file, seed: hex(&manifest["seed"]) };
        assert_eq!(segment.header.len(), 152);
        assert!(file.starts_with(b"IDMSEG\r\n"));
        assert_eq!(segment.field("format"), 2);
        assert_eq!(segment.bytes("identity of the table"), id);
        assert!(randoms.insert(segment.bytes("random").to_vec()), "two files are alike");
        let sum_at = segment.header.len() - 8;
        let sum = segment.field("checksum of bytes 0 to 143");
        assert_eq!(sum, xxh3_64_with_seed(&file[..sum_at], 0));
        let mut found = segment.rows();
        assert_eq!(found.len() as u64, segment.field("rows"));
        let mut keys: BTreeMap<&str, u64> = BTreeMap::new();
        found.iter().for_each(|row| *keys.entry(&row.0).or_default() += 1);
        assert_eq!(keys.len() as u64, segment.field("keys"));
        assert_eq!(keys.values().max(), Some(&segment.field("most rows of one key")));
        let millis = || found.iter().map(|row| row.2 as u64);
        assert_eq!(millis().min(), Some(segment.field("oldest date")));
        assert_eq!(millis().max(), Some(segment.field("newest date")));
        // What the manifest says of the file.
        assert_eq!(info["file"], path.file_name().unwrap().to_str().unwrap());
        assert_eq!(info["side"], ["id", "partner_id"][segment.field("direction") as usize]);
        assert_eq!(info["bytes"], file.len());
        for (key, field) in [("rows", "rows"), ("oldest", "oldest"), ("newest", "newest")] {
            assert_eq!(info[key], segment.field(field), "{key}");
        }
        assert_eq!(hex(&info["header_sum"]), sum);
        if segment.field("direction") == 1 {
            found = found.into_iter().map(|(key, value, date)| (value, key, date)).collect();
        }
        assert_eq!(found.len(), expected.len(), "each observation once");
        assert!(found.into_iter().collect::<BTreeSet<_>>() == expected);
    }
}

/// The identity of the one table, and its file.
fn table_of(store: &Path, manifest: &serde_json::Value) -> (Vec<u8>, serde_json::Value) {
    let tables = manifest["tables"].as_object().unwrap();
    assert_eq!(tables.len(), 1);
    let (id, named) = tables.iter().next().unwrap();
    let path = store.join("segments").join(named["file"].as_str().unwrap());
    let table = sealed_json("table", &path);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(named["bytes"], bytes.len());
    let json = bytes.split(|byte| *byte == b'\n').next().unwrap().len() + 1;
    assert_eq!(hex(&named["sum"]), xxh3_64(&bytes[json..]));
    assert_eq!([&table["id"], &table["name"]], [&serde_json::json!(id), &named["name"]]);
    assert_eq!(table["changed"], manifest["generation"]);
    let digits = id.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    (digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect(), table)
}

/// The number of hex digits.
fn hex(digits: &serde_json::Value) -> u64 {
    let digits = digits.as_str().unwrap();
    assert_eq!(digits.len(), 16);
    u64::from_str_radix(digits, 16).unwrap()
}

#[test]
fn a_journal_is_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "some-table", Keep::All).unwrap();
    let rows = rows_of_all_kinds(60);
    for rows in rows.chunks(25) {
        upsert(&table, &mut Batches::of_rows(rows, 10)).unwrap();
    }
    let file = files(dir.path()).into_iter().find(|file| file.ends_with("0000000000.log")).unwrap();
    let bytes = std::fs::read(file).unwrap();
    let layout = Layout::named("file");
    assert!(bytes.starts_with(b"IDMJRN\r\n"));
    assert_eq!(["format", "number", "before"].map(|field| layout.read(field, &bytes)), [2, 0, 0]);
    assert_eq!(layout.read("checksum", &bytes), xxh3_64(&bytes[..layout.len() - 8]));
    let manifest = sealed_json("manifest", &dir.path().join("MANIFEST"));
    let (id, _) = table_of(dir.path(), &manifest);
    let store_id =
        u128::from_be_bytes(layout.bytes("identity of the store", &bytes).try_into().unwrap());
    assert_eq!(format!("{store_id:032x}"), manifest["store"].as_str().unwrap());
    assert_ne!(layout.bytes("identity of this file", &bytes), [0; 16]);
    assert_eq!(layout.bytes("identity of the previous file", &bytes), [0; 16]);
    let (mut at, mut found, mut commits) = (layout.len(), Vec::new(), 0);
    let layout = Layout::named("record");
    while at < bytes.len() {
        let record = &bytes[at..];
        let len = layout.read("length", record) as usize;
        let size = (layout.len() + len).next_multiple_of(8);
        assert_eq!(&record[8..12], b"IDMR");
        assert_eq!(layout.read("durable", record), at as u64);
        let sum = xxh3_64_with_seed(&record[8..size], at as u64);
        assert_eq!(layout.read("checksum", record), sum);
        let entries = &record[layout.len()..layout.len() + len];
        let (table, rest) = entries.split_at(16);
        assert_eq!(table, id);
        assert_eq!(layout.read("number of the commit", record), commits + 1);
        assert_eq!(number(&rest[4..8]) as usize, rest.len() - 8);
        let mut encoded = &rest[8..];
        for _ in 0..number(&rest[..4]) {
            let (row, end) = journal_row(encoded);
            found.push(row);
            encoded = &encoded[end..];
        }
        assert!(encoded.is_empty());
        at += size;
        commits += 1;
    }
    assert_eq!(found, rows);
    assert_eq!(commits, 3);
}

#[test]
fn erasures_are_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let writes = create(&store, "some-table", Keep::All).unwrap();
    let (id, partner_id) = ("an id".to_owned(), "a partner".to_owned());
    let targets = [
        Target::Id(id.clone()),
        Target::PartnerId(partner_id.clone()),
        Target::Pair { id, partner_id },
    ];
    erase(&writes, &targets, 1_000).unwrap();
    // The later of two counts.
    erase(&writes, &targets[..1], 2_000).unwrap();
    erase(&writes, &targets[1..], 500).unwrap();
    let manifest = sealed_json("manifest", &dir.path().join("MANIFEST"));
    let (id, table) = table_of(dir.path(), &manifest);
    let key: ErasureKey = manifest["erasure_key"].as_str().unwrap().parse().unwrap();
    let mut found = BTreeMap::new();
    for file in table["erasures"].as_array().unwrap() {
        let name = file["file"].as_str().unwrap();
        let bytes = std::fs::read(dir.path().join("segments").join(name)).unwrap();
        let layout = Layout::named("erasures");
        assert!(bytes.starts_with(b"IDMERA\r\n"));
        assert_eq!(["format", "kind", "load"].map(|field| layout.read(field, &bytes)), [2, 0, 0]);
        assert_eq!(layout.bytes("identity of the table", &bytes), id);
        assert_eq!(hex(&file["sum"]), xxh3_64(&bytes));
        let sum_at = layout.len() - 8;
        assert_eq!(layout.read("checksum of bytes 0 to 63", &bytes), xxh3_64(&bytes[..sum_at]));
        let mut entries: Vec<&[u8]> = Vec::new();
        for (number_of_page, page) in (1..).zip(bytes[layout.len()..].chunks(170 * 24 + 8)) {
            let (body, sum) = page.split_at(page.len() - 8);
            assert_eq!(number(sum), xxh3_64_with_seed(body, number_of_page));
            entries.extend(body.chunks(24));
        }
        let counts = [layout.read("count", &bytes), file["count"].as_u64().unwrap()];
        assert_eq!(counts, [entries.len() as u64; 2]);
        for entry in entries {
            let hash = u128::from_le_bytes(entry[..16].try_into().unwrap());
            let at: &mut u64 = found.entry(hash).or_default();
            *at = number(&entry[16..]).max(*at);
        }
    }
    let hash = |target| key.of(target);
    let expected =
        [(hash(&targets[0]), 2_000), (hash(&targets[1]), 1_000), (hash(&targets[2]), 1_000)];
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn a_staged_part_is_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "some-table", Keep::All).unwrap();
    let id = table.snapshot().unwrap().id();
    let session = table.begin(NewWrite { sharing: Sharing::Shared, ..NewWrite::load(id) }).unwrap();
    // More than one block, whose identifiers have any length.
    let mut rows = rows_of_all_kinds(60);
    rows.extend((0..1_100).map(|n| (format!("x{n:01000}"), "p".to_owned(), n)));
    let mut part = session.part(Some(7)).unwrap();
    for batch in observations(&mut Batches::of_rows(&rows, 100)) {
        part.add(&batch).unwrap();
    }
    let receipt = part.finish(5).unwrap();
    let folder = dir.path().join("staging").join(format!("{:032x}", session.address().session.0));
    let name = listed(&folder).into_iter().find(|name| name.ends_with(".part")).unwrap();
    let words: Vec<&str> = name.strip_suffix(".part").unwrap().split('-').collect();
    assert_eq!([words[0], words[2]], [&*format!("{:032x}", receipt.id), "7"]);
    assert!(words.len() == 3 && words[1].len() >= 13, "{name}");

    let bytes = std::fs::read(folder.join(&name)).unwrap();
    let layout = Layout::named("part");
    assert!(bytes.starts_with(b"IDMPRT\r\n"));
    assert_eq!((layout.len(), layout.read("format", &bytes)), (72, 2));
    let manifest = sealed_json("manifest", &dir.path().join("MANIFEST"));
    let identity = |field| {
        let bytes = layout.bytes(field, &bytes).try_into().unwrap();
        format!("{:032x}", u128::from_be_bytes(bytes))
    };
    assert_eq!(identity("identity of the store"), manifest["store"].as_str().unwrap());
    assert_eq!(identity("identity of the session"), folder.file_name().unwrap().to_str().unwrap());
    assert_eq!(identity("identity of the part"), words[0]);
    let sum_at = layout.len() - 8;
    assert_eq!(layout.read("checksum of bytes 0 to 63", &bytes), xxh3_64(&bytes[..sum_at]));
    let (mut left, mut found, mut blocks) = (&bytes[layout.len()..], Vec::new(), 0);
    while number(&left[..4]) > 0 {
        let len = 4 + number(&left[..4]) as usize;
        let (block, rest) = left.split_at(len + 8);
        blocks += 1;
        assert_eq!(number(&block[len..]), xxh3_64_with_seed(&block[..len], blocks));
        let mut encoded = &block[4..len];
        while !encoded.is_empty() {
            let (row, end) = journal_row(encoded);
            found.push(row);
            encoded = &encoded[end..];
        }
        left = rest;
    }
    assert_eq!((left.len(), blocks), (28, 2));
    assert_eq!((number(&left[4..12]), number(&left[12..20])), (rows.len() as u64, 5));
    assert_eq!(number(&left[20..]), xxh3_64_with_seed(&left[..20], blocks + 1));
    assert!(found == rows);
}
