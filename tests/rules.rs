//! The checks that docs/rules.toml names exist. Without this test, nobody would notice that a
//! renamed or deleted check leaves a rule without a check.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[derive(Deserialize)]
struct Rules {
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    rule: String,
    without_plant: Option<String>,
    #[serde(default)]
    plants: BTreeSet<u32>,
    #[serde(default)]
    scenes: Vec<String>,
    #[serde(default)]
    model: Vec<String>,
    #[serde(default)]
    seeds: Vec<u64>,
    #[serde(default)]
    tests: Vec<String>,
}

impl Rule {
    fn checks(&self) -> usize {
        self.plants.len() + self.scenes.len() + self.model.len() + self.seeds.len() + self.tests.len()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rules() -> Vec<Rule> {
    let text = fs::read_to_string(root().join("docs/rules.toml")).unwrap();
    toml::from_str::<Rules>(&text).unwrap().rule
}

/// The Rust files at `path`, which is a file or a folder.
fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path];
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let found = entries.flat_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "rs") {
            files(path)
        } else {
            Vec::new()
        }
    });
    found.collect()
}

/// The words of all Rust files of a target of `tests/` or of a module of `src/`.
fn words(place: &str) -> BTreeSet<String> {
    let module = format!("src/{}", place.replace("::", "/"));
    let target = format!("tests/{}", place.trim_start_matches("tests/"));
    let paths = [format!("{module}.rs"), module, target].map(|path| files(root().join(path)));
    let words = paths.iter().flatten().flat_map(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect::<Vec<_>>()
    });
    words.collect()
}

/// The numbers of the planted bugs, from the names of their patches.
fn plants() -> BTreeSet<u32> {
    let names = files_of("tests/sim/plants");
    let number = |name: &String| name.split_once('-')?.0.parse().ok();
    names.iter().filter_map(number).collect()
}

fn files_of(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_rule_names_checks_that_exist() {
    let (plants, scenes, model) = (plants(), words("tests/sim/scenes"), words("tests/model"));
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for rule in rules() {
        let mut lacks = |what: String| missing.push(format!("{:?}: {what}", rule.rule));
        if rule.checks() == 0 && rule.without_plant.is_none() {
            lacks("no check".to_owned());
        }
        for plant in rule.plants.difference(&plants) {
            lacks(format!("no plant {plant}"));
        }
        for scene in rule.scenes.iter().filter(|scene| !scenes.contains(*scene)) {
            lacks(format!("no scene {scene}"));
        }
        for property in rule.model.iter().filter(|property| !model.contains(*property)) {
            lacks(format!("no property {property}"));
        }
        for test in &rule.tests {
            let (place, name) = test.split_once(' ').unwrap_or((test, ""));
            let there = known.entry(place.to_owned()).or_insert_with(|| words(place));
            if !there.contains(name) {
                lacks(format!("no test {name} in {place}"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/rules.toml:\n{}", missing.join("\n"));
}

#[test]
fn every_mutation_removes_a_named_rule() {
    let named: BTreeSet<u32> = rules().into_iter().flat_map(|rule| rule.plants).collect();
    let unnamed: Vec<u32> = plants().difference(&named).copied().collect();
    assert!(unnamed.is_empty(), "docs/rules.toml names no rule for the plants {unnamed:?}");
}
