//! How a stream of batches ends.

// The binding itself links with Python only; this part of it knows none.
#[path = "../src/forks.rs"]
mod forks;
#[path = "../src/stream.rs"]
mod stream;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use idmatch_store::{Error, ErrorKind};
use std::sync::Arc;
use stream::BatchStream;

fn batch() -> RecordBatch {
    RecordBatch::new_empty(schema())
}

fn schema() -> SchemaRef {
    Arc::new(Schema::empty())
}

#[test]
fn ends_after_the_last_batch() {
    let mut stream = BatchStream::start(schema(), |send| {
        send(batch())?;
        send(batch())
    })
    .unwrap();
    assert_eq!(stream.by_ref().map(Result::unwrap).count(), 2);
    assert!(stream.next().is_none());
}

#[test]
fn ends_with_the_error_of_the_writer() {
    let mut stream = BatchStream::start(schema(), |send| {
        send(batch())?;
        Err(Error::new(ErrorKind::Corrupt, "block 7 is damaged"))
    })
    .unwrap();
    stream.next().unwrap().unwrap();
    let error = stream.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("block 7 is damaged"), "{error}");
    assert!(stream.next().is_none());
}

#[test]
fn ends_with_an_error_when_the_writer_panics() {
    let mut stream = BatchStream::start(schema(), |send| {
        send(batch())?;
        panic!("a fault");
    })
    .unwrap();
    stream.next().unwrap().unwrap();
    let error = stream.next().expect("an error, not the end").unwrap_err();
    assert!(error.to_string().contains("those so far are not all"), "{error}");
    assert!(stream.next().is_none());
}

#[test]
fn ends_the_writer_when_the_reader_is_gone() {
    let (told, refused) = std::sync::mpsc::channel();
    let stream = BatchStream::start(schema(), move |send| {
        let error = loop {
            if let Err(error) = send(batch()) {
                break error;
            }
        };
        told.send(error.to_string()).unwrap();
        Err(error)
    })
    .unwrap();
    drop(stream);
    assert!(refused.recv().unwrap().contains("reader of a match is gone"));
}
