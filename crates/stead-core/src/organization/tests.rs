//! Tests of rights, discovery, names and whitelists, against tables that follow the specification.

use proptest::prelude::*;

use super::*;
use crate::scope::AccessScope::{ReadOnly, ReadWrite};

/// HR (Marcus, Catalyst), Finance (Fiona), Leadership (Elena), and Solo, who has no team.
fn acme() -> Organization {
    let leadership = TeamRecord { leadership: true, ..TeamRecord::new("team-lead", "Leadership") };
    let records = OrganizationRecords {
        id: "acme".into(),
        teams: vec![
            TeamRecord::new("team-hr", "HR"),
            TeamRecord::new("team-fin", "Finance Team"),
            leadership,
            TeamRecord::new("team-fans", "Leadership fans"),
        ],
        agents: vec![
            AgentRecord::new("marcus", "Marcus").in_team("team-hr"),
            AgentRecord::new("catalyst", "Catalyst").in_team("team-hr"),
            AgentRecord::new("fiona", "Fiona").in_team("team-fin"),
            AgentRecord::new("elena", "Elena").in_team("team-lead"),
            AgentRecord::new("fan", "Fan").in_team("team-fans"),
            AgentRecord::new("solo", "Solo"),
            AgentRecord::new("lost", "Lost").in_team("team-gone"),
        ],
        ..OrganizationRecords::default()
    };
    Organization::new(records).unwrap()
}

fn agent(organization: &Organization, id: &str) -> AgentIndex {
    organization.agent_index(id).unwrap()
}

fn folder(organization: &Organization, path: &str) -> Folder {
    let (owner, half) = path.split_once('/').unwrap();
    let visibility = Visibility::ALL.into_iter().find(|visibility| visibility.as_str() == half).unwrap();
    organization.folder(owner, visibility).unwrap()
}

fn discovered(organization: &Organization, caller: &str, scope: FolderScope) -> Vec<String> {
    let folders = organization.discover(agent(organization, caller), scope);
    folders.into_iter().map(|folder| organization.folder_name(folder)).collect()
}

#[test]
fn f73_to_f84_rights_belong_to_the_folder_and_follow_from_the_records() {
    let acme = acme();
    let rw = Some(ReadWrite);
    let ro = Some(ReadOnly);
    for (folder_path, marcus, catalyst, fiona, elena, fan, solo) in [
        ("marcus/private", rw, None, None, None, None, None),
        ("marcus/shared", rw, ro, None, ro, None, None),
        ("solo/private", None, None, None, None, None, rw),
        ("solo/shared", None, None, None, ro, None, rw),
        ("team-hr/private", rw, rw, None, None, None, None),
        ("team-hr/shared", rw, rw, ro, ro, ro, ro),
        ("team-lead/private", None, None, None, rw, None, None),
        ("team-lead/shared", ro, ro, ro, rw, ro, ro),
    ] {
        let expected = [marcus, catalyst, fiona, elena, fan, solo];
        for (caller, expected) in ["marcus", "catalyst", "fiona", "elena", "fan", "solo"].iter().zip(expected)
        {
            let access = acme.access(agent(&acme, caller), folder(&acme, folder_path));
            assert_eq!(access, expected, "{caller} in {folder_path}");
        }
    }
}

#[test]
fn f13_to_f25_f30_and_f31_each_scope_lists_its_folders_in_a_stable_order() {
    let acme = acme();
    assert_eq!(discovered(&acme, "marcus", FolderScope::MyPrivate), ["Marcus (HR) - Private"]);
    assert_eq!(discovered(&acme, "marcus", FolderScope::MyShared), ["Marcus (HR) - Shared"]);
    assert_eq!(discovered(&acme, "marcus", FolderScope::TeamPrivate), ["HR Team - Private"]);
    assert_eq!(discovered(&acme, "marcus", FolderScope::TeamShared), ["HR Team - Shared"]);
    let teams = [
        "Finance Team - Shared",
        "HR Team - Shared",
        "Leadership Team - Shared",
        "Leadership fans Team - Shared",
    ];
    let org_shared = |caller| discovered(&acme, caller, FolderScope::OrgShared);
    assert_eq!(org_shared("marcus"), [&teams[..], &["Catalyst (HR) - Shared"]].concat());
    assert_eq!(org_shared("solo"), teams);
    assert_eq!(org_shared("lost"), teams, "a team that doesn't exist counts as none");
    for scope in [FolderScope::TeamPrivate, FolderScope::TeamShared] {
        assert!(discovered(&acme, "solo", scope).is_empty());
    }
    let others = [
        "Catalyst (HR) - Shared",
        "Fan (Leadership fans) - Shared",
        "Fiona (Finance) - Shared",
        "Lost - Shared",
        "Marcus (HR) - Shared",
        "Solo - Shared",
    ];
    assert_eq!(org_shared("elena"), [&teams[..], &others].concat());
}

