//! Steps that put content somewhere: write, edit, append, symlink, mkdir.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use stead_core::store::{
    Content, Expect, Kind, Outcome, Parents, Place, Put, StoreError, StoreResult, VersionTag,
};
use stead_core::{Edit, LARGEST_EDIT};

use super::act::Act;
use super::draft::Drafted;
use super::host::{self, How, PLAIN_MODE, Stat, failed, refused};
use super::owner;
use super::patch::{Extent, Landed, Looks, Plan, Source};
use super::read::read_all;
use super::spot::{Intent, Spot, open_regular};
use super::undo::Undo;
use super::workshop::{Scrap, Temp};
use crate::Durability;

/// Up to so many bytes are written before it is known whether they are wanted.
const LITTLE: usize = 64 << 10;
/// How often a step starts over because another program took or freed the name.
const TRIES: usize = 32;

impl Act<'_> {
    pub(super) fn write(&mut self, at: &Place, content: Content, put: &Put) -> StoreResult<Outcome> {
        let mut spot = self.file_spot(at, Intent::Make, put.parents)?;
        // A refusal is better before the content is written than after, unless there is little to write.
        let little = matches!(&content, Content::Bytes(bytes) if bytes.len() <= LITTLE)
            && self.durability() == Durability::Fast;
        let there = if little { None } else { self.file_at(&spot, put.expect)? };
        let mut temp = match content {
            Content::Bytes(bytes) => self.written(&bytes)?,
            Content::Past(_) => return Err(kept_nothing()),
            Content::Sealed(sealed) => match drafted(sealed)? {
                Drafted::Whole(temp) => temp,
                Drafted::Changes(draft) => {
                    if there.is_some_and(|there| (there.dev, there.ino) == (draft.stat.dev, draft.stat.ino)) {
                        self.hold(&[&spot])?;
                        let now = self.file_at(&spot, put.expect)?;
                        if now.is_some_and(|now| now.ino == draft.stat.ino) {
                            return self.patch(&spot, How::Change, put, |now| Ok(draft.plan(now)));
                        }
                        self.release();
                    }
                    draft.whole()?
                }
            },
        };
        self.sync_new(&temp.file)?;
        for _ in 0..TRIES {
            self.hold(&[&spot])?;
            let there = self.file_at(&spot, put.expect)?;
            match self.put(&spot, &mut temp, there.as_ref(), put) {
                Err(StoreError::AlreadyExists) if there.is_none() && put.expect != Expect::Absent => {}
                // It, or its directory, was removed meanwhile.
                Err(StoreError::NotFound) => {}
                result => return result,
            }
            self.release();
            spot = self.file_spot(at, Intent::Make, put.parents)?;
        }
        Err(StoreError::Conflict)
    }

    pub(super) fn edit(&mut self, at: &Place, edit: &Edit, expect: Expect) -> StoreResult<Outcome> {
        let spot = self.file_spot(at, Intent::Find, Parents::Required)?;
        self.hold(&[&spot])?;
        self.file_at(&spot, Expect::Any)?.ok_or(StoreError::NotFound)?;
        let (file, stat) = open_regular(&spot.dir, spot.name(), How::Read)?;
        expect.check(Some(stat.tag()))?;
        let (content, replaced) = edit.apply(&read_all(&file, &stat, LARGEST_EDIT)?)?;
        let mut temp = self.written(&content)?;
        self.sync_new(&temp.file)?;
        let outcome = self.put(&spot, &mut temp, Some(&stat), &Put::default())?;
        Ok(Outcome { replaced, ..outcome })
    }

    pub(super) fn append(&mut self, at: &Place, content: Content, put: &Put) -> StoreResult<Outcome> {
        let content = match content {
            Content::Bytes(bytes) => Appended::Bytes(bytes),
            Content::Past(_) => return Err(kept_nothing()),
            Content::Sealed(sealed) => Appended::File(match drafted(sealed)? {
                Drafted::Whole(temp) => temp,
                Drafted::Changes(draft) => draft.whole()?,
            }),
        };
        for _ in 0..TRIES {
            self.release();
            let spot = self.file_spot(at, Intent::Make, put.parents)?;
            self.hold(&[&spot])?;
            if self.file_at(&spot, put.expect)?.is_some() {
                return self.append_to(&spot, &content, put);
            }
            let mut temp = content.temp(self)?;
            match self.put(&spot, &mut temp, None, put) {
                Err(StoreError::AlreadyExists) if put.expect != Expect::Absent => {}
                result => return result,
            }
        }
        Err(StoreError::Conflict)
    }

    /// Appends to the file at a spot.
    fn append_to(&mut self, spot: &Spot, content: &Appended, put: &Put) -> StoreResult<Outcome> {
        let length = content.size()?;
        self.patch(spot, How::Write, put, |now| {
            put.check_append(now.size, length)?;
            Ok((length > 0).then(|| Plan {
                cut: now.size,
                extents: vec![Extent { from: 0, to: now.size, length }],
                length: now.size + length,
                source: content.source(),
            }))
        })
    }

    pub(super) fn symlink(
        &mut self,
        at: &Place,
        target: &[u8],
        parents: Parents,
        expect: Expect,
    ) -> StoreResult<Outcome> {
        if target.is_empty() || target.contains(&0) {
            return Err(StoreError::Invalid("a symlink has to lead somewhere".to_owned()));
        }
        if self.store.locate(at, Intent::Make)?.is_root() {
            return Err(StoreError::AlreadyExists);
        }
        for _ in 0..TRIES {
            let spot = self.store.spot(at, Intent::Make, parents)?;
            self.hold(&[&spot])?;
            let there = self.store.look(&spot)?;
            if there.is_some_and(|there| there.kind != Kind::Symlink) {
                return Err(StoreError::AlreadyExists);
            }
            expect.check(there.map(|there| there.tag()))?;
            let mut scrap = self.link(target, self.now(), &spot)?;
            match self.put_scrap(&spot, &mut scrap, there.as_ref()) {
                Err(StoreError::AlreadyExists) if there.is_none() && expect != Expect::Absent => {}
                Err(error) => return Err(error),
                Ok(()) => return self.outcome(&spot, there.is_none()),
            }
        }
        Err(StoreError::Conflict)
    }

    /// A symlink in the room.
    pub(super) fn link(
        &self,
        target: &[u8],
        modified: stead_core::Timestamp,
        spot: &Spot,
    ) -> StoreResult<Scrap> {
        let scrap = Scrap::new(self.shop, self.shop.fresh());
        let (room, name) = (self.shop.room(), scrap.name().as_bytes());
        host::make_link(room, name, target).map_err(refused)?;
        if self.shop.uid == 0 && spot.dir_stat.uid != 0 {
            host::set_link_owner(room, name, spot.dir_stat.uid, spot.dir_stat.gid).map_err(refused)?;
        }
        host::set_modified_at(room, name, modified).map_err(refused)?;
        Ok(scrap)
    }

    pub(super) fn mkdir(&mut self, at: &Place, parents: Parents, mode: Option<u32>) -> StoreResult<Outcome> {
        let located = self.store.locate(at, Intent::Make)?;
        if located.is_root() {
            return match parents {
                Parents::Create => Ok(Outcome { attr: Some(self.store.stat_at(at)?), ..Outcome::default() }),
                Parents::Required => Err(StoreError::AlreadyExists),
            };
        }
        for _ in 0..TRIES {
            let spot = self.store.spot(at, Intent::Make, parents)?;
            self.hold(&[&spot])?;
            match (self.store.look(&spot)?, parents) {
                (None, _) => {}
                (Some(there), Parents::Create) if there.is_dir() => return self.outcome(&spot, false),
                (Some(there), Parents::Create) if there.kind == Kind::Symlink => return Err(spot.link()),
                (Some(_), _) => return Err(StoreError::AlreadyExists),
            }
            let (mut scrap, dir) = self.new_dir(mode, &spot)?;
            let ino = host::stat(&dir).map_err(refused)?.ino;
            match self.place_wrapped(&mut scrap, ino, &spot) {
                Err(StoreError::AlreadyExists) => {}
                Err(error) => return Err(error),
                Ok(()) => return self.outcome(&spot, true),
            }
        }
        Err(StoreError::Conflict)
    }
}

