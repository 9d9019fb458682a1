use super::*;
use proptest::prelude::*;

/// Loads a configuration of a main file and drop-ins, and says what is wrong with it, without the folder.
fn load_files(main: &str, drop_ins: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mega.toml");
    std::fs::write(&path, main).expect("written");
    std::fs::create_dir(folder.path().join("mega.toml.d")).expect("created");
    for (name, text) in drop_ins {
        std::fs::write(folder.path().join("mega.toml.d").join(name), text).expect("written");
    }
    let prefix = format!("{}/", folder.path().display());
    load(&path).map_err(|error| error.to_string().replace(&prefix, ""))
}

fn refusal(main: &str) -> String {
    load_files(main, &[]).expect_err("must be refused")
}

const SELECT: &str = "[[select]]\nname = \"a\"\nmin_resident = \"1GiB\"\n";

#[test]
fn everything_that_can_be_written_is_read() {
    let config = load_files(
        r#"
tracker = "mapped"
fault = "base"
node_features = "/etc/features.d/mega"
calibrate_when_idle = "30s"
[defaults]
policy = "mega"
parameters = { scans = 5, promote_utilization = 0.4 }
interval = "2s"
cpu_budget = "10%"
copy_budget = "256MiB"
lock_bound = "5ms"
standstill = "5%"
coverage = "80%"
coverage_of = ["/memfd:*", "largest"]
[[select]]
name = "redis"
cgroup = "/system.slice/redis*"
executable = "/usr/bin/redis-server"
namespace = "databases"
pod = "redis-*"
pod_labels = { app = "redis", "app.kubernetes.io/name" = "*" }
pod_annotations = { "mega/policy" = "adaptive" }
user = 0
min_resident = "64MiB"
[[select]]
name = "rest"
user = "root"
policy = "ingens"
interval = "auto"
coverage = "0%"
coverage_of = "shared"
"#,
        &[],
    )
    .expect("is right");
    assert_eq!(config.tracker, Some(TrackerKind::Mapped));
    assert_eq!(config.fault, FaultMode::Base);
    assert_eq!(
        config.node_features.as_deref(),
        Some(Path::new("/etc/features.d/mega"))
    );
    assert_eq!(config.calibrate_when_idle, Some(Duration::from_secs(30)));
    let [redis, rest] = config.selects.as_slice() else {
        panic!("two selects")
    };
    assert_eq!(redis.selection.user, Some(0));
    assert_eq!(redis.selection.min_resident, Some(64 << 20));
    assert_eq!(redis.settings.policy, "mega");
    assert_eq!(redis.settings.parameters.get("scans"), Some(&5.0));
    assert_eq!(redis.settings.interval, Duration::from_secs(2).into());
    assert_eq!(redis.settings.budgets.standstill, 0.05);
    assert_eq!(redis.settings.budgets.cpu_share, 0.1);
    assert_eq!(redis.settings.budgets.copy_bytes_per_second, 256 << 20);
    assert_eq!(redis.settings.lock_bound, Duration::from_millis(5));
    assert_eq!(
        (redis.settings.coverage, rest.settings.coverage),
        (Some(0.8), Some(0.0))
    );
    let words = |settings: &Settings| {
        let chosen = settings.coverage_of.as_ref().expect("some memory");
        chosen.words().collect::<Vec<_>>()
    };
    assert_eq!(words(&redis.settings), ["/memfd:*", "largest"]);
    assert_eq!(words(&rest.settings), ["shared"]);
    assert_eq!(
        (rest.settings.policy.as_str(), rest.selection.user),
        ("ingens", Some(0))
    );
    assert!(
        rest.settings.parameters.is_empty(),
        "parameters belong to the policy they were written for"
    );
    assert_eq!(rest.settings.interval, Interval::Auto);
}

#[test]
fn memory_that_does_not_exist_is_refused_with_what_was_meant() {
    let said = refusal(&format!("{SELECT}coverage_of = \"shard\"\n"));
    assert!(said.contains("did you mean 'shared'?"), "{said}");
    let said = refusal(&format!("{SELECT}coverage_of = []\n"));
    assert!(said.contains("names no mapping"), "{said}");
}

#[test]
fn unknown_keys_name_file_line_and_nearest() {
    assert_eq!(
        refusal(&format!("{SELECT}polcy = \"mega\"\n")),
        "mega.toml:4: unknown key 'polcy'; did you mean 'policy'?"
    );
    assert_eq!(
        refusal(&format!("[defaults]\nintervall = \"5s\"\n{SELECT}")),
        "mega.toml:2: unknown key 'intervall'; did you mean 'interval'?"
    );
    assert_eq!(
        refusal(&format!("colour = 1\n{SELECT}")),
        "mega.toml:1: unknown key 'colour'; there are tracker, fault, shared_memory, metrics, record, exchange, status_group, node_features, calibrate_when_idle, defaults, select"
    );
}

