//! A Workspace: a path prefix, an Access Scope, and the Mount behind it.
//!
//! ```
//! use stead_core::{AccessScope, Mount, VfsPath, Workspace};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//!
//! let mount = Mount::at(store, &VfsPath::parse("/teams/blue")?);
//! let workspace = Workspace::new(VfsPath::parse("/team")?, AccessScope::ReadWrite, mount)
//!     .with_description("What the team shares.")
//!     .with_protect(["*.lock"])?;
//! assert!(workspace.protect().matches("Cargo.lock"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use crate::clock::Timestamp;
use crate::glob::{Anchor, GlobError, PathGlobs, compile_rule};
use crate::hide::{DEFAULT_HIDE_GLOBS, HideGlobs};
use crate::managed::Ttl;
use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::{NodePath, QuotaLimits, Store, StorePath};

/// The globs that agents may not change by default, even in a READ_WRITE Workspace. A planted git hook would run
/// without any confinement the next time a person uses git there.
///
/// Besides hooks and configuration, these are the files that make git look for either of them somewhere else.
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

/// [`DEFAULT_PROTECT`], compiled on first use: compiling takes longer than everything else about opening a stead.
static DEFAULT_PROTECT_GLOBS: LazyLock<Arc<PathGlobs>> = LazyLock::new(|| {
    let globs = PathGlobs::case_folding(DEFAULT_PROTECT, Anchor::AnyDirectory);
    Arc::new(globs.expect("the default globs are valid"))
});

/// Where a Workspace's files are: a Store, and a directory in it.
#[derive(Debug, Clone)]
pub struct Mount {
    store: Arc<dyn Store>,
    path: StorePath,
}

impl Mount {
    /// A Mount of a whole Store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Mount { store, path: StorePath::empty() }
    }

    /// A Mount of the directory at `path` in a Store. Nothing outside that directory can be reached through the Mount.
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

    /// The location in the Store of a path relative to the Workspace's prefix.
    pub fn node_path(&self, relative_path: &str) -> NodePath {
        NodePath::from_root(self.path.child(relative_path.as_bytes()))
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

/// One of the Workspaces that an agent sees.
#[derive(Debug, Clone)]
pub struct Workspace {
    prefix: VfsPath,
    scope: AccessScope,
    mount: Mount,
    description: Option<Arc<str>>,
    /// The protected globs; `None` for the default.
    protect: Option<Arc<PathGlobs>>,
    /// The hidden globs; `None` for the default.
    hide: Option<Arc<HideGlobs>>,
    scratch: Arc<PathGlobs>,
    quota: QuotaLimits,
    /// The directory of the Store whose content the quota limits; `None` for the Mount's own.
    quota_root: Option<StorePath>,
    approval_policy: ApprovalPolicy,
    title: Option<Arc<str>>,
    root_mode: RootMode,
    fork_origin: Option<Arc<ForkOrigin>>,
    barrier: Option<Barrier>,
    /// How long files live, if the Workspace is managed.
    managed: Option<Arc<Ttl>>,
    /// When the directory became the caller's own; `None` if it has always been.
    own_since: Option<Timestamp>,
    sharing: Option<Arc<dyn SharingWorkspaces>>,
}

/// Finds the Workspaces of all agents that show the directory of a managed one.
pub trait SharingWorkspaces: Debug + Send + Sync {
    /// Those Workspaces, with their rules. Their Mount is this one.
    fn find(&self, mount: &Mount) -> Vec<Arc<Workspace>>;
}

/// Who may change the permission bits of a Workspace's root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RootMode {
    /// Every caller that may write in the Workspace.
    #[default]
    Changeable,
    /// No caller: others use the directory too, and without its permission bits, the host would refuse it to all.
    Fixed,
}

/// Where the content of a fork comes from. An agent that loses the right to read it there loses it in the fork, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkOrigin {
    /// The agent that made the fork.
    pub created_by: String,
    /// The agent whose Workspace the content comes from: the maker or, for a fork of a fork, the first one's.
    pub agent: String,
    /// The path in the Store.
    pub path: VfsPath,
}

/// Why a Workspace is a barrier: nothing can be done in it, and it exists only to hide what the Workspace around it has
/// at this path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Barrier {
    /// The Workspace can't be shown as of the past; the text says why.
    NotInPast(Cow<'static, str>),
    /// The Workspace is a fork that had not been made at that time. No listing has its name.
    NotMadeYet,
    /// The path was a separate Workspace when the fork was made, and was excluded from the fork. No listing has its name.
    ExcludedFromFork,
    /// The directory has the files of threads, which only the Workspaces of each thread show.
    ThreadFiles,
}

