//! Machines that do not exist, for tests here and above: trees of files, and what commands print.
//!
//! They have the shape of real ones with values of nobody's.

mod machines;

use std::collections::{BTreeMap, BTreeSet};

pub use machines::{container, laptop, phone, raspberry_pi, virtual_machine};

use crate::source::{Source, Unreadable, Why};

/// A made-up machine.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    os: String,
    /// What is in each file, or `None` where it may not be read.
    files: BTreeMap<String, Option<Vec<u8>>>,
    /// Folders that are there though nothing may be in them.
    folders: BTreeSet<String>,
    /// What each command line prints.
    commands: BTreeMap<String, String>,
}

impl Tree {
    /// A machine with nothing in it and the system `os`, as Rust names it.
    pub fn new(os: &str) -> Self {
        Self { os: os.to_owned(), ..Self::default() }
    }

    /// Adds a file, or puts another in its place.
    pub fn file(mut self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.files.insert(path.to_owned(), Some(text.as_ref().to_owned()));
        self
    }

    /// Adds files of one folder.
    pub fn files(self, folder: &str, files: &[(&str, &str)]) -> Self {
        files.iter().fold(self, |tree, (name, text)| tree.file(&format!("{folder}/{name}"), text))
    }

    /// Adds a folder with nothing in it.
    pub fn folder(mut self, path: &str) -> Self {
        self.folders.insert(path.to_owned());
        self
    }

    /// Adds a file that may not be read.
    pub fn denied(mut self, path: &str) -> Self {
        self.files.insert(path.to_owned(), None);
        self
    }

    /// Takes a file away, or a folder with all that is in it.
    pub fn without(mut self, path: &str) -> Self {
        let folder = format!("{path}/");
        self.files.retain(|name, _| name != path && !name.starts_with(&folder));
        self.folders.retain(|name| name != path && !name.starts_with(&folder));
        self
    }

    /// Adds a command by its line, and what it prints.
    pub fn prints(mut self, command: &str, text: &str) -> Self {
        self.commands.insert(command.to_owned(), text.to_owned());
        self
    }

    /// All files and what is in those that may be read, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_deref()))
    }

    /// The folders that are there though nothing may be in them.
    pub fn empty_folders(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().map(String::as_str)
    }

    /// The names of all that is in a folder, or in folders of it.
    fn inside<'a>(&'a self, folder: &str) -> BTreeSet<&'a str> {
        let prefix = format!("{folder}/");
        let files = self.files.range(prefix.clone()..).map(|(path, _)| path);
        let files = files.map_while(|path| path.strip_prefix(&prefix)?.split('/').next());
        let folders = self.folders.iter().filter_map(|path| path.strip_prefix(&prefix)?.split('/').next());
        files.chain(folders).collect()
    }

    fn is_folder(&self, path: &str) -> bool {
        self.folders.contains(path) || !self.inside(path).is_empty()
    }
}

impl Source for Tree {
    fn os(&self) -> &str {
        &self.os
    }

    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, Unreadable> {
        match self.files.get(path) {
            Some(Some(bytes)) => Ok(bytes.clone()),
            Some(None) => Err(Unreadable::at(path, Why::Denied)),
            None if self.is_folder(path) => Err(Unreadable::at(path, Why::Folder)),
            None => Err(Unreadable::at(path, Why::Absent)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Unreadable> {
        let names = self.inside(folder);
        if names.is_empty() && !self.folders.contains(folder) {
            return Err(Unreadable::at(folder, Why::Absent));
        }
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Unreadable> {
        let line = [&[program], arguments].concat().join(" ");
        let text = self.commands.get(&line).cloned();
        text.ok_or_else(|| Unreadable::of_command(program, arguments, Why::NoProgram))
    }
}