#[test]
fn f37_to_f39_and_f144_folders_have_names_for_people_and_logical_paths() {
    let acme = acme();
    for (path, name) in [
        ("team-fin/shared", "Finance Team - Shared"),
        ("team-hr/private", "HR Team - Private"),
        ("solo/private", "Solo - Private"),
    ] {
        let folder = folder(&acme, path);
        assert_eq!(acme.folder_name(folder), name);
        assert_eq!(acme.folder_path(folder).as_str(), format!("/workspaces/{path}"));
        assert_eq!(
            acme.folder_directory(folder).as_str(),
            format!("/organizations/acme/workspaces/{path}"),
            "F144: agents and teams use the same layout"
        );
    }
    for (name, short) in
        [("HR", "HR"), ("HR Team", "HR"), ("Team", "Team"), ("Steam", "Steam"), (" Team", " Team")]
    {
        let records = OrganizationRecords {
            id: "o".into(),
            teams: vec![TeamRecord::new("t", name)],
            ..OrganizationRecords::default()
        };
        assert_eq!(Organization::new(records).unwrap().teams[0].short_name(), short);
    }
}

#[test]
fn f26_and_f27_an_invalid_scope_is_refused_with_the_list_of_scopes() {
    let expected = "Invalid scope 'team_library'. Available scopes: my_private, my_shared, team_private, team_shared, \
                    org_shared";
    assert_eq!("team_library".parse::<FolderScope>().unwrap_err().to_string(), expected);
    for invalid in ["", "My_Private", "library", " my_private"] {
        assert!(invalid.parse::<FolderScope>().is_err(), "{invalid}");
    }
    for (scope, name) in FolderScope::ALL.into_iter().zip(FolderScope::NAMES) {
        assert_eq!((scope.as_str(), name.parse()), (name, Ok(scope)));
    }
}

#[test]
fn ids_that_two_records_share_or_that_name_no_directory_are_reported_all_at_once() {
    let records = OrganizationRecords {
        id: "acme".into(),
        teams: vec![TeamRecord::new("x", "X"), TeamRecord::new("a/b", "Y")],
        agents: vec![AgentRecord::new("x", "X"), AgentRecord::new("..", "Z"), AgentRecord::new("X", "W")],
        ..OrganizationRecords::default()
    };
    let problems = Organization::new(records).unwrap_err();
    let found: Vec<_> = problems.iter().map(|problem| (problem.record, &*problem.message)).collect();
    assert_eq!(found.len(), 4);
    assert_eq!((found[0].0, found[1].0), (RecordRef::Team(1), RecordRef::Agent(0)));
    assert!(found[1].1.contains("two records have the id `x`"), "{found:?}");
    assert!(found[3].1.contains("differ only in case"), "{found:?}");
}

#[test]
fn listed_teams_limit_the_teams_and_unknown_ones_are_warned_of() {
    let records = OrganizationRecords {
        id: "acme".into(),
        listed_teams: Some(vec!["hr".into(), "gone".into()]),
        teams: vec![TeamRecord::new("hr", "HR"), TeamRecord::new("dev", "Dev")],
        agents: vec![AgentRecord::new("a", "A").in_team("dev"), AgentRecord::new("b", "B").in_team("hr")],
        ..OrganizationRecords::default()
    };
    let warnings: Vec<_> = records.warnings().into_iter().map(|warning| warning.record).collect();
    assert_eq!(warnings, [RecordRef::Organization, RecordRef::Agent(0)]);
    let acme = Organization::new(records).unwrap();
    assert_eq!(acme.teams().len(), 1);
    assert!(acme.team_of(agent(&acme, "a")).is_none() && acme.team_of(agent(&acme, "b")).is_some());
}

