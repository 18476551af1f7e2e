//! The table of sessions: its shape, and every statement that is run on it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use milk_core::id::SessionId;
use milk_core::session::{SessionPage, SessionQuery, SessionSummary, Worth};
use milk_files::DirId;
use rusqlite::types::{ToSql, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params, params_from_iter};

use super::Holder;
use crate::sessions::look::Row;

/// The shape of the table. An index of another shape is made anew.
pub(super) const SHAPE: i64 = 1;

/// Where equal times leave the order open, the later use has the larger `seq`.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS sessions (
  id TEXT PRIMARY KEY,
  cwd NOT NULL,
  directory NOT NULL,
  name TEXT,
  first_prompt TEXT,
  turns INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  last_used_ms INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  size INTEGER NOT NULL,
  old_stamp INTEGER,
  holder_pid INTEGER,
  holder TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON sessions (last_used_ms DESC, seq DESC);
CREATE INDEX IF NOT EXISTS by_directory ON sessions (directory, last_used_ms DESC, seq DESC);
CREATE INDEX IF NOT EXISTS by_holder ON sessions (holder) WHERE holder IS NOT NULL;
CREATE TABLE IF NOT EXISTS counter (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (1, 0);
";

const COLUMNS: &str = "id, cwd, name, first_prompt, turns, entries, created_ms, last_used_ms";
/// [`COLUMNS`] and what a [`Row`] has besides.
const ALL: &str =
    "id, cwd, name, first_prompt, turns, entries, created_ms, last_used_ms, directory, size, old_stamp";

type Answer<T> = rusqlite::Result<T>;

/// Makes the table where there is none.
pub(super) fn make(connection: &Connection) -> Answer<()> {
    connection.execute_batch(SCHEMA)?;
    connection.pragma_update(None, "user_version", SHAPE)
}

/// Replaces every column but the first, and `seq` where a new one is given.
const REPLACE: &str = "ON CONFLICT (id) DO UPDATE SET cwd = excluded.cwd, directory = excluded.directory,
  name = excluded.name, first_prompt = excluded.first_prompt, turns = excluded.turns, entries = excluded.entries,
  created_ms = excluded.created_ms, last_used_ms = excluded.last_used_ms,
  seq = CASE WHEN ?14 THEN excluded.seq ELSE sessions.seq END, size = excluded.size,
  old_stamp = excluded.old_stamp, holder_pid = excluded.holder_pid, holder = excluded.holder";

/// Writes a row, whatever was there.
pub(super) fn put(connection: &Connection, row: &Row, holder: Option<&Holder>, used: Used) -> Answer<()> {
    let seq = used.seq(connection)?;
    put_as(connection, row, holder, seq, REPLACE)
}

/// Writes the last row of a session that `holder` has closed, unless somebody else has opened it meanwhile.
pub(super) fn close(connection: &Connection, row: &Row, holder: &Holder, used: Used) -> Answer<()> {
    let seq = used.seq(connection)?;
    let known = self::holder(connection, &row.summary.id)?;
    if known.as_ref().is_some_and(|known| known.token != holder.token) {
        return Ok(());
    }
    let unless_newer =
        format!("{REPLACE} WHERE sessions.holder IS NOT NULL OR sessions.size <= excluded.size");
    put_as(connection, row, None, seq, &unless_newer)
}

/// Writes a row where there is none.
pub(super) fn add(connection: &Connection, row: &Row, holder: Option<&Holder>) -> Answer<()> {
    let seq = next_seq(connection)?;
    put_as(connection, row, holder, Some(seq), "ON CONFLICT (id) DO NOTHING")
}

/// Whether a row was just used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Used {
    /// It comes before those with the same time.
    Now,
    /// Its place stays.
    Before,
}

impl Used {
    fn seq(self, connection: &Connection) -> Answer<Option<i64>> {
        match self {
            Self::Now => next_seq(connection).map(Some),
            Self::Before => Ok(None),
        }
    }
}

