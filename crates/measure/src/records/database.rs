//! The file that holds the records, opened.
//!
//! It has a rollback journal and no write-ahead log: that log needs memory which programs share, so it does not work where the home
//! folder lies on a network, and a folder that may only be read could not be read at all (SQLite's page on WAL). Records are
//! few, each is one short transaction, and nobody reads while many write, so nothing is lost by it. `synchronous = EXTRA` waits until
//! also the end of the journal is on the disk: what was said to be kept is there after a loss of power.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{BUSY_S, Error};
use super::schema::{ABSURD_VERSION, Found, STEPS, found, migrate};

/// Opens the file for whoever adds to it or changes it, and makes it where it is not there. It is looked through before: what is damaged
/// is not written to.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|source| Error::Folder { folder: folder.to_owned(), source })?;
    let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(path, create)?;
    make_current(&mut connection, path, STEPS)?;
    check_whole(&connection, path)?;
    Ok(connection)
}

/// Opens the file for whoever only reads; none where there is none, or nothing in it.
///
/// It is opened for writing where it may be written, too: after another program was killed, SQLite has to take back what that one left
/// half done before anything can be read.
pub(super) fn open_existing(path: &Path) -> Result<Option<Connection>, Error> {
    if fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if found(&connection).map_err(|error| Error::of(path, error))? == Found::Empty {
        return Ok(None);
    }
    make_current(&mut connection, path, STEPS)?;
    Ok(Some(connection))
}

/// Nothing but a plain file is opened: to open a pipe would wait for ever. It is not opened to ask: whoever closes a file loses the locks
/// that another connection of the same program has on it.
fn check_plain(path: &Path) -> Result<(), Error> {
    let Ok(there) = fs::metadata(path) else { return Ok(()) };
    if there.is_file() {
        return Ok(());
    }
    let what = if there.is_dir() { "a folder" } else { "a pipe, a device or a socket" };
    Err(Error::NoPlainFile { path: path.to_owned(), what })
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, Error> {
    check_plain(path)?;
    let failed = |error| Error::of(path, error);
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
    connection.busy_timeout(Duration::from_secs(BUSY_S)).map_err(failed)?;
    // What SQLite's page "Defense Against The Dark Arts" asks for where a file may come from elsewhere.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(failed)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(failed)?;
    for (name, value) in [("cell_size_check", "ON"), ("foreign_keys", "ON"), ("synchronous", "EXTRA")] {
        connection.pragma_update(None, name, value).map_err(failed)?;
    }
    Ok(connection)
}

/// Sees to it that the file is ours and has the newest schema.
pub(super) fn make_current(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), Error> {
    let failed = |error| Error::of(path, error);
    let known = steps.len() as i64;
    match found(connection).map_err(failed)? {
        Found::Foreign => Err(Error::Foreign { path: path.to_owned() }),
        // Ours begin with 1, and what makes a file ours is written together with its version.
        Found::Ours(version) if !(1..ABSURD_VERSION).contains(&version) => {
            Err(Error::Damaged { path: path.to_owned(), why: format!("its schema has the number {version}") })
        }
        Found::Ours(version) if version > known => Err(Error::Newer { path: path.to_owned(), found: version, known }),
        Found::Ours(version) if version == known => Ok(()),
        Found::Ours(_) | Found::Empty => migrate(connection, steps).map_err(failed),
    }
}

fn check_whole(connection: &Connection, path: &Path) -> Result<(), Error> {
    let says = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    let says = says.map_err(|error| Error::of(path, error))?;
    if says == "ok" { Ok(()) } else { Err(Error::Damaged { path: path.to_owned(), why: says }) }
}
