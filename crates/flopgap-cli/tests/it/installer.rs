//! Runs `release/install.sh` against a server on this machine, and compares the names that it, the
//! metadata of `cargo binstall` and `release/build` have for the same archive.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

/// The archive of this machine, without its ending.
fn name() -> String {
    format!("flopgap-{}-{}-unknown-linux-gnu", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

fn run(program: &str, arguments: &[&str], folder: &Path) {
    let status = Command::new(program).args(arguments).current_dir(folder).status().expect("it runs");
    assert!(status.success(), "{program} {arguments:?}");
}

/// Answers one request with a file of the folder.
fn answer(stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, body) =
        fs::read(folder.join(path)).map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let stream = reader.get_mut();
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

/// A release of a program that prints its name, and a server of it.
struct Release {
    scratch: tempfile::TempDir,
    address: String,
}

impl Release {
    /// `None`, where tools are missing.
    fn new() -> Option<Self> {
        for tool in ["tar", "gzip", "sha256sum", "getconf", "curl"] {
            if Command::new(tool).arg("--version").output().is_err() {
                flopgap_testing::skip("curl", format!("{tool} is missing"));
                return None;
            }
        }
        let scratch = tempfile::tempdir().expect("a folder");
        let (served, packed) = (scratch.path().join("served"), scratch.path().join(name()));
        fs::create_dir(&served).expect("a folder");
        fs::create_dir(&packed).expect("a folder");
        fs::write(packed.join("flopgap"), "#!/bin/sh\necho installed\n").expect("a program");
        let archive = format!("served/{}.tar.gz", name());
        run("tar", &["-czf", &archive, &name()], scratch.path());
        run("sh", &["-c", "sha256sum -- * >SHA256SUMS"], &served);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that hangs up is judged by what it says.
                let _ = answer(stream, &served);
            }
        });
        Some(Self { scratch, address })
    }

    fn served(&self, name: &str) -> PathBuf {
        self.scratch.path().join("served").join(name)
    }

    fn installed(&self) -> PathBuf {
        self.scratch.path().join("bin/flopgap")
    }

    fn install(&self) -> Output {
        self.install_as(&std::env::var("PATH").expect("a path"))
    }

    fn install_as(&self, path: &str) -> Output {
        Command::new("sh")
            .arg(root().join("release/install.sh"))
            .env("PATH", path)
            .env("FLOPGAP_RELEASE", &self.address)
            .env("FLOPGAP_INSTALL_DIR", self.scratch.path().join("bin"))
            .env("no_proxy", "127.0.0.1")
            .output()
            .expect("sh runs")
    }

    /// Installs, which fails with this message and leaves no program.
    fn refuses(&self, output: &Output, message: &str) {
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(message), "{error}");
        assert!(!self.installed().exists(), "{error}");
    }
}

#[test]
fn a_release_is_installed_and_replaces_an_older_one() {
    let Some(release) = Release::new() else { return };
    fs::create_dir(release.scratch.path().join("bin")).expect("a folder");
    fs::write(release.installed(), "an older one").expect("a file");
    let output = release.install();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(&format!("installed {}: ", name())), "{said}");
    assert!(said.contains("hint: add "), "{said}");
    let printed = Command::new(release.installed()).output().expect("the program runs");
    assert_eq!(printed.stdout, b"installed\n");
    let left = fs::read_dir(release.scratch.path().join("bin")).expect("a folder").count();
    assert_eq!(left, 1, "files other than the program are left");
}

#[test]
fn a_changed_archive_is_refused() {
    let Some(release) = Release::new() else { return };
    let archive = release.served(&format!("{}.tar.gz", name()));
    let mut bytes = fs::read(&archive).expect("an archive");
    bytes.push(0);
    fs::write(&archive, bytes).expect("an archive");
    release.refuses(&release.install(), "wrong checksum; nothing was installed");
}

#[test]
fn a_missing_file_is_refused() {
    let Some(release) = Release::new() else { return };
    fs::remove_file(release.served(&format!("{}.tar.gz", name()))).expect("an archive");
    release.refuses(&release.install(), ".tar.gz: download failed");
    fs::remove_file(release.served("SHA256SUMS")).expect("sums");
    release.refuses(&release.install(), "SHA256SUMS: download failed");
}

#[test]
fn sums_without_this_machine_are_refused() {
    let Some(release) = Release::new() else { return };
    let sums = release.served("SHA256SUMS");
    // The name would leave the folder.
    let text = fs::read_to_string(&sums).expect("sums").replace("flopgap-", "flopgap-../../");
    fs::write(&sums, text).expect("sums");
    release.refuses(&release.install(), "expected one archive for ");
}

#[test]
fn other_systems_are_refused() {
    let Some(release) = Release::new() else { return };
    let tools = release.scratch.path().join("tools");
    fs::create_dir(&tools).expect("a folder");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("a path"));
    for (tool, prints, message) in [
        ("uname", "echo Darwin", "no program for Darwin on Darwin"),
        ("getconf", "echo glibc 2.27", "this system has glibc 2.27"),
        ("getconf", "exit 1", "this system has no glibc"),
    ] {
        let at = tools.join(tool);
        fs::write(&at, format!("#!/bin/sh\n{prints}\n")).expect("a program");
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).expect("its mode");
        release.refuses(&release.install_as(&path), message);
        fs::remove_file(at).expect("a program");
    }
}

#[test]
fn the_conda_recipe_has_the_version_of_a_release() {
    let recipe = fs::read_to_string(root().join("release/conda/recipe.yaml")).expect("a recipe");
    assert!(recipe.contains(&format!("\n  version: {}\n", env!("CARGO_PKG_VERSION"))), "another version");
}

#[test]
fn binstall_asks_for_what_a_release_has() {
    let build = fs::read_to_string(root().join("release/build")).expect("release/build");
    assert!(build.contains("name=flopgap-$version-$triple\n"), "archives have another name");
    assert!(build.contains(">\"dist/$name.tar.gz\"\n"), "archives have another ending");
    let manifest = fs::read_to_string(root().join("bins/flopgap/Cargo.toml")).expect("a manifest");
    let url = "{ repo }/releases/download/v{ version }/flopgap-{ version }-{ target }.tar.gz";
    assert!(manifest.contains(&format!("pkg-url = \"{url}\"\n")), "cargo binstall asks for another name");
    let program = "flopgap-{ version }-{ target }/{ bin }{ binary-ext }";
    assert!(manifest.contains(&format!("bin-dir = \"{program}\"\n")), "cargo binstall unpacks another file");
}
