package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// members are the servers of a cluster, and the two addresses that follow the one which takes writes.
type members struct {
	list    []*member
	way     replication
	cutting *follower
	leaving *follower
	proxies []*haproxy
}

// replication is what differs between the kinds of clusters. Only primary, look and serves are called by several goroutines
// at once.
type replication interface {
	form(ctx context.Context) error  // starts the members and makes them a cluster
	primary(ctx context.Context) int // the member that takes writes now; -1: none does
	// look is one look of an address that leads to the member known, which it may keep; -1: it leads to none. why is what
	// speaks for the change, if it is one.
	look(ctx context.Context, known int) (to int, why string)
	switchTo(ctx context.Context, to int) error // a planned change
	promote(ctx context.Context) error          // after a fault: another takes writes, or the group has chosen one
	rejoin(ctx context.Context, i int) error    // brings one back that was killed, frozen, cut off or replaced
	settled(ctx context.Context, i int) error   // nil: the member takes part
	serves(ctx context.Context, i int) error    // nil: it takes writes, as far as it knows itself
	arguments(i int, m *member, all []*member) []string
}

// member is one server of a cluster.
type member struct {
	*localNode
	db *sql.DB // to this one, whichever takes writes
}

var errNoCluster = errors.New("testenv: this kind of server is no cluster that can be switched")

// cluster prepares the nodes of a clustered kind. dir is the folder that holds their data.
func (s *Server) cluster(p program, dir string) error {
	m := &members{}
	for _, n := range s.nodes {
		local := n.(*localNode)
		db, err := openQuiet(memberDSN(local))
		if err != nil {
			return err
		}
		db.SetMaxIdleConns(2)
		m.list = append(m.list, &member{localNode: local, db: db})
	}
	s.members = m
	switch s.kind {
	case MySQLSemiSync, MySQLAsync:
		m.way = newSourced(m.list, s.kind == MySQLSemiSync)
	case MySQLGroup3:
		m.way = &group{m.list}
	default:
		m.way = &galera{list: m.list, library: p.galera, dir: dir}
	}
	for i, one := range m.list {
		if s.kind == MariaDBGalera3 {
			port, err := freePort()
			if err != nil {
				return err
			}
			one.peer = port
		}
		one.args = append(one.args, fmt.Sprintf("--server-id=%d", i+1))
	}
	for i, one := range m.list { // which know each other's ports by now
		one.args = append(one.args, m.way.arguments(i, one, m.list)...)
	}
	var err error
	if m.cutting, err = newFollower(m, true); err != nil {
		return err
	}
	if m.leaving, err = newFollower(m, false); err != nil {
		return err
	}
	s.dsn = dsnAt(m.cutting.addr())
	return nil
}

// form makes a cluster of the nodes that were prepared.
func (s *Server) form(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	if err := s.members.way.form(ctx); err != nil {
		return err
	}
	_, err := s.members.follow(ctx)
	return err
}

// follow waits until both addresses lead to the member that takes writes, and says which that is.
func (m *members) follow(ctx context.Context) (int, error) {
	for {
		at := m.way.primary(ctx)
		if at >= 0 && m.cutting.at() == at && m.leaving.at() == at {
			return at, nil
		}
		if err := pollPause(ctx, nobodyGone); err != nil {
			return -1, fmt.Errorf("no member takes writes: %w", err)
		}
	}
}

func nobodyGone() error { return nil }

func (m *members) close() {
	for _, h := range m.proxies {
		h.close()
	}
	for _, f := range []*follower{m.cutting, m.leaving} {
		if f != nil {
			f.close()
		}
	}
	for _, one := range m.list {
		_ = one.db.Close()
	}
}

func dsnAt(addr string) string { return "root:" + rootPassword + "@tcp(" + addr + ")/test" }

func memberDSN(n *localNode) string { return dsnAt(n.addr()) }

// LeavingDSN is a second address of a cluster that follows the member which takes writes. Unlike DSN's, which cuts
// them, it leaves connections to the member that took writes before as they are: so do a DNS name, an address that
// moves, and many proxies as they are set up by default. Empty: this kind is no cluster.
func (s *Server) LeavingDSN() string {
	if s.members == nil {
		return ""
	}
	return dsnAt(s.members.leaving.addr())
}

// MemberDSNs are the addresses of the members of a cluster, in their order; none: it is no cluster.
func (s *Server) MemberDSNs() []string {
	if s.members == nil {
		return nil
	}
	var all []string
	for _, one := range s.members.list {
		all = append(all, memberDSN(one.localNode))
	}
	return all
}

