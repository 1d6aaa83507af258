//! [`Tree`]: directories and files, and which names survive a power loss.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use super::PowerLoss;
use super::image::FileImage;
use super::rng::Rng;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ino(u64);

const ROOT: Ino = Ino(0);

#[derive(Debug)]
enum Node {
    File(FileImage),
    Dir(Dir),
}

#[derive(Clone, Default, Debug)]
struct Dir {
    live: BTreeMap<String, Ino>,
    durable: BTreeMap<String, Ino>,
}

/// One change of a directory.
#[derive(Clone, Debug)]
struct Edit {
    dir: Ino,
    name: String,
    was: Option<Ino>,
    now: Option<Ino>,
}

/// Edits that survive together or not at all: a rename is two.
type Change = Vec<Edit>;

#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    next: u64,
    /// Changes of names that no directory sync has made durable, oldest first.
    pending: Vec<Change>,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Dir(Dir::default()))]),
            next: 1,
            pending: Vec::new(),
        }
    }

    fn dir(&self, ino: Ino) -> io::Result<&Dir> {
        match self.nodes.get(&ino) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file(&mut self, ino: Ino) -> io::Result<&mut FileImage> {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<Ino> {
        let mut at = ROOT;
        for name in names(path)? {
            at = *self.dir(at)?.live.get(&name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// Parent directory and last name.
    fn place(&self, path: &Path) -> io::Result<(Ino, String)> {
        let mut names = names(path)?;
        let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut at = ROOT;
        for name in names {
            at = *self.dir(at)?.live.get(&name).ok_or(io::ErrorKind::NotFound)?;
        }
        self.dir(at)?;
        Ok((at, last))
    }

    fn apply(&mut self, edits: Vec<(Ino, String, Option<Ino>)>) {
        let mut change = Change::new();
        for (dir, name, now) in edits {
            let Some(Node::Dir(node)) = self.nodes.get_mut(&dir) else {
                continue;
            };
            let was = match now {
                Some(ino) => node.live.insert(name.clone(), ino),
                None => node.live.remove(&name),
            };
            for (ino, add) in [(was, false), (now, true)] {
                if let Some(Node::File(file)) = ino.and_then(|ino| self.nodes.get_mut(&ino)) {
                    file.links = if add { file.links + 1 } else { file.links - 1 };
                }
            }
            change.push(Edit { dir, name, was, now });
        }
        self.pending.push(change);
    }

    fn add(&mut self, dir: Ino, name: String, node: Node) -> Ino {
        let ino = Ino(self.next);
        self.next += 1;
        self.nodes.insert(ino, node);
        self.apply(vec![(dir, name, Some(ino))]);
        ino
    }

    /// The file at the path, made when absent.
    pub(super) fn create(&mut self, path: &Path) -> io::Result<Ino> {
        let (dir, name) = self.place(path)?;
        match self.dir(dir)?.live.get(&name) {
            Some(&ino) => Ok(ino),
            None => Ok(self.add(dir, name, Node::File(FileImage::default()))),
        }
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut at = ROOT;
        for name in names(path)? {
            at = match self.dir(at)?.live.get(&name) {
                Some(&ino) => ino,
                None => self.add(at, name, Node::Dir(Dir::default())),
            };
        }
        self.dir(at).map(|_| ())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.find(from)?;
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        if let Some(&target) = self.dir(to_dir)?.live.get(&to_name) {
            if target == ino {
                return Ok(());
            }
            match (&self.nodes[&target], &self.nodes[&ino]) {
                (Node::Dir(dir), Node::Dir(_)) if !dir.live.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                (Node::Dir(_), Node::File(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                (Node::File(_), Node::Dir(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                _ => {}
            }
        }
        self.apply(vec![(from_dir, from_name, None), (to_dir, to_name, Some(ino))]);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let ino = self.find(path)?;
        self.file(ino)?;
        let (dir, name) = self.place(path)?;
        self.apply(vec![(dir, name, None)]);
        Ok(())
    }

    /// Each entry goes by a change of its own, so that a power loss may leave some.
    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let ino = self.find(path)?;
        let (dir, name) = self.place(path)?;
        self.empty(ino)?;
        self.apply(vec![(dir, name, None)]);
        Ok(())
    }

    fn empty(&mut self, ino: Ino) -> io::Result<()> {
        for (name, child) in self.dir(ino)?.live.clone() {
            if matches!(self.nodes[&child], Node::Dir(_)) {
                self.empty(child)?;
            }
            self.apply(vec![(ino, name, None)]);
        }
        Ok(())
    }

    /// Name, whether a directory, size.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<(String, bool, u64)>> {
        let dir = self.dir(self.find(path)?)?;
        Ok(dir
            .live
            .iter()
            .map(|(name, ino)| match &self.nodes[ino] {
                Node::File(file) => (name.clone(), false, file.live.len() as u64),
                Node::Dir(_) => (name.clone(), true, 0),
            })
            .collect())
    }

    /// Makes the changes of one directory durable, with the earlier ones that they build on.
    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let dir = self.find(path)?;
        self.dir(dir)?;
        let mut needed = Ties::default();
        let mut keep = vec![false; self.pending.len()];
        for (change, keep) in self.pending.iter().zip(&mut keep).rev() {
            if change.iter().any(|edit| edit.dir == dir) || needed.touches(change) {
                needed.add(change);
                *keep = true;
            }
        }
        let mut rest = Vec::new();
        for (change, keep) in std::mem::take(&mut self.pending).into_iter().zip(keep) {
            if keep {
                self.make_durable(&change);
            } else {
                rest.push(change);
            }
        }
        self.pending = rest;
        self.forget_unreachable();
        Ok(())
    }

    fn make_durable(&mut self, change: &Change) {
        for edit in change {
            if let Some(Node::Dir(dir)) = self.nodes.get_mut(&edit.dir) {
                match edit.now {
                    Some(ino) => dir.durable.insert(edit.name.clone(), ino),
                    None => dir.durable.remove(&edit.name),
                };
            }
        }
    }

    /// Frees what no name, handle or survivor can reach.
    fn forget_unreachable(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        for edit in self.pending.iter().flatten() {
            reached.extend([Some(edit.dir), edit.was, edit.now].into_iter().flatten());
        }
        let mut todo: Vec<Ino> = reached.iter().copied().collect();
        while let Some(ino) = todo.pop() {
            if let Some(Node::Dir(dir)) = self.nodes.get(&ino) {
                for &child in dir.live.values().chain(dir.durable.values()) {
                    if reached.insert(child) {
                        todo.push(child);
                    }
                }
            }
        }
        self.nodes.retain(|ino, node| {
            reached.contains(ino) || matches!(node, Node::File(file) if file.handles > 0)
        });
    }

    /// Bytes that named files take.
    pub(super) fn space(&self) -> u64 {
        self.nodes
            .values()
            .map(|node| match node {
                Node::File(file) if file.links > 0 => file.space(),
                Node::File(_) | Node::Dir(_) => 0,
            })
            .sum()
    }

    /// The tree after the process was killed: names and contents as they were seen.
    pub(super) fn killed(&self) -> Self {
        let mut tree =
            Self { nodes: BTreeMap::new(), next: self.next, pending: self.pending.clone() };
        for (&ino, node) in &self.nodes {
            let node = match node {
                Node::File(file) => Node::File(file.without_handles()),
                Node::Dir(dir) => Node::Dir(dir.clone()),
            };
            tree.nodes.insert(ino, node);
        }
        tree.forget_unreachable();
        tree
    }

    /// The tree after a power loss. Changes of one name or one file survive in their order (a later one never without
    /// the earlier); unrelated ones survive or not independently.
    pub(super) fn survivor(&self, style: PowerLoss, rng: &mut Rng) -> Self {
        let mut dirs: BTreeMap<Ino, BTreeMap<String, Ino>> = BTreeMap::new();
        for (&ino, node) in &self.nodes {
            if let Node::Dir(dir) = node {
                dirs.insert(ino, dir.durable.clone());
            }
        }
        let mut lost = Ties::default();
        // A journal keeps a prefix of all changes; other file systems promise less.
        let prefix = rng.coin().then(|| rng.below(self.pending.len() as u64 + 1));
        for (index, change) in self.pending.iter().enumerate() {
            let keep = match style {
                PowerLoss::DropUnsynced => false,
                PowerLoss::KeepUnsynced | PowerLoss::TearLastWrite => true,
                PowerLoss::Random => match prefix {
                    Some(end) => (index as u64) < end,
                    None => rng.coin(),
                },
            };
            if !keep || lost.touches(change) {
                lost.add(change);
                continue;
            }
            for edit in change {
                if let Some(dir) = dirs.get_mut(&edit.dir) {
                    match edit.now {
                        Some(ino) => dir.insert(edit.name.clone(), ino),
                        None => dir.remove(&edit.name),
                    };
                }
            }
        }
        let mut tree = Self { nodes: BTreeMap::new(), next: self.next, pending: Vec::new() };
        let mut todo = vec![ROOT];
        while let Some(ino) = todo.pop() {
            match tree.nodes.get_mut(&ino) {
                Some(Node::File(file)) => {
                    file.links += 1;
                    continue;
                }
                Some(Node::Dir(_)) => continue,
                None => {}
            }
            let node = match &self.nodes[&ino] {
                Node::File(file) => Node::File(file.survivor(style, rng)),
                Node::Dir(_) => {
                    let names = dirs.remove(&ino).unwrap_or_default();
                    todo.extend(names.values());
                    Node::Dir(Dir { live: names.clone(), durable: names })
                }
            };
            tree.nodes.insert(ino, node);
        }
        tree
    }
}

/// Names and files that a set of changes concerns.
#[derive(Default)]
struct Ties {
    names: BTreeSet<(Ino, String)>,
    inos: BTreeSet<Ino>,
}

impl Ties {
    fn add(&mut self, change: &Change) {
        for edit in change {
            self.names.insert((edit.dir, edit.name.clone()));
            self.inos.extend(edit.now);
            self.inos.extend(edit.was);
        }
    }

    fn touches(&self, change: &Change) -> bool {
        change.iter().any(|edit| {
            self.names.contains(&(edit.dir, edit.name.clone()))
                // A directory that was not made holds nothing.
                || self.inos.contains(&edit.dir)
                || edit.now.is_some_and(|ino| self.inos.contains(&ino))
                || edit.was.is_some_and(|ino| self.inos.contains(&ino))
        })
    }
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(io::ErrorKind::InvalidInput)?.to_owned());
            }
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}
