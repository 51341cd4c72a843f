//! A Workspace: a logical path, an Access Scope, and the Mount behind it.

use std::sync::{Arc, LazyLock};

use crate::glob::{Anchor, GlobError, PathGlobs};
use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::{NodePath, QuotaLimits, Store, StorePath};

/// What agents may not change by default, even where the scope is READ_WRITE: a planted hook would run outside every
/// boundary when a person next uses git there.
///
/// Besides hooks and configuration these are the files that make git look for either somewhere else.
pub const DEFAULT_PROTECT: [&str; 10] = [
    ".git/hooks/**",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/modules/**/hooks/**",
    ".git/modules/**/{config,config.worktree,commondir}",
    ".git/worktrees/*/{config.worktree,commondir,gitdir}",
    ".git/worktrees/*/modules/**/hooks/**",
    ".git/worktrees/*/modules/**/{config,config.worktree,commondir}",
    ".git/objects/info/alternates",
];

/// The same, compiled when it is first needed: that takes longer than all the rest of opening a stead.
static DEFAULT_PROTECT_GLOBS: LazyLock<Arc<PathGlobs>> = LazyLock::new(|| {
    let globs = PathGlobs::case_folding(DEFAULT_PROTECT, Anchor::AnyDirectory);
    Arc::new(globs.expect("the default globs are globs"))
});

/// Where a Workspace's files are: a Store, and a path in it.
#[derive(Debug, Clone)]
pub struct Mount {
    store: Arc<dyn Store>,
    path: StorePath,
}

impl Mount {
    /// The whole of a Store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Mount { store, path: StorePath::empty() }
    }

    /// What lies at `path` in a Store. Nothing outside it can be reached through the Mount.
    pub fn at(store: Arc<dyn Store>, path: &VfsPath) -> Self {
        Mount { store, path: StorePath::from_checked(&path.as_str()[1..]) }
    }

    /// The Store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The path in the Store.
    pub fn path(&self) -> &StorePath {
        &self.path
    }

    /// The place in the Store for a path below the Workspace's prefix.
    pub fn node_path(&self, below: &str) -> NodePath {
        NodePath::from_root(self.path.child(below.as_bytes()))
    }
}

impl<S: Store + 'static> From<Arc<S>> for Mount {
    fn from(store: Arc<S>) -> Self {
        Mount::new(store)
    }
}

impl<S: Store + 'static> From<&Arc<S>> for Mount {
    fn from(store: &Arc<S>) -> Self {
        Mount::from(Arc::clone(store))
    }
}

impl From<Arc<dyn Store>> for Mount {
    fn from(store: Arc<dyn Store>) -> Self {
        Mount::new(store)
    }
}

impl From<&Arc<dyn Store>> for Mount {
    fn from(store: &Arc<dyn Store>) -> Self {
        Mount::new(Arc::clone(store))
    }
}

/// A part of an agent's world.
#[derive(Debug, Clone)]
pub struct Workspace {
    prefix: VfsPath,
    scope: AccessScope,
    mount: Mount,
    description: Option<String>,
    /// The default where `None`.
    protect: Option<Arc<PathGlobs>>,
    scratch: Arc<PathGlobs>,
    quota: QuotaLimits,
    approval_policy: ApprovalPolicy,
    barrier: Option<Barrier>,
}

/// Why nothing can be done in a Workspace that is there only so that what lies around it does not show through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// It can't be looked at as it was then, and this is why.
    NotInPast(&'static str),
    /// It is a place that was a Workspace of its own where a fork was made, and was left out of the fork.
    ExcludedFromFork,
}

/// Whether a person is asked before something is done in a Workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalPolicy {
    /// No.
    #[default]
    Never,
    /// Before anything is changed.
    Changes,
    /// Before anything is read, too.
    Everything,
}

