//! `flopgap mcp`: JSON-RPC over the pipes of the built program, and a client of PyPI.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::{command, flopgap};

const TRACE: &str = "fixtures/kineto/plain.json.gz";

/// A server that is asked line by line.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    asked: u64,
    _cache: tempfile::TempDir,
}

impl Server {
    /// Starts it and shakes hands.
    fn start() -> Server {
        let cache = tempfile::tempdir().unwrap();
        let mut command = command(&["mcp"]);
        command.env("XDG_CACHE_HOME", cache.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut server = Server { stdin: child.stdin.take(), child, stdout, asked: 0, _cache: cache };
        let begun = server.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(begun["result"]["serverInfo"]["name"], "flopgap", "{begun}");
        assert_eq!(begun["result"]["protocolVersion"], "2025-06-18", "{begun}");
        assert!(begun["result"]["instructions"].as_str().unwrap().contains("`open`"));
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The response to a request. Every line of the output is one of the protocol.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The texts of a tool's answer, and whether it is an error.
    fn call(&mut self, tool: &str, arguments: &Value) -> (Vec<String>, bool) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let content = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let texts = content.iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect();
        (texts, answer["result"]["isError"] == true)
    }

    #[track_caller]
    fn answer(&mut self, tool: &str, arguments: &Value) -> Vec<String> {
        let (texts, is_error) = self.call(tool, arguments);
        assert!(!is_error, "{texts:?}");
        assert!(texts.iter().all(|text| text.len() < 25_000));
        texts
    }

    #[track_caller]
    fn error(&mut self, tool: &str, arguments: &Value) -> String {
        let (texts, is_error) = self.call(tool, arguments);
        assert!(is_error && texts.len() == 1, "{texts:?}");
        texts.into_iter().next().unwrap()
    }
}

impl Drop for Server {
    /// It ends with its input.
    fn drop(&mut self) {
        self.stdin = None;
        let ended = self.child.wait();
        if !std::thread::panicking() {
            assert!(ended.unwrap().success());
        }
    }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn tools_are_listed_with_schemas_that_describe_every_argument() {
    let mut server = Server::start();
    let listed = server.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let mut expected = vec!["open", "gap", "kernels", "diff", "rows", "estimate", "explain"];
    if !cfg!(feature = "calibrate") {
        expected.retain(|name| *name != "estimate");
    }
    assert_eq!(names, expected);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        let schema = &tool["inputSchema"];
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].as_str().is_some_and(|text| text.len() > 10),
                "{name}: {property}"
            );
        }
    }
}

#[test]
fn answers_are_those_of_the_commands() {
    let mut server = Server::start();
    let opened = json_of(&server.answer("open", &json!({"file": TRACE}))[0]);
    assert_eq!(opened["tools"], json!(["gap", "kernels", "diff", "rows"]));
    assert_eq!(opened["trace"]["gpus"], json!(["NVIDIA H200"]));
    assert_eq!(opened["trace"]["steps"]["mean_ns"], 5_067_581);
    assert!(opened["tables"]["kernels"].is_string(), "{opened}");

    let gap = server.answer("gap", &json!({"files": [TRACE]}));
    assert_eq!(gap[0], flopgap(&["gap", TRACE]).stdout);
    assert_eq!(gap[1], format!("the same as `flopgap nsys gap {TRACE}`"));
    let numbers = json_of(&server.answer("gap", &json!({"files": [TRACE], "format": "json", "limit": 2}))[0]);
    assert_eq!(numbers["step_ns"], 5_067_581);
    let parts = numbers["parts"].as_array().unwrap().len();
    assert!(parts == 2 && numbers["cut"]["/parts"].as_u64().unwrap() > 10, "{}", numbers["cut"]);

    let longest = server.answer("kernels", &json!({"files": [TRACE], "limit": 3}));
    assert_eq!(longest[0], flopgap(&["nsys", "kernels", "--top", "3", TRACE]).stdout);
    let report = "fixtures/ncu/n4_d512_m64_forward.csv";
    let counted = server.answer("kernels", &json!({"files": [report]}));
    assert_eq!(counted[0], flopgap(&["ncu", "kernels", "--top", "20", report]).stdout);
    let two =
        ["fixtures/nsys/small_forward_backward.sqlite.zst", "fixtures/nsys/small_training_step.sqlite.zst"];
    let diff = server.answer("diff", &json!({"before": two[0], "after": two[1]}));
    assert_eq!(diff[0], flopgap(&["nsys", "diff", two[0], two[1]]).stdout);
    assert!(
        server.answer("explain", &json!({"term": "launch-latency"}))[0]
            .contains("`launch-latency` of idle time")
    );
}

#[cfg(feature = "calibrate")]
#[test]
fn models_are_estimated() {
    let mut server = Server::start();
    let model = "fixtures/models/mlp.onnx";
    let estimated = server.answer("estimate", &json!({"model": model, "precision": "fp16"}));
    assert!(estimated[0].starts_with("mlp.onnx on NVIDIA H200, cuda, fp16"), "{estimated:?}");
    let numbers = json_of(&server.answer("estimate", &json!({"model": model, "format": "json"}))[0]);
    assert_eq!(numbers["flops"], 34_267_136);
    let language = json!({"model": "fixtures/language/llama-3-8b.json", "batch": 8, "context": 512});
    let decoded = server.answer("estimate", &language);
    assert!(decoded[0].contains("8 sequences after 512 tokens"), "{decoded:?}");
    let refused = server.error("estimate", &json!({"model": model, "machine": "cray-1"}));
    assert!(refused.starts_with("flopgap calibrate: error: ") && refused.contains("cray-1"), "{refused}");
}

