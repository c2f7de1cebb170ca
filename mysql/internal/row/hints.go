package row

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A hint (driver.Hint), of a key that has no line, is one number in the column wanted of its row: when it ends,
// in milliseconds since 1970, times 2097152, plus the number of the client that waits. It
// is one number because two columns cannot be assigned so that each asks what the other
// was before: the server assigns from left to right, or all at once
// (SIMULTANEOUS_ASSIGNMENT). For the same reason no other column's value asks for it. It
// is in no index, so whoever writes it waits for no guarded transaction.
const (
	HintBits = 21

	// NowMillis is the server's time in milliseconds since 1970.
	NowMillis = NowMicros + " DIV 1000"

	// hintLeft is how long a row's hint still stands, in milliseconds; NULL: it has none.
	// The shift comes first, so that no number that somebody wrote is out of range.
	hintLeft = "CAST(wanted>>21 AS SIGNED)-" + NowMillis

	// hintBy is whose it is.
	hintBy = "wanted&" + maxClient
)

// QueueClient is the number under which the hint of those stands who wait in a queue of
// the server, and may be behind whoever was just granted the key out of it. He cannot
// see them, and they look up from the queue once a second only. So a grant out of the
// queue, if it had to be waited for, leaves this hint, in the statement that is sent
// anyway, instead of none: the holder gives the key back when its tenure is over. Where
// nobody stood there that costs it a cycle or two until the hint ends.
const QueueClient = driver.QueueClient

var (
	// hintStands reports whether a row has a hint, of whomever.
	hintStands = fmt.Sprintf("%s BETWEEN 1 AND %d", hintLeft, driver.MaxHintTime.Milliseconds())

	// newHint is a hint that begins now, without its client.
	newHint = fmt.Sprintf("(%s+%d<<21)+", NowMillis, driver.HintTime.Milliseconds())
)

// Asker names a client in a statement.
type Asker struct {
	Client  uint32
	InQueue bool // it waits in a queue of the server
}

// name adds the client's number.
func (a Asker) name(t *conn.Text) {
	t.Int(int64(a.Client))
}

// Own adds the condition that the hint is the asker's, or that of the queue in which it
// waits.
func (a Asker) Own(t *conn.Text) {
	if a.InQueue {
		t.Add(hintBy+" IN (").Part(a.name).Add(",", strconv.Itoa(QueueClient), ")")
	} else {
		t.Add(hintBy + "=").Part(a.name)
	}
}

// refused is the hint after a refusal: the asker's, unless a fresh one of its own or
// another's stands.
func (a Asker) refused() conn.Statement {
	return func(t *conn.Text) {
		t.Add("IF(" + hintLeft + " BETWEEN IF(").Part(a.Own)
		t.Add(fmt.Sprintf(",%d,1) AND %d,wanted,", (driver.HintTime/2).Milliseconds(), driver.MaxHintTime.Milliseconds()), newHint).Part(a.name).Add(")")
	}
}

// Granted adds the hint after a grant: the grantee's own goes. Out of a queue it becomes
// that of the queue.
func (a Asker) Granted(t *conn.Text) {
	if a.InQueue {
		line := strconv.Itoa(QueueClient)
		t.Add("IF("+hintStands+" AND "+hintBy+" NOT IN (").Part(a.name).Add(",", line, "),wanted,", newHint, line, ")")
	} else {
		t.Add("IF(").Part(a.Own).Add(",NULL,wanted)")
	}
}

// remind leaves the hint of a client on the rows of keys for which it waits in the
// server's queue, or of one that was refused.
func remind(table string, client uint32, keys []string) conn.Statement {
	return func(t *conn.Text) {
		a := Asker{Client: client, InQueue: true}
		t.Part(Update(table)).Add("wanted=").Part(a.refused())
		if len(keys) == 1 {
			t.Add(" WHERE name=").Key(keys[0])
			return
		}
		t.Add(" WHERE name IN ").In(len(keys), func(i int) { t.Key(keys[i]) })
	}
}

// Remind sends remind, and waits for nobody for longer than any statement may.
func (l *Table) Remind(ctx context.Context, c *conn.Conn, client uint32, keys []string) (err error) {
	s := remind(l.Name, client, keys)
	if len(keys) == 1 {
		_, err = c.ExecOne(ctx, l.DB.Bound(0), s)
	} else {
		_, err = c.Exec(ctx, l.DB.Bound(0), s.Literal())
	}
	return err
}

// HintOf is the hint in a row. One that ends too late was left by a clock that has been
// set back since, and is none.
func HintOf(wanted, nowMicros int64) driver.Hint {
	client, left := uint32(wanted&driver.MaxClient), conn.Micros(wanted>>HintBits*1000-nowMicros)
	if client == 0 || left <= 0 || left > driver.MaxHintTime {
		return driver.Hint{}
	}
	return driver.Hint{Client: client, Left: left}
}

// LeavesHint reports whether the request leaves a hint if it is refused.
func LeavesHint(r *driver.Request) bool { return r.Wants && r.Client != 0 }

// HadToWait reports whether who has waited in a queue of the server since start was kept
// waiting by somebody, and not by the way to the server only.
func HadToWait(c *conn.Conn, start time.Time) bool {
	return time.Since(start) > max(5*time.Millisecond, 4*c.ShortestAnswer())
}

// HintDue reports whether a refused request is to write its hint, where that is a
// statement of its own: not while the one that was seen stands.
func HintDue(r *driver.Request, seen driver.Hint) bool {
	switch {
	case !LeavesHint(r):
		return false
	case seen.Client == r.Client, seen.Client == QueueClient:
		return seen.Left < driver.HintTime/2
	}
	return seen.Client == 0
}
