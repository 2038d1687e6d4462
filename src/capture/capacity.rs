//! How much CPU the server can have: its affinity, the CPUs of its control group, and the quotas of that and of all groups above it. Versions 1 and 2.
//!
//! Reads files below a root, so that tests bring their own. On an ordinary host the root group has no `cpu.max`: there is no quota there.

#![allow(clippy::option_option, reason = "not readable, not there, and there are three things")]

use super::anomaly::{Capacity, Source};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where versions 1 put the controller.
const V1: [&str; 3] = ["cpu", "cpu,cpuacct", "cpuacct,cpu"];

/// Capacity of a process that may run on `affinity` CPUs. `None`: something on the way cannot be read or makes no sense.
pub fn capacity(root: &Path, pid: i32, affinity: usize) -> Option<Capacity> {
    let groups = fs::read_to_string(root.join(format!("proc/{pid}/cgroup"))).ok()?;
    let mounts = root.join("sys/fs/cgroup");
    let (allowed, quota) = match place(&groups)? {
        Place::None => (affinity as f64, None),
        Place::V1(path) => {
            let mount = V1.iter().map(|name| mounts.join(name)).find(|m| m.is_dir())?;
            (affinity as f64, quota(&mount, &path, v1)?)
        }
        Place::V2(path) => {
            let set = match read(&mounts.join(&path).join("cpuset.cpus.effective"))? {
                Some(list) => cpus(&list)?,
                None => affinity,
            };
            (affinity.min(set) as f64, quota(&mounts, &path, v2)?)
        }
    };
    if allowed < 1.0 {
        return None;
    }
    Some(match quota {
        Some(cores) if cores <= allowed => Capacity { cores, source: Source::Quota },
        _ => Capacity { cores: allowed, source: Source::Affinity },
    })
}

enum Place {
    /// In no group that limits the CPU.
    None,
    /// A path below the mount of the controller.
    V1(PathBuf),
    /// A path below the one mount.
    V2(PathBuf),
}

/// The group that counts: that of the controller in version 1, else that of version 2.
fn place(groups: &str) -> Option<Place> {
    let (mut v1, mut v2) = (None, None);
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if number == "0" && controllers.is_empty() {
            v2 = Some(path);
        } else if controllers.split(',').any(|c| c == "cpu") {
            v1 = Some(path);
        }
    }
    Some(match (v1, v2) {
        (Some(path), _) => Place::V1(relative(path)?),
        (None, Some(path)) => Place::V2(relative(path)?),
        (None, None) => Place::None,
    })
}

/// A group's path without its leading slash, if it is one.
fn relative(path: &str) -> Option<PathBuf> {
    let path = path.strip_prefix('/')?;
    let sound = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control);
    (path.is_empty() || path.split('/').all(sound)).then(|| path.into())
}

/// A file's text; inner `None`: there is no such file.
fn read(path: &Path) -> Option<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Some(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}

/// The least quota of a group and of those above it, in cores; inner `None`: there is none.
fn quota(mount: &Path, path: &Path, one: impl Fn(&Path) -> Option<Option<f64>>) -> Option<Option<f64>> {
    let mut least: Option<f64> = None;
    for group in path.ancestors() {
        if let Some(cores) = one(&mount.join(group))? {
            least = Some(least.map_or(cores, |l| l.min(cores)));
        }
    }
    Some(least)
}

fn v2(group: &Path) -> Option<Option<f64>> {
    let Some(text) = read(&group.join("cpu.max"))? else { return Some(None) };
    let mut parts = text.split_whitespace();
    let (quota, period) = (parts.next()?, parts.next()?.parse::<f64>().ok()?);
    if quota == "max" { Some(None) } else { cores(quota.parse().ok()?, period).map(Some) }
}

fn v1(group: &Path) -> Option<Option<f64>> {
    let number =
        |name: &str| -> Option<Option<f64>> { read(&group.join(name))?.map_or(Some(None), |text| text.trim().parse().ok().map(Some)) };
    match (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?) {
        (Some(quota), _) if quota < 0.0 => Some(None),
        (Some(quota), Some(period)) => cores(quota, period).map(Some),
        _ => Some(None),
    }
}

fn cores(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// How many CPUs a list such as `0-3,8` names.
fn cpus(list: &str) -> Option<usize> {
    let mut next = 0usize;
    let mut n = 0;
    for part in list.trim().split(',') {
        let (from, to) = match part.split_once('-') {
            Some((a, b)) => (a.parse::<usize>().ok()?, b.parse::<usize>().ok()?),
            None => (part.parse().ok()?, part.parse().ok()?),
        };
        if from < next || to < from {
            return None;
        }
        n += to - from + 1;
        next = to + 1;
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new(groups: &str) -> Self {
            Self(tempfile::tempdir().unwrap()).with("proc/7/cgroup", groups)
        }
        fn with(self, path: &str, text: &str) -> Self {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }
        fn cores(&self, affinity: usize) -> Option<(f64, Source)> {
            capacity(self.0.path(), 7, affinity).map(|c| (c.cores, c.source))
        }
    }

    const SLICE: &str = "sys/fs/cgroup/system.slice";

    #[test]
    fn a_plain_host_whose_root_group_has_no_quota_file() {
        let host = Host::new("0::/system.slice/postgresql.service\n").with(&format!("{SLICE}/postgresql.service/cpu.max"), "max 100000\n");
        assert_eq!(host.cores(8), Some((8.0, Source::Affinity)));
        assert_eq!(Host::new("0::/\n").cores(2), Some((2.0, Source::Affinity)));
    }

    #[test]
    fn the_least_quota_on_the_way_up() {
        let host = Host::new("0::/system.slice/pg.service\n")
            .with(&format!("{SLICE}/pg.service/cpu.max"), "400000 100000\n")
            .with(&format!("{SLICE}/cpu.max"), "250000 100000\n");
        assert_eq!(host.cores(8), Some((2.5, Source::Quota)));
        // A quota above what it may run on is none.
        assert_eq!(host.cores(2), Some((2.0, Source::Affinity)));
    }

    #[test]
    fn a_set_of_cpus() {
        let host = Host::new("0::/c\n").with("sys/fs/cgroup/c/cpuset.cpus.effective", "0-1,4,6\n");
        assert_eq!(host.cores(8), Some((4.0, Source::Affinity)));
        assert_eq!(host.cores(3), Some((3.0, Source::Affinity)));
    }

    #[test]
    fn version_1_and_both_at_once() {
        let groups = "4:memory:/a\n3:cpu,cpuacct:/docker/x\n0::/ignored\n";
        let unlimited = || Host::new(groups).with("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
        assert_eq!(unlimited().cores(8), Some((8.0, Source::Affinity)));
        let above = unlimited()
            .with("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "175000\n")
            .with("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
        assert_eq!(above.cores(8), Some((1.75, Source::Quota)));
    }

    #[test]
    fn what_makes_no_sense_is_unknown() {
        assert_eq!(Host::new("0::/a/../b\n").cores(8), None);
        assert_eq!(Host::new("0::/c\n").with("sys/fs/cgroup/c/cpu.max", "many 100000\n").cores(8), None);
        assert_eq!(Host::new("0::/c\n").with("sys/fs/cgroup/c/cpuset.cpus.effective", "3-1\n").cores(8), None);
        assert_eq!(Host::new("nonsense\n").cores(8), None);
        assert_eq!(capacity(Path::new("/nonexistent"), 7, 8), None);
    }
}
