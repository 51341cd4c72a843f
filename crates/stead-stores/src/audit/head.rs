//! The newest record of a chain, signed with a key outside the database. Someone who can write only the database can't
//! remove the end of a chain, or replace the chain, without being noticed.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use uuid::Uuid;

use crate::audit::body::time_text;
use crate::audit::chain::{Chain, RecordHash};
use crate::database::error::Result;

/// The prefix of every signed statement, so that a signature can't be used for anything else.
const SIGNATURE_CONTEXT: &[u8] = b"stead audit head 1\0";

/// A signed statement: at the time `at`, this was the newest record of this chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignedHead {
    pub(crate) instance: Uuid,
    pub(crate) seq: i64,
    #[serde(with = "hex")]
    pub(crate) hash: RecordHash,
    pub(crate) at: String,
    /// The public key that checks the signature.
    #[serde(with = "hex")]
    pub(crate) key: [u8; 32],
    #[serde(with = "hex")]
    pub(crate) signature: [u8; 64],
}

/// The secret key that signs.
#[derive(Clone)]
pub(crate) struct AuditKey(SigningKey);

impl std::fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditKey")
    }
}

impl AuditKey {
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Self {
        AuditKey(SigningKey::from_bytes(bytes))
    }

    /// The public key.
    pub(crate) fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    pub(crate) fn sign(&self, chain: &Chain, at: Timestamp) -> SignedHead {
        let mut head = SignedHead {
            instance: chain.uuid,
            seq: chain.seq,
            hash: chain.hash,
            at: time_text(at).to_string(),
            key: self.public(),
            signature: [0; 64],
        };
        head.signature = self.0.sign(&head.statement()).to_bytes();
        head
    }
}

impl SignedHead {
    fn statement(&self) -> Vec<u8> {
        let seq = self.seq.to_le_bytes();
        [SIGNATURE_CONTEXT, self.instance.as_bytes(), &seq, &self.hash, self.at.as_bytes()].concat()
    }

    /// Whether the signature is that of `key`. The caller checks whether that is the right key.
    pub(crate) fn is_signed(&self) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(&self.key) else { return false };
        key.verify_strict(&self.statement(), &Signature::from_bytes(&self.signature)).is_ok()
    }

    pub(crate) fn insert(&self, conn: &Connection, row: i64) -> Result<()> {
        conn.prepare_cached(
            "INSERT OR REPLACE INTO audit_head(instance, seq, hash, at, key, signature)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            row,
            self.seq,
            self.hash,
            self.at,
            hex::text(&self.key),
            self.signature
        ])?;
        Ok(())
    }

    /// Reads a row of `seq, hash, at, key, signature`. Columns that don't fit become zeros or empty, so that `is_signed` is
    /// false.
    pub(crate) fn from_row(instance: Uuid, row: &Row<'_>) -> rusqlite::Result<SignedHead> {
        let (hash, signature): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(4)?);
        let text = |index: usize| row.get_ref(index).map(|text| text.as_str().unwrap_or_default().to_owned());
        Ok(SignedHead {
            instance,
            seq: row.get(0)?,
            hash: hash.try_into().unwrap_or_default(),
            at: text(2)?,
            key: hex::bytes(&text(3)?).unwrap_or_default(),
            signature: signature.try_into().unwrap_or([0; 64]),
        })
    }
}

/// Bytes as lower-case hexadecimal text.
pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn text(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
        if text.len() != 2 * N || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; N];
        for (byte, index) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[index..index + 2], 16).ok()?;
        }
        Some(bytes)
    }

    pub(crate) fn serialize<S: Serializer>(value: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(deserializer)?;
        bytes(&text).ok_or_else(|| serde::de::Error::custom("not the right number of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_changed_head_is_not_signed() {
        let key = AuditKey::from_bytes(&[3; 32]);
        let chain = Chain { seq: 7, hash: [9; 32], ..Chain::new(Uuid::from_bytes([1; 16])) };
        let head = key.sign(&chain, Timestamp::from_secs(5));
        assert!(head.is_signed());
        let parsed: SignedHead = serde_json::from_str(&serde_json::to_string(&head).unwrap()).unwrap();
        assert_eq!(parsed, head);
        for changed in [
            SignedHead { seq: 6, ..head.clone() },
            SignedHead { hash: [8; 32], ..head.clone() },
            SignedHead { instance: Uuid::nil(), ..head.clone() },
            SignedHead { at: "later".into(), ..head.clone() },
            SignedHead { key: AuditKey::from_bytes(&[4; 32]).public(), ..head.clone() },
        ] {
            assert!(!changed.is_signed());
        }
    }
}
