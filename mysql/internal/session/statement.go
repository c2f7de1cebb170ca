package session

import (
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// WaitStatement is (1) and (2) in one trip: the row lock, for which the session stands in the
// server's queue, and the lease row's token. The subquery takes the name from the row,
// so it is run when the row is locked; with the key in it MariaDB runs it before the
// wait. An older token than the present one only makes (3) change nothing.
//
// Of a key that was ever seen in a phase it reads inAPhase if it is in one.
func (f *ForUpdate) WaitStatement(key string) string {
	if ever, _ := f.phases.known(key); ever {
		return f.locksRow(key, tokenOrPhase, "FOR UPDATE")
	}
	return f.locksRow(key, "token", "FOR UPDATE")
}

// lockRow is WaitStatement without waiting. It reads the token also in a phase. NOWAIT: MySQL since
// 8.0, MariaDB since 10.3.
func (f *ForUpdate) lockRow(key string) string {
	return f.locksRow(key, "token", "FOR UPDATE NOWAIT")
}

func (f *ForUpdate) locksRow(key, reads, how string) string {
	return conn.NewText(300).Add("SELECT(SELECT "+reads+" FROM ", f.lease.Name, " WHERE name=r.name)FROM ", f.Rows, "r WHERE name=").
		Key(key).Add(" " + how).String()
}

// CreateLease and CreateRow make the rows of a key, in this order: an attempt that finds the
// second finds the first too. They are not run by a session, whose transaction
// would not end, and only for a row that is missing: an INSERT of one that is locked
// waits. (INSERT IGNORE would also be silent about a row that the table refuses.) The lease row counts as released now, or the reaper would take it
// for dead at once. Its token is the time, as of a grant, so that its entry in the
// guard index stands at the end: MariaDB's guard at REPEATABLE READ locks the gap
// before its own entry too.
func (f *ForUpdate) CreateLease(key string) string {
	return conn.NewText(0).Add("INSERT INTO ", f.lease.Name, " (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES (").
		Key(key).Add("," + row.NoHold + ",''," + row.NewToken + "," + row.Epoch + "," + row.Epoch + "," + row.Now + ")" + orThere).String()
}

func (f *ForUpdate) CreateRow(key string) string {
	return conn.NewText(0).Add("INSERT INTO ", f.Rows, " (name) VALUES (").Key(key).Add(")" + orThere).String()
}

// orThere makes an INSERT content with a row that is there by now.
const orThere = " ON DUPLICATE KEY UPDATE name=VALUES(name)"

// Write is (3). It refuses while MinHold keeps the key, or a hold of another run of a server. queued: after a
// wait in the server's queue, in which others may be.
func (f *ForUpdate) write(r driver.Request, session uint64, run conn.Run, t0 int64, queued bool) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(f.lease.Name)).Add("token=LAST_INSERT_ID(GREATEST(token+" + row.TokenRange + "," + row.NewToken + ")),").Part(granted(&r, session, run, queued)).
			Add(" WHERE name=").Key(r.Key).Add(" AND token=").Int(t0).Add(" AND (kept_until IS NULL OR kept_until<=" + row.Now + ")").Part(ofThisRun(run))
	}
}

// granted is what (3) writes beside the token.
func granted(r *driver.Request, session uint64, run conn.Run, queued bool) conn.Statement {
	return func(t *conn.Text) {
		t.Add("hold=").Bytes(r.ID[:]).Add(",owner=").Key(r.Owner).
			Add(",acquired_at=" + row.Now + ",released_at=NULL,conn_id=").Int(int64(session)).
			Add(",server=").Key(run.Server).Add(",started=TIMESTAMP'1970-01-01 00:00:00'+INTERVAL ").Int(run.Started).Add(" SECOND").
			Add(",expires_at=" + row.Now + "+INTERVAL ").Micros(r.TTL).Add(" MICROSECOND,kept_until=")
		if r.Keep > 0 {
			t.Add(row.Now + "+INTERVAL ").Micros(r.Keep).Add(" MICROSECOND")
		} else {
			t.Add("NULL")
		}
		if r.Client != 0 {
			t.Add(",wanted=").Part(row.Asker{Client: r.Client, InQueue: queued && row.LeavesHint(r)}.Granted)
		}
	}
}

// whose is what the lease row says now: its token, for how long the hold and MinHold
// last, whose it is or was, the hint, and the run in which it was written. And whether another session has the row's lock: if it
// can be locked shared none has, and a refused attempt has met a probe. And whether that session was granted the key: see
// confirm.
func (f *ForUpdate) whose(key string) string {
	return conn.NewText(800).Add("SELECT token,IF(released_at IS NULL,TIMESTAMPDIFF(MICROSECOND,"+row.Now+",expires_at),0),IFNULL(TIMESTAMPDIFF(MICROSECOND,"+row.Now+",kept_until),0),owner,"+
		"wanted,"+row.NowMicros+","+runColumns+",(SELECT 1 FROM ", f.Rows, " WHERE name=").Key(key).Add(" ", shared, ") IS NULL,").
		Add("(SELECT 1 FROM ", f.Rows, " FORCE INDEX (held) WHERE name=").Key(key).Add(" ", shared, ") IS NULL FROM ", f.lease.Name, " WHERE name=").Key(key).String()
}

