//! The keys of `stead.toml`: one table that the reader, the JSON Schema and the reference page share.
//!
//! The reader can only read keys that are listed here, and rejects every other key in the file.

#[cfg(test)]
mod page;
mod schema;

pub use schema::json_schema;

/// A table of the file and its keys.
#[derive(Debug)]
pub(super) struct TableKeys {
    /// How the table's header is written.
    pub(super) header: &'static str,
    /// What the table describes.
    pub(super) description: &'static str,
    pub(super) keys: &'static [Key],
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) value: ValueKind,
    pub(super) default: DefaultValue,
    pub(super) description: &'static str,
    /// A value, as it is written in the file; empty for a table.
    pub(super) example: &'static str,
}

/// What a key's value has to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueKind {
    Text,
    Number,
    Boolean,
    Texts,
    OneOf(&'static [&'static str]),
    /// A number of bytes with a unit.
    Size,
    /// A length of time with a unit.
    Duration,
    /// A number of days, or `"never"`.
    Days,
    Table(&'static TableKeys),
    BooleanOrTable(&'static TableKeys),
    /// Tables under names that the user chooses.
    NamedTables(&'static [&'static TableKeys]),
    TableList(&'static TableKeys),
    /// A table or a list of tables of which nothing is known yet.
    Anything,
}

/// What holds if a key is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultValue {
    /// The key has to be present.
    Required,
    Is(&'static str),
    /// The key may be present, but has no effect in this version.
    NoEffect,
}

impl TableKeys {
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The keys that have an effect.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().filter(|key| key.default != DefaultValue::NoEffect).map(|key| key.name)
    }
}

const fn key(
    name: &'static str,
    value: ValueKind,
    default: DefaultValue,
    example: &'static str,
    description: &'static str,
) -> Key {
    Key { name, value, default, description, example }
}

use DefaultValue::{Is, NoEffect, Required};
use ValueKind::{
    Anything, Boolean, BooleanOrTable, Days, Duration, NamedTables, Number, OneOf, Size, Table, TableList,
    Text, Texts,
};

/// A table of which nothing is known yet.
pub(super) static NONE: TableKeys = TableKeys { header: "", description: "", keys: &[] };

/// The whole file.
pub(super) static ROOT: TableKeys = TableKeys {
    header: "",
    description: "The whole file. Relative paths in it are relative to its directory.",
    keys: &[
        key(
            "database",
            Table(&DATABASE),
            Is("a database in `.stead/`"),
            "",
            "The database of the Virtual Stores, the history and the audit",
        ),
        key("history", Table(&HISTORY), Is("as below"), "", "How long versions are kept"),
        key("audit", Table(&AUDIT), Is("on"), "", "The record of every call"),
        key(
            "hide",
            Texts,
            Is("names that usually hold secrets"),
            "[\".env\"]",
            "The `hide` of Workspaces that have none of their own",
        ),
        key(
            "stores",
            NamedTables(&[&PHYSICAL_STORE, &VIRTUAL_STORE, &MEMORY_STORE]),
            Is("none"),
            "",
            "The Stores, by name",
        ),
        key(
            "agents",
            NamedTables(&[&AGENT]),
            Is("none"),
            "",
            "The agents, by name; `system` is the name of Stead itself",
        ),
        key("ttl", Table(&TTL), Is("as below"), "", "How long files of managed Workspaces live"),
        key(
            "organization",
            TableList(&ORGANIZATION),
            Is("none"),
            "",
            "The organizations; their agents join those of `agents`",
        ),
    ],
};

pub(super) static TTL: TableKeys = TableKeys {
    header: "[ttl]",
    description: "How many days files of a managed Workspace live after they were last written, by category.",
    keys: &[
        key("code", Days, Is("\"never\""), "365", "Scripts and source files"),
        key("documents", Days, Is("\"never\""), "365", "Texts"),
        key("data", Days, Is("\"never\""), "365", "Tables and structured data"),
        key("images", Days, Is("90"), "\"never\"", "Pictures"),
        key("downloads", Days, Is("30"), "14", "Fetched files and archives"),
        key("temp", Days, Is("7"), "1", "Files of no other category, and those that are marked as temporary"),
    ],
};

