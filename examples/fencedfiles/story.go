package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
)

const (
	bobsText       = "what bob wrote"
	alicesText     = "what alice wrote"
	alicesLateText = "what alice wrote late"
)

// teller prints what happens, with the time since the beginning.
type teller struct {
	w     io.Writer
	begin time.Time
}

func (t *teller) say(format string, args ...any) {
	fmt.Fprintf(t.w, "%6.2fs  %s\n", time.Since(t.begin).Seconds(), fmt.Sprintf(format, args...))
}

// tell is the story.
func (t *teller) tell(alice, bob *fleet.Process) error {
	a, err := step(alice, order{Do: "acquire"})
	if err != nil {
		return err
	}
	t.say("alice has the lease, token %d", a.Token)
	if err := t.write(alice, "alice", alicesText); err != nil {
		return err
	}
	if a, err = step(alice, order{Do: "check"}); err != nil || a.Lease != "" {
		return errors.Join(err, errors.New("alice's lease should be good: "+a.Lease))
	}
	t.say("alice looks at her lease: it is good, so she will write again")
	if err := alice.Freeze(); err != nil {
		return err
	}
	t.say("alice is frozen (SIGSTOP), before her request leaves")

	b, err := step(bob, order{Do: "acquire"}) // waits for the end of alice's lease
	if err != nil {
		return err
	}
	t.say("bob has the lease, token %d", b.Token)
	if err := t.write(bob, "bob", bobsText); err != nil {
		return err
	}
	if err := alice.Send(order{Do: "write", Text: alicesLateText}); err != nil {
		return err
	}
	if err := alice.Thaw(); err != nil {
		return err
	}
	t.say("alice goes on (SIGCONT) where she stood")
	if err := alice.Receive(&a); err != nil {
		return err
	}
	t.say("alice writes %q: %s", alicesLateText, said(a))
	if a, err = step(alice, order{Do: "check"}); err != nil {
		return err
	}
	if a.Lease == "" {
		return errors.New("alice does not know that her lease is lost")
	}
	t.say("alice looks at her lease again: %s", a.Lease)
	return nil
}

func (t *teller) write(p *fleet.Process, name, text string) error {
	a, err := step(p, order{Do: "write", Text: text})
	if err != nil {
		return err
	}
	t.say("%s writes %q: %s", name, text, said(a))
	if a.Status != http.StatusNoContent {
		return errors.New("the holder of the lock was refused")
	}
	return nil
}

// said is the server's answer for people.
func said(a answer) string {
	if a.Status == http.StatusNoContent {
		return "written"
	}
	return fmt.Sprintf("%d, %s", a.Status, a.Reply)
}

// step has a writer do one thing.
func step(p *fleet.Process, o order) (a answer, err error) {
	if err := p.Send(o); err != nil {
		return a, err
	}
	return a, p.Receive(&a)
}