impl Barrier {
    /// Whether nothing at all is said about what is there, not even an Access Scope.
    pub(crate) fn hides_scope(&self) -> bool {
        match self {
            Barrier::NotInPast(_) | Barrier::NotMadeYet => false,
            Barrier::ExcludedFromFork | Barrier::ThreadFiles => true,
        }
    }
}

/// Whether a person has to approve calls in a Workspace. The stricter policy is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ApprovalPolicy {
    /// No approval.
    #[default]
    Never,
    /// Approval before every change.
    Changes,
    /// Approval before every change and every read.
    Everything,
}

impl ApprovalPolicy {
    /// Whether this access needs approval.
    pub fn requires_approval(self, access: Access) -> bool {
        match self {
            ApprovalPolicy::Never => false,
            ApprovalPolicy::Changes => access.is_change(),
            ApprovalPolicy::Everything => true,
        }
    }

    /// The policy as one word: `never`, `changes`, `everything`.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalPolicy::Never => "never",
            ApprovalPolicy::Changes => "changes",
            ApprovalPolicy::Everything => "everything",
        }
    }

    /// The policy for one of those words; `None` for any other.
    pub fn parse(word: &str) -> Option<Self> {
        [ApprovalPolicy::Never, ApprovalPolicy::Changes, ApprovalPolicy::Everything]
            .into_iter()
            .find(|policy| policy.as_str() == word)
    }
}

impl Workspace {
    /// A Workspace at `prefix` that protects and hides what is protected and hidden by default.
    pub fn new(prefix: VfsPath, scope: AccessScope, mount: Mount) -> Self {
        let scratch = Arc::new(PathGlobs::none());
        Workspace {
            prefix,
            scope,
            mount,
            description: None,
            protect: None,
            hide: None,
            scratch,
            quota: QuotaLimits::default(),
            quota_root: None,
            approval_policy: ApprovalPolicy::Never,
            title: None,
            root_mode: RootMode::Changeable,
            fork_origin: None,
            barrier: None,
            managed: None,
            own_since: None,
            sharing: None,
        }
    }

    /// Sets which calls need a person's approval.
    pub fn with_approval_policy(self, approval_policy: ApprovalPolicy) -> Self {
        Workspace { approval_policy, ..self }
    }

    /// Which calls need a person's approval.
    pub fn approval_policy(&self) -> ApprovalPolicy {
        self.approval_policy
    }

    /// Sets where the content comes from, because the Workspace is a fork.
    pub fn with_fork_origin(self, origin: ForkOrigin) -> Self {
        Workspace { fork_origin: Some(Arc::new(origin)), ..self }
    }