fn put_as(
    connection: &Connection,
    row: &Row,
    holder: Option<&Holder>,
    seq: Option<i64>,
    conflict: &str,
) -> Answer<()> {
    let summary = &row.summary;
    let sql = format!(
        "INSERT INTO sessions ({ALL}, holder_pid, holder, seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, coalesce(?14, 0)) {conflict}"
    );
    connection.execute(
        &sql,
        params![
            summary.id.as_str(),
            path_value(&summary.cwd),
            summary.name,
            summary.first_prompt,
            to_sql(summary.turns),
            to_sql(summary.entries),
            to_sql(summary.created_ms),
            to_sql(summary.last_used_ms),
            path_value(&row.directory),
            to_sql(row.size),
            row.old_stamp,
            holder.and_then(|holder| holder.pid),
            holder.map(|holder| holder.token.as_str()),
            seq,
        ],
    )?;
    Ok(())
}

fn next_seq(connection: &Connection) -> Answer<i64> {
    connection.query_row("UPDATE counter SET seq = seq + 1 RETURNING seq", [], |row| row.get(0))
}

/// Writes newer counts, unless somebody wrote still newer ones.
pub(super) fn renew(connection: &Connection, row: &Row, before: u64) -> Answer<()> {
    let summary = &row.summary;
    connection.execute(
        "UPDATE sessions SET first_prompt = ?2, turns = ?3, entries = ?4, last_used_ms = ?5, size = ?6, old_stamp = ?8
         WHERE id = ?1 AND size = ?7",
        params![
            summary.id.as_str(),
            summary.first_prompt,
            to_sql(summary.turns),
            to_sql(summary.entries),
            to_sql(summary.last_used_ms),
            to_sql(row.size),
            to_sql(before),
            row.old_stamp,
        ],
    )?;
    Ok(())
}

/// Nobody holds it any more, unless somebody else took it meanwhile.
pub(super) fn release(connection: &Connection, id: &SessionId, holder: &Holder) -> Answer<()> {
    connection.execute(
        "UPDATE sessions SET holder = NULL, holder_pid = NULL WHERE id = ?1 AND holder = ?2",
        params![id.as_str(), holder.token],
    )?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, id: &SessionId) -> Answer<()> {
    connection.execute("DELETE FROM sessions WHERE id = ?1", [id.as_str()])?;
    Ok(())
}

/// The whole row of a session.
pub(super) fn get(connection: &Connection, id: &SessionId) -> Answer<Option<Row>> {
    let sql = format!("SELECT {ALL} FROM sessions WHERE id = ?1");
    connection.query_row(&sql, [id.as_str()], whole).optional()
}

/// Who is noted as holding a session.
pub(super) fn holder(connection: &Connection, id: &SessionId) -> Answer<Option<Holder>> {
    let sql = "SELECT holder_pid, holder FROM sessions WHERE id = ?1 AND holder IS NOT NULL";
    connection
        .query_row(sql, [id.as_str()], |row| Ok(Holder { pid: row.get(0)?, token: row.get(1)? }))
        .optional()
}

/// Every session that somebody is noted as holding.
pub(super) fn held(connection: &Connection) -> Answer<Vec<(Row, Holder)>> {
    let sql = format!("SELECT {ALL}, holder_pid, holder FROM sessions WHERE holder IS NOT NULL");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        Ok((whole(row)?, Holder { pid: row.get("holder_pid")?, token: row.get("holder")? }))
    })?;
    rows.collect()
}

/// Every id.
pub(super) fn ids(connection: &Connection) -> Answer<Vec<SessionId>> {
    let mut statement = connection.prepare("SELECT id FROM sessions")?;
    let rows = statement.query_map([], |row| id_of(row.get_ref(0)?, 0))?;
    rows.collect()
}

/// Every id after `after`, in order, at most `limit`, as whole rows.
pub(super) fn some_after(connection: &Connection, after: &str, limit: usize) -> Answer<Vec<Row>> {
    let sql = format!("SELECT {ALL} FROM sessions WHERE id > ?1 ORDER BY id LIMIT ?2");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map(params![after, count(limit)], whole)?;
    rows.collect()
}

/// Sessions without turn and name that were last used before `before_ms`.
pub(super) fn empty(connection: &Connection, before_ms: u64) -> Answer<Vec<SessionSummary>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE turns = 0 AND name IS NULL AND last_used_ms < ?1 ORDER BY id"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([to_sql(before_ms)], summary)?;
    rows.collect()
}

/// Sessions that were last used before `before_ms`.
pub(super) fn unused(connection: &Connection, before_ms: u64) -> Answer<Vec<SessionSummary>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE last_used_ms < ?1 ORDER BY id");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([to_sql(before_ms)], summary)?;
    rows.collect()
}

