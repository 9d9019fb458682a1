//! To which pod of Kubernetes a process belongs, by files of the kubelet alone: nobody asks the API server.
//!
//! The path of a process's cgroup holds the pod's UID, and the kubelet's folder for the pod's logs, which it makes before it
//! starts a container, has namespace, name and UID for its name. A pod's labels and annotations are in no file of the
//! kubelet's, unless the pod mounts them itself: in a downward API volume, which the kubelet fills and keeps up to date.

use std::collections::BTreeMap;
use std::path::Path;

use crate::kernel::Kernel;

/// Where the kubelet has a folder for the logs of each pod, `NAMESPACE_NAME_UID`.
const LOGS: &str = "/var/log/pods";
/// Where it has a folder for each pod, by UID.
const PODS: &str = "/var/lib/kubelet/pods";
/// In such a folder, where the downward API volume with this name is.
const VOLUME: &str = "volumes/kubernetes.io~downward-api/mega";

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it shows of its labels, in the file `labels` of its downward API volume `mega`.
    pub labels: BTreeMap<String, String>,
    /// What it shows of its annotations, in the file `annotations` there.
    pub annotations: BTreeMap<String, String>,
}

/// The pod of a process with this text in `/proc/PID/cgroup`; `None` where its cgroup is no pod's, or the kubelet's files
/// cannot be read.
pub(super) fn of_cgroups(kernel: &dyn Kernel, text: &[u8]) -> Option<Pod> {
    let text = String::from_utf8_lossy(text);
    // With cgroup version 1 there is a line for each controller, not all of which the runtime need use.
    let uid = text
        .lines()
        .find_map(|line| uid(line.splitn(3, ':').nth(2)?))?;
    let folders = kernel.list(Path::new(LOGS)).ok()?;
    let (namespace, name) = folders
        .iter()
        .find_map(|folder| name_of(folder.to_str()?, &uid))?;
    let shown = |file: &str| {
        let path = Path::new(PODS).join(&uid).join(VOLUME).join(file);
        let text = kernel.read(&path).unwrap_or_default();
        parse(&String::from_utf8_lossy(&text))
    };
    Some(Pod {
        namespace,
        name,
        labels: shown("labels"),
        annotations: shown("annotations"),
    })
}

/// The UID of the pod that has this cgroup, as the kubelet writes it in folders.
///
/// The path is of the form `/kubepods/burstable/podUID/CONTAINER` or
/// `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-CONTAINER.scope`. systemd's
/// names have `_` for the UID's `-`. A container may make cgroups below its own, never above: the first UID counts.
fn uid(cgroup: &str) -> Option<String> {
    cgroup.split('/').find_map(|part| {
        let uid = match part.strip_suffix(".slice") {
            Some(slice) => slice.rsplit_once("-pod")?.1.replace('_', "-"),
            None => part.strip_prefix("pod")?.to_owned(),
        };
        is_uid(&uid).then_some(uid)
    })
}

/// Whether it is a UUID, or the hash that a static pod has for one.
fn is_uid(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = text.bytes().filter(|&byte| byte == b'-').count();
    digits == 32 && (dashes == 0 || dashes == 4) && text.len() == digits + dashes
}

/// Namespace and name in the name of a folder for logs, if that is of the pod with this UID. Neither has an underscore.
fn name_of(folder: &str, uid: &str) -> Option<(String, String)> {
    let rest = folder.strip_suffix(uid)?.strip_suffix('_')?;
    let (namespace, name) = rest.split_once('_')?;
    let named = !namespace.is_empty() && !name.is_empty();
    named.then(|| (namespace.to_owned(), name.to_owned()))
}

/// The pairs in a file of a downward API volume: lines `KEY="VALUE"`, with the value quoted as Go does. A line of another
/// form is left out.
fn parse(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| {
        let (key, quoted) = line.split_once('=')?;
        Some((key.to_owned(), unquote(quoted)?))
    });
    pairs.collect()
}

