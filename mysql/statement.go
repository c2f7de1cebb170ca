package mysqllock

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
)

// The statements. Values are x'..' literals: one trip whatever the DSN says, no
// question of character sets, sql_mode or escaping; or ?, see prepared.go. All
// times are the server's, in UTC, so the session's time zone does not matter:
// https://dev.mysql.com/doc/refman/9.7/en/date-and-time-functions.html#function_utc-timestamp
const (
	now   = "UTC_TIMESTAMP(6)"
	nowUS = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"

	// tok is the token of a grant: the server's microseconds times driver.TokenRange,
	// at least grantedFrom even on a server whose clock says 1970.
	tok = "GREATEST(1152921504606846976,1024*" + nowUS + ")"

	// dead: the key is free. One comparison, in every statement.
	dead = "expires_at<=" + now

	// never is the expires_at of a released row: the key is free at once, even if the
	// server's clock steps back.
	never = "TIMESTAMP'1970-01-02 00:00:00'"

	// none is the hold of a row that was released by force.
	none = "x'00000000000000000000000000000000'"
)

// grantedFrom: a LAST_INSERT_ID at least this large is a token, a smaller one the
// rest of the present hold in microseconds, plus one.
const grantedFrom = int64(1) << 60

// names are the names of the tables, quoted.
type names struct{ version, unique, session, sessionRow, tx, run string }

func newNames(prefix string) names {
	name := func(n string) string { return "`" + prefix + "_" + n + "`" }
	return names{version: name("version"), unique: name("unique"), session: name("session"), sessionRow: name("session_row"), tx: name("tx"), run: name("run")}
}

// upsert takes a key that is free and leaves one that is not: it creates the row,
// takes it over or changes nothing. token stands first because it reads the other
// columns as they were, expires_at last because all the others ask it; each of the
// rest depends on no assigned column, so it does not matter whether the server
// assigns one after the other or all at once (SIMULTANEOUS_ASSIGNMENT).
//
// One key: the answer comes back as LAST_INSERT_ID, see grantedFrom. The branch
// that refuses must set it too, otherwise that of VALUES would look like a grant.
// A live hold of this ID is answered with its token, one that was released and is
// kept by MinHold is refused. What becomes of the hint no other column asks for, and it
// asks for none that was assigned before: a grant for none, a refusal for those that it
// leaves as they are.
func upsert(table string, reqs []driver.Request) statement {
	return func(t *text) {
		one := len(reqs) == 1
		who, waits, none := hints(reqs)
		t.add("INSERT INTO ", table, " (name,hold,owner,token,acquired_at,expires_at,released_at")
		if who.column {
			t.add(",wanted")
		}
		t.add(") VALUES ")
		for i := range reqs {
			r := &reqs[i]
			if i > 0 {
				t.add(",")
			}
			t.add("(").key(r.Key).add(",").lit(r.ID[:]).add(",").key(r.Owner)
			if one {
				t.add(",LAST_INSERT_ID(" + tok + "),")
			} else {
				t.add("," + tok + ",")
			}
			t.add(now + "," + now + "+INTERVAL ").us(max(r.TTL, r.Keep)).add(" MICROSECOND,NULL")
			if who.column {
				t.add(",").us64(noted(r))
			}
			t.add(")")
		}
		t.add(" ON DUPLICATE KEY UPDATE token=IF(" + dead + ",")
		if one {
			t.add("LAST_INSERT_ID(GREATEST(token+1024,VALUES(token)))," +
				"token+0*LAST_INSERT_ID(IF(hold=VALUES(hold) AND released_at IS NULL,token,1+TIMESTAMPDIFF(MICROSECOND," + now + ",expires_at))))")
		} else {
			t.add("GREATEST(token+1024,VALUES(token)),token)")
		}
		t.add(",hold=IF(" + dead + ",VALUES(hold),hold),owner=IF(" + dead + ",VALUES(owner),owner)" +
			",acquired_at=IF(" + dead + ",VALUES(acquired_at),acquired_at),released_at=IF(" + dead + ",NULL,released_at)")
		if !none {
			t.wanted(who, waits)
		}
		t.add(",expires_at=IF(" + dead + ",VALUES(expires_at),expires_at)")
	}
}

// columns are those of scanRow.
const columns = "SELECT name,hold,owner,token,TIMESTAMPDIFF(MICROSECOND," + now + ",expires_at),released_at IS NULL," +
	"TIMESTAMPDIFF(MICROSECOND,'1970-01-01',acquired_at),wanted," + nowUS + " FROM "