// beat is the heartbeat: the server's wait_timeout starts anew, and the answer
// reports whether the lease row still has the hold. It locks nothing.
func (f *ForUpdate) beat(key string) string {
	return conn.NewText(200).Add("SELECT hold FROM ", f.lease.Name, " WHERE name=").Key(key).String()
}

// Confirm is (4): the heartbeat, and the hint, which costs no more. It locks the entry of the row in the
// index held too. A read that finds this free and the row locked has met a session that was granted nothing
// yet: the lease row tells of somebody else, who has released the key.
func (f *ForUpdate) confirm(key string) string {
	return conn.NewText(250).Add("SELECT hold,wanted,(SELECT 1 FROM ", f.Rows, "FORCE KEY(held) WHERE name=l.name FOR UPDATE)FROM ", f.lease.Name, "l WHERE name=").Key(key).String()
}

// revoke takes back what (3) wrote for a hold: MinHold keeps the key no longer.
func (f *ForUpdate) revoke(key string, id driver.HoldID) string {
	return conn.NewText(560).Part(row.Update(f.lease.Name)).Add("kept_until=NULL,expires_at=" + row.Epoch + ",released_at=" + row.Now).
		Part(row.Where([]driver.Hold{{Key: key, ID: id}})).String()
}

// free asks which of the keys' rows no session has locked. It locks them itself for
// as long as it takes, shared, so that those who ask do not see each other; an
// acquire that it refused sees that it is no holder, and tries again.
func (f *ForUpdate) ProbeStatement(keys []string) string { return f.unlocked(keys, shared) }

// shared locks what nobody has locked exclusively. MySQL has SKIP LOCKED only with
// FOR SHARE, which MariaDB does not know; each takes the other's comment for one:
// https://dev.mysql.com/doc/refman/9.7/en/comments.html, https://mariadb.com/kb/en/comment-syntax/
const shared = "/*!80001 FOR SHARE */ /*M!100600 LOCK IN SHARE MODE */ SKIP LOCKED"

func (f *ForUpdate) unlocked(keys []string, mode string) string {
	t := conn.NewText(200+64*len(keys)).Add("SELECT name FROM ", f.Rows, " FORCE INDEX (PRIMARY) WHERE name IN ")
	return t.In(len(keys), func(i int) { t.Key(keys[i]) }).Add(" ", mode).String()
}

// states reads the lease rows, and whether there is a row to lock at all, and whether a session that was granted the key has
// it locked: see confirm. The rest of MinHold is NULL where kept_until is no time.
func (f *ForUpdate) states(keys []string) string {
	t := conn.NewText(600+64*len(keys)).Add(f.lease.Question(), ",IF(kept_until IS NULL,0,TIMESTAMPDIFF(MICROSECOND,"+row.Now+",kept_until)),IFNULL(conn_id,0),"+runColumns+",EXISTS(SELECT 1 FROM ",
		f.Rows, " AS r WHERE r.name=l.name),(SELECT 1 FROM ", f.Rows, " FORCE INDEX (held) WHERE name=l.name ", shared, ") IS NULL FROM ", f.lease.Name, " AS l FORCE INDEX (PRIMARY) WHERE name IN ")
	return t.In(len(keys), func(i int) { t.Key(keys[i]) }).String()
}

// ended takes the lease row from whoever has it.
const ended = "hold=" + row.NoHold + ",expires_at=" + row.Epoch + ",released_at=" + row.Now + ",kept_until=NULL"

// disown takes the lease row from its hold by force, if the token is still that.
func (f *ForUpdate) disown(key string, token int64) string {
	return conn.NewText(560).Part(row.Update(f.lease.Name)).Add("token=GREATEST(token+" + row.TokenRange + "," + row.NewToken + ")," + ended + " WHERE name=").
		Key(key).Add(" AND token=").Int(token).String()
}

// grants counts the grants to a session after one that it had, and tells the time.
// No index helps; it is asked once in a forced release of a silent holder.
func (f *ForUpdate) grants(session uint64, token int64) string {
	return conn.NewText(0).Add("SELECT COUNT(*),"+row.NowMicros+" FROM ", f.lease.Name, " WHERE conn_id=").Int(int64(session)).Add(" AND token>").Int(token).Add(" AND hold<>" + row.NoHold).String()
}
