package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
)

// ErrOrphan is the cause of a copy's context when its parent has gone.
var ErrOrphan = errors.New("the parent process has gone")

// Role is what a copy does: it gets its task by the first Receive, and its
// context ends when the parent goes. An error ends the copy with exit code 1.
type Role func(ctx context.Context, p *Parent) error

// Parent is how a copy talks to the process that started it. Send may be called
// from many goroutines.
type Parent struct {
	inbox <-chan json.RawMessage

	mu  sync.Mutex
	out *json.Encoder
}

// Run plays the role that the parent asked for and does not return, if this
// process is a copy; otherwise it does nothing. Call it first in main.
func Run(roles map[string]Role) {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	role, known := roles[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s=%s names no role of this program\n", variable, name)
		os.Exit(2)
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of a terminal; the parent decides
	ctx, cancel := context.WithCancelCause(context.Background())
	inbox := make(chan json.RawMessage)
	go func() {
		defer close(inbox)
		for in := json.NewDecoder(os.Stdin); ; {
			var m json.RawMessage
			if in.Decode(&m) != nil {
				cancel(ErrOrphan)
				return
			}
			inbox <- m
		}
	}()
	if err := role(ctx, &Parent{inbox: inbox, out: json.NewEncoder(os.Stdout)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Receive waits for the next message. The error is ErrOrphan when the parent has
// gone.
func (p *Parent) Receive(message any) error {
	m, open := <-p.inbox
	if !open {
		return ErrOrphan
	}
	return json.Unmarshal(m, message)
}

// Send sends one message.
func (p *Parent) Send(message any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(message)
}
