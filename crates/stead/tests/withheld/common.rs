//! A stead with withheld places, and what its answers must not contain.

use std::sync::Arc;

use serde_json::{Value, json};
use stead::tools::ToolChoice;
use stead::{AccessScope, MemoryStore, Stead};

/// The content and the name of the file in the withheld place.
pub(crate) const SECRET: &str = "canary-content";
pub(crate) const NAME: &str = "canary-name.txt";

/// `/home` (READ_ONLY) with `/home/wo` (WRITE_ONLY) inside, both on one Store. A symlink in `/home` leads to `/home`.
pub(crate) struct Home {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) stead: Stead,
}

impl Home {
    pub(crate) fn new(scope: AccessScope) -> Self {
        let store = Arc::new(MemoryStore::new());
        let owner = owner(&store);
        owner.vfs().write("/home/open.txt", "open 1\n").unwrap();
        owner.vfs().symlink("/home/self", ".").unwrap();
        owner.vfs().write(format!("/home/wo/{NAME}"), format!("{SECRET} 1\n")).unwrap();
        owner.vfs().write(format!("/home/wo/{NAME}"), format!("{SECRET} 2\n")).unwrap();
        owner.vfs().write("/home/open.txt", "open 2\n").unwrap();
        let stead = nested(&store, scope).build().unwrap();
        Home { store, stead }
    }
}

/// A stead that sees the whole Store.
pub(crate) fn owner(store: &Arc<MemoryStore>) -> Stead {
    let mount = stead::Mount::from(store);
    let workspace = stead::Workspace::new(stead::VfsPath::root(), AccessScope::ReadWrite, mount);
    Stead::builder("owner").add_workspace(workspace.with_protect([""; 0]).unwrap()).build().unwrap()
}

pub(crate) fn nested(store: &Arc<MemoryStore>, scope: AccessScope) -> stead::SteadBuilder {
    let mount = |path: &str| {
        let path = stead::VfsPath::parse(path).unwrap();
        stead::Mount::at(Arc::clone(store) as Arc<dyn stead::Store>, &path)
    };
    Stead::builder("coder")
        .workspace("/home", scope, mount("/home"))
        .workspace("/home/wo", AccessScope::WriteOnly, mount("/home/wo"))
        .tools(ToolChoice { history: true, ..ToolChoice::default() })
}

/// Everything that a tool answers: its text, its facts, its failure.
pub(crate) fn answer(stead: &Stead, tool: &str, arguments: Value) -> String {
    let reply = stead.call(tool, arguments);
    format!("{} {} {:?}", reply.joined_text(), json!(reply.facts), reply.failure)
}

#[track_caller]
pub(crate) fn assert_reveals_nothing(answer: &str) {
    assert!(!answer.contains("canary"), "{answer}");
}
