//! Changing a State: setting and deleting keys, with compare-and-set.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result, StateChange};
use crate::identity::OperationId;
use crate::scope::Access;
use crate::store::{
    Attr, Content, DisplacedContent, IfMissing, NodePath, Parents, Precondition, PutOptions, RevisionId,
    Step, Store, StoreError, StoreResult, Subtree, TagRef, VersionTag,
};
use crate::vfs::call::ChangeStage;
use crate::vfs::state::State;
use crate::vfs::state::access::store_error;
use crate::vfs::state::read::live_value;
use crate::vfs::state::value::{EXPIRING_MODE, check_value, encode};

/// How often a change is tried again because another caller changed the key meanwhile.
const MAX_ATTEMPTS: usize = 16;

/// How a key is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetOptions {
    if_match: Option<TagRef>,
    create_only: bool,
    expires_in: Option<Duration>,
}

impl SetOptions {
    /// Sets the key, whatever it is now. It doesn't expire.
    pub fn new() -> Self {
        SetOptions::default()
    }

    /// Sets the key only if it has this version tag: compare-and-set.
    pub fn if_match(self, tag: impl Into<TagRef>) -> Self {
        SetOptions { if_match: Some(tag.into()), ..self }
    }

    /// Sets the key only if it doesn't exist. One that has expired doesn't.
    pub fn create_only(self) -> Self {
        SetOptions { create_only: true, ..self }
    }

    /// Makes the key expire after this time.
    pub fn expires_in(self, time: Duration) -> Self {
        SetOptions { expires_in: Some(time), ..self }
    }
}

/// What a change of a key did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateWritten {
    /// Whether the key is new.
    pub created: bool,
    /// The version tag that the key has now.
    pub version_tag: VersionTag,
    /// When the key expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// The revision that the change made, on a Store with history.
    pub revision: Option<RevisionId>,
    /// The operation that the change belongs to.
    pub operation: OperationId,
}

/// What a key's file is now.
struct Found {
    attr: Option<Attr>,
    is_expired: bool,
}

impl Found {
    /// Looks at a key's file. Reads it only if the key expires.
    fn at(store: &dyn Store, at: &NodePath, now: Timestamp) -> StoreResult<Found> {
        match store.stat(at) {
            Err(StoreError::NotFound | StoreError::NotADirectory) => {
                Ok(Found { attr: None, is_expired: false })
            }
            Ok(attr) if attr.mode == EXPIRING_MODE => {
                let is_live = live_value(store, at, now)?.is_some_and(|value| value.version_tag == attr.tag);
                Ok(Found { attr: Some(attr), is_expired: !is_live })
            }
            attr => Ok(Found { attr: Some(attr?), is_expired: false }),
        }
    }

    /// The version tag of the key, unless it has expired.
    fn live_tag(&self) -> Option<VersionTag> {
        self.attr.filter(|_| !self.is_expired).map(|attr| attr.tag)
    }

    /// What has to be there still, for a change that relies on what was found.
    fn precondition(&self) -> Precondition {
        self.attr.map_or(Precondition::Absent, |attr| Precondition::Tag(attr.tag))
    }
}

