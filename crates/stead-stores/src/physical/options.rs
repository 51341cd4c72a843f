//! How a Physical Store is opened.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::life::Faults;
use crate::Durability;

/// How a Physical Store is opened.
#[derive(Clone)]
pub struct PhysicalOptions {
    /// Stead's state directory. What the Store needs for itself goes there if it is on the same mount as the root, and
    /// else into `.stead/` in the root. Either is out of reach through the Store.
    pub state: PathBuf,
    /// What an acknowledged change survives.
    pub durability: Durability,
    /// Files and directories of Stead's own that are out of reach where they lie inside the root.
    pub mask: Vec<PathBuf>,
    /// Directories that stay where they are, where they lie inside the root: other Stores stand on them.
    pub hold: Vec<PathBuf>,
    /// Who keeps a path below the root.
    pub confinement: Confinement,
    /// How long a change waits for other processes; after that it is refused, having changed nothing.
    pub patience: Duration,
    /// For tests: stops the Store right before an action, as if the process had been killed there.
    pub faults: Option<Faults>,
}

/// Who keeps a path below the root of a Physical Store. It is kept there either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confinement {
    /// The kernel where it can (`openat2`), and else the Store.
    #[default]
    Automatic,
    /// The Store, which opens each name on the way by itself. Slower, and there on every Linux.
    Walk,
}

impl PhysicalOptions {
    /// The defaults, with this state directory.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        PhysicalOptions {
            state: state.into(),
            durability: Durability::default(),
            mask: Vec::new(),
            hold: Vec::new(),
            confinement: Confinement::default(),
            patience: Duration::from_secs(30),
            faults: None,
        }
    }
}

impl fmt::Debug for PhysicalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhysicalOptions")
            .field("state", &self.state)
            .field("durability", &self.durability)
            .field("mask", &self.mask)
            .field("hold", &self.hold)
            .field("confinement", &self.confinement)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
