//! The tools of Windlass itself in the registry.

use std::collections::BTreeMap;

use windlass_policy::PolicySet;

#[test]
fn file_tools_and_questions_are_registered_with_what_rules_need() {
    let tools = |more: &str| format!("[server.fs]\nconnector = \"files\"\n{more}");
    let load = |text: &str| {
        let files = BTreeMap::from([("tools.toml".to_owned(), text.as_bytes().to_vec())]);
        PolicySet::load(&files).map(|_| ()).map_err(|error| error.to_string())
    };
    let read = "[server.fs.tool.read]\nclass = \"read\"\npaths = { read = [\"/path\"] }\n";
    let write = "[server.fs.tool.write]\nclass = \"write\"\npaths = { write = [\"/path\"] }\n";
    assert_eq!(load(&tools(&format!("{read}{write}"))), Ok(()));
    assert_eq!(
        load("[server.a]\nconnector = \"person\"\n[server.a.tool.b]\nclass = \"read\"\n"),
        Ok(())
    );
    for (text, reason) in [
        (tools("[server.fs.tool.read]\nclass = \"read\"\n"), "`/path`"),
        (tools(&write.replace("\"write\"\n", "\"read\"\n")), "changes files"),
        (tools(&read.replace("tool.read", "tool.remove")), "read, list, search, write and edit"),
        (tools(&format!("env = [\"A\"]\n{read}")), "allow none of"),
    ] {
        let error = load(&text).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
}