mod whitelists {
    use super::*;

    const FIVE: [&str; 5] =
        ["list_folders", "read_file_by_id", "write_file_by_id", "delete_file_by_id", "get_file_info_by_id"];

    fn tools(organization: ToolRule, team: ToolRule, agent: ToolRule) -> Vec<String> {
        let records = OrganizationRecords {
            id: "o".into(),
            tools: organization,
            teams: vec![TeamRecord { tools: team, ..TeamRecord::new("t", "T") }],
            agents: vec![AgentRecord { tools: agent, ..AgentRecord::new("a", "A").in_team("t") }],
            ..OrganizationRecords::default()
        };
        let organization = Organization::new(records).unwrap();
        organization.allowed_tools(AgentIndex(0)).into_iter().collect()
    }

    fn inherited() -> ToolRule {
        ToolRule::default()
    }

    #[test]
    fn f130_to_f133_a_tool_has_to_be_allowed_at_every_level() {
        let organization = || ToolRule::only(["A", "B", "C"]);
        assert_eq!(tools(organization(), ToolRule::only(["B", "C"]), ToolRule::only(["B", "D"])), ["B"]);
        assert_eq!(tools(organization(), inherited(), inherited()), ["A", "B", "C"]);
        assert!(tools(organization(), ToolRule::only(["A"]), ToolRule::only(["B"])).is_empty());
        let contractor = tools(
            ToolRule::only(FIVE),
            ToolRule::only(["list_folders", "read_file_by_id"]),
            ToolRule::only(FIVE),
        );
        assert_eq!(contractor, ["list_folders", "read_file_by_id"]);
    }

    #[test]
    fn f134_the_four_scenarios_have_5_3_4_and_2_tools() {
        let three = ["list_folders", "read_file_by_id", "get_file_info_by_id"];
        let four = ["list_folders", "read_file_by_id", "write_file_by_id", "get_file_info_by_id"];
        let all = || ToolRule::only(FIVE);
        assert_eq!(tools(all(), inherited(), inherited()).len(), 5);
        assert_eq!(tools(all(), inherited(), ToolRule::only(three)).len(), 3);
        assert_eq!(tools(all(), ToolRule::only(four), inherited()).len(), 4);
        assert_eq!(tools(all(), ToolRule::only(["list_folders", "read_file_by_id"]), all()).len(), 2);
    }

    #[test]
    fn f135_and_f136_an_empty_list_and_a_missing_list_of_the_organization_mean_no_tools() {
        let nothing = || ToolRule::only::<&str>([]);
        for (organization, team, agent) in [
            (nothing(), inherited(), inherited()),
            (ToolRule::only(FIVE), nothing(), inherited()),
            (ToolRule::only(FIVE), inherited(), nothing()),
            (inherited(), ToolRule::only(FIVE), ToolRule::only(FIVE)),
        ] {
            assert!(tools(organization, team, agent).is_empty());
        }
    }

    #[test]
    fn f142_blacklists_take_tools_away_at_their_level() {
        let team = ToolRule::all_but(["delete_file_by_id"]);
        let agent = ToolRule::all_but(["write_file_by_id"]);
        let left = tools(ToolRule::only(FIVE), team, agent);
        assert_eq!(left, ["get_file_info_by_id", "list_folders", "read_file_by_id"]);
    }