// winners reads who has the keys.
func winners(table string, n int, key func(int) string) string {
	t := newText(400+64*n).add(columns, table, " FORCE INDEX (PRIMARY) WHERE name IN ")
	return t.in(n, func(i int) { t.key(key(i)) }).String()
}

// fence reads the fencing token of a hold, by the time at which this statement
// starts. No row: the key does not have the hold any more.
func fence(table, key string, id *driver.HoldID) statement {
	return func(t *text) {
		t.add("SELECT GREATEST(token,1024*"+nowUS+") FROM ", table, " FORCE INDEX (PRIMARY) WHERE name=").key(key).
			add(" AND hold=").lit(id[:]).add(" AND released_at IS NULL")
	}
}

// listing reads the rows of the keys with a prefix, after a key.
func listing(table, prefix, after string, limit int) string {
	t := newText(1000).add(columns, table, " FORCE INDEX (PRIMARY) WHERE name>").key(after)
	if prefix != "" {
		t.add(" AND name>=").key(prefix)
		if end, ok := storekit.Successor(prefix); ok {
			t.add(" AND name<").key(end)
		}
	}
	return t.add(" ORDER BY name LIMIT ").us64(int64(limit)).String()
}

// forced ends whatever hold the key has. An expired one that nobody took counts:
// it could be renewed.
func forced(table, key string) string {
	return update(table, 1).add("token=GREATEST(token+1024," + tok + "),hold=" + none + ",expires_at=" + never + ",released_at=" + now + " WHERE name=").
		key(key).add(" AND (released_at IS NULL OR expires_at>" + now + ")").String()
}

// where adds the condition that names live holds by key and hold ID. Both lists
// are there so that the primary key is used and the IDs are still compared by pair.
func (t *text) where(holds []driver.Hold) *text {
	if len(holds) == 1 {
		return t.add(" WHERE name=").key(holds[0].Key).add(" AND hold=").lit(holds[0].ID[:]).add(" AND released_at IS NULL")
	}
	t.add(" WHERE name IN ").in(len(holds), func(i int) { t.key(holds[i].Key) })
	t.add(" AND (name,hold) IN ").in(len(holds), func(i int) {
		t.add("(").key(holds[i].Key).add(",").lit(holds[i].ID[:]).add(")")
	})
	return t.add(" AND released_at IS NULL")
}

func update(table string, n int) *text { return newText(400 + 160*n).update(table) }

func (t *text) update(table string) *text {
	return t.add("UPDATE ", table, " FORCE INDEX (PRIMARY) SET ")
}

// extend renews holds of equal TTL and MaxHold. GREATEST: a renewal that arrives
// late does not cut what a later one gave.
func extend(table string, holds []driver.Hold) statement {
	return func(t *text) {
		h := holds[0]
		t.update(table).add("expires_at=GREATEST(expires_at,")
		if h.MaxHold > 0 {
			t.add("LEAST(" + now + "+INTERVAL ").us(h.TTL).add(" MICROSECOND,acquired_at+INTERVAL ").us(h.MaxHold).add(" MICROSECOND))")
		} else {
			t.add(now + "+INTERVAL ").us(h.TTL).add(" MICROSECOND)")
		}
		t.where(holds)
	}
}

// end releases holds of equal Keep by writing the row. LEAST bounds what a clock
// that stepped back can keep. One hold: the hint comes back as LAST_INSERT_ID, see
// hintAnswer.
func end(table string, holds []driver.Hold, keep time.Duration) statement {
	return func(t *text) {
		t.update(table).add("expires_at=")
		if keep > 0 {
			t.add("IF(acquired_at+INTERVAL ").us(keep).add(" MICROSECOND>" + now + ",LEAST(acquired_at+INTERVAL ").us(keep).
				add(" MICROSECOND," + now + "+INTERVAL ").us(keep).add(" MICROSECOND)," + never + ")")
		} else {
			t.add(never)
		}
		t.add(",released_at=" + now)
		if len(holds) == 1 {
			t.add("+INTERVAL 0*LAST_INSERT_ID(", hintAnswer, ") MICROSECOND")
		}
		t.where(holds)
	}
}

// remove releases holds by deleting the row, unless a hint stands there, which would go
// with it. The multi-table form, because the other takes no FORCE INDEX.
func remove(table string, holds []driver.Hold) statement {
	return func(t *text) {
		t.add("DELETE t FROM ", table, " AS t FORCE INDEX (PRIMARY)").where(holds).add(" AND ("+hintStands, ") IS NOT TRUE")
	}
}
