package row

import (
	"strconv"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// The statements that change a line without reading it before. They need that the server assigns one column after the
// other, and the same column twice: SIMULTANEOUS_ASSIGNMENT is off on these connections.
const (
	// firstLive, of a row with a line: the first entry is alive.
	firstLive = "SUBSTRING(line,31,7) BETWEEN " + micros7 + "+1),14,'0')) AND " + micros7 + "+" + mostEndText + "),14,'0'))"

	// micros7 begins a time of an entry: now, to which something is added.
	micros7 = "UNHEX(LPAD(HEX(" + NowMicros

	now7 = micros7 + "),14,'0'))"

	// trimmed is the line without the dead entries before its first live one, if there are at most four. One that
	// cannot be read is empty.
	trimmed = "IF(" + firstLive + ",line,SUBSTRING(line," + entryNext + "))"

	// PassedOwner is the owner of a hold that was passed the key, until it is confirmed, as a statement has it.
	PassedOwner = "CHAR(0)"
	passedOwner = "\x00"

	// firstClaim is for how long the first entry is passed the key: at most driver.MaxClaim.
	firstClaim = "LEAST(CAST(CONV(HEX(SUBSTRING(line,20,4)),16,10) AS UNSIGNED),60000000)"
)

// termsOf are the bytes of a request's entry between its ID and its times.
func termsOf(q *driver.Request) [7]byte {
	e := EntryOf(q, 0)
	return e.terms()
}

// perKey adds what the requests have of their own: one value, or, where they differ, that of the row's key.
func perKey[V comparable](reqs []driver.Request, of func(*driver.Request) V, add func(*conn.Text, V)) conn.Statement {
	return func(t *conn.Text) {
		var values []V
		have := make(map[V][]string) // the keys
		for i := range reqs {
			v := of(&reqs[i])
			if _, ok := have[v]; !ok {
				values = append(values, v)
			}
			have[v] = append(have[v], reqs[i].Key)
		}
		if len(values) == 1 {
			add(t, values[0])
			return
		}
		t.Add("CASE")
		for _, v := range values[1:] {
			t.Add(" WHEN name IN ").In(len(have[v]), func(i int) { t.Key(have[v][i]) }).Add(" THEN ")
			add(t, v)
		}
		t.Add(" ELSE ")
		add(t, values[0])
		t.Add(" END")
	}
}

// end7 adds when an entry ends that is refreshed now.
func end7(q *driver.Request) conn.Statement {
	return func(t *conn.Text) { t.Add(micros7 + "+").Int(lasts(q).Microseconds()).Add("),14,'0'))") }
}

// standing is the line after a refusal: each request is added at its end, where there is room; if it stands its end moves,
// never earlier. A grant, and a request that holds the key, change nothing: hold was assigned before. An entry that has died is
// left to a read, which follows.
func standing(reqs []driver.Request) conn.Statement {
	id := func(t *conn.Text) { t.Add("VALUES(hold)") }
	terms := perKey(reqs, termsOf, func(t *conn.Text, b [7]byte) { t.Bytes(b[:]) })
	ends := func(t *conn.Text) {
		t.Add(micros7 + "+").Part(perKey(reqs, func(q *driver.Request) int64 { return lasts(q).Microseconds() }, func(t *conn.Text, n int64) { t.Int(n) })).Add("),14,'0'))")
	}
	return func(t *conn.Text) {
		t.Add(",line=IF(hold=VALUES(hold),line,").Part(withEntry(id, terms, ends)).Add(")")
	}
}

// withEntry is the line with an entry.
func withEntry(id, terms, ends conn.Statement) conn.Statement {
	at := func(t *conn.Text) { t.Add("LOCATE(").Part(id).Add(",line)") }
	return func(t *conn.Text) {
		t.Add("IF(").Part(at).Add("=0,IF(LENGTH(line)<" + lineFull + ",CONCAT(line,").Part(id).Add(",").Part(terms).Add("," + now7 + ",").Part(ends).
			Add("),line),IF(SUBSTRING(line,").Part(at).Add("+30,7)>" + now7 + ",INSERT(line,").Part(at).Add("+30,7,GREATEST(SUBSTRING(line,").Part(at).Add("+30,7),").Part(ends).Add(")),line))")
	}
}

// Stand adds a request to the line of its key, whoever has the key, or moves the end of its entry. A key without a row gets one that is
// free. Its hold is that of a phase which never was, so that nobody takes it for its own.
func Stand(table string, q *driver.Request, nobody driver.HoldID) conn.Statement {
	id := func(t *conn.Text) { t.Bytes(q.ID[:]) }
	bytes := termsOf(q)
	terms := func(t *conn.Text) { t.Bytes(bytes[:]) }
	return func(t *conn.Text) {
		t.Add("INSERT INTO ", table, " (name,hold,owner,token,acquired_at,expires_at,released_at,line) VALUES (").Key(q.Key).Add(",").Bytes(nobody[:]).
			Add(",''," + NewToken + "," + Now + "," + Epoch + "," + Now + ",CONCAT(").Part(id).Add(",").Part(terms).Add("," + now7 + ",").Part(end7(q)).
			Add(")) ON DUPLICATE KEY UPDATE line=").Part(withEntry(id, terms, end7(q)))
	}
}

// Pass releases holds and passes their keys to the first of each line, if that is an exclusive request: it has the key from
// now on, for its claim. Where four dead ones stand before it, the key is free, and whoever looks or asks next passes it on.
// released_at comes first and says whether there is such a one: NULL if so.
//
// next are the requests that stand at the end before the key is passed; nil: there is none. One hold: LAST_INSERT_ID is 1 plus
// the number of the entries that are left, plus passedAnswer if the key was passed.
func Pass(table string, holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		// One after the other, so that four dead entries go.
		t.Part(Update(table)).Add("line=IF(" + NoLine + " OR LENGTH(line)%" + entrySizeText + ",''," + trimmed + ")")
		for range 3 {
			t.Add(",line=IF(" + NoLine + ",line," + trimmed + ")")
		}
		t.Part(nexts(holds))
		const passed = "released_at IS NULL"
		t.Add(",released_at=IF(LENGTH(line)>0 AND ORD(SUBSTRING(line,17,1)) IN (0,128) AND " + firstLive + ",NULL," + Now + ")" +
			",token=IF(" + passed + ",GREATEST(token+" + TokenRange + "," + NewToken + "),token)")
		if len(holds) == 1 {
			t.Add("+0*LAST_INSERT_ID(1+LENGTH(line) DIV " + entrySizeText + "+IF(" + passed + "," + strconv.Itoa(passedAnswer) + ",0))")
		}
		t.Add(",hold=IF(" + passed + ",LEFT(line,16),hold),owner=IF(" + passed + "," + PassedOwner + ",owner),acquired_at=IF(" + passed + "," + Now + ",acquired_at)" +
			",expires_at=IF(" + passed + "," + Now + "+INTERVAL " + firstClaim + " MICROSECOND," + Epoch + ")" +
			",line=IF(" + passed + ",SUBSTRING(line," + entryNext + "),line)").Part(Where(holds))
	}
}