/// The parts that the steps share.
impl Act<'_> {
    /// The spot of a step that needs a file.
    fn file_spot(&self, at: &Place, intent: Intent, parents: Parents) -> StoreResult<Spot> {
        if self.store.locate(at, intent)?.is_root() {
            return Err(StoreError::IsADirectory);
        }
        self.store.spot(at, intent, parents)
    }

    /// The file at a spot, in the expected state.
    pub(super) fn file_at(&self, spot: &Spot, expect: Expect) -> StoreResult<Option<Stat>> {
        let there = self.store.look(spot)?;
        match there.map(|there| there.kind) {
            None | Some(Kind::File) => expect.check(there.map(|there| there.tag()))?,
            Some(Kind::Directory) => return Err(StoreError::IsADirectory),
            Some(Kind::Symlink) => return Err(spot.link()),
            Some(special @ Kind::Special(_)) => return Err(StoreError::Special(special)),
        }
        Ok(there)
    }

    /// A file in the room with this content.
    fn written(&self, bytes: &[u8]) -> StoreResult<Temp> {
        let temp = self.shop.temp()?;
        temp.file.write_all_at(bytes, 0).map_err(failed)?;
        Ok(temp)
    }

    /// Puts a file from the room at a spot, dressed as what it replaces.
    pub(super) fn put(
        &mut self,
        spot: &Spot,
        temp: &mut Temp,
        there: Option<&Stat>,
        put: &Put,
    ) -> StoreResult<Outcome> {
        let made = host::stat(&temp.file).map_err(refused)?;
        self.own(&temp.file, &made, there, spot)?;
        // New content never inherits the right to run as someone else.
        let mode = put.mode.or(there.map(|there| there.mode)).unwrap_or(0o644) & PLAIN_MODE;
        if mode != made.mode {
            host::set_mode(&temp.file, mode).map_err(refused)?;
        }
        host::set_modified(&temp.file, put.modified.unwrap_or_else(|| self.now())).map_err(refused)?;
        match there {
            Some(there) => self.swap(&mut temp.spot, made.ino, spot, there)?,
            None => self.place_wrapped(&mut temp.spot, made.ino, spot)?,
        }
        let now = host::stat(&temp.file).map_err(refused)?;
        self.store.nodes.note(now.ino, spot.path());
        let (attr, before) = (Some(now.attr()), there.map(Stat::tag));
        Ok(Outcome { attr, before, created: there.is_none(), replaced: 0 })
    }

    /// Puts something else from the room at a spot.
    pub(super) fn put_scrap(
        &mut self,
        spot: &Spot,
        scrap: &mut Scrap,
        there: Option<&Stat>,
    ) -> StoreResult<()> {
        let ino = host::stat_at(self.shop.room(), scrap.name().as_bytes()).map_err(refused)?.ino;
        match there {
            Some(there) => self.swap(scrap, ino, spot, there),
            None => self.place_wrapped(scrap, ino, spot),
        }
    }

    /// What is at a spot after a step.
    pub(super) fn outcome(&self, spot: &Spot, created: bool) -> StoreResult<Outcome> {
        let (dir, name) = self.store.parent(&spot.place)?;
        let stat = host::stat_at(dir.as_fd(), name).map_err(refused)?;
        self.store.nodes.note(stat.ino, spot.path());
        Ok(Outcome { attr: Some(stat.attr()), created, ..Outcome::default() })
    }

    /// Writes into the file at a spot, as planned by what it is now; `None` as plan changes no content.
    fn patch<'p>(
        &mut self,
        spot: &Spot,
        how: How,
        put: &Put,
        plan: impl FnOnce(&Stat) -> StoreResult<Option<Plan<'p>>>,
    ) -> StoreResult<Outcome> {
        let (file, stat) = open_to_write(spot, how)?;
        put.expect.check(Some(stat.tag()))?;
        // Whether no other program has changed it at the same time.
        let mut is_alone = true;
        match plan(&stat)? {
            None => {
                let mode = put.mode.map(|mode| mode & PLAIN_MODE);
                self.dress(&file, &stat, spot, mode, put.modified)?;
            }
            Some(plan) => {
                // New content never inherits the right to run as someone else.
                let mode = put.mode.unwrap_or(stat.mode) & PLAIN_MODE;
                let looks = Looks { mode, modified: put.modified.unwrap_or_else(|| self.now()) };
                let alone = !self.is_several();
                let (patch, stash) =
                    plan.prepare(&file, &stat, looks, self.shop, self.durability(), alone)?;
                if let Some(mut stash) = stash {
                    // The old bytes have to outlive this call: a later step may fail.
                    stash.spot.used();
                    self.displaced(stash.spot.name().to_owned());
                }
                // An append finds the end by itself. Everything else is planned for what was there: if an outside program
                // has changed it since, that program's content stays, and the caller plans again.
                if !plan.is_append(&stat)
                    && put.expect != Expect::Any
                    && !host::stat(&file).map_err(refused)?.holds_same(&stat)
                {
                    return Err(StoreError::Conflict);
                }
                let mut landed = Landed::AsPlanned;
                self.act_slowly(Undo::Patched { at: spot.path().to_vec(), patch }, |act| {
                    landed = plan.carry_out(&file, &stat, looks, &act.shop.life)?;
                    Ok(())
                })?;
                let now = host::stat(&file).map_err(refused)?;
                is_alone =
                    landed == Landed::AsPlanned && (now.size, now.modified) == (plan.length, looks.modified);
            }
        }
        let now = host::stat(&file).map_err(refused)?;
        self.wrote(file)?;
        self.store.nodes.note(now.ino, spot.path());
        let mut attr = now.attr();
        if !is_alone {
            // It holds what an outside program wrote as well. The tag matches nothing: a caller that builds on what it
            // wrote has not seen that.
            attr.tag = VersionTag(fastrand::u128(..));
        }
        Ok(Outcome { attr: Some(attr), before: Some(stat.tag()), ..Outcome::default() })
    }

    /// Sets mode and time of what is open.
    pub(super) fn dress(
        &mut self,
        fd: impl AsFd,
        stat: &Stat,
        spot: &Spot,
        mode: Option<u32>,
        modified: Option<stead_core::Timestamp>,
    ) -> StoreResult<()> {
        let after = Looks { mode: mode.unwrap_or(stat.mode), modified: modified.unwrap_or(stat.modified) };
        let how = Undo::Dressed {
            at: spot.path().to_vec(),
            ino: stat.ino,
            before: Looks { mode: stat.mode, modified: stat.modified },
            after,
            alone: !self.is_several(),
        };
        match (mode, modified) {
            (None, None) => Ok(()),
            (Some(mode), None) => self.act("mode", how, || host::set_mode(fd, mode)),
            (None, Some(modified)) => self.act("time", how, || host::set_modified(fd, modified)),
            (Some(mode), Some(modified)) => self.act_slowly(how, |act| {
                act.shop.life.pass("mode")?;
                host::set_mode(fd.as_fd(), mode).map_err(refused)?;
                act.shop.life.pass("time")?;
                host::set_modified(fd, modified).map_err(refused)
            }),
        }
    }
}