#[test]
fn wrong_values_name_file_and_line() {
    assert_eq!(
        refusal(&format!("{SELECT}interval = 5\n")),
        "mega.toml:4: 'interval': must be a string, not an integer"
    );
    assert_eq!(
        refusal(&format!("{SELECT}\n\ncpu_budget = \"200%\"\n")),
        "mega.toml:6: 'cpu_budget': '200%' is not a share of one core; write it as 25%, from 0.001% to 100%"
    );
    assert_eq!(
        refusal(&format!("{SELECT}policy = \"adaptiv\"\n")),
        "mega.toml:4: 'policy': unknown policy 'adaptiv'; did you mean 'adaptive'?"
    );
    assert_eq!(
        refusal(&format!("{SELECT}user = \"nobody-has-this-name\"\n")),
        "mega.toml:4: 'user': there is no user 'nobody-has-this-name'"
    );
    assert_eq!(
        refusal("tracker = \"best\"\n"),
        "mega.toml:1: 'tracker': 'best' is no tracker; there are auto, module, bpf, page_idle and mapped"
    );
    assert!(
        refusal("select = 5\n").starts_with("mega.toml:1: 'select': must be an array of tables")
    );
    assert!(refusal("x = = 1\n").starts_with("mega.toml:1: "));
    let misspelt = refusal(&format!(
        "{SELECT}policy = \"mega\"\nparameters = {{ scan = 1 }}\n"
    ));
    assert_eq!(
        misspelt,
        "mega.toml:1: policy 'mega' has no parameter 'scan'; did you mean 'scans'?"
    );
}

#[test]
fn a_select_has_a_name_and_a_criterion_and_there_is_one() {
    assert!(refusal("").starts_with("mega.toml: selects nothing"));
    assert!(refusal("[[select]]\nuser = 0\n").starts_with("mega.toml:1: this select has no name"));
    assert!(
        refusal("\n[[select]]\nname = \"x\"\n")
            .starts_with("mega.toml:2: this select would take every process")
    );
    assert_eq!(
        refusal(&SELECT.repeat(2)),
        "mega.toml:4: there are two selects named 'a' in this file"
    );
}

#[test]
fn drop_ins_come_after_the_file_by_name() {
    let config = load_files(
        &format!("[defaults]\ninterval = \"1s\"\n{SELECT}"),
        &[
            (
                "20-b.toml",
                "[[select]]\nname = \"a\"\nmin_resident = \"2GiB\"\n",
            ),
            (
                "10-a.toml",
                "[defaults]\ninterval = \"3s\"\n[[select]]\nname = \"b\"\nuser = 0\n",
            ),
            ("30-not-read.txt", "nonsense"),
        ],
    )
    .expect("is right");
    let names: Vec<&str> = config
        .selects
        .iter()
        .map(|select| select.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["a", "b"],
        "a select that is replaced keeps its place"
    );
    assert_eq!(config.selects[0].selection.min_resident, Some(2 << 30));
    assert_eq!(
        config.selects[1].settings.interval,
        Duration::from_secs(3).into()
    );
    let error = load_files(SELECT, &[("x.toml", "\nnope = 1")]).expect_err("is wrong");
    assert!(
        error.starts_with("mega.toml.d/x.toml:2: unknown key 'nope'"),
        "{error}"
    );
}

/// Texts that are like configurations, so that more than the parser is reached.
fn like_a_configuration() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "tracker",
        "name",
        "cgroup",
        "executable",
        "user",
        "min_resident",
        "policy",
        "parameters",
        "interval",
        "cpu_budget",
        "copy_budget",
        "lock_bound",
        "standstill",
        "select",
        "defaults",
        "x",
        "\"\"",
    ]);
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        "\"[^\"\\\\\\x00-\\x1f]{0,12}\"",
        prop::sample::select(vec![
            "true",
            "[]",
            "{}",
            "[{}]",
            "{ scans = 1 }",
            "1979-05-27",
            "\"5s\"",
            "\"1GiB\"",
            "\"mega\"",
            "0xff",
            "\"[\"",
            "\"/***\"",
            "inf",
            "-0",
            "\"é\"",
        ])
        .prop_map(str::to_owned),
    ];
    let line = prop_oneof![
        4 => (key, value).prop_map(|(key, value)| format!("{key} = {value}\n")),
        1 => prop::sample::select(vec!["[defaults]\n", "[[select]]\n", "[select]\n", "[defaults.parameters]\n", "\n", "é\n"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".*") {
        let _ = load_files(&text, &[]);
    }

    #[test]
    fn no_configuration_makes_it_panic_and_every_error_is_one_line(text in like_a_configuration()) {
        if let Err(error) = load_files(&text, &[]) {
            prop_assert!(error.starts_with("mega.toml") && !error.contains('\n'), "{}", error);
        }
    }
}

#[test]
fn shared_memory_is_left_alone_unless_the_configuration_says_advise() {
    let shared_memory = |main: &str| {
        let config = load_files(&format!("{main}{SELECT}"), &[]);
        config.expect("is right").shared_memory
    };
    assert_eq!(shared_memory(""), SharedMemory::Inherit);
    assert_eq!(
        shared_memory("shared_memory = \"advise\"\n"),
        SharedMemory::Advise
    );
    assert_eq!(
        refusal(&format!("shared_memory = \"always\"\n{SELECT}")),
        "mega.toml:1: 'shared_memory': 'always' is neither advise nor inherit"
    );
}

#[test]
fn faults_are_left_alone_unless_the_configuration_says_base() {
    let fault = |main: &str, drop_in: &str| {
        let config = load_files(&format!("{main}{SELECT}"), &[("a.toml", drop_in)]);
        config.expect("is right").fault
    };
    assert_eq!(fault("", ""), FaultMode::Inherit);
    assert_eq!(fault("fault = \"inherit\"\n", ""), FaultMode::Inherit);
    assert_eq!(fault("fault = \"base\"\n", ""), FaultMode::Base);
    assert_eq!(
        fault("fault = \"base\"\n", "fault = \"inherit\"\n"),
        FaultMode::Inherit
    );
    assert_eq!(
        refusal(&format!("fault = \"huge\"\n{SELECT}")),
        "mega.toml:1: 'fault': 'huge' is neither base nor inherit"
    );
}
