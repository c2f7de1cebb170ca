package mongolock

import (
	"errors"
	"sync"
	"weak"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A transaction that has read before its lease was acquired cannot guard it. The driver is told to run it again
// (TransientTransactionError), which helps where the lease is there by then. Where the transaction itself acquires the lease, after it
// has read, it never helps: the driver would go on for two minutes, with a lease acquired each time. So the second time in a row, in
// one session, the error comes without that label.

// errTooOld has the label with which the driver begins a transaction again.
var errTooOld = mongo.CommandError{
	Message: "the transaction has read before its lease was acquired: run it again, and begin the transaction after the acquire",
	Labels:  []string{transientLabel},
}

// errTooOldAgain has not.
var errTooOldAgain = errors.New("the transaction has read before its lease was acquired, and so had the one before it in this session: " +
	"acquire the lease before the transaction begins, not inside it")

// tooOld are the sessions whose last guard met a transaction that was too old.
type tooOld struct {
	mu       sync.Mutex
	sessions map[weak.Pointer[mongo.Session]]bool
}

// mostTooOld bounds them. All are forgotten when there are more.
const mostTooOld = 1000

// met notes it of a session, and gives the error of its guard.
func (o *tooOld) met(sess *mongo.Session) error {
	id := weak.Make(sess)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sessions[id] {
		return errTooOldAgain
	}
	if o.sessions == nil || len(o.sessions) >= mostTooOld {
		o.sessions = make(map[weak.Pointer[mongo.Session]]bool)
	}
	o.sessions[id] = true
	return errTooOld
}

// over notes that a guard in the session was right.
func (o *tooOld) over(sess *mongo.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sessions) > 0 {
		delete(o.sessions, weak.Make(sess))
	}
}
