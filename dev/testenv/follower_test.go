package testenv

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// TestWhoIsPrimary: what the members of a group say, and where an address then leads that led to member 1.
func TestWhoIsPrimary(t *testing.T) {
	const known = 1
	primary := func(view int) opinion { return opinion{heard: true, names: known, view: view, writable: true} }
	follows := func(i, view int) opinion { return opinion{heard: true, names: i, view: view} }
	takes := func(i, view int) opinion { return opinion{heard: true, names: i, view: view, writable: true} }
	none := opinion{heard: true, names: -1}
	for _, c := range []struct {
		what  string
		said  []opinion
		named int
		to    int
	}{
		{"all are well", []opinion{follows(1, 3), primary(3), follows(1, 3)}, 1, 1},
		{"one is away, and out of the group", []opinion{silent, primary(2), follows(1, 2)}, 1, 1},
		{"one joins", []opinion{none, primary(3), follows(1, 3)}, 1, 1},
		{"the last one of the group", []opinion{silent, primary(1), silent}, 1, 1},

		{"the primary is slow", []opinion{follows(1, 3), silent, follows(1, 3)}, -1, 1},
		{"the primary is slow while one joins", []opinion{none, silent, follows(1, 3)}, -1, 1},
		{"the primary is slow, and one does not see it", []opinion{silent, silent, none}, -1, 1},
		{"all are slow", []opinion{silent, silent, silent}, -1, 1},
		{"the others are slow", []opinion{silent, primary(3), silent}, -1, 1},
		{"the others do not see it", []opinion{none, primary(3), none}, -1, 1},

		{"the others do not see it, and it is silent", []opinion{none, silent, none}, -1, -1},
		{"it is read-only", []opinion{follows(1, 3), follows(1, 3), follows(1, 3)}, -1, -1},
		{"it is out of the group", []opinion{silent, none, silent}, -1, -1},
		{"another is chosen, and not ready", []opinion{follows(2, 2), silent, follows(2, 2)}, -1, -1},
		{"it knows of another", []opinion{silent, follows(2, 3), silent}, -1, -1},

		{"another was chosen", []opinion{follows(2, 2), silent, takes(2, 2)}, 2, 2},
		{"it was frozen, and names itself", []opinion{follows(2, 2), primary(3), takes(2, 2)}, 2, 2},
		{"another was frozen and names itself, all others are slow", []opinion{takes(0, 3), silent, silent}, -1, 1},
		{"another was frozen and names itself, the primary is slow", []opinion{takes(0, 3), silent, follows(1, 2)}, -1, 1},
	} {
		if got := named(c.said); got != c.named {
			t.Errorf("%s: member %d is named, want %d", c.what, got, c.named)
		}
		to, why := decide(c.said, known)
		if to != c.to || to != known && why == "" {
			t.Errorf("%s: leads to member %d (%q), want %d", c.what, to, why, c.to)
		}
	}
	if to, _ := decide([]opinion{follows(1, 3), silent, follows(1, 3)}, -1); to != -1 {
		t.Errorf("leads to member %d, which did not say that it takes writes and was not led to before", to)
	}
}

// scripted is a cluster whose looks are those of the test.
type scripted struct {
	replication
	looks chan int // each is taken by one look
}

func (s *scripted) look(ctx context.Context, _ int) (int, string) {
	select {
	case to := <-s.looks:
		return to, "the test says so"
	case <-ctx.Done():
		return -1, ""
	}
}

// TestFollowerCuts: a follower cuts connections only after two looks in a row that find no primary, or one that finds
// another, and keeps what it cut.
func TestFollowerCuts(t *testing.T) {
	way := &scripted{looks: make(chan int)}
	m := &members{way: way}
	for range 2 {
		m.list = append(m.list, &member{localNode: &localNode{port: echo(t)}})
	}
	f, err := newFollower(m, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	m.cutting = f
	s := &Server{members: m}
	// A look is taken after the one before was acted on: so a second of the same has no effect but to wait for the first.
	say := func(to int) { way.looks <- to }

	say(0)
	say(0)
	one := dial(t, f)
	answers(t, one)
	say(-1)
	say(0)
	say(-1)
	say(0)
	say(0)
	answers(t, one)
	if got := s.Cuts(); len(got) != 0 {
		t.Fatalf("cuts after single looks that find none: %+v", got)
	}

	say(-1)
	say(-1)
	say(-1)
	ended(t, one)
	if got := s.Cuts(); len(got) != 1 || got[0].From != 0 || got[0].To != -1 || got[0].Connections != 1 || !got[0].End.IsZero() ||
		!got[0].Stayed() || got[0].Why == "" {
		t.Fatalf("cuts after two looks that find none: %+v", got)
	}
	refused := dial(t, f)
	ended(t, refused)
	say(0)
	say(0)
	if got := s.Cuts(); len(got) != 1 || got[0].To != 0 || got[0].End.Before(got[0].Begin) || !got[0].Stayed() {
		t.Fatalf("cuts when it takes writes again: %+v", got)
	}

	two := dial(t, f)
	answers(t, two)
	say(1)
	say(1)
	ended(t, two)
	if got := s.Cuts(); len(got) != 2 || got[1].From != 0 || got[1].To != 1 || got[1].End.IsZero() || got[1].Stayed() {
		t.Fatalf("cuts when another takes writes: %+v", got)
	}
	say(-1)
	say(-1)
	say(0)
	say(0)
	if got := s.Cuts(); len(got) != 2 {
		t.Fatalf("a change that ended no connection is a cut: %+v", got)
	}
}

// echo is a server that sends back each line.
func echo(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					_, _ = c.Write([]byte(line))
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func dial(t *testing.T, f *follower) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", f.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

func answers(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(line) != "hello" {
		t.Fatalf("answer %q, %v", line, err)
	}
}

// ended waits until the follower has ended a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	n, err := c.Read(make([]byte, 1))
	if err, ok := err.(net.Error); ok && err.Timeout() || n > 0 {
		t.Fatalf("a connection that should be cut is open: %v", err)
	}
}
