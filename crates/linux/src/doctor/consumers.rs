//! Who else clears Accessed bits or changes page sizes on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mega_core::HUGE_PAGE_SIZE;

use crate::kernel::Kernel;

/// DAMON's instances.
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// One line for each that can be seen.
pub(super) fn find(kernel: &dyn Kernel) -> Vec<String> {
    [
        damon(kernel),
        damon_schemes(kernel),
        generations(kernel),
        khugepaged(kernel),
        smaller_sizes(kernel),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// DAMON's kernel threads, one for each instance.
fn damon(kernel: &dyn Kernel) -> Option<String> {
    let names = kernel.list(Path::new("/proc")).ok()?;
    let threads: Vec<String> = names
        .iter()
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter_map(|pid| crate::process::stat(kernel, pid).ok())
        .filter(|stat| stat.is_kernel_thread() && stat.name.starts_with("kdamond"))
        .map(|stat| stat.name)
        .collect();
    (!threads.is_empty()).then(|| {
        format!(
            "DAMON runs ({}): it clears the Accessed bits of the pages it samples, so that counts are a little low",
            threads.join(", ")
        )
    })
}

/// What DAMON does to page sizes: schemes of running instances whose action is `hugepage` or `nohugepage` (5.16), or `collapse`
/// (after 7.1).
fn damon_schemes(kernel: &dyn Kernel) -> Option<String> {
    let running = numbered(kernel, Path::new(DAMON))
        .filter(|instance| text(kernel, &instance.join("state")).as_deref() == Some("on"));
    let actions: BTreeSet<String> = running
        .flat_map(|instance| numbered(kernel, &instance.join("contexts")))
        .flat_map(|context| numbered(kernel, &context.join("schemes")))
        .filter_map(|scheme| text(kernel, &scheme.join("action")))
        .filter(|action| matches!(action.as_str(), "hugepage" | "nohugepage" | "collapse"))
        .collect();
    let actions: Vec<&str> = actions.iter().map(String::as_str).collect();
    (!actions.is_empty()).then(|| {
        format!(
            "DAMON changes page sizes (schemes with the action {}): leave its targets to it or to mega, not to both",
            actions.join(", ")
        )
    })
}

/// The folders in `folder` that sysfs names by a number.
fn numbered(kernel: &dyn Kernel, folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let folder = folder.to_owned();
    let names = kernel.list(&folder).unwrap_or_default();
    names
        .into_iter()
        .filter(|name| {
            name.to_str()
                .is_some_and(|name| name.parse::<u32>().is_ok())
        })
        .map(move |name| folder.join(name))
}

fn text(kernel: &dyn Kernel, path: &Path) -> Option<String> {
    let text = kernel.read(path).ok()?;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

/// Sizes between base and huge pages that faults may take (6.8), and that khugepaged collapses to as well (7.2).
fn smaller_sizes(kernel: &dyn Kernel) -> Option<String> {
    let folder = Path::new("/sys/kernel/mm/transparent_hugepage");
    let mut sizes: Vec<u64> = kernel
        .list(folder)
        .ok()?
        .iter()
        .filter_map(|name| {
            name.to_str()?
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()
        })
        .filter(|&size: &u64| size << 10 < HUGE_PAGE_SIZE)
        .filter(|size| {
            let setting = text(kernel, &folder.join(format!("hugepages-{size}kB/enabled")));
            setting.is_some_and(|setting| !setting.contains("[never]"))
        })
        .collect();
    sizes.sort_unstable();
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    (!sizes.is_empty()).then(|| {
        format!(
            "page faults may take folios of {} kB (hugepages-*kB/enabled), and khugepaged of Linux 7.2 and newer makes such ones: mega counts their memory as base pages, and `mega scan` shows them",
            sizes.join(", ")
        )
    })
}

/// The multi-generational LRU (6.1) walks page tables when memory is short.
fn generations(kernel: &dyn Kernel) -> Option<String> {
    let text = kernel
        .read(Path::new("/sys/kernel/mm/lru_gen/enabled"))
        .ok()?;
    let text = String::from_utf8_lossy(&text);
    let features = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
    (features & 1 != 0).then(|| {
        format!(
            "the multi-generational LRU is on ({}): it clears Accessed bits when memory is short",
            text.trim()
        )
    })
}

/// khugepaged promotes on its own where the mode lets it.
fn khugepaged(kernel: &dyn Kernel) -> Option<String> {
    let mode = crate::settings::thp_mode::read(kernel).ok()?;
    let defrag = kernel
        .read(Path::new(
            "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        ))
        .ok()?;
    let which = match mode {
        crate::settings::thp_mode::ThpMode::Always => "every process",
        crate::settings::thp_mode::ThpMode::Madvise => "memory that programs asked huge pages for",
        crate::settings::thp_mode::ThpMode::Never => return None,
    };
    (defrag.trim_ascii() == b"1")
        .then(|| format!("khugepaged promotes on its own in {which} (THP mode `{mode}`)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    #[test]
    fn schemes_that_change_page_sizes_are_named_while_their_instance_runs() {
        let scheme = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes";
        let files = |state, action| {
            FakeKernel::with_files(&[
                ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1\n"),
                ("/sys/kernel/mm/damon/admin/kdamonds/0/state", state),
                (&format!("{scheme}/0/action"), "stat\n"),
                (&format!("{scheme}/1/action"), action),
            ])
        };
        let found = |state, action| damon_schemes(&files(state, action));
        assert!(found("on\n", "collapse\n").unwrap().contains("collapse"));
        assert_eq!(found("on\n", "pageout\n"), None);
        assert_eq!(found("off\n", "collapse\n"), None);
        assert_eq!(damon_schemes(&FakeKernel::new()), None);
    }

    #[test]
    fn sizes_between_that_faults_may_take_are_named_smallest_first() {
        let size = |size| format!("/sys/kernel/mm/transparent_hugepage/hugepages-{size}kB/enabled");
        let off = "always inherit madvise [never]\n";
        let kernel = FakeKernel::with_files(&[
            (size(64), "always inherit [madvise] never\n"),
            (size(16), "[always] inherit madvise never\n"),
            (size(32), off),
            (size(2048), "always [inherit] madvise never\n"),
        ]);
        assert!(smaller_sizes(&kernel).unwrap().contains("16, 64 kB"));
        for on in [16, 64] {
            kernel.state().files.insert(size(on).into(), off.into());
        }
        assert_eq!(smaller_sizes(&kernel), None);
    }
}
