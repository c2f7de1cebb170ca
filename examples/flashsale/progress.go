package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress shows how a run goes: on a terminal by a line that is written over and then
// removed, elsewhere by a line now and then.
type progress struct {
	out      io.Writer
	terminal bool
	name     string
	items    int
	buyers   int
	begin    time.Time

	mu      sync.Mutex
	text    string
	written time.Time
}

const (
	onTerminal = 100 * time.Millisecond
	elsewhere  = 5 * time.Second
)

func (d *demo) progress(name string) *progress {
	info, err := os.Stderr.Stat()
	return &progress{
		out: os.Stderr, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
		name: name, items: d.Items, buyers: d.Buyers, begin: time.Now(), written: time.Now(),
	}
}

// orders shows how many items are sold, and how many buyers were served, so far.
func (p *progress) orders(sold, served int) {
	p.say(fmt.Sprintf("%d sold of %d, %d of %d buyers served", sold, p.items, served, p.buyers))
}

// say shows what happens.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
	every := elsewhere
	if p.terminal {
		every = onTerminal
	}
	if time.Since(p.written) >= every {
		p.write()
	}
}

// end removes the line from the terminal: the tables say how it went.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *progress) write() {
	p.written = time.Now()
	line := fmt.Sprintf("… %s: %s, %.0f s", p.name, p.text, time.Since(p.begin).Seconds())
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.out, line)
}
