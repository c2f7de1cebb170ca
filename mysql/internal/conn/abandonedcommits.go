package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// A statement that is given up before its answer leaves a session in the server, which EndSession ends by KILL. A
// commit is not ended by it: on a primary whose semi-synchronous replicas do not acknowledge it stays until one does.
// If each such session were followed by a new connection they would use up max_connections, and then no replica could
// connect to acknowledge.
//
// So the sessions that were given up are noted, and while more of them are at a commit than the Store's pools have
// connections, no further connection to that server is used. Nothing is sent for that until so many were given up; then
// each new connection asks first what became of them. Renewals and KILLs may come twice as far: the leases that are held
// do not end because of what new acquires left.
//
// Other waits are not counted: they end by KILL, or by the lock wait of their session.

// ErrAbandoned: the server has too many commits that were given up.
var ErrAbandoned = errors.New("the server still works on commits that were given up, which KILL does not end")

// abandoned are the sessions whose statements were given up, and whose end is not known.
type abandoned struct {
	most int // with more of them at a commit no connection is used

	mu       sync.Mutex
	sessions map[string]map[uint64]bool // their numbers, by Conn.Server
}

// Add notes a session.
func (a *abandoned) Add(server string, id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sessions == nil {
		a.sessions = make(map[string]map[uint64]bool)
	}
	if a.sessions[server] == nil {
		a.sessions[server] = make(map[uint64]bool)
	}
	a.sessions[server][id] = true
}

// on are the numbers of those in one server.
func (a *abandoned) on(server string) (ids []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.sessions[server] {
		ids = append(ids, id)
	}
	return ids
}

// remain forgets those of ids that are not in working any more.
func (a *abandoned) remain(server string, ids []uint64, working map[uint64]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if !working[id] {
			delete(a.sessions[server], id)
		}
	}
}

// mayUse is nil if a new connection to its server may be used beside the sessions that were given up there.
func (d *DB) mayUse(ctx context.Context, c *Conn) error {
	most := d.Abandoned.most
	if c.pool == d.Renewals || c.pool == d.Control {
		most *= 2
	}
	ids := d.Abandoned.on(c.Server)
	if len(ids) <= most {
		return nil
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = fmt.Sprint(id)
	}
	// The user's own sessions are shown without a privilege. Of the commits of one group the first waits for the
	// replicas, and the others for the first.
	type session struct {
		id     uint64
		commit bool
	}
	found, err := Query(ctx, c, 0, "SELECT ID,COALESCE(STATE LIKE '%commit%' OR STATE LIKE '%semi-sync%',0) FROM information_schema.PROCESSLIST WHERE COMMAND<>'Sleep' AND ID IN ("+strings.Join(list, ",")+")",
		func(rows *sql.Rows) (s session, err error) {
			err = rows.Scan(&s.id, &s.commit)
			return s, err
		})
	if err != nil && Number(err) == 0 {
		return err
	}
	// Where sessions are not shown nothing is counted: it is a proxy, and the numbers may be its own.
	working, commits := make(map[uint64]bool), 0
	for _, s := range found {
		working[s.id] = true
		if s.commit {
			commits++
		}
	}
	d.Abandoned.remain(c.Server, ids, working)
	if commits > most {
		return fmt.Errorf("%w: %d on %s, so no further connection to it is used: see SHOW PROCESSLIST there; semi-synchronous replicas may be away, or do not acknowledge",
			ErrAbandoned, commits, c.Server)
	}
	return nil
}