impl ApprovalPolicy {
    /// Whether a person is asked before such an access.
    pub fn requires_approval(self, access: Access) -> bool {
        match self {
            ApprovalPolicy::Never => false,
            ApprovalPolicy::Changes => matches!(access, Access::Write | Access::MoveOut | Access::Restore),
            ApprovalPolicy::Everything => true,
        }
    }

    /// The word for it: `never`, `changes`, `everything`.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalPolicy::Never => "never",
            ApprovalPolicy::Changes => "changes",
            ApprovalPolicy::Everything => "everything",
        }
    }

    /// What a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        [ApprovalPolicy::Never, ApprovalPolicy::Changes, ApprovalPolicy::Everything]
            .into_iter()
            .find(|ask| ask.as_str() == word)
    }
}

impl Workspace {
    /// A Workspace at `prefix`, with the default protection.
    pub fn new(prefix: VfsPath, scope: AccessScope, mount: Mount) -> Self {
        let scratch = Arc::new(PathGlobs::none());
        Workspace {
            prefix,
            scope,
            mount,
            description: None,
            protect: None,
            scratch,
            quota: QuotaLimits::default(),
            approval_policy: ApprovalPolicy::Never,
            barrier: None,
        }
    }

    /// Has a person asked first.
    pub fn with_approval_policy(self, ask: ApprovalPolicy) -> Self {
        Workspace { approval_policy: ask, ..self }
    }

    /// Whether a person is asked first.
    pub fn approval_policy(&self) -> ApprovalPolicy {
        self.approval_policy
    }

    /// Says what it is for.
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Workspace { description: Some(description.into()), ..self }
    }

    /// Replaces the globs of what agents may not change. They match from any directory, or from the prefix with a
    /// leading `/`.
    pub fn with_protect<P: AsRef<str>>(self, globs: impl IntoIterator<Item = P>) -> Result<Self, GlobError> {
        let protect = Arc::new(PathGlobs::case_folding(globs, Anchor::AnyDirectory)?);
        Ok(Workspace { protect: Some(protect), ..self })
    }

    /// Sets the globs of what is kept without history.
    pub fn with_scratch<P: AsRef<str>>(self, globs: impl IntoIterator<Item = P>) -> Result<Self, GlobError> {
        let scratch = Arc::new(PathGlobs::new(globs, Anchor::AnyDirectory)?);
        Ok(Workspace { scratch, ..self })
    }

    /// Limits what may lie in it.
    pub fn with_quota(self, quota: QuotaLimits) -> Self {
        Workspace { quota, ..self }
    }

    /// The same Workspace on a past view of its Store, to be read only.
    pub(crate) fn past_view(self, past: Arc<dyn Store>) -> Self {
        let mount = Mount { store: past, path: self.mount.path.clone() };
        Workspace { mount, scope: AccessScope::ReadOnly, ..self }
    }

    /// The same Workspace as a barrier: it keeps its prefix, and nothing can be done in it.
    pub fn as_barrier(self, barrier: Barrier) -> Self {
        let scope = if self.scope.allows(Access::Read) { AccessScope::ReadOnly } else { self.scope };
        Workspace { scope, barrier: Some(barrier), ..self }
    }

    /// Why nothing can be done in it, where it is a barrier.
    pub fn barrier(&self) -> Option<Barrier> {
        self.barrier
    }

    /// Its logical path.
    pub fn prefix(&self) -> &VfsPath {
        &self.prefix
    }

    /// What it allows.
    pub fn scope(&self) -> AccessScope {
        self.scope
    }

    /// What is behind it.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// What it is for.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// What agents may not change.
    pub fn protect(&self) -> &Arc<PathGlobs> {
        self.protect.as_ref().unwrap_or_else(|| &DEFAULT_PROTECT_GLOBS)
    }

    /// How much may lie in it.
    pub fn quota(&self) -> QuotaLimits {
        self.quota
    }

    /// What is kept without history.
    pub fn scratch(&self) -> &PathGlobs {
        &self.scratch
    }
}