// passedAnswer: an answer to Pass at least this large says that the key was passed.
const passedAnswer = 1 << 20

// nexts adds the requests that are to stand at the ends of the lines.
func nexts(holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		var some []*driver.Hold
		for i := range holds {
			if holds[i].Next != nil {
				some = append(some, &holds[i])
			}
		}
		if len(some) == 0 {
			return
		}
		add := func(h *driver.Hold) {
			terms := termsOf(h.Next)
			t.Add("IF(LOCATE(").Bytes(h.Next.ID[:]).Add(",line)=0,CONCAT(line,").Bytes(h.Next.ID[:]).Add(",").Bytes(terms[:]).Add("," + now7 + ",").Part(end7(h.Next)).Add("),line)")
		}
		t.Add(",line=IF(LENGTH(line)<" + lineFull + ",")
		if len(holds) == 1 {
			add(some[0])
		} else {
			t.Add("CASE name")
			for _, h := range some {
				t.Add(" WHEN ").Key(h.Key).Add(" THEN ")
				add(h)
			}
			t.Add(" ELSE line END")
		}
		t.Add(",line)")
	}
}

// Leave releases holds of equal Keep without passing their keys on: they are Guarded, or kept by MinHold. What is to stand next does.
func Leave(table string, holds []driver.Hold, keep time.Duration) conn.Statement {
	return func(t *conn.Text) { t.Part(Update(table)).Part(ended(keep)).Part(nexts(holds)).Part(Where(holds)) }
}