/// A page of the list.
pub(super) fn page(connection: &Connection, query: &SessionQuery) -> Answer<SessionPage> {
    let mut conditions: Vec<&str> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    if let Some(cwd) = &query.cwd {
        conditions.push("directory = ?");
        values.push(path_value(DirId::of(cwd).as_path()));
    }
    if let Worth::Used { open } = &query.worth {
        conditions.push("(turns > 0 OR name IS NOT NULL OR id IN (SELECT value FROM json_each(?)))");
        let open: Vec<&str> = open.iter().map(SessionId::as_str).collect();
        values.push(Value::Text(serde_json::Value::from(open).to_string()));
    }
    values.push(count(query.limit).saturating_add(1).into());
    values.push(count(query.offset).into());
    let filter = if conditions.is_empty() { "1" } else { &conditions.join(" AND ") };
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE {filter} ORDER BY last_used_ms DESC, seq DESC LIMIT ? OFFSET ?"
    );
    let mut sessions = select(connection, &sql, &values)?;
    let more = sessions.len() > query.limit;
    sessions.truncate(query.limit);
    Ok(SessionPage { sessions, more })
}

/// Sessions whose id begins with `prefix`.
pub(super) fn with_prefix(
    connection: &Connection,
    prefix: &str,
    limit: usize,
) -> Answer<Vec<SessionSummary>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE id >= ?1 AND id < ?2 ORDER BY last_used_ms DESC, seq DESC LIMIT ?3"
    );
    // No byte of an id is above this one, so that every id with the prefix is below it.
    let values: [Value; 3] =
        [prefix.to_owned().into(), format!("{prefix}\u{7f}").into(), count(limit).into()];
    select(connection, &sql, &values)
}

/// Sessions of a directory with this name.
pub(super) fn with_name(connection: &Connection, cwd: &Path, name: &str) -> Answer<Vec<SessionSummary>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE directory = ?1 AND name = ?2 ORDER BY last_used_ms DESC, seq DESC"
    );
    select(connection, &sql, &[path_value(DirId::of(cwd).as_path()), name.to_owned().into()])
}

fn select(connection: &Connection, sql: &str, values: &[impl ToSql]) -> Answer<Vec<SessionSummary>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map(params_from_iter(values), summary)?;
    rows.collect()
}

fn summary(row: &SqlRow<'_>) -> Answer<SessionSummary> {
    Ok(SessionSummary {
        id: id_of(row.get_ref(0)?, 0)?,
        cwd: path_of(row.get_ref(1)?, 1)?,
        name: row.get(2)?,
        first_prompt: row.get(3)?,
        turns: from_sql(row.get(4)?),
        entries: from_sql(row.get(5)?),
        created_ms: from_sql(row.get(6)?),
        last_used_ms: from_sql(row.get(7)?),
    })
}

fn whole(row: &SqlRow<'_>) -> Answer<Row> {
    Ok(Row {
        summary: summary(row)?,
        directory: path_of(row.get_ref(8)?, 8)?,
        size: from_sql(row.get(9)?),
        old_stamp: row.get(10)?,
    })
}

fn id_of(value: ValueRef<'_>, column: usize) -> Answer<SessionId> {
    match value {
        ValueRef::Text(text) => Ok(SessionId::new(&*String::from_utf8_lossy(text))),
        other => Err(rusqlite::Error::InvalidColumnType(column, "id".to_owned(), other.data_type())),
    }
}

/// A path as it is compared: text where it is text.
fn path_value(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => Value::Text(text.to_owned()),
        None => Value::Blob(path.as_os_str().as_bytes().to_vec()),
    }
}

fn path_of(value: ValueRef<'_>, column: usize) -> Answer<PathBuf> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(OsString::from_vec(bytes.to_vec()).into()),
        other => Err(rusqlite::Error::InvalidColumnType(column, "path".to_owned(), other.data_type())),
    }
}

fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Fails where nothing can be written.
pub(super) fn try_writing(connection: &Connection) -> Answer<()> {
    next_seq(connection).map(drop)
}

/// Whether the table can be read at all.
pub(super) fn is_usable(connection: &Connection) -> bool {
    let sql = format!("SELECT {ALL}, holder_pid, holder, seq FROM sessions LIMIT 1");
    let counted = connection.query_row("SELECT seq FROM counter", [], |row| row.get::<_, i64>(0));
    counted.is_ok() && connection.prepare(&sql).is_ok()
}