impl State {
    /// Sets a key to a JSON text of up to [`crate::vfs::state::MAX_VALUE`] bytes, which is kept exactly as given.
    ///
    /// [`Error::StateConflict`] and [`Error::StateKeyExists`] say that a condition doesn't hold, and give the present
    /// version tag.
    pub fn set(&self, key: &str, value: &str, options: &SetOptions) -> Result<StateWritten> {
        let SetOptions { if_match, create_only, expires_in } = *options;
        self.key_call("state_set", key, |call, key, path| {
            if if_match.is_some() && create_only {
                return Err(Error::Invalid("pass `if_match` or `create_only`, not both".into()));
            }
            check_value(value)?;
            call.set_bytes(value.len() as u64);
            let state = call.authorize_state(path, Access::Write)?;
            let (store, at) = (&**state.mount().store(), key.node_path(&self.namespace, state));
            let now = call.state_now();
            let expires_at = expires_in.map(|time| expiry_time(now, time)).transpose()?;
            self.sweep_if_due(now, expires_at);
            let failed = |cause| store_error(path, cause);
            for _ in 0..MAX_ATTEMPTS {
                let found = Found::at(store, &at, now).map_err(failed)?;
                let expect = match (if_match, found.live_tag()) {
                    (Some(expected), Some(tag)) if expected.matches(tag) => Precondition::Tag(tag),
                    (Some(_), current) => {
                        let (path, change) = (path.clone(), StateChange::Set);
                        return Err(Error::StateConflict { path, current, change });
                    }
                    (None, Some(current)) if create_only => {
                        return Err(Error::StateKeyExists { path: path.clone(), current });
                    }
                    (None, _) if create_only => found.precondition(),
                    (None, _) => Precondition::Any,
                };
                let (content, mode) = encode(value, expires_at);
                let options = PutOptions {
                    expect,
                    parents: Parents::Create,
                    mode: Some(mode),
                    ..PutOptions::default()
                };
                let step = Step::Write { at: at.clone(), content: Content::Bytes(content), options };
                let applied = match call.apply(store, vec![step], ChangeStage::Final) {
                    Err(cause) if is_race(&cause, expect) => continue,
                    applied => applied.map_err(failed)?,
                };
                let attr = applied.outcomes.first().and_then(|outcome| outcome.attr);
                let attr = attr.ok_or_else(|| failed(StoreError::Corrupt("a Store wrote nothing".into())))?;
                return Ok(StateWritten {
                    created: found.live_tag().is_none(),
                    version_tag: attr.tag,
                    expires_at,
                    revision: applied.revision.map(|number| store.revision(number)),
                    operation: call.operation(),
                });
            }
            Err(failed(StoreError::Conflict))
        })
    }

    /// Deletes a key; if `if_match` is given, only if the key has this version tag. A key that doesn't exist is
    /// [`Error::NoStateKey`].
    pub fn delete(&self, key: &str, if_match: Option<TagRef>) -> Result<OperationId> {
        self.key_call("state_delete", key, |call, key, path| {
            let state = call.authorize_state(path, Access::Write)?;
            let (store, at) = (&**state.mount().store(), key.node_path(&self.namespace, state));
            let (now, failed) = (call.state_now(), |cause| store_error(path, cause));
            for _ in 0..MAX_ATTEMPTS {
                let found = Found::at(store, &at, now).map_err(failed)?;
                let tag = match (found.live_tag(), if_match) {
                    (current, Some(expected)) if current.is_none_or(|tag| !expected.matches(tag)) => {
                        let (path, change) = (path.clone(), StateChange::Delete);
                        return Err(Error::StateConflict { path, current, change });
                    }
                    (None, _) => return Err(Error::NoStateKey { path: path.clone() }),
                    (Some(tag), _) => tag,
                };
                let expect = Precondition::Tag(tag);
                match call.apply(store, vec![removal(at.clone(), expect)], ChangeStage::Final) {
                    Err(cause) if is_race(&cause, expect) => {}
                    applied => return applied.map(|_| call.operation()).map_err(failed),
                }
            }
            Err(failed(StoreError::Conflict))
        })
    }
}

/// The step that removes a key's file.
pub(super) fn removal(at: NodePath, expect: Precondition) -> Step {
    Step::Remove {
        at,
        subtree: Subtree::File,
        expect,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Keep,
    }
}

/// Whether a change failed because another caller changed the key since it was looked at.
fn is_race(cause: &StoreError, expect: Precondition) -> bool {
    expect != Precondition::Any
        && matches!(cause, StoreError::Conflict | StoreError::AlreadyExists | StoreError::NotFound)
}

fn expiry_time(now: Timestamp, time: Duration) -> Result<Timestamp> {
    let nanoseconds =
        i64::try_from(time.as_nanos()).ok().and_then(|nanoseconds| now.0.checked_add(nanoseconds));
    match nanoseconds {
        Some(at) if !time.is_zero() => Ok(Timestamp(at)),
        Some(_) => Err(Error::Invalid("`expires_in` has to be longer than 0".into())),
        None => {
            Err(Error::Invalid("`expires_in` is too long; leave it out for a key that doesn't expire".into()))
        }
    }
}