pub(super) static DATABASE: TableKeys = TableKeys {
    header: "[database]",
    description: "The database holds the files of all Virtual Stores, what is kept of host directories, and the audit.",
    keys: &[
        key("url", Text, Is("\"sqlite:.stead/stead.db\""), "\"sqlite:stead.db\"", "`sqlite:` and a file"),
        key(
            "durability",
            OneOf(&["full", "fast"]),
            Is("\"full\""),
            "\"fast\"",
            "`full`: an acknowledged change is on the disk. `fast`: a power cut may lose the changes of the last moments, never a part of one",
        ),
    ],
};

pub(super) static HISTORY: TableKeys = TableKeys {
    header: "[history]",
    description: "What `stead gc` keeps of the versions in Virtual Stores. Snapshots and what forks are based on are always kept.",
    keys: &[
        key("age", Duration, Is("\"30d\""), "\"90d\"", "Versions that are older may be removed"),
        key("versions", Number, Is("10000"), "500", "How many old contents of one file are kept at most"),
    ],
};

pub(super) static AUDIT: TableKeys = TableKeys {
    header: "[audit]",
    description: "The audit records every call in hash chains.",
    keys: &[key("enabled", Boolean, Is("true"), "true", "Whether calls are recorded")],
};

pub(super) static PHYSICAL_STORE: TableKeys = TableKeys {
    header: "[stores.NAME] with kind = \"physical\"",
    description: "A directory of the host.",
    keys: &[
        key("kind", OneOf(&["physical"]), Required, "\"physical\"", "The kind of the Store"),
        key("path", Text, Required, "\"srv/code\"", "The directory. `~` isn't expanded"),
        key(
            "keep",
            BooleanOrTable(&KEEP),
            Is("true"),
            "true",
            "Whether what agents overwrite and delete is kept for undo; a table sets limits",
        ),
    ],
};

pub(super) static KEEP: TableKeys = TableKeys {
    header: "[stores.NAME.keep]",
    description: "How much of what agents overwrite and delete in a host directory is kept for undo.",
    keys: &[
        key("age", Duration, Is("\"14d\""), "\"7d\"", "How long content is kept"),
        key(
            "bytes",
            Size,
            Is("\"1GiB\""),
            "\"256MiB\"",
            "How much is kept in all; the oldest content is removed first",
        ),
        key(
            "file_bytes",
            Size,
            Is("\"64MiB\""),
            "\"16MiB\"",
            "Larger files are not kept: a change that overwrites or deletes one can't be undone",
        ),
    ],
};

pub(super) static VIRTUAL_STORE: TableKeys = TableKeys {
    header: "[stores.NAME] with kind = \"virtual\"",
    description: "Files in the database. Every change makes a version.",
    keys: &[
        key("kind", OneOf(&["virtual"]), Required, "\"virtual\"", "The kind of the Store"),
        key(
            "namespace",
            Texts,
            Is("the Store's name"),
            "[\"workspaces\", \"coder\"]",
            "The place in the database. Stores with the same namespace are one Store",
        ),
    ],
};

pub(super) static MEMORY_STORE: TableKeys = TableKeys {
    header: "[stores.NAME] with kind = \"memory\"",
    description: "Files in the memory of the process. They are gone when it ends.",
    keys: &[key("kind", OneOf(&["memory"]), Required, "\"memory\"", "The kind of the Store")],
};

