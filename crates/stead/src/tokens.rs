//! Tokens for access over HTTP; each belongs to one identity.
//!
//! A token's secret is shown once, when the token is created; `tokens.json` in the state
//! directory holds only its hash. That file is read again
//! whenever it has changed, so a revoked token stops working at once, also in a running server.
//!
//! ```
//! use stead::{Clock, Identity, SystemClock, Tokens};
//! # let directory = std::env::temp_dir().join(format!("stead-tokens-{}", std::process::id()));
//! # let config = stead::demo::create(&directory)?;
//!
//! let tokens = Tokens::of(&config);
//! let now = SystemClock.now();
//! let (token, secret) = tokens.create(Identity::agent("coder"), None, now)?;
//! assert_eq!(tokens.check(&secret, now)?.map(|found| found.id.clone()), Some(token.id.clone()));
//! tokens.revoke(&token.id)?;
//! assert!(tokens.check(&secret, now)?.is_none());
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use stead_core::identity::check_agent_name;
use stead_core::tools::ResultFormat;
use stead_core::{Identity, Timestamp};
use stead_stores::sync::{self, SyncPoint};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::stores::create_private_directory;

/// The prefix of every token's secret, so that people and secret scanners recognize one.
pub const PREFIX: &str = "stead_";

/// What is stored about a token: not its secret, but the hash of it, which [`Serialize`] writes too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The id that `revoke` takes.
    pub id: String,
    /// The identity that a client with this token has.
    pub identity: Identity,
    /// When it was created.
    pub created: Timestamp,
    /// When it stops working; never if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When it was last used, to about a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// The format of the results that clients with this token get.
    #[serde(default, skip_serializing_if = "ResultFormat::is_text")]
    pub results: ResultFormat,
    /// The BLAKE3 hash of its secret.
    hash: String,
}

impl Token {
    /// Whether the token has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// The tokens of a configuration.
#[derive(Debug)]
pub struct Tokens {
    state_directory: PathBuf,
    cache: Mutex<TokenCache>,
}

#[derive(Debug, Default)]
struct TokenCache {
    /// The state of the file that this cache was read from.
    fingerprint: Option<TokenFileFingerprint>,
    by_hash: HashMap<String, Arc<Token>>,
    /// Whether a token was ever created. Once true, it stays true while this value lives.
    was_any_created: bool,
    /// The time of each token's last use, by id, where it isn't in the file yet.
    unsaved_uses: HashMap<String, Timestamp>,
}

/// Equal fingerprints mean an unchanged file: the file is only ever replaced, never changed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TokenFileFingerprint {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct TokenFile {
    tokens: Vec<Token>,
}

impl Tokens {
    /// The tokens in the state directory of this configuration.
    pub fn of(config: &Config) -> Self {
        Tokens { state_directory: config.state_directory(), cache: Mutex::default() }
    }

