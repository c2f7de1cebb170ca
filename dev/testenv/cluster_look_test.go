package testenv

import (
	"testing"
	"time"
)

// TestOpinionOfAServer: a server that is in no group says so; one that does not answer says nothing.
func TestOpinionOfAServer(t *testing.T) {
	s, err := Start(t.Context(), MySQL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	local, ok := s.nodes[0].(*localNode)
	if !ok {
		t.Skip("it is in a container")
	}
	m := &member{localNode: local}
	if m.db, err = openQuiet(memberDSN(local)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.db.Close() })
	g := &group{[]*member{m}}
	none := opinion{heard: true, names: -1}
	var said opinion
	for end := time.Now().Add(20 * time.Second); said != none && time.Now().Before(end); { // it may be slow
		said = g.hear(t.Context())[0]
	}
	if said != none {
		t.Fatalf("a server that is in no group: %+v", said)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if got := g.hear(t.Context())[0]; got != silent {
		t.Errorf("a server that is frozen: %+v", got)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := g.hear(t.Context())[0]; got != silent {
		t.Errorf("a server that is gone: %+v", got)
	}
}