// Primary is the member of a cluster that takes writes, by what its members, or most of them, say; -1: none does.
func (s *Server) Primary(ctx context.Context) (int, error) {
	if s.members == nil {
		return -1, errNoCluster
	}
	return s.members.way.primary(ctx), nil
}

// Switch makes another member the one that takes writes, as a planned change does: nothing is lost. It returns when
// the addresses lead there.
func (s *Server) Switch(ctx context.Context, to int) error {
	_, err := s.change(ctx, "switch", []int{to}, func(ctx context.Context) error {
		if s.members.way.primary(ctx) == to {
			return fmt.Errorf("member %d takes writes already", to)
		}
		return s.members.way.switchTo(ctx, to)
	})
	return err
}

// Promote ends the time without a member that takes writes, after the one before was killed, frozen or cut off, and
// returns when the addresses lead to the next, which it names. With MySQLSemiSync and MySQLAsync it makes the most
// advanced of the others a primary and lets the rest follow it; groups and Galera choose by themselves.
func (s *Server) Promote(ctx context.Context) (to int, err error) {
	return s.change(ctx, "promote", nil, func(ctx context.Context) error { return s.members.way.promote(ctx) })
}

// Rejoin brings members back that were killed, frozen, cut off or replaced, and returns when they take part again. What
// one of them has that the others lack is thrown away.
func (s *Server) Rejoin(ctx context.Context, members ...int) error {
	_, err := s.change(ctx, "rejoin", members, func(ctx context.Context) error {
		for _, i := range members {
			if err := s.members.way.rejoin(ctx, i); err != nil {
				return fmt.Errorf("member %d: %w", i, err)
			}
			if err := s.members.until(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// restartMembers is Restart of a cluster.
func (s *Server) restartMembers(ctx context.Context, members []int) error {
	if len(members) == 0 || len(members) == len(s.nodes) {
		return fmt.Errorf("testenv: restart %s: name the members, and not all: a cluster that nobody is left of is not formed again", s.kind)
	}
	if err := s.Kill(members...); err != nil {
		return err
	}
	return s.Rejoin(ctx, members...)
}

// change carries out one change of a cluster, and says which member takes writes when it is done; -1: it is not done.
func (s *Server) change(ctx context.Context, verb string, members []int, do func(context.Context) error) (at int, err error) {
	if s.members == nil {
		return -1, errNoCluster
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return -1, fmt.Errorf("testenv: %s %s: server is closed", verb, s.kind)
	}
	for _, i := range members {
		if i < 0 || i >= len(s.nodes) {
			return -1, fmt.Errorf("testenv: %s %s: no member %d, it has %d", verb, s.kind, i, len(s.nodes))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	if err = do(ctx); err == nil {
		at, err = s.members.follow(ctx)
	}
	if err != nil {
		return -1, fmt.Errorf("testenv: %s %s: %w", verb, s.kind, err)
	}
	return at, nil
}

// until waits until a member takes part.
func (m *members) until(ctx context.Context, i int) error {
	for {
		last := m.way.settled(ctx, i)
		if last == nil {
			return nil
		}
		if err := pollPause(ctx, m.list[i].gone); err != nil {
			return fmt.Errorf("member %d: %w (last: %w)", i, err, last)
		}
	}
}

// alive are the members that were neither killed nor frozen by the caller.
func alive(list []*member) (up []int) {
	for i, one := range list {
		if one.up() {
			up = append(up, i)
		}
	}
	return up
}

// run executes statements one after the other on one connection.
func (m *member) run(ctx context.Context, statements ...string) error {
	c, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, text := range statements {
		if _, err := c.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// ask is the first column of the first row of the answer.
func (m *member) ask(ctx context.Context, query string) (answer string, err error) {
	err = m.db.QueryRowContext(ctx, query).Scan(&answer)
	return answer, err
}

// wait waits until the member answers.
func (m *member) wait(ctx context.Context) error { return sqlReady(ctx, m, memberDSN(m.localNode)) }

// startAndWait starts a member that is down.
func (m *member) startAndWait(ctx context.Context) error {
	if err := m.start(); err != nil {
		return err
	}
	return m.wait(ctx)
}

// isError reports whether the server answered one of the numbers.
func isError(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && slices.Contains(numbers, e.Number)
}

// hosts joins what f says of each member.
func hosts(list []*member, f func(*member) string) string {
	all := make([]string, len(list))
	for i, one := range list {
		all[i] = f(one)
	}
	return strings.Join(all, ",")
}

func (n *localNode) peerAddr() string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(n.peer)) }

// lookTime bounds one look at a member that may be frozen.
const lookTime = 500 * time.Millisecond
