package row

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// The statements. Values are x'..' literals: one trip whatever the DSN says, no
// question of character sets, sql_mode or escaping; or ?, see prepared.go. All
// times are the server's, in UTC, so the session's time zone does not matter:
// https://dev.mysql.com/doc/refman/9.7/en/date-and-time-functions.html#function_utc-timestamp
const (
	Now       = "UTC_TIMESTAMP(6)"
	NowMicros = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"

	// NewToken is the token of a grant: the server's microseconds times driver.TokenRange,
	// at least GrantedFrom even on a server whose clock says 1970.
	NewToken = "GREATEST(1152921504606846976,1024*" + NowMicros + ")"

	// Free: the key is free. One comparison, in every statement.
	Free = "expires_at<=" + Now

	// Epoch is the expires_at of a released row: the key is free at once, even if the
	// server's clock steps back.
	Epoch = "TIMESTAMP'1970-01-02 00:00:00'"

	// NoHold is the hold of a row that was released by force.
	NoHold = "x'00000000000000000000000000000000'"
)

// GrantedFrom: a LAST_INSERT_ID at least this large is a token, a smaller one the
// rest of the present hold in microseconds, plus one.
const GrantedFrom = int64(1) << 60

// Upsert takes a key that is free and leaves one that is not: it creates the row,
// takes it over or changes nothing. token stands first because it reads the other
// columns as they were, expires_at last because all the others ask it; each of the
// rest depends on no assigned column, so it does not matter whether the server
// assigns one after the other or all at once (SIMULTANEOUS_ASSIGNMENT).
//
// One key: the answer comes back as LAST_INSERT_ID, see GrantedFrom. The branch
// that refuses must set it too, otherwise that of VALUES would look like a grant.
// A live hold of this ID is answered with its token, one that was released and is
// kept by MinHold is refused. What becomes of the hint no other column asks for, and it
// asks for none that was assigned before: a grant for none, a refusal for those that it
// leaves as they are.
func Upsert(table string, reqs []driver.Request) conn.Statement {
	return func(t *conn.Text) {
		one := len(reqs) == 1
		who, waits, none := hints(reqs)
		t.Add("INSERT INTO ", table, " (name,hold,owner,token,acquired_at,expires_at,released_at")
		if who.column {
			t.Add(",wanted")
		}
		t.Add(") VALUES ")
		for i := range reqs {
			r := &reqs[i]
			if i > 0 {
				t.Add(",")
			}
			t.Add("(").Key(r.Key).Add(",").Bytes(r.ID[:]).Add(",").Key(r.Owner)
			if one {
				t.Add(",LAST_INSERT_ID(" + NewToken + "),")
			} else {
				t.Add("," + NewToken + ",")
			}
			t.Add(Now + "," + Now + "+INTERVAL ").Micros(max(r.TTL, r.Keep)).Add(" MICROSECOND,NULL")
			if who.column {
				t.Add(",").Int(noted(r))
			}
			t.Add(")")
		}
		t.Add(" ON DUPLICATE KEY UPDATE token=IF(" + Free + ",")
		if one {
			t.Add("LAST_INSERT_ID(GREATEST(token+1024,VALUES(token)))," +
				"token+0*LAST_INSERT_ID(IF(hold=VALUES(hold) AND released_at IS NULL,token,1+TIMESTAMPDIFF(MICROSECOND," + Now + ",expires_at))))")
		} else {
			t.Add("GREATEST(token+1024,VALUES(token)),token)")
		}
		t.Add(",hold=IF(" + Free + ",VALUES(hold),hold),owner=IF(" + Free + ",VALUES(owner),owner)" +
			",acquired_at=IF(" + Free + ",VALUES(acquired_at),acquired_at),released_at=IF(" + Free + ",NULL,released_at)")
		if !none {
			t.Part(who.upserted(waits))
		}
		t.Add(",expires_at=IF(" + Free + ",VALUES(expires_at),expires_at)")
	}
}

// Columns are those of ScanRow.
const Columns = columnsOf + " FROM "

const columnsOf = "SELECT name,hold,owner,token,TIMESTAMPDIFF(MICROSECOND," + Now + ",expires_at),released_at IS NULL," +
	"TIMESTAMPDIFF(MICROSECOND,'1970-01-01',acquired_at),wanted," + NowMicros

// winners reads who has the keys.
func winners(table string, n int, key func(int) string) string {
	t := conn.NewText(400+64*n).Add(Columns, table, " FORCE INDEX (PRIMARY) WHERE name IN ")
	return t.In(n, func(i int) { t.Key(key(i)) }).String()
}

