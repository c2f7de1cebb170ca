package share

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// joining is a request of Mode Shared or Slot with the row that it is to have.
type joining struct {
	*driver.Request
	at    place
	among *row.Row // its key's row, which has a line with nobody before whom it would have to wait; nil: the line must be empty
}

// allowed adds that nobody waits for whom the request must wait: the line still lets it in, or no gate stands. One that stands goes on
// to do so, since nobody comes before it.
func (j joining) allowed(l *Table) conn.Statement {
	return func(t *conn.Text) {
		switch {
		case l.gated():
			t.Add(" AND gate IS NULL")
		case j.among == nil:
			t.Add(" AND " + row.NoLine)
		case j.among.Line().Place(j.ID) > 0:
			t.Add(" AND LOCATE(").Bytes(j.ID[:]).Add(",line)>0")
		default:
			t.Part(j.among.SameLine)
		}
	}
}

// lasts is how long the row keeps others away.
func (j joining) lasts() time.Duration {
	if j.Mode == driver.Slot {
		return max(j.TTL, j.Keep)
	}
	return j.TTL
}

// slotToken is the token of a slot that nobody had before: above that of the phase.
const slotToken = "GREATEST(token+" + row.TokenRange + "," + row.NewToken + ")"

// join puts a hold into the phase of a key: where there is one and nobody waits for whom it must wait, and nobody has the slot.
// The shared lock puts it wholly before or wholly after a take.
//
// The answer is LAST_INSERT_ID. 0: there is no phase to join. At least GrantedFrom: it is
// granted with that token, also where it finds its own live hold, but one that stands; if the number is negative,
// then so, in a phase whose token is another than the known one, and the row tells (a
// reader's token is the phase's). Else somebody has the slot, for as many microseconds plus
// one.
func join(l *Table, j joining, known int64) conn.Statement {
	dead := l.Share + "." + row.Free
	return func(t *conn.Text) {
		reader := j.Mode == driver.Shared
		t.Add("INSERT INTO ", l.Share, " (name,slot,hold,owner,token,phase,acquired_at,expires_at,released_at) SELECT name,").
			Uint(j.at.slot).Add(",").Bytes(j.ID[:]).Add(",").Key(j.Owner)
		if reader {
			t.Add("," + readerToken + ",LAST_INSERT_ID(token),")
		} else {
			t.Add("," + slotToken + "+0*LAST_INSERT_ID(" + slotToken + "|").Part(unknown("token", known)).Add("),token,")
		}
		t.Add(row.Now+","+row.Now+"+INTERVAL ").Micros(j.lasts()).Add(" MICROSECOND,NULL FROM ", l.Name, " FORCE INDEX (PRIMARY) WHERE name=").Key(j.Key).
			Add(" AND "+InPhase+" AND expires_at="+PhaseEnd).Part(j.allowed(l)).Add(" LOCK IN SHARE MODE ON DUPLICATE KEY UPDATE token=IF(", dead, ",")
		if reader {
			t.Add("VALUES(token)+0*LAST_INSERT_ID(VALUES(phase))")
		} else {
			granted := "GREATEST(" + l.Share + ".token+" + row.TokenRange + ",VALUES(token))"
			t.Add(granted, "+0*LAST_INSERT_ID(", granted, "|").Part(unknown("VALUES(phase)", known)).Add(")")
		}
		t.Add(",", l.Share, ".token+0*LAST_INSERT_ID(IF(", l.Share, ".hold=VALUES(hold) AND ", l.Share, ".released_at IS NULL,")
		switch {
		case j.Stand: // the row tells how much of it is left
			t.Add(ownAnswer)
		case reader:
			t.Add(l.Share, ".phase")
		default:
			t.Add(l.Share, ".token|").Part(unknown(l.Share+".phase", known))
		}
		t.Add(",1+TIMESTAMPDIFF(MICROSECOND,"+row.Now+",", l.Share, ".expires_at))))").Part(l.joined)
	}
}

// unknown is 2^63 where the token of the phase is not the one that is known.
func unknown(phase string, known int64) conn.Statement {
	return func(t *conn.Text) { t.Add("((", phase, "<>").Int(known).Add(")<<63)") }
}

// joined is what becomes of the other columns of a row that is there.
func (l *Table) joined(t *conn.Text) {
	dead := l.Share + "." + row.Free
	for _, column := range []string{"phase", "hold", "owner", "acquired_at"} {
		t.Add(",", column, "=IF(", dead, ",VALUES(", column, "),", l.Share, ".", column, ")")
	}
	t.Add(",released_at=IF(", dead, ",NULL,", l.Share, ".released_at),expires_at=IF(", dead, ",VALUES(expires_at),", l.Share, ".expires_at)")
}

// joinAll is join for several requests, sorted by key, of keys without a line. Who has what is read afterwards.
func joinAll(l *Table, all []joining) conn.Statement {
	return func(t *conn.Text) {
		dead := l.Share + "." + row.Free
		t.Add("INSERT INTO ", l.Share, " (name,slot,hold,owner,token,phase,acquired_at,expires_at,released_at) SELECT v.name,d.s,d.h,d.o,"+
			"IF(d.s<"+firstReaderText+",GREATEST(v.token+"+row.TokenRange+","+row.NewToken+"),"+readerToken+"),v.token,"+row.Now+","+row.Now+"+INTERVAL d.t MICROSECOND,NULL FROM (")
		for i, j := range all {
			if i > 0 {
				t.Add(" UNION ALL ")
			}
			t.Add("SELECT ").Key(j.Key).Add(" AS n,").Uint(j.at.slot).Add(" AS s,").Bytes(j.ID[:]).Add(" AS h,").Key(j.Owner).Add(" AS o,").Micros(j.lasts()).Add(" AS t")
		}
		t.Add(") AS d STRAIGHT_JOIN ", l.Name, " AS v FORCE INDEX (PRIMARY) ON v.name=d.n WHERE v.phase=v.hold AND v.expires_at="+PhaseEnd)
		if l.gated() {
			t.Add(" AND v.gate IS NULL")
		} else {
			t.Add(" AND v." + row.NoLine)
		}
		t.Add(" LOCK IN SHARE MODE ON DUPLICATE KEY UPDATE token=IF(", dead, ",IF(", l.Share, ".slot<"+firstReaderText+",GREATEST(", l.Share, ".token+"+row.TokenRange+",VALUES(token)),VALUES(token)),", l.Share, ".token)").
			Part(l.joined)
	}
}