#[test]
fn rows_are_selected_ordered_and_counted() {
    let mut server = Server::start();
    let asked = json!({
        "file": TRACE, "table": "kernels", "columns": ["name", "duration_ns"], "largest": "duration_ns", "limit": 3,
        "where": [{"column": "name", "is": "contains", "value": "REDUCE"}, {"column": "duration_ns", "is": "at_least", "value": 1000}],
    });
    let rows = server.answer("rows", &asked);
    let lines: Vec<&str> = rows[0].lines().collect();
    assert_eq!((lines[0], lines.len()), ("name,duration_ns", 4), "{rows:?}");
    let durations: Vec<u64> =
        lines[1..].iter().map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
    assert!(durations.is_sorted_by(|one, other| one >= other) && durations[2] >= 1000, "{durations:?}");
    assert!(lines[1..].iter().all(|line| line.to_lowercase().contains("reduce")), "{rows:?}");
    assert!(rows[1].starts_with("3 rows from row 0, of "), "{rows:?}");
    let next = server.answer("rows", &json!({"file": TRACE, "table": "kernels", "limit": 2, "offset": 1}));
    let first = server.answer("rows", &json!({"file": TRACE, "table": "kernels", "limit": 3}));
    assert_eq!(next[0].lines().skip(1).collect::<Vec<_>>(), first[0].lines().skip(2).collect::<Vec<_>>());
    let unknown = server.error("rows", &json!({"file": TRACE, "table": "kernels", "columns": ["length"]}));
    assert!(unknown.contains("no column `length`") && unknown.contains("duration_ns"), "{unknown}");
    let unknown = server.error("rows", &json!({"file": TRACE, "table": "rows"}));
    assert!(unknown.contains("kernels"), "{unknown}");
}

#[test]
fn what_cannot_be_answered_is_an_error_of_the_tool_with_its_hint() {
    let mut server = Server::start();
    let missing = server.error("gap", &json!({"files": ["missing.sqlite"]}));
    assert!(missing.contains("missing.sqlite: cannot be read"), "{missing}");
    let wrong = server.error("gap", &json!({"file": TRACE}));
    assert!(
        wrong.starts_with("invalid arguments: unknown field `file`") && wrong.contains("hint: "),
        "{wrong}"
    );
    let none = server.error("kernels", &json!({"files": [TRACE], "ranges": ["no such range"]}));
    assert!(none.starts_with("flopgap nsys: error: ") && none.contains("hint: "), "{none}");
    // An option is not smuggled in as a file or a range.
    let option = server.error("gap", &json!({"files": ["--output=x.html"]}));
    assert!(option.contains("--output=x.html: cannot be read"), "{option}");
    let kind = server.error("kernels", &json!({"files": ["fixtures/models/mlp.onnx"]}));
    assert!(kind.contains("does not answer about") && kind.contains("`open`"), "{kind}");
    let mixed =
        server.error("diff", &json!({"before": TRACE, "after": "fixtures/ncu/n4_d512_m64_forward.csv"}));
    assert!(mixed.contains("of another kind"), "{mixed}");
    let term = server.error("explain", &json!({"term": "phlogiston"}));
    assert!(term.starts_with("unknown term `phlogiston`"), "{term}");
    // A tool that is not there is an error of the protocol.
    let unknown = server.ask("tools/call", &json!({"name": "rm", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("unknown tool `rm`"), "{unknown}");
    // It goes on.
    assert!(!server.answer("explain", &json!({"term": "tape"})).is_empty());
}

/// The Python of the newest environment in the user's cache, which `.ci/run` creates.
fn python() -> Option<PathBuf> {
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let found = fs::read_dir(caches.join("flopgap")).ok()?.flatten();
    let found = found.filter(|entry| entry.file_name().to_string_lossy().starts_with("python-"));
    let newest = found.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok())?;
    let python = newest.path().join("bin/python");
    let imports = Command::new(&python).args(["-c", "import mcp.client.stdio"]).output().ok()?;
    imports.status.success().then_some(python)
}

/// The client of the package `mcp` negotiates a version, validates schemas and parses results.
#[test]
fn a_client_of_pypi_gets_answers() {
    const CLIENT: &str = "bins/flopgap/tests/mcp_client.py";
    let Some(python) = python() else {
        return flopgap_testing::skip("python libraries", "no `mcp` of PyPI: run .ci/run once");
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let server = assert_cmd::cargo::cargo_bin("flopgap");
    let output = Command::new(&python).arg(CLIENT).arg(server).arg(TRACE).current_dir(root).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    assert!(said.contains("tools: open gap kernels diff rows"), "{said}");
    assert!(
        said.contains("Launches are the limit")
            && said.contains("error: True missing.sqlite: cannot be read"),
        "{said}"
    );
}
