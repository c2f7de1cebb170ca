package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress is the line that shows how a run goes: on a terminal it is written
// over, elsewhere a new one comes now and then.
type progress struct {
	out      io.Writer
	terminal bool
	name     string
	items    int
	begin    time.Time

	mu      sync.Mutex
	text    string
	written time.Time
	sold    int
	soldAt  time.Time // when sold grew last
}

const (
	onTerminal = 100 * time.Millisecond
	elsewhere  = 2 * time.Second
)

func (d *demo) progress(name string) *progress {
	info, err := os.Stderr.Stat()
	return &progress{
		out: os.Stderr, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
		name: name, items: d.Items, begin: time.Now(), written: time.Now(),
	}
}

// orders shows how many are sold, and how many buyers have gone, so far.
func (p *progress) orders(sold, gone int) {
	p.mu.Lock()
	if sold > p.sold {
		p.sold, p.soldAt = sold, time.Now()
	}
	rate := 0.0
	if sold > 0 {
		rate = float64(sold) / p.soldAt.Sub(p.begin).Seconds()
	}
	p.mu.Unlock()
	p.say(fmt.Sprintf("%4d sold of %d, %4.0f orders/s, %4d buyers gone", sold, p.items, rate, gone))
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

// end leaves the last state on the screen.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != "" {
		p.write()
	}
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

func (p *progress) write() {
	p.written = time.Now()
	line := fmt.Sprintf("%-24s %s, %.1f s", p.name, p.text, time.Since(p.begin).Seconds())
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.out, line)
}