    /// Creates a token for an identity. Returns it with its secret, which can't be retrieved later.
    pub fn create(
        &self,
        identity: Identity,
        expires: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(Token, String)> {
        self.create_with_results(identity, expires, ResultFormat::Text, now)
    }

    /// [`Tokens::create`] for a client that wants its results in this format.
    pub fn create_with_results(
        &self,
        identity: Identity,
        expires: Option<Timestamp>,
        results: ResultFormat,
        now: Timestamp,
    ) -> Result<(Token, String)> {
        check_agent_name(&identity.agent).map_err(|error| Error::Invalid(error.to_string()))?;
        let secret = format!("{PREFIX}{}", BASE64.encode(random_bytes::<32>()?));
        let id = random_bytes::<4>()?.map(|byte| format!("{byte:02x}")).concat();
        let hash = hash_of(&secret);
        let token = Token { id, identity, created: now, expires, last_used: None, results, hash };
        self.update_file(|token_file| {
            token_file.tokens.push(token.clone());
            Ok(())
        })?;
        Ok((token, secret))
    }

    /// All tokens, oldest first.
    pub fn list(&self) -> Result<Vec<Token>> {
        Ok(self.read()?.tokens)
    }

    /// Removes a token. It stops working at once.
    pub fn revoke(&self, id: &str) -> Result<Token> {
        self.update_file(|token_file| {
            let index = token_file.tokens.iter().position(|token| token.id == id);
            let index = index.ok_or_else(|| Error::UnknownToken { id: id.to_owned() })?;
            Ok(token_file.tokens.remove(index))
        })
    }

    /// Whether a token was ever created. If so, no client may connect without one, even after all tokens are revoked or
    /// their file is gone: a client without a token may be the one that deleted the file.
    pub fn was_any_created(&self) -> Result<bool> {
        let mut cache = self.refreshed_cache()?;
        if !cache.was_any_created {
            cache.was_any_created =
                cache.fingerprint.is_some() || self.in_use_marker().try_exists().map_err(read_error)?;
        }
        Ok(cache.was_any_created)
    }

    /// The token with this secret, or `None` if there is none, or it was revoked or has expired.
    pub fn check(&self, secret: &str, now: Timestamp) -> Result<Option<Arc<Token>>> {
        let mut cache = self.refreshed_cache()?;
        // A plain lookup leaks nothing through its timing: the hash of a guess says nothing about how close the guess
        // was.
        let Some(token) = cache.by_hash.get(&hash_of(secret)).filter(|token| !token.is_expired(now)).cloned()
        else {
            return Ok(None);
        };
        cache.unsaved_uses.insert(token.id.clone(), now);
        Ok(Some(token))
    }

    /// Whether a token that was valid before is neither expired nor revoked.
    pub fn is_still_valid(&self, token: &Token, now: Timestamp) -> bool {
        !token.is_expired(now)
            && self
                .refreshed_cache()
                .is_ok_and(|cache| cache.by_hash.get(&token.hash).is_some_and(|known| known.id == token.id))
    }

    /// Writes the times of the last uses to the file. Doing so at every use would cost more than the use itself.
    pub fn save_last_used(&self) -> Result<()> {
        let unsaved_uses = std::mem::take(&mut self.lock().unsaved_uses);
        if unsaved_uses.is_empty() {
            return Ok(());
        }
        let result = self.update_file(|token_file| {
            for token in &mut token_file.tokens {
                token.last_used = token.last_used.max(unsaved_uses.get(&token.id).copied());
            }
            Ok(())
        });
        if result.is_err() {
            let mut cache = self.lock();
            for (id, used_at) in unsaved_uses {
                // The token may have been used again meanwhile.
                let unsaved = cache.unsaved_uses.entry(id).or_insert(used_at);
                *unsaved = used_at.max(*unsaved);
            }
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, TokenCache> {
        // A panic can't leave the value under this lock half changed.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache, read again if the file has changed.
    fn refreshed_cache(&self) -> Result<MutexGuard<'_, TokenCache>> {
        let mut cache = self.lock();
        let fingerprint = TokenFileFingerprint::of(&self.file()).map_err(read_error)?;
        if fingerprint != cache.fingerprint {
            let tokens = self.read()?.tokens;
            cache.by_hash = tokens.into_iter().map(|token| (token.hash.clone(), Arc::new(token))).collect();
            // The fingerprint was taken before reading, so a change made since then causes another read.
            cache.fingerprint = fingerprint;
        }
        Ok(cache)
    }

    fn file(&self) -> PathBuf {
        self.state_directory.join("tokens.json")
    }

    /// A marker file that exists once a token was created: the token file alone could be lost or deleted.
    fn in_use_marker(&self) -> PathBuf {
        self.state_directory.join("tokens.in-use")
    }

    fn read(&self) -> Result<TokenFile> {
        match fs::read(self.file()) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| read_error(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TokenFile::default()),
            Err(error) => Err(read_error(error)),
        }
    }

    /// Changes the file under a lock, so that two processes don't overwrite each other's change.
    fn update_file<T>(&self, change: impl FnOnce(&mut TokenFile) -> Result<T>) -> Result<T> {
        let write_error = |cause| Error::host("the tokens can't be written", cause);
        create_private_directory(&self.state_directory).map_err(write_error)?;
        let lock = open_private(&self.state_directory.join("tokens.lock")).map_err(write_error)?;
        lock.lock().map_err(write_error)?;
        let mut token_file = self.read()?;
        let result = change(&mut token_file)?;
        self.replace_file(&token_file).map_err(write_error)?;
        Ok(result)
    }

    fn replace_file(&self, token_file: &TokenFile) -> io::Result<()> {
        open_private(&self.in_use_marker())?;
        let new_path = self.state_directory.join("tokens.json.new");
        // A file that an interrupted change left behind may be open in another process, so it isn't reused.
        match fs::remove_file(&new_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = open_private(&new_path)?;
        file.write_all(&serde_json::to_vec_pretty(token_file)?)?;
        sync::sync_all(SyncPoint::Tokens, &file)?;
        fs::rename(&new_path, self.file())?;
        sync::sync_directory(SyncPoint::TokensName, &self.state_directory)
    }
}

impl TokenFileFingerprint {
    fn of(file: &Path) -> io::Result<Option<Self>> {
        let from_metadata = |metadata: Metadata| TokenFileFingerprint {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        match file.metadata() {
            Ok(metadata) => Ok(Some(from_metadata(metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn hash_of(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::host("the system's random number generator failed", io::Error::other(error))
    })?;
    Ok(bytes)
}

/// Opens a file for writing that only its owner may read.
fn open_private(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file)
}

fn read_error(cause: io::Error) -> Error {
    Error::host("the tokens can't be read", cause)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn tokens(host: &Path) -> Tokens {
        Tokens { state_directory: host.join(".stead"), cache: Mutex::default() }
    }

    #[test]
    fn a_token_has_its_identity_until_it_is_revoked_also_in_another_process() {
        let host = tempfile::tempdir().unwrap();
        let (operator, server) = (tokens(host.path()), tokens(host.path()));
        assert!(!server.was_any_created().unwrap());
        let (token, secret) = operator.create(Identity::agent("coder").with_thread("t1"), None, NOW).unwrap();
        assert!(secret.starts_with(PREFIX) && secret.len() == PREFIX.len() + 43, "{secret}");
        assert!(server.was_any_created().unwrap());
        assert_eq!(server.check(&secret, NOW).unwrap().unwrap().identity, token.identity);
        assert_eq!(server.check(&secret[..secret.len() - 1], NOW).unwrap(), None);
        assert!(server.is_still_valid(&token, NOW));
        assert_eq!(operator.revoke(&token.id).unwrap().id, token.id);
        assert_eq!(server.check(&secret, NOW).unwrap(), None);
        assert!(!server.is_still_valid(&token, NOW));
        assert!(server.was_any_created().unwrap(), "revoking the last token must not open the server");
        assert!(operator.revoke(&token.id).unwrap_err().to_string().contains(&token.id));
    }

    #[test]
    fn a_last_use_that_could_not_be_saved_is_saved_later() {
        let host = tempfile::tempdir().unwrap();
        let tokens = tokens(host.path());
        let (_, secret) = tokens.create(Identity::agent("a"), None, NOW).unwrap();
        tokens.check(&secret, NOW).unwrap().unwrap();
        // The file can't be replaced while this is there.
        let obstacle = host.path().join(".stead/tokens.json.new");
        fs::create_dir(&obstacle).unwrap();
        tokens.save_last_used().unwrap_err();
        fs::remove_dir(&obstacle).unwrap();
        tokens.save_last_used().unwrap();
        assert_eq!(tokens.list().unwrap()[0].last_used, Some(NOW));
    }

    #[test]
    fn after_the_token_file_is_lost_no_client_may_connect_without_a_token() {
        let host = tempfile::tempdir().unwrap();
        let running = tokens(host.path());
        // Revoking a token that doesn't exist changes nothing.
        running.revoke("none").unwrap_err();
        assert!(!running.was_any_created().unwrap());
        let (_, secret) = running.create(Identity::agent("a"), None, NOW).unwrap();
        assert!(running.was_any_created().unwrap());
        fs::remove_file(running.file()).unwrap();
        for tokens in [&running, &tokens(host.path())] {
            assert!(tokens.was_any_created().unwrap());
            assert_eq!(tokens.check(&secret, NOW).unwrap(), None);
        }
        fs::remove_dir_all(host.path().join(".stead")).unwrap();
        assert!(
            running.was_any_created().unwrap(),
            "a running server has to remember that there was a token"
        );
    }

    #[test]
    fn an_expired_token_is_not_valid() {
        let host = tempfile::tempdir().unwrap();
        let tokens = tokens(host.path());
        let (_, secret) = tokens.create(Identity::agent("a"), Some(Timestamp(NOW.0 + 1)), NOW).unwrap();
        assert!(tokens.check(&secret, NOW).unwrap().is_some());
        assert_eq!(tokens.check(&secret, Timestamp(NOW.0 + 1)).unwrap(), None);
        assert!(tokens.was_any_created().unwrap());
    }

    #[test]
    fn the_token_file_holds_no_secret_and_only_its_owner_may_read_it() {
        let host = tempfile::tempdir().unwrap();
        let tokens = tokens(host.path());
        let (_, secret) = tokens.create(Identity::agent("a"), None, NOW).unwrap();
        let file = tokens.file();
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&secret[PREFIX.len()..]), "{text}");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_last_use_is_saved_later() {
        let host = tempfile::tempdir().unwrap();
        let tokens = tokens(host.path());
        let (_, secret) = tokens.create(Identity::agent("a"), None, NOW).unwrap();
        tokens.check(&secret, Timestamp(NOW.0 + 5)).unwrap();
        assert_eq!(tokens.list().unwrap()[0].last_used, None);
        tokens.save_last_used().unwrap();
        assert_eq!(tokens.list().unwrap()[0].last_used, Some(Timestamp(NOW.0 + 5)));
    }
}