pub(super) static AGENT: TableKeys = TableKeys {
    header: "[agents.NAME]",
    description: "An agent: what it sees, and which tools it is offered.",
    keys: &[
        key("description", Text, Is("none"), "\"writes the code\"", "What the agent is for"),
        key("workspaces", TableList(&WORKSPACE), Required, "", "The Workspaces that the agent sees"),
        key("quota", Table(&QUOTA), Is("no limits"), "", "Limits on all Workspaces of the agent together"),
        key(
            "tools",
            Texts,
            Is("all that the scopes allow"),
            "[\"read_file\", \"list_directory\"]",
            "The only tools that the agent is offered",
        ),
        key(
            "history",
            Boolean,
            Is("false"),
            "true",
            "Whether the agent is offered the history tools (undo, list_versions, diff and so on)",
        ),
        key(
            "forks",
            Boolean,
            Is("false"),
            "true",
            "Whether the agent is offered the tools for forks (fork_workspace, merge_fork and so on)",
        ),
        key(
            "ask",
            Texts,
            Is("[]"),
            "[\"delete_directory\"]",
            "Tools that need a person's approval for each call",
        ),
        key(
            "structured",
            Boolean,
            Is("false"),
            "true",
            "Whether MCP results have structured data beside the text",
        ),
        key(
            "scope",
            OneOf(&["agent", "thread", "hybrid"]),
            Is("\"agent\""),
            "\"thread\"",
            "Whose files the Workspaces show. `agent`: the agent's, in all of its threads. `thread`: each thread's own, except in READ_ONLY Workspaces. `hybrid`: each thread's own at `/project` and below, and the agent's elsewhere",
        ),
        key(
            "idle_timeout",
            Duration,
            Is("\"30m\""),
            "\"2h\"",
            "How long a thread may be unused before it is destroyed with its files",
        ),
        key(
            "thread",
            OneOf(&["session"]),
            Is("none: the caller names the thread"),
            "\"session\"",
            "`session`: each MCP session over HTTP is a new thread, which the server names",
        ),
        key("state", Table(&STATE), Is("none"), "", "The State of the agent, or of each of its threads"),
        key("executor", Anything, NoEffect, "", "Reserved"),
    ],
};

pub(super) static ORGANIZATION: TableKeys = TableKeys {
    header: "[[organization]]",
    description: "An organization: teams and agents whose records decide what each agent can reach. The records are in three JSON files, or here.",
    keys: &[
        key(
            "path",
            Text,
            Is("none: the records are here"),
            "\"organizations/acme\"",
            "The directory with `org.json`, `teams.json` and `agents.json`",
        ),
        key("store", Text, Required, "\"code\"", "The name of the Store that has the folders"),
        key(
            "id",
            Text,
            Is("that of `org.json`"),
            "\"acme\"",
            "The id, which is also the name of its directory",
        ),
        key("name", Text, Is("the id"), "\"Acme\"", "The name for people"),
        key(
            "toolWhitelist",
            Texts,
            Is("no tools"),
            "[\"list_folders\", \"read_file_by_id\"]",
            "The tools that its agents may have",
        ),
        key("teams", TableList(&ORGANIZATION_TEAM), Is("none"), "", "The teams"),
        key("agents", TableList(&ORGANIZATION_AGENT), Is("none"), "", "The agents"),
        key(
            "managed",
            Boolean,
            Is("false"),
            "true",
            "Whether the folders are managed: sorts files by category and day, keeps a manifest of them, and removes those whose time to live is over",
        ),
        key(
            "max_depth",
            Number,
            Is("3"),
            "5",
            "How many parts the name of a file may have that a folder tool creates. In managed folders, the directories of categories and days don't count",
        ),
        key(
            "max_file_bytes",
            Size,
            Is("\"5MiB\""),
            "\"20MiB\"",
            "The largest file that a folder tool writes",
        ),
        key(
            "agent_quota",
            Table(&QUOTA),
            Is("1,000 files, 100 MB"),
            "",
            "Limits on both folders of each agent together",
        ),
        key(
            "team_quota",
            Table(&QUOTA),
            Is("2,000 files, 1 GB"),
            "",
            "Limits on both folders of each team together",
        ),
        key(
            "structured",
            Boolean,
            Is("false"),
            "true",
            "Whether MCP results have structured data beside the text",
        ),
    ],
};

pub(super) static ORGANIZATION_TEAM: TableKeys = TableKeys {
    header: "[[organization.teams]]",
    description: "A team. All its members may change its two folders, and every agent of the organization may read the shared one.",
    keys: &[
        key("id", Text, Required, "\"team-hr\"", "The id, which is also the name of its directory"),
        key("name", Text, Is("the id"), "\"HR\"", "The name for people"),
        key(
            "leadership",
            Boolean,
            Is("false"),
            "true",
            "Whether its members may read every agent's shared folder",
        ),
        key(
            "toolWhitelist",
            Texts,
            Is("those of the organization"),
            "[\"list_folders\"]",
            "The only tools of the organization that its members have",
        ),
    ],
};