/// Opens the file at a spot to be written into. Whether that may be was decided when the caller opened it: a mode that was
/// set since, or with which it was made, does not bind the caller.
fn open_to_write(spot: &Spot, how: How) -> StoreResult<(File, Stat)> {
    let (fd, stat) = owner::open(&spot.dir, spot.name(), how).map_err(refused)?;
    match stat.kind {
        _ if spot.dir.hides(&stat) => Err(StoreError::NotFound),
        // Another file may have got the name since it was looked at.
        Kind::File => spot.place.check(&stat).map(|()| (fd.into(), stat)),
        Kind::Directory => Err(StoreError::IsADirectory),
        Kind::Symlink | Kind::Special(_) => Err(StoreError::Special(stat.kind)),
    }
}

/// Content on its way to the end of a file.
enum Appended {
    Bytes(Vec<u8>),
    File(Temp),
}

impl Appended {
    fn size(&self) -> StoreResult<u64> {
        match self {
            Appended::Bytes(bytes) => Ok(bytes.len() as u64),
            Appended::File(temp) => Ok(host::stat(&temp.file).map_err(refused)?.size),
        }
    }

    fn source(&self) -> Source<'_> {
        match self {
            Appended::Bytes(bytes) => Source::Bytes(bytes),
            Appended::File(temp) => Source::File(&temp.file),
        }
    }

    /// A file of its own, for a name that has none yet.
    fn temp(&self, act: &Act<'_>) -> StoreResult<Temp> {
        let temp = match self {
            Appended::Bytes(bytes) => act.written(bytes)?,
            Appended::File(content) => {
                let temp = act.shop.temp()?;
                host::copy(&content.file, 0, &temp.file, 0, self.size()?).map_err(failed)?;
                temp
            }
        };
        act.sync_new(&temp.file)?;
        Ok(temp)
    }
}

/// Kept content is copied before the first step.
fn kept_nothing() -> StoreError {
    StoreError::Unsupported("this Store keeps no history")
}

fn drafted(sealed: stead_core::store::Sealed) -> StoreResult<Drafted> {
    sealed.into_inner().ok_or_else(|| StoreError::Invalid("the draft is another Store's".to_owned()))
}