    #[test]
    fn the_highest_level_that_takes_a_tool_away_is_known() {
        let records = OrganizationRecords {
            id: "o".into(),
            tools: ToolRule::only(["A", "B", "C"]),
            teams: vec![TeamRecord { tools: ToolRule::only(["A", "B", "D"]), ..TeamRecord::new("t", "T") }],
            agents: vec![AgentRecord {
                tools: ToolRule::all_but(["B", "C"]),
                ..AgentRecord::new("a", "A").in_team("t")
            }],
            ..OrganizationRecords::default()
        };
        let organization = Organization::new(records).unwrap();
        let level = |tool| organization.tool_withheld_by(AgentIndex(0), tool);
        assert_eq!(
            ["A", "B", "C", "D"].map(level),
            [None, Some(ToolLevel::Agent), Some(ToolLevel::Team), Some(ToolLevel::Organization)]
        );
    }

    #[test]
    fn the_records_that_leave_no_tool_are_found_at_the_highest_level() {
        let with = |organization: ToolRule| OrganizationRecords {
            id: "o".into(),
            tools: organization,
            teams: vec![
                TeamRecord { tools: ToolRule::only(["B"]), ..TeamRecord::new("none", "N") },
                TeamRecord::new("some", "S"),
            ],
            agents: vec![
                AgentRecord::new("a", "A").in_team("none"),
                AgentRecord { tools: ToolRule::only(["B"]), ..AgentRecord::new("b", "B").in_team("some") },
                AgentRecord::new("c", "C").in_team("some"),
                AgentRecord { tools: ToolRule::only::<&str>([]), ..AgentRecord::new("d", "D") },
            ],
            ..OrganizationRecords::default()
        };
        let found = |organization| with(organization).records_without_tools(|tool| tool != "unknown");
        assert_eq!(
            found(ToolRule::only(["A"])),
            [RecordRef::Team(0), RecordRef::Agent(1), RecordRef::Agent(3)]
        );
        assert_eq!(found(ToolRule::only(["unknown"])), [RecordRef::Organization]);
        assert_eq!(found(inherited()), [RecordRef::Organization]);
    }

    #[test]
    fn f138_unknown_tools_are_found_with_the_record_that_names_them() {
        let records = OrganizationRecords {
            tools: ToolRule::only(["read", "nope"]),
            teams: vec![TeamRecord { tools: ToolRule::all_but(["gone"]), ..TeamRecord::default() }],
            ..OrganizationRecords::default()
        };
        let unknown = records.unknown_tools(|tool| tool == "read");
        assert_eq!(unknown, [(RecordRef::Organization, "nope".into()), (RecordRef::Team(0), "gone".into())]);
    }
}

/// Any organization, with few ids so that agents share teams, and with leaders.
fn any_organization() -> impl Strategy<Value = Organization> {
    let teams = prop::collection::vec(any::<bool>(), 0..5);
    let agents = prop::collection::vec(0_usize..7, 1..12);
    (teams, agents).prop_map(|(teams, agents)| {
        let team = |(index, leadership): (usize, bool)| TeamRecord {
            leadership,
            ..TeamRecord::new(format!("team-{index}"), format!("Team {}", index / 2))
        };
        let agent = |(index, team): (usize, usize)| {
            AgentRecord::new(format!("agent-{index}"), "Same name").in_team(format!("team-{team}"))
        };
        let records = OrganizationRecords {
            id: "o".into(),
            teams: teams.into_iter().enumerate().map(team).collect(),
            agents: agents.into_iter().enumerate().map(agent).collect(),
            ..OrganizationRecords::default()
        };
        Organization::new(records).unwrap()
    })
}

fn all_folders(organization: &Organization) -> Vec<Folder> {
    let teams = organization.teams().map(|(team, _)| FolderOwner::Team(team));
    let agents = organization.agents().map(|(agent, _)| FolderOwner::Agent(agent));
    let owners = teams.chain(agents);
    owners.flat_map(|owner| Visibility::ALL.map(|visibility| Folder { owner, visibility })).collect()
}

