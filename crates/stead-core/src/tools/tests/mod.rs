//! Tests of the tools over the model Store.

mod approvals;
mod arguments;
mod editing;
mod folders;
mod hints;
mod ignored_files;
mod model_text;
mod offered_tools;
mod replies;
mod schemas;
mod state;
mod suggestions;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::*;
use crate::error::ErrorKind;
use crate::identity::Identity;
use crate::path::VfsPath;
use crate::scope::AccessScope::{ReadOnly, ReadWrite, WriteOnly};
use crate::testkit::{MemoryAuditLog, ModelStore, PanickingStore};
use crate::workspace::{ApprovalPolicy, Mount, Workspace};

fn workspace(prefix: &str, scope: AccessScope, store: &Arc<ModelStore>) -> Workspace {
    Workspace::new(VfsPath::parse(prefix).unwrap(), scope, Mount::new(store.clone()))
}

fn toolbox(workspaces: impl IntoIterator<Item = Workspace>) -> Toolbox {
    let builder = Vfs::builder(Identity::agent("tester"));
    Toolbox::new(
        workspaces
            .into_iter()
            .fold(builder, |builder, workspace| builder.workspace(workspace))
            .build()
            .unwrap(),
    )
}

/// One Workspace of each scope, all over the same Store: `/rw`, `/ro` and `/wo`.
fn toolbox_with_all_scopes() -> Toolbox {
    let store = Arc::new(ModelStore::new());
    toolbox([
        workspace("/rw", ReadWrite, &store),
        workspace("/ro", ReadOnly, &store),
        workspace("/wo", WriteOnly, &store),
    ])
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} isn't an object"),
    }
}

/// Calls a tool that needs no approval.
fn call(tools: &Toolbox, name: &str, arguments: Value) -> Reply {
    tools.call(name, object(arguments), ApprovalAnswer::NotAsked).unwrap()
}

/// Calls a tool that has to succeed, and returns its text and facts.
fn call_ok(tools: &Toolbox, name: &str, arguments: Value) -> (String, Map<String, Value>) {
    let reply = call(tools, name, arguments);
    assert_eq!(reply.failure, None, "{name}");
    (reply.joined_text(), reply.facts)
}

fn failure(tools: &Toolbox, name: &str, arguments: Value) -> Failure {
    call(tools, name, arguments).failure.unwrap()
}
