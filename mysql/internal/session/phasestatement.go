package session

import (
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// The statements by which phases of readers and slots begin and end; those within a phase are
// those of package share.

// shareRow is WaitStatement with a shared lock. Of a key that is in a phase it reads inAPhase.
func (f *ForUpdate) shareRow(key string) string { return f.locksRow(key, tokenOrPhase, inShare) }

// tokenOrPhase reads the token of a lease row, or of one that is in a phase inAPhase, which is
// no token.
const (
	tokenOrPhase = "IF(" + share.InPhase + ",-1,token)"
	inAPhase     = -1
)

// inShare is for a shared lock. Each server takes the other's words for a comment.
const inShare = "/*!80000 FOR SHARE */ /*M!100600 LOCK IN SHARE MODE */"

// beginPhase begins a phase, on the terms of write. That the key looks kept for ever by MinHold
// keeps the write of every exclusive attempt from it. The run is that of the server where it is written.
func (f *ForUpdate) beginPhase(r *driver.Request, run conn.Run, t0 int64) conn.Statement {
	phase := share.PhaseOf(r.ID)
	return func(t *conn.Text) {
		t.Part(row.Update(f.lease.Name)).Add("token=GREATEST(token+" + row.TokenRange + "," + row.NewToken + "),hold=").Bytes(phase[:]).Add(",phase=").Bytes(phase[:]).
			Add(",owner='',acquired_at=" + row.Now + ",released_at=NULL,conn_id=NULL,expires_at=" + share.PhaseEnd + ",kept_until=" + share.PhaseEnd + ",gate=NULL,gate_until=NULL,gate_after=").Part(share.GateAfter(r))
		if r.Client != 0 {
			t.Add(",wanted=").Part(row.Asker{Client: r.Client}.Granted)
		}
		t.Add(" WHERE name=").Key(r.Key).Add(" AND token=").Int(t0).Add(" AND (kept_until IS NULL OR kept_until<=" + row.Now + ")").Part(ofThisRun(run))
	}
}

// takePhase is (3) in a phase: see throughPhase.
func (f *ForUpdate) takePhase(r *driver.Request, session uint64, run conn.Run, queued bool) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(f.lease.Name)).Add("token=LAST_INSERT_ID(").Part(f.aboveAll(r.Key)).Add("),").Part(granted(r, session, run, queued)).
			Add(noPhase + " WHERE name=").Key(r.Key).Part(share.Takeable(f.lease, r))
	}
}

// endPhase leaves a key free that is in a phase, on the terms of takePhase.
func (f *ForUpdate) endPhase(r *driver.Request) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(f.lease.Name)).Add("token=LAST_INSERT_ID(").Part(f.aboveAll(r.Key)).Add(")," + ended + noPhase + " WHERE name=").
			Key(r.Key).Part(share.Takeable(f.lease, r))
	}
}

// disownPhase is disown of a phase.
func (f *ForUpdate) disownPhase(key string, token int64) string {
	return conn.NewText(900).Part(row.Update(f.lease.Name)).Add("token=").Part(f.aboveAll(key)).Add("," + ended + noPhase + " WHERE name=").
		Key(key).Add(" AND token=").Int(token).String()
}

// noPhase ends a phase.
const noPhase = ",phase=NULL" + share.NoGate

// aboveAll is a token above all that were granted of a key that is in a phase, those of its
// slots among them.
func (f *ForUpdate) aboveAll(key string) conn.Statement {
	return func(t *conn.Text) {
		t.Add("GREATEST(token+" + row.TokenRange + "," + row.NewToken + ",").Part(share.AboveShares(f.lease, key)).Add(")")
	}
}
