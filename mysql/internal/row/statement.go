package row

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/order"
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
	NewToken = "GREATEST(" + leastToken + "," + TokenRange + "*" + NowMicros + ")"

	// Free: the key is free. One comparison, in every statement.
	Free = "expires_at<=" + Now

	// Vacant: it is, and nobody waits for it.
	Vacant = NoLine + " AND " + Free

	// NoLine: nobody waits for the key.
	NoLine = "line=''"

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
// columns as they were, expires_at last because all the others ask it. The server assigns one after the
// other: SIMULTANEOUS_ASSIGNMENT is off on these connections.
//
// One key: the answer comes back as LAST_INSERT_ID, see GrantedFrom. The branch
// that refuses must set it too, otherwise that of VALUES would look like a grant.
// A live hold of this ID is answered with its token, one that was released and is
// kept by MinHold is refused. 0: the row tells. That is so of a key with a line, and of every request with Stand
// that is not granted now: its entry is in the line then (standing), or it had the key before. Either all of a
// call have Stand or none.
func Upsert(table string, reqs []driver.Request) conn.Statement {
	return func(t *conn.Text) {
		one := len(reqs) == 1
		t.Add("INSERT INTO ", table, " (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES ")
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
			t.Add(Now + "," + Now + "+INTERVAL ").Micros(max(r.TTL, r.Keep)).Add(" MICROSECOND,NULL)")
		}
		t.Add(" ON DUPLICATE KEY UPDATE token=IF(" + Vacant + ",")
		if one {
			t.Add("LAST_INSERT_ID(GREATEST(token+" + TokenRange + ",VALUES(token))),token+0*LAST_INSERT_ID(")
			if reqs[0].Stand {
				t.Add("0))")
			} else {
				t.Add("IF(" + NoLine + ",IF(hold=VALUES(hold) AND released_at IS NULL,token,1+TIMESTAMPDIFF(MICROSECOND," + Now + ",expires_at)),0)))")
			}
		} else {
			t.Add("GREATEST(token+" + TokenRange + ",VALUES(token)),token)")
		}
		t.Add(",hold=IF(" + Vacant + ",VALUES(hold),hold),owner=IF(" + Vacant + ",VALUES(owner),owner)" +
			",acquired_at=IF(" + Vacant + ",VALUES(acquired_at),acquired_at),released_at=IF(" + Vacant + ",NULL,released_at)")
		if reqs[0].Stand {
			t.Part(standing(reqs))
		}
		t.Add(",expires_at=IF(" + Vacant + ",VALUES(expires_at),expires_at)")
	}
}

// ColumnsOf are those of Scan.Columns.
const ColumnsOf = "SELECT name,hold,owner,token,TIMESTAMPDIFF(MICROSECOND," + Now + ",expires_at),released_at IS NULL," +
	"TIMESTAMPDIFF(MICROSECOND,'1970-01-01',acquired_at)," + NowMicros

// winners reads who has the keys.
func winners(columns, table string, n int, key func(int) string) string {
	t := conn.NewText(400+64*n).Add(columns, " FROM ", table, " FORCE INDEX (PRIMARY) WHERE name IN ")
	return t.In(n, func(i int) { t.Key(key(i)) }).String()
}

// Fence reads the fencing token of a hold, by the time at which this statement
// starts. No row: the key does not have the hold any more.
func Fence(table, key string, id *driver.HoldID) conn.Statement {
	return func(t *conn.Text) {
		t.Add("SELECT GREATEST(token,"+TokenRange+"*"+NowMicros+") FROM ", table, " FORCE INDEX (PRIMARY) WHERE name=").Key(key).
			Add(" AND hold=").Bytes(id[:]).Add(" AND released_at IS NULL")
	}
}

// Listing reads the rows of the keys with a prefix, after a key.
func Listing(columns, table, prefix, after string, limit int) string {
	t := conn.NewText(1000).Add(columns, " FROM ", table, " FORCE INDEX (PRIMARY) WHERE name>").Key(after)
	if prefix != "" {
		t.Add(" AND name>=").Key(prefix)
		if end, ok := order.Successor(prefix); ok {
			t.Add(" AND name<").Key(end)
		}
	}
	return t.Add(" ORDER BY name LIMIT ").Int(int64(limit)).String()
}

// Where adds the condition that names live holds by key and hold ID. Both lists
// are there so that the primary key is used and the IDs are still compared by pair.
func Where(holds []driver.Hold) conn.Statement {
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

// Extend renews holds of equal TTL and MaxHold, and of equal Confirm, Owner and Keep.
func Extend(table string, holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Extending(table, &holds[0])).Part(Confirming(&holds[0])).Part(Where(holds))
	}
}

// Confirming adds to a renewal what a hold that was passed the key asked for.
func Confirming(h *driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		if !h.Confirm {
			return
		}
		if t.Add(",owner=").Key(h.Owner); h.Keep > 0 {
			t.Add(",expires_at=GREATEST(expires_at,acquired_at+INTERVAL ").Micros(h.Keep).Add(" MICROSECOND)")
		}
	}
}

// Extending is the renewal on the terms of a hold, without its WHERE. GREATEST: a renewal that
// arrives late does not cut what a later one gave.
func Extending(table string, h *driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Update(table)).Add("expires_at=GREATEST(expires_at,")
		if h.MaxHold > 0 {
			t.Add("LEAST(" + Now + "+INTERVAL ").Micros(h.TTL).Add(" MICROSECOND,acquired_at+INTERVAL ").Micros(h.MaxHold).Add(" MICROSECOND))")
		} else {
			t.Add(Now + "+INTERVAL ").Micros(h.TTL).Add(" MICROSECOND)")
		}
	}
}

// End releases holds of equal Keep by writing the row, of keys without a line.
func End(table string, holds []driver.Hold, keep time.Duration) conn.Statement {
	return func(t *conn.Text) { t.Part(Ending(table, keep)).Part(Where(holds)).Add(" AND " + NoLine) }
}

// Ending is the release of holds, without its WHERE. LEAST bounds what a clock that stepped back
// can keep.
func Ending(table string, keep time.Duration) conn.Statement {
	return func(t *conn.Text) { t.Part(Update(table)).Part(ended(keep)) }
}

func ended(keep time.Duration) conn.Statement {
	return func(t *conn.Text) {
		t.Add("expires_at=")
		if keep > 0 {
			t.Add("IF(acquired_at+INTERVAL ").Micros(keep).Add(" MICROSECOND>" + Now + ",LEAST(acquired_at+INTERVAL ").Micros(keep).
				Add(" MICROSECOND," + Now + "+INTERVAL ").Micros(keep).Add(" MICROSECOND)," + Epoch + ")")
		} else {
			t.Add(Epoch)
		}
		t.Add(",released_at=" + Now)
	}
}

// Remove releases holds by deleting the row, unless it has a line, which would go with it. The multi-table form, because the other
// takes no FORCE INDEX.
func Remove(table string, holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		t.Add("DELETE t FROM ", table, " AS t FORCE INDEX (PRIMARY)").Part(Where(holds)).Add(" AND " + NoLine)
	}
}
