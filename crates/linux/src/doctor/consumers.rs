//! Who else clears Accessed bits or changes page sizes on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::kernel::Kernel;
use crate::settings::thp_mode::{self, ThpMode};

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

/// Sizes between base and huge pages that faults may take (6.8), and where the kernel can, khugepaged makes too.
fn smaller_sizes(kernel: &dyn Kernel) -> Option<String> {
    let on = |&size: &u64| {
        let in_force = thp_mode::of_size(kernel, size);
        in_force.is_ok_and(|in_force| in_force.mode != ThpMode::Never)
    };
    let all = thp_mode::smaller_sizes(kernel).into_iter();
    let sizes: Vec<u64> = all.filter(on).collect();
    let by_khugepaged = match sizes.first()? {
        &size if khugepaged_makes(kernel, size) => ", and khugepaged makes such ones",
        _ => "",
    };
    let sizes: Vec<String> = sizes.iter().map(|size| (size >> 10).to_string()).collect();
    Some(format!(
        "page faults may take folios of {} kB (hugepages-*kB/enabled){by_khugepaged}: policies treat their memory as base pages; `mega status --processes` estimates it, and `mega scan` shows where it is",
        sizes.join(", ")
    ))
}

/// Whether khugepaged collapses to folios of `size` bytes where their mode lets it (7.2): since it does, it counts the ones it allocates.
fn khugepaged_makes(kernel: &dyn Kernel, size: u64) -> bool {
    let count = thp_mode::folder_of(size).join("stats/collapse_alloc");
    text(kernel, &count).is_some()
}

/// The operations by which a BPF program would choose page sizes, as they are called where they were proposed to Linux.
const BPF_OPERATIONS: &[u8] = b"bpf_thp_ops";

/// Whether the kernel has a hook by which a BPF program decides on page sizes. No Linux up to 7.3 has one (seen in the source of 7.2 and
/// 7.3: nothing in mm/ is a struct_ops). So this is for later ones, and asks their types, megabytes of them.
pub(super) fn bpf_policy(kernel: &dyn Kernel) -> Option<String> {
    let types = kernel.read(Path::new("/sys/kernel/btf/vmlinux")).ok()?;
    let mut names = types.split(|&byte| byte == 0);
    names.any(|name| name == BPF_OPERATIONS).then(|| {
        "this kernel lets a BPF program decide on page sizes (bpf_thp_ops): if `bpftool struct_ops` lists one, leave its processes to it or to mega, not to both".to_owned()
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

/// khugepaged promotes on its own where the mode lets it. (`khugepaged/defrag` says how hard it tries to get a block, not whether it
/// is at work: `alloc_hugepage_khugepaged_gfpmask()` in mm/khugepaged.c.)
fn khugepaged(kernel: &dyn Kernel) -> Option<String> {
    let in_force = thp_mode::of_huge_pages(kernel).ok()?;
    let which = match in_force.mode {
        ThpMode::Always => "every process",
        ThpMode::Madvise => "memory that programs asked huge pages for",
        ThpMode::Never => return None,
    };
    Some(format!(
        "khugepaged promotes on its own in {which} ({in_force})"
    ))
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

    const GLOBAL: &str = thp_mode::PATH;

    fn enabled(size: u64) -> String {
        format!("{}/hugepages-{size}kB/enabled", thp_mode::FOLDER)
    }

    #[test]
    fn sizes_between_that_faults_may_take_are_named_smallest_first() {
        let off = "always inherit madvise [never]\n";
        let kernel = FakeKernel::with_files(&[
            (GLOBAL.to_owned(), "[always] madvise never\n"),
            (enabled(64), "always inherit [madvise] never\n"),
            (enabled(16), "[always] inherit madvise never\n"),
            (enabled(32), off),
            (enabled(128), "always [inherit] madvise never\n"),
            (enabled(2048), "always [inherit] madvise never\n"),
            // A size of shared memory alone.
            (
                format!("{}/hugepages-8kB/shmem_enabled", thp_mode::FOLDER),
                "always [inherit] within_size advise never deny force\n",
            ),
        ]);
        assert!(
            smaller_sizes(&kernel)
                .unwrap()
                .contains("of 16, 64, 128 kB")
        );
        // What is inherited from `never` is never.
        let never = b"always madvise [never]\n".to_vec();
        kernel.state().files.insert(GLOBAL.into(), never);
        assert!(smaller_sizes(&kernel).unwrap().contains("of 16, 64 kB"));
        for on in [16, 64] {
            kernel.state().files.insert(enabled(on).into(), off.into());
        }
        assert_eq!(smaller_sizes(&kernel), None);
    }

    #[test]
    fn a_hook_for_bpf_policies_is_told_by_the_kernels_types() {
        let found = |types: &str| {
            bpf_policy(&FakeKernel::with_files(&[(
                "/sys/kernel/btf/vmlinux",
                types,
            )]))
        };
        assert!(found("\0task_struct\0bpf_thp_ops\0mm_struct\0").is_some());
        assert_eq!(found("\0task_struct\0my_bpf_thp_ops_x\0"), None);
        assert_eq!(bpf_policy(&FakeKernel::new()), None);
    }

    #[test]
    fn khugepaged_makes_smaller_sizes_where_it_counts_them() {
        let kernel = FakeKernel::with_files(&[
            (GLOBAL.to_owned(), "[always] madvise never\n"),
            (enabled(64), "[always] inherit madvise never\n"),
        ]);
        assert!(!smaller_sizes(&kernel).unwrap().contains("khugepaged"));
        let count = format!("{}/hugepages-64kB/stats/collapse_alloc", thp_mode::FOLDER);
        kernel.state().files.insert(count.into(), b"0\n".to_vec());
        assert!(smaller_sizes(&kernel).unwrap().contains("khugepaged"));
    }

    #[test]
    fn khugepaged_is_at_work_where_the_mode_of_huge_pages_lets_it_whatever_its_defrag_says() {
        let defrag = format!("{}/khugepaged/defrag", thp_mode::FOLDER);
        let found = |global: &str, of_huge_pages: &str, defrag_says: &str| {
            khugepaged(&FakeKernel::with_files(&[
                (GLOBAL.to_owned(), global),
                (enabled(2048), of_huge_pages),
                (defrag.clone(), defrag_says),
            ]))
        };
        let inherit = "always [inherit] madvise never\n";
        let never = "always madvise [never]\n";
        for defrag_says in ["0\n", "1\n"] {
            let found = |global, of_huge_pages| found(global, of_huge_pages, defrag_says);
            let all = found("[always] madvise never\n", inherit).unwrap();
            assert!(all.contains("every process"), "{all}");
            let advised = found("always [madvise] never\n", inherit).unwrap();
            assert!(advised.contains("asked"), "{advised}");
            assert_eq!(found(never, inherit), None);
            let own = found(never, "[always] inherit madvise never\n").unwrap();
            assert!(own.contains("hugepages-2048kB"), "{own}");
            assert_eq!(
                found(
                    "[always] madvise never\n",
                    "always inherit madvise [never]\n"
                ),
                None
            );
        }
    }
}
