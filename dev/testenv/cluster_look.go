package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// opinion is what one member of a group says of it.
type opinion struct {
	heard    bool // it answered in time
	names    int  // the primary, as it says; -1: it takes no part, or knows no primary that is online
	view     int  // how many members the group has, as it says
	writable bool // it takes writes itself
}

// silent is the opinion of a member that did not answer. It says nothing of the group, nor of that member.
var silent = opinion{names: -1}

// named is the member that says that it takes writes, and that a majority of the group as it sees it names the primary;
// -1: none is. One that was frozen until just now may still name itself, but it sees members that do not.
func named(said []opinion) int {
	for i, o := range said {
		votes := 0
		for _, other := range said {
			if other.names == i {
				votes++
			}
		}
		if o.names == i && o.writable && 2*votes > o.view {
			return i
		}
	}
	return -1
}

// against says what was heard against a member that took writes until now; empty: nothing. A member that did not answer
// may be slow: only what it says itself counts against it, or what a majority of all says.
func against(said []opinion, known int) string {
	if said[known].heard {
		switch o := said[known]; {
		case o.names < 0:
			return fmt.Sprintf("member %d says that it takes no part in the group, or sees no primary", known)
		case o.names != known:
			return fmt.Sprintf("member %d says that member %d is the primary", known, o.names)
		case !o.writable:
			return fmt.Sprintf("member %d says that it is read-only", known)
		}
		return ""
	}
	others := 0
	for _, o := range said {
		if o.heard && o.names != known {
			others++
		}
	}
	if 2*others > len(said) {
		return fmt.Sprintf("member %d does not answer, and %d of %d name another primary, or none", known, others, len(said))
	}
	return ""
}

// decide is where an address leads by what was said: to the member that is named, else to the one that it led to until
// now, as long as nothing was heard against that.
func decide(said []opinion, known int) (to int, why string) {
	if to = named(said); to >= 0 {
		return to, fmt.Sprintf("member %d is the primary", to)
	}
	if known < 0 {
		return -1, ""
	}
	if why = against(said, known); why == "" {
		return known, ""
	}
	return -1, why
}

// hear asks all members at once, for lookTime at most.
func (g *group) hear(ctx context.Context) []opinion {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	said := make([]opinion, len(g.list))
	var all sync.WaitGroup
	for i, m := range g.list {
		all.Go(func() { said[i] = m.opinion(ctx, g.list) })
	}
	all.Wait()
	return said
}

func (m *member) opinion(ctx context.Context, all []*member) opinion {
	var port int
	o := opinion{heard: true, names: -1}
	err := m.db.QueryRowContext(ctx, "SELECT MEMBER_PORT,NOT @@GLOBAL.super_read_only,(SELECT COUNT(*) FROM performance_schema.replication_group_members) "+
		"FROM performance_schema.replication_group_members "+
		"WHERE MEMBER_ROLE='PRIMARY' AND MEMBER_STATE='ONLINE' AND EXISTS(SELECT 1 FROM performance_schema.replication_group_members "+
		"WHERE MEMBER_ID=@@server_uuid AND MEMBER_STATE='ONLINE')").Scan(&port, &o.writable, &o.view)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return o
	case err != nil:
		return silent
	}
	for i, other := range all {
		if other.port == port {
			o.names = i
		}
	}
	return o
}

// primary is the one that most members name, if it says so itself.
func (g *group) primary(ctx context.Context) int { return named(g.hear(ctx)) }

// look is decide, asked of the members.
func (g *group) look(ctx context.Context, known int) (to int, why string) {
	return decide(g.hear(ctx), known)
}