    /// Sets the description of what the Workspace is for.
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Workspace { description: Some(description.into().into()), ..self }
    }

    /// Replaces the globs of files that agents may not change. A glob matches from any directory; with a leading `/` it
    /// matches from the prefix.
    pub fn with_protect<P: AsRef<str>>(self, globs: impl IntoIterator<Item = P>) -> Result<Self, GlobError> {
        let protect = Arc::new(compile_rule(globs, PathGlobs::case_folding)?);
        Ok(Workspace { protect: Some(protect), ..self })
    }

    /// Replaces the globs of names that are hidden from agents ([`crate::hide`]).
    pub fn with_hide<P: AsRef<str>>(self, globs: impl IntoIterator<Item = P>) -> Result<Self, GlobError> {
        let hide = Arc::new(HideGlobs::new(globs)?);
        Ok(Workspace { hide: Some(hide), ..self })
    }

    /// Sets the globs of files that are stored without history.
    pub fn with_scratch<P: AsRef<str>>(self, globs: impl IntoIterator<Item = P>) -> Result<Self, GlobError> {
        let scratch = Arc::new(compile_rule(globs, PathGlobs::new)?);
        Ok(Workspace { scratch, ..self })
    }

    /// Makes the Workspace a managed one ([`crate::managed`]), whose files live as long as this says.
    pub fn with_managed(self, ttl: Ttl) -> Self {
        Workspace { managed: Some(Arc::new(ttl)), ..self }
    }

    /// Sets how the other Workspaces on the same directory are found. A cleanup leaves alone what one of them hides or protects.
    pub fn with_sharing(self, sharing: Arc<dyn SharingWorkspaces>) -> Self {
        Workspace { sharing: Some(sharing), ..self }
    }

    /// The other Workspaces on the same directory, as far as they are known.
    pub(crate) fn sharing(&self) -> Vec<Arc<Workspace>> {
        self.sharing.as_ref().map(|sharing| sharing.find(&self.mount)).unwrap_or_default()
    }

    /// Sets when the directory became the caller's own. What happened there before isn't the caller's to see: a thread can have
    /// the name, and so the directory, of an earlier one.
    pub fn with_own_since(self, since: Timestamp) -> Self {
        Workspace { own_since: Some(since), ..self }
    }

    /// Sets the quota.
    pub fn with_quota(self, quota: QuotaLimits) -> Self {
        Workspace { quota, ..self }
    }

    /// Sets a quota for a directory of the Store that contains the Mount's: what is beside the Mount counts too.
    pub fn with_quota_at(self, root: &VfsPath, quota: QuotaLimits) -> Self {
        Workspace { quota, quota_root: Some(StorePath::from_checked(&root.as_str()[1..])), ..self }
    }

    /// Sets who may change the permission bits of the root directory.
    pub fn with_root_mode(self, root_mode: RootMode) -> Self {
        Workspace { root_mode, ..self }
    }

    /// Sets a name for people. Refusals in this Workspace name it.
    pub fn with_title(self, title: impl Into<Arc<str>>) -> Self {
        Workspace { title: Some(title.into()), ..self }
    }

    /// The same Workspace with another scope.
    pub(crate) fn with_scope(self, scope: AccessScope) -> Self {
        Workspace { scope, ..self }
    }

    /// The same Workspace over a past view of its Store, read-only.
    pub(crate) fn past_view(self, store: Arc<dyn Store>) -> Self {
        let mount = Mount { store, path: self.mount.path.clone() };
        Workspace { mount, scope: AccessScope::ReadOnly, ..self }
    }

    /// The same Workspace as a barrier: it keeps its prefix, and nothing can be done in it.
    pub fn as_barrier(self, barrier: Barrier) -> Self {
        let scope = if self.scope.allows(Access::Read) { AccessScope::ReadOnly } else { self.scope };
        Workspace { scope, barrier: Some(barrier), ..self }
    }

    /// Why the Workspace is a barrier; `None` if it isn't one.
    pub fn barrier(&self) -> Option<&Barrier> {
        self.barrier.as_ref()
    }

    /// Whether nothing is shown at the prefix, not even its name.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.barrier, Some(Barrier::ExcludedFromFork | Barrier::NotMadeYet))
    }

    /// The path prefix.
    pub fn prefix(&self) -> &VfsPath {
        &self.prefix
    }

    /// The Access Scope.
    pub fn scope(&self) -> AccessScope {
        self.scope
    }

    /// The Mount behind it.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// What the Workspace is for.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The globs of files that agents may not change.
    pub fn protect(&self) -> &Arc<PathGlobs> {
        self.protect.as_ref().unwrap_or_else(|| &DEFAULT_PROTECT_GLOBS)
    }

    /// The globs of names that are hidden from agents.
    pub fn hide(&self) -> &Arc<HideGlobs> {
        self.hide.as_ref().unwrap_or_else(|| &DEFAULT_HIDE_GLOBS)
    }

    /// How long files live, if the Workspace is managed.
    pub fn managed(&self) -> Option<Ttl> {
        self.managed.as_deref().copied().filter(|_| self.barrier.is_none())
    }

    /// Whether the files are a thread's own.
    pub(crate) fn is_of_thread(&self) -> bool {
        self.own_since.is_some()
    }

    /// Whether the directory was the caller's own at this time already.
    pub(crate) fn was_own_at(&self, time: Timestamp) -> bool {
        self.own_since.is_none_or(|since| time >= since)
    }

    /// The quota.
    pub fn quota(&self) -> QuotaLimits {
        self.quota
    }

    /// The directory of the Store whose content the quota limits.
    pub fn quota_root(&self) -> &StorePath {
        self.quota_root.as_ref().unwrap_or_else(|| self.mount.path())
    }

    /// Where the content comes from, if the Workspace is a fork.
    pub fn fork_origin(&self) -> Option<&ForkOrigin> {
        self.fork_origin.as_deref()
    }

    /// Who may change the permission bits of the root directory.
    pub fn root_mode(&self) -> RootMode {
        self.root_mode
    }

    /// The name for people, if it has one.
    pub fn title(&self) -> Option<&Arc<str>> {
        self.title.as_ref()
    }

    /// The globs of files that are stored without history.
    pub fn scratch(&self) -> &PathGlobs {
        &self.scratch
    }
}