/// What a string in Go's notation (strconv.Quote) stands for. `None` where it is none, or holds bytes that are no text.
fn unquote(quoted: &str) -> Option<String> {
    let mut rest = quoted.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut value = String::new();
    while let Some(next) = rest.next() {
        value.push(match next {
            '"' => return None,
            '\\' => escaped(&mut rest)?,
            other => other,
        });
    }
    Some(value)
}

/// The character that an escape stands for; `rest` begins behind the backslash.
fn escaped(rest: &mut std::str::Chars<'_>) -> Option<char> {
    let digits = match rest.next()? {
        'a' => return Some('\x07'),
        'b' => return Some('\x08'),
        'f' => return Some('\x0c'),
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'v' => return Some('\x0b'),
        '\\' => return Some('\\'),
        '"' => return Some('"'),
        // A byte, which is a character only below 128.
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + rest.next()?.to_digit(16)?;
    }
    char::from_u32(code).filter(|_| digits > 2 || code < 128)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::fake::FakeKernel;

    const UID: &str = "0b1f5d8e-7c7d-4e0e-9b7a-3f6a3c1f2d10";
    const STATIC: &str = "8f1d0c8a2f1d4c0a9b7a3f6a3c1f2d10";

    #[test]
    fn a_cgroup_names_its_pod() {
        let systemd = UID.replace('-', "_");
        for (cgroup, wanted) in [
            (format!("/kubepods/burstable/pod{UID}/4c7e"), Some(UID)),
            (format!("/kubepods/pod{UID}/4c7e/below"), Some(UID)),
            (format!("/kubepods/pod{STATIC}/4c7e"), Some(STATIC)),
            (
                format!("/kubepods.slice/kubepods-pod{systemd}.slice/cri-containerd-4c7e.scope"),
                Some(UID),
            ),
            (
                format!(
                    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{systemd}.slice/crio-4c7e.scope/container"
                ),
                Some(UID),
            ),
            // As a container of mega's sees it, in a cgroup namespace of its own.
            (
                format!("/../../kubepods-burstable-pod{systemd}.slice/cri-containerd-4c7e.scope"),
                Some(UID),
            ),
            // What a container made below its own cgroup.
            (format!("/kubepods/pod{UID}/4c7e/pod{STATIC}"), Some(UID)),
            ("/system.slice/podman.service".to_owned(), None),
            ("/kubepods/burstable".to_owned(), None),
            ("/kubepods/pod".to_owned(), None),
            (format!("/kubepods/pod{UID}0"), None),
            (format!("/pod{}", &UID[..35]), None),
            ("/".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(uid(&cgroup).as_deref(), wanted, "{cgroup}");
        }
    }

    #[test]
    fn a_pod_is_found_by_the_kubelets_files() {
        let logs = format!("{LOGS}/databases_redis-0_{UID}/redis/0.log");
        let other = format!("{LOGS}/default_web-1_{STATIC}/web/0.log");
        let volume = format!("{PODS}/{UID}/{VOLUME}");
        let kernel = FakeKernel::with_files(&[
            (logs, ""),
            (other, ""),
            (
                format!("{volume}/labels"),
                "app=\"redis\"\napp.kubernetes.io/name=\"a \\\"b\\\" \\u00e4\"\n",
            ),
            (format!("{volume}/annotations"), "note=\"two\\nlines\""),
        ]);
        let pod =
            of_cgroups(&kernel, format!("0::/kubepods/pod{UID}/4c7e\n").as_bytes()).expect("a pod");
        assert_eq!((&*pod.namespace, &*pod.name), ("databases", "redis-0"));
        assert_eq!(pod.labels.get("app").map(String::as_str), Some("redis"));
        assert_eq!(
            pod.labels.get("app.kubernetes.io/name").map(String::as_str),
            Some("a \"b\" ä")
        );
        assert_eq!(
            pod.annotations.get("note").map(String::as_str),
            Some("two\nlines")
        );
        let web = of_cgroups(
            &kernel,
            format!("4:memory:/kubepods/pod{STATIC}/1\n0::/\n").as_bytes(),
        )
        .expect("a pod");
        assert_eq!((&*web.namespace, &*web.name), ("default", "web-1"));
        assert!(web.labels.is_empty() && web.annotations.is_empty());
        let unknown = b"0::/kubepods/pod11111111-1111-1111-1111-111111111111/1\n";
        assert_eq!(of_cgroups(&kernel, unknown), None);
    }

    #[test]
    fn without_a_kubelet_there_are_no_pods() {
        let kernel = FakeKernel::new();
        let text = format!("0::/kubepods/pod{UID}/1\n");
        assert_eq!(of_cgroups(&kernel, text.as_bytes()), None);
    }

    #[test]
    fn folders_of_another_form_are_no_pods() {
        assert_eq!(name_of(&format!("ns_name_{UID}"), STATIC), None);
        for folder in [
            format!("_name_{UID}"),
            format!("ns__{UID}"),
            format!("name_{UID}"),
            format!("_{UID}"),
            UID.to_owned(),
        ] {
            assert_eq!(name_of(&folder, UID), None, "{folder}");
        }
    }

    #[test]
    fn what_is_not_quoted_rightly_is_left_out() {
        for line in [
            "a",
            "a=",
            "a=\"",
            "a=b",
            "a=\"b",
            "a=\"b\"c\"",
            "a=\"\\\"",
            "a=\"\\q\"",
            "a=\"\\xff\"",
            "a=\"\\ud800\"",
            "a=\"\\u12\"",
        ] {
            assert!(parse(line).is_empty(), "{line}");
        }
    }

    /// As strconv.Quote quotes.
    fn quote(value: &str) -> String {
        let mut quoted = String::from("\"");
        for c in value.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted += "\\n",
                '\t' => quoted += "\\t",
                c if c.is_control() && u32::from(c) < 128 => {
                    quoted += &format!("\\x{:02x}", u32::from(c));
                }
                c if c.is_control() => quoted += &format!("\\u{:04x}", u32::from(c)),
                '\u{2028}' | '\u{10ffff}' => quoted += &format!("\\U{:08x}", u32::from(c)),
                c => quoted.push(c),
            }
        }
        quoted + "\""
    }

    proptest! {
        #[test]
        fn what_was_quoted_is_read(
            pairs in prop::collection::btree_map("[a-z0-9./-]{1,30}", any::<String>(), 0..5)
        ) {
            let lines = pairs.iter().map(|(key, value)| format!("{key}={}\n", quote(value)));
            prop_assert_eq!(parse(&lines.collect::<String>()), pairs);
        }

        #[test]
        fn a_folder_is_the_pod_that_it_was_made_for(
            namespace in "[a-z0-9-]{1,63}",
            name in "[a-z0-9.-]{1,100}",
            uid in "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}",
            inside in "(/[a-z0-9]{1,20}){0,3}",
        ) {
            let folder = format!("{namespace}_{name}_{uid}");
            prop_assert_eq!(name_of(&folder, &uid), Some((namespace, name)));
            let cgroup = format!("/kubepods/burstable/pod{uid}{inside}");
            prop_assert_eq!(super::uid(&cgroup), Some(uid.clone()));
            let cgroup = format!("/a.slice/a-pod{}.slice{inside}", uid.replace('-', "_"));
            prop_assert_eq!(super::uid(&cgroup), Some(uid));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}", cgroup in "[/a-z0-9_.-]{0,120}", folder in "\\PC{0,80}") {
            let _ = parse(&text);
            let _ = unquote(&format!("\"{text}\""));
            let _ = uid(&cgroup);
            let _ = name_of(&folder, UID);
        }
    }
}
