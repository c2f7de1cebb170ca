package share

import (
	"context"
	"database/sql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// A phase is a time in which readers and slots have a key. Its row says so: phase is the
// hold, and expires_at lies at the end of all time, so that whoever knows nothing of phases
// finds the key held. Who has it stands in the share table, see share.go; a phase without
// live holds is free for every mode. It ends by the take of an exclusive attempt, or by
// force. So a key that was never shared is locked by the same statements as if there were
// no phases.
//
// Every step is one statement, and locks the row of the key before those of its holds:
//
//	begin    where the key is free; grants nothing, and waits for guards as a takeover does
//	join     a hold is put in under a shared lock of the key's row
//	take     an exclusive request has the key, if no hold is left that was not ended
//
// What keeps new ones out while an exclusive request waits is the line of the key (line.go), or, in a table without lines, a
// gate (gate.go).
const (
	// PhaseEnd is the expires_at of a key in a phase.
	PhaseEnd = "TIMESTAMP'9999-12-31 00:00:00'"

	// phaseBegun is that of a phase whose token is not made yet: see confirm.
	phaseBegun = "TIMESTAMP'9999-12-30 00:00:00'"

	// InPhase, of a row.
	InPhase = "phase=hold"
)

// What stands in the way of a join, as an answer to begin above phaseAnswer.
const (
	phaseAnswer   = int64(1) << 59
	phaseOpen     = iota // nothing
	phaseNew             // its token is to be confirmed
	phaseGateOver        // a gate that is over
	phaseGated           // a gate
	phaseLined           // it is in none: the key is free, and has a line
)

// phaseState is one of those, of a row in a phase.
func (l *Table) phaseState() string {
	const confirmed = "IF(expires_at=" + PhaseEnd + ",1,2)"
	if l.gated() {
		return "CASE WHEN gate IS NULL THEN " + confirmed + " WHEN " + gateOver + " THEN 3 ELSE 4 END"
	}
	return confirmed
}

// begin begins the phases of keys that are free, for requests of Mode Shared and Slot; else
// it is what Upsert is. The hold of the phase is the ID of the request.
//
// One key: the answer comes back as LAST_INSERT_ID, as that of Upsert does. Between
// phaseAnswer and GrantedFrom: the key is in a phase.
func begin(l *Table, reqs []driver.Request) conn.Statement {
	return func(t *conn.Text) {
		one := len(reqs) == 1
		until := PhaseEnd
		if l.Fenced {
			until = phaseBegun
		}
		t.Add("INSERT INTO ", l.Name, " (name,hold,owner,token,acquired_at,expires_at,released_at,phase")
		if l.gated() {
			t.Add(",gate_after")
		}
		t.Add(") VALUES ")
		for i := range reqs {
			r := &reqs[i]
			if i > 0 {
				t.Add(",")
			}
			phase := PhaseOf(r.ID)
			t.Add("(").Key(r.Key).Add(",").Bytes(phase[:])
			if one {
				t.Add(",'',LAST_INSERT_ID(" + row.NewToken + "),")
			} else {
				t.Add(",''," + row.NewToken + ",")
			}
			t.Add(row.Now + "," + until + ",NULL,").Bytes(phase[:])
			if l.gated() {
				t.Add(",").Part(GateAfter(r))
			}
			t.Add(")")
		}
		t.Add(" ON DUPLICATE KEY UPDATE token=IF(" + row.Vacant + ",")
		if one {
			t.Add("LAST_INSERT_ID(GREATEST(token+" + row.TokenRange + ",VALUES(token))),token+0*LAST_INSERT_ID(IF(" + InPhase +
				"," + phaseAnswerText + "+" + l.phaseState() + ",IF(" + row.Free + "," + phaseAnswerText + "+" + phaseLinedText + ",1+TIMESTAMPDIFF(MICROSECOND," + row.Now + ",expires_at)))))")
		} else {
			t.Add("GREATEST(token+" + row.TokenRange + ",VALUES(token)),token)")
		}
		for _, column := range []string{"phase", "hold", "owner", "acquired_at"} {
			t.Add("," + column + "=IF(" + row.Vacant + ",VALUES(" + column + ")," + column + ")")
		}
		if l.gated() {
			t.Add(",gate_after=IF(" + row.Vacant + ",VALUES(gate_after),gate_after),gate=IF(" + row.Vacant + ",NULL,gate),gate_until=IF(" + row.Vacant + ",NULL,gate_until)")
		}
		t.Add(",released_at=IF(" + row.Vacant + ",NULL,released_at),expires_at=IF(" + row.Vacant + ",VALUES(expires_at),expires_at)")
	}
}

// PhaseOf is the hold of a phase that a request begins. It is no request's ID: an exclusive
// request that finds it is not to take it for its own.
func PhaseOf(id driver.HoldID) driver.HoldID {
	id[0], id[15] = ^id[0], id[15]|1 // never zero, which is no hold
	return id
}

// confirm makes the token of a phase under UniqueInsert. The statement that began it made
// one when it started, which may be before it had waited for the hold before, and with the
// row of that one may have gone a later token. This one starts after the phase had begun,
// so what the clock says is above everything before. It names the phase: one that comes
// late changes no other. Whoever finds a phase that is not confirmed may send it. The token
// comes last, because the hold is made of it: see phaseHold.
func confirm(l *Table, key string, phase *driver.HoldID) conn.Statement {
	const token = "GREATEST(token," + row.NewToken + ")"
	const hold = "UNHEX(LPAD(HEX(CAST(" + token + " AS UNSIGNED)),32,'0'))"
	return func(t *conn.Text) {
		t.Part(row.Update(l.Name)).Add("expires_at=" + PhaseEnd + ",phase=" + hold + ",hold=" + hold + ",token=" + token + " WHERE name=").Key(key).
			Add(" AND hold=").Bytes(phase[:]).Add(" AND " + InPhase + " AND expires_at=" + phaseBegun)
	}
}

// keyState is what a share request must know of a key that it could not join.
type keyState struct {
	row   row.Row
	state int // of a key in a phase: phaseOpen and so on; 0: it is in none
}

// keyStates reads the states of keys. A plain read.
func (l *Table) keyStates(ctx context.Context, c *conn.Conn, n int, key func(int) string) (map[string]keyState, error) {
	return conn.InParts(0, n, func(from, to int) (map[string]keyState, error) {
		found, err := conn.Query(ctx, c, 0, keyStatesText(l, to-from, func(i int) string { return key(from + i) }), l.scanKeyState)
		if err != nil {
			return nil, err
		}
		byKey := make(map[string]keyState, len(found))
		for _, s := range found {
			byKey[s.row.Key] = s
		}
		return byKey, nil
	})
}

func keyStatesText(l *Table, n int, key func(int) string) string {
	t := conn.NewText(600+64*n).Add(l.Question(), ",IF("+InPhase+","+l.phaseState()+",0) FROM ", l.Name, " FORCE INDEX (PRIMARY) WHERE name IN ")
	return t.In(n, func(i int) { t.Key(key(i)) }).String()
}

func (l *Table) scanKeyState(rows *sql.Rows) (keyState, error) {
	var s row.Scan
	var state conn.Int
	if err := rows.Scan(append(s.Of(l.Table), &state)...); err != nil {
		return keyState{}, err
	}
	return keyState{s.Row(), int(state.N)}, nil
}