// Fence reads the fencing token of a hold, by the time at which this statement
// starts. No row: the key does not have the hold any more.
func Fence(table, key string, id *driver.HoldID) conn.Statement {
	return func(t *conn.Text) {
		t.Add("SELECT GREATEST(token,1024*"+NowMicros+") FROM ", table, " FORCE INDEX (PRIMARY) WHERE name=").Key(key).
			Add(" AND hold=").Bytes(id[:]).Add(" AND released_at IS NULL")
	}
}

// Listing reads the rows of the keys with a prefix, after a key.
func Listing(table, prefix, after string, limit int) string {
	t := conn.NewText(1000).Add(Columns, table, " FORCE INDEX (PRIMARY) WHERE name>").Key(after)
	if prefix != "" {
		t.Add(" AND name>=").Key(prefix)
		if end, ok := storekit.Successor(prefix); ok {
			t.Add(" AND name<").Key(end)
		}
	}
	return t.Add(" ORDER BY name LIMIT ").Int(int64(limit)).String()
}

// forced ends whatever hold the key has. An expired one that nobody took counts:
// it could be renewed. It ends a phase too, since its hold is none any more; the token is
// above those of the slots. With asRead the row must be as it was read.
func (l *Table) forced(key string, asRead *Row) string {
	t := conn.NewText(760).Part(Update(l.Name)).Add("token=GREATEST(token+1024," + NewToken + ",").Part(AboveShares(l, key)).
		Add("),hold=" + NoHold + ",expires_at=" + Epoch + ",released_at=" + Now + ",phase=NULL,gate=NULL,gate_until=NULL,gate_after=NULL WHERE name=").
		Key(key).Add(" AND (released_at IS NULL OR expires_at>" + Now + ")")
	if asRead != nil {
		t.Add(" AND hold=").Bytes(asRead.ID[:]).Add(" AND token=").Int(asRead.Token)
	}
	return t.String()
}

// Where adds the condition that names live holds by key and hold ID. Both lists
// are there so that the primary key is used and the IDs are still compared by pair.
func Where(holds []driver.Hold) conn.Statement {
	if isShare(&holds[0]) {
		return whereShare(holds)
	}
	return func(t *conn.Text) {
		if len(holds) == 1 {
			t.Add(" WHERE name=").Key(holds[0].Key).Add(" AND hold=").Bytes(holds[0].ID[:]).Add(" AND released_at IS NULL")
			return
		}
		t.Add(" WHERE name IN ").In(len(holds), func(i int) { t.Key(holds[i].Key) })
		t.Add(" AND (name,hold) IN ").In(len(holds), func(i int) {
			t.Add("(").Key(holds[i].Key).Add(",").Bytes(holds[i].ID[:]).Add(")")
		})
		t.Add(" AND released_at IS NULL")
	}
}

// Update is the beginning of an UPDATE by the primary key.
func Update(table string) conn.Statement {
	return func(t *conn.Text) { t.Add("UPDATE ", table, " FORCE INDEX (PRIMARY) SET ") }
}

// Extend renews holds of equal TTL and MaxHold. GREATEST: a renewal that arrives
// late does not cut what a later one gave.
func Extend(table string, holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		h := holds[0]
		t.Part(Update(table)).Add("expires_at=GREATEST(expires_at,")
		if h.MaxHold > 0 {
			t.Add("LEAST(" + Now + "+INTERVAL ").Micros(h.TTL).Add(" MICROSECOND,acquired_at+INTERVAL ").Micros(h.MaxHold).Add(" MICROSECOND))")
		} else {
			t.Add(Now + "+INTERVAL ").Micros(h.TTL).Add(" MICROSECOND)")
		}
		t.Part(Where(holds))
	}
}

// End releases holds of equal Keep by writing the row. LEAST bounds what a clock
// that stepped back can keep. One exclusive hold: the hint comes back as LAST_INSERT_ID, see
// hintAnswer.
func End(table string, holds []driver.Hold, keep time.Duration) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Update(table)).Add("expires_at=")
		if keep > 0 {
			t.Add("IF(acquired_at+INTERVAL ").Micros(keep).Add(" MICROSECOND>" + Now + ",LEAST(acquired_at+INTERVAL ").Micros(keep).
				Add(" MICROSECOND," + Now + "+INTERVAL ").Micros(keep).Add(" MICROSECOND)," + Epoch + ")")
		} else {
			t.Add(Epoch)
		}
		t.Add(",released_at=" + Now)
		if len(holds) == 1 && !isShare(&holds[0]) {
			t.Add("+INTERVAL 0*LAST_INSERT_ID(", hintAnswer, ") MICROSECOND")
		}
		t.Part(Where(holds))
	}
}

// Remove releases holds by deleting the row, unless a hint stands there, which would go
// with it. The multi-table form, because the other takes no FORCE INDEX.
func Remove(table string, holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		t.Add("DELETE t FROM ", table, " AS t FORCE INDEX (PRIMARY)").Part(Where(holds)).Add(" AND ("+hintStands, ") IS NOT TRUE")
	}
}