pub(super) static ORGANIZATION_AGENT: TableKeys = TableKeys {
    header: "[[organization.agents]]",
    description: "An agent of the organization.",
    keys: &[
        key("id", Text, Required, "\"agent-marcus\"", "The id, which is also the name of its directory"),
        key("name", Text, Is("the id"), "\"Marcus\"", "The name for people"),
        key("teamId", Text, Is("no team"), "\"team-hr\"", "The id of its team"),
        key(
            "toolWhitelist",
            Texts,
            Is("those of its team"),
            "[\"list_folders\"]",
            "The only tools of its team that it has",
        ),
    ],
};

pub(super) static STATE: TableKeys = TableKeys {
    header: "[agents.NAME.state]",
    description: "The agent's State: keys with JSON values, in a volume of the database that no path reaches.",
    keys: &[key(
        "enabled",
        Boolean,
        Is("true"),
        "true",
        "Whether the agent has a State, with the tools for it",
    )],
};

pub(super) static WORKSPACE: TableKeys = TableKeys {
    header: "[[agents.NAME.workspaces]]",
    description: "A Workspace: a logical path, an Access Scope, and the Store that has the files.",
    keys: &[
        key(
            "prefix",
            Text,
            Required,
            "\"/project\"",
            "The logical path. A longer prefix wins over a shorter one",
        ),
        key(
            "scope",
            OneOf(&["READ_ONLY", "ro", "READ_WRITE", "rw", "WRITE_ONLY", "wo"]),
            Required,
            "\"rw\"",
            "The Access Scope",
        ),
        key("store", Text, Required, "\"code\"", "The name of a Store"),
        key("path", Text, Is("\"/\""), "\"/app\"", "The directory of the Store that the Workspace shows"),
        key(
            "description",
            Text,
            Is("none"),
            "\"the application\"",
            "What the Workspace is for, in the agent's Filesystem Map",
        ),
        key(
            "protect",
            Texts,
            Is("git's hooks and configuration"),
            "[\"LICENSE\"]",
            "Globs of files that agents may not change; a list replaces the default",
        ),
        key(
            "hide",
            Texts,
            Is("names that usually hold secrets"),
            "[\".env\", \"secrets/**\"]",
            "Globs of files that don't exist for the agent; a list replaces the one at the top of the file, and `[]` turns it off",
        ),
        key("scratch", Texts, Is("[]"), "[\"target/**\"]", "Globs of files without history"),
        key("quota", Table(&QUOTA), Is("no limits"), "", "Limits on the Workspace"),
        key(
            "ask",
            OneOf(&["never", "changes", "everything"]),
            Is("\"never\""),
            "\"changes\"",
            "Which calls need a person's approval",
        ),
        key(
            "managed",
            Boolean,
            Is("false"),
            "true",
            "Sorts files by category and day, keeps a manifest of them, and removes those whose time to live is over",
        ),
        key(
            "per",
            OneOf(&["agent", "thread"]),
            Is("as the agent's `scope` says"),
            "\"thread\"",
            "Whose files these are: the agent's, in all of its threads, or each thread's own",
        ),
        key(
            "fork",
            OneOf(&["agent", "thread"]),
            Is("changes are made in the Workspace itself"),
            "\"agent\"",
            "Keeps what the agent, or each of its threads, changes here in a fork until a person takes it over with `stead \
             review`",
        ),
    ],
};

pub(super) static QUOTA: TableKeys = TableKeys {
    header: "quota = { … }",
    description: "Limits, for an agent or for one Workspace.",
    keys: &[
        key("bytes", Size, Is("no limit"), "\"1GiB\"", "The size of all files together"),
        key("files", Number, Is("no limit"), "10000", "The number of files and symlinks"),
        key("file_bytes", Size, Is("no limit"), "\"64MiB\"", "The size of one file"),
    ],
};