proptest! {
    #[test]
    fn f22_f29_f32_and_f82_what_is_discovered_is_exactly_what_may_be_read(organization in any_organization()) {
        for (caller, _) in organization.agents() {
            let mut discovered = Vec::new();
            for scope in FolderScope::ALL {
                let folders = organization.discover(caller, scope);
                let mut once = folders.clone();
                once.sort();
                once.dedup();
                prop_assert_eq!(once.len(), folders.len(), "each folder is listed once in a scope");
                discovered.extend(folders);
            }
            discovered.sort();
            discovered.dedup();
            let mut granted: Vec<_> = organization.grants(caller).map(|grant| grant.folder).collect();
            granted.sort();
            let mut readable = all_folders(&organization);
            readable.retain(|folder| organization.access(caller, *folder).is_some());
            readable.sort();
            prop_assert_eq!(&discovered, &readable);
            prop_assert_eq!(&granted, &readable, "each folder is granted once");
            for grant in organization.grants(caller) {
                let own = matches!(grant.reason, GrantReason::Owner | GrantReason::Member);
                prop_assert_eq!(grant.scope == ReadWrite, own);
            }
            let writable = organization.writable_scopes(caller);
            for scope in FolderScope::ALL {
                let folders = organization.discover(caller, scope);
                let is_writable = |folder: &Folder| organization.access(caller, *folder) == Some(ReadWrite);
                if scope != FolderScope::OrgShared {
                    prop_assert_eq!(writable.contains(&scope), folders.iter().any(is_writable));
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn what_looks_the_same_to_an_agent_gives_it_the_same_folders_and_tools(
        one in any_organization(),
        two in any_organization(),
    ) {
        let seen = |organization: &Organization, agent: AgentIndex| {
            let folders = organization.grants(agent).map(|grant| {
                (organization.folder_path(grant.folder), organization.folder_name(grant.folder), grant.scope, grant.reason)
            });
            (folders.collect::<Vec<_>>(), organization.allowed_tools(agent), organization.denial_note(agent))
        };
        for (agent, record) in one.agents() {
            prop_assert!(one.looks_the_same_to(agent, &one));
            if one.looks_the_same_to(agent, &two) {
                let other = two.agent_index(&record.id).unwrap();
                prop_assert_eq!(seen(&one, agent), seen(&two, other));
            }
        }
    }
}

#[test]
fn a_directory_of_the_store_belongs_to_the_folder_that_contains_it() {
    let acme = acme();
    let at = |path: &str| acme.folder_at(&VfsPath::parse(path).unwrap());
    let all = "/organizations/acme/workspaces";
    for path in ["marcus/private", "team-hr/shared"] {
        assert_eq!(at(&format!("{all}/{path}")), Some(folder(&acme, path)));
        assert_eq!(at(&format!("{all}/{path}/workspaces/fiona/private")), Some(folder(&acme, path)));
    }
    for path in [
        "/",
        all,
        "/organizations/globex/workspaces/marcus/private",
        "/workspaces/marcus/private",
        "/x/workspaces",
    ] {
        assert_eq!(at(path), None, "{path}");
    }
    for folder in ["marcus", "marcus/privately", "nobody/private"] {
        assert_eq!(at(&format!("{all}/{folder}")), None, "{folder}");
    }
    // In the older layout, agents and teams have directories of their own.
    let older = |path: &str| format!("/organizations/acme/{path}");
    assert_eq!(at(&older("agents/marcus/private/a")), Some(folder(&acme, "marcus/private")));
    assert_eq!(at(&older("teams/team-hr/shared")), Some(folder(&acme, "team-hr/shared")));
    for path in ["teams/marcus/private", "agents/team-hr/shared", "other/marcus/private"] {
        assert_eq!(at(&older(path)), None, "{path}");
    }
    let present = |path: &str| acme.in_present_layout(&VfsPath::parse(&older(path)).unwrap()).to_string();
    assert_eq!(present("agents/marcus/private/a/b"), older("workspaces/marcus/private/a/b"));
    assert_eq!(present("teams/marcus/private"), older("teams/marcus/private"));
}

#[test]
fn a_refusal_shows_the_name_of_a_team_on_one_line() {
    let records = OrganizationRecords {
        id: "o".into(),
        teams: vec![TeamRecord::new("t", "A\n# Heading")],
        agents: vec![AgentRecord::new("a", "A").in_team("t")],
        ..OrganizationRecords::default()
    };
    let organization = Organization::new(records).unwrap();
    assert_eq!(organization.denial_note(AgentIndex(0)).lines().count(), 1);
}
