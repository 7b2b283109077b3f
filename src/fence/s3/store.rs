//! Implements [`Bucket`] for each store of the crate `object_store`.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};

use super::{Bucket, Condition, Found, Put};

impl<T: ObjectStore + ?Sized> Bucket for T {
    type Error = Error;

    async fn get(&self, key: &str) -> Result<Option<Found>, Error> {
        let found = match ObjectStoreExt::get(self, &path(key)?).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let e_tag = found.meta.e_tag.clone().ok_or_else(|| no_e_tag(key))?;
        Ok(Some(Found { object: found.bytes().await?, e_tag }))
    }

    async fn put(&self, key: &str, object: Bytes, condition: Condition) -> Result<Put, Error> {
        let mode = match condition {
            Condition::Absent => PutMode::Create,
            Condition::Matches(e_tag) => PutMode::Update(UpdateVersion { e_tag: Some(e_tag), version: None }),
        };
        match self.put_opts(&path(key)?, object.into(), PutOptions::from(mode)).await {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Put::Refused),
            put => put.map(|_| Put::Done),
        }
    }
}

/// The path of a key. Returns an error if the key needs escaping, because the escaped key would
/// name another object.
fn path(key: &str) -> Result<Path, Error> {
    Ok(Path::parse(key)?)
}

fn no_e_tag(key: &str) -> Error {
    let source = format!("the store gives no ETag for {key}, so it has no conditional writes");
    Error::Generic { store: "quorumlock", source: source.into() }
}
