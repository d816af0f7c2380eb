//! What Hugging Face and ModelScope say, as far as duan asks them.

use std::sync::Arc;

use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{Served, Server, hex};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Git's name of the contents.
pub fn git_blob(bytes: &[u8]) -> String {
    hex(&Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn is_large(path: &str) -> bool {
    [".gguf", ".safetensors"].iter().any(|ending| path.ends_with(ending))
}

impl Server {
    /// Serves a repository as Hugging Face does: large files lie on another path, which stands for another host, and are
    /// announced with their SHA-256.
    pub fn put_hugging_face(&self, id: &str, files: &[(&str, &[u8])]) {
        let page = |path: String, value: serde_json::Value| {
            self.put(&path, value.to_string().into_bytes(), "application/json", None);
        };
        page(format!("/api/models/{id}/revision/main"), json!({"id": id, "sha": COMMIT}));
        let entry = |path: &str, bytes: &[u8]| {
            let mut entry = json!({"type": "file", "oid": git_blob(bytes), "size": bytes.len(), "path": path});
            if is_large(path) {
                entry["oid"] = json!("f".repeat(40));
                entry["lfs"] = json!({"oid": sha256(bytes), "size": bytes.len(), "pointerSize": 135});
            }
            entry
        };
        let entries: Vec<serde_json::Value> = files.iter().map(|(path, bytes)| entry(path, bytes)).collect();
        page(format!("/api/models/{id}/tree/{COMMIT}?recursive=1"), json!(entries));
        for (path, bytes) in files {
            for revision in [COMMIT, "main"] {
                let place = format!("/{id}/resolve/{revision}/{path}");
                let mut served = Served {
                    bytes: Arc::new(bytes.to_vec()),
                    content_type: "application/octet-stream",
                    etag: None,
                    headers: format!("X-Repo-Commit: {COMMIT}\r\n"),
                    moved_to: None,
                };
                if is_large(path) {
                    let cdn = format!("/cdn/{}", sha256(bytes));
                    self.put(&cdn, bytes.to_vec(), "application/octet-stream", Some("\"cdn\""));
                    served.headers += &format!(
                        "X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nETag: \"{}\"\r\n",
                        sha256(bytes),
                        bytes.len(),
                        "f".repeat(40)
                    );
                    served.moved_to = Some(format!("http://{}{cdn}", self.address));
                } else {
                    served.headers += &format!("ETag: \"{}\"\r\n", git_blob(bytes));
                }
                self.serve(&place, served);
            }
        }
    }

    /// Serves a repository as ModelScope does.
    pub fn put_model_scope(&self, id: &str, files: &[(&str, &[u8])]) {
        self.put_model_scope_at(id, "master", files);
    }

    pub fn put_model_scope_at(&self, id: &str, revision: &str, files: &[(&str, &[u8])]) {
        let entry = |path: &str, bytes: &[u8]| json!({"Name": path, "Path": path, "Type": "blob", "Size": bytes.len(), "Sha256": sha256(bytes)});
        let mut entries = vec![json!({"Name": "dir", "Path": "dir", "Type": "tree", "Size": 0})];
        entries.extend(files.iter().map(|(path, bytes)| entry(path, bytes)));
        let page = json!({"Code": 200, "Success": true, "Message": "success", "Data": {"Files": entries}});
        let place = format!("/api/v1/models/{id}/repo/files?Revision={revision}&Recursive=true");
        self.put(&place, page.to_string().into_bytes(), "application/json", None);
        for (path, bytes) in files {
            let path = path.replace('/', "%2F");
            let place = format!("/api/v1/models/{id}/repo?Revision={revision}&FilePath={path}");
            self.put(&place, bytes.to_vec(), "application/octet-stream", Some("\"ms\""));
        }
    }
}
