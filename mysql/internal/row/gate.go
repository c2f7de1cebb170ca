package row

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A gate names an exclusive attempt, and while it stands nobody joins the phase. A take
// demands its own attempt's gate, and that no hold is left that was not ended. So a take
// sees every join before its gate, and after it there is none; a gate that is over is
// cleared by a statement, which the take then notices, and no statement compares times to
// decide who has the key.
const (
	// mostGateTime bounds how long a gate stands. One that ends later was left by a clock
	// that has been set back since, and is over.
	mostGateTime = time.Minute

	// gateOver, of a row with a gate.
	gateOver = "COALESCE(gate_until NOT BETWEEN " + Now + " AND " + Now + "+INTERVAL 1 MINUTE,1)"

	// gateAllowed, of a row: the time in which the phase is left alone is over.
	gateAllowed = "COALESCE(gate_after NOT BETWEEN " + Now + " AND " + Now + "+INTERVAL 1 SECOND,1)"
)

// gate leaves the gate of an attempt in a phase, where it may: none other stands, or that
// of the attempt before it of the same client. One row: the gate is the attempt's.
func gate(l *Table, r *driver.Request) conn.Statement {
	before := r.Gate
	if before == (driver.HoldID{}) {
		before = r.ID
	}
	stands := r.GateTime
	if stands <= 0 {
		stands = driver.GateTime
	}
	return func(t *conn.Text) {
		t.Part(Update(l.Name)).Add("gate_until=" + Now + "+INTERVAL ").Micros(min(stands, mostGateTime)).Add(" MICROSECOND,gate=").Bytes(r.ID[:]).
			Add(" WHERE name=").Key(r.Key).Add(" AND " + InPhase + " AND (gate IN (").Bytes(r.ID[:]).Add(",").Bytes(before[:]).
			Add(") OR (gate IS NULL OR " + gateOver + ") AND " + gateAllowed + ")")
	}
}

// Ungate clears the gate of an attempt.
func Ungate(l *Table, key string, id *driver.HoldID) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Update(l.Name)).Add("gate=NULL,gate_until=NULL WHERE name=").Key(key).Add(" AND gate=").Bytes(id[:])
	}
}

// clearGate clears a gate that is over.
func clearGate(l *Table, key string) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Update(l.Name)).Add("gate=NULL,gate_until=NULL WHERE name=").Key(key).Add(" AND " + InPhase + " AND gate IS NOT NULL AND " + gateOver)
	}
}

// take gives an exclusive attempt the key of a phase, if its gate stands and no hold is
// left. Its token is above those of the slots too. LAST_INSERT_ID is the token.
func take(l *Table, r *driver.Request) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Update(l.Name)).Add("token=LAST_INSERT_ID(GREATEST(token+1024," + NewToken + ",").Part(AboveShares(l, r.Key)).Add(")),hold=").Bytes(r.ID[:]).
			Add(",owner=").Key(r.Owner).Add(",acquired_at=" + Now + ",released_at=NULL,phase=NULL,gate=NULL,gate_until=NULL,gate_after=NULL")
		if r.Client != 0 {
			t.Add(",wanted=IF(").Part(Asker{Client: r.Client}.own).Add(",NULL,wanted)")
		}
		t.Add(",expires_at=" + Now + "+INTERVAL ").Micros(max(r.TTL, r.Keep)).Add(" MICROSECOND WHERE name=").Key(r.Key).
			Part(Takeable(l, r))
	}
}

// Takeable adds what a take demands of the key's row: a phase, the request's gate, and that no
// hold is left that was not ended, or is kept by MinHold.
func Takeable(l *Table, r *driver.Request) conn.Statement {
	return func(t *conn.Text) {
		t.Add(" AND "+InPhase+" AND gate=").Bytes(r.ID[:]).
			Add(" AND NOT EXISTS (SELECT 1 FROM ", l.Share, " AS s FORCE INDEX (PRIMARY) WHERE s.name=").Key(r.Key).
			Add(" AND (s.released_at IS NULL OR s.expires_at>" + Now + "))")
	}
}
